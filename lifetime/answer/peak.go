package answer

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/layer"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/outline"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/lifetime/selection"
)

// Peaks breaks down the memory of memory IDs at an instant.
type Peaks struct {
	Schema string `json:"schema"` // "memlane/1"
	Next   string `json:"next"`   // command that tells more; empty if none does
	By     string `json:"by"`     // what buffers are summed up by: "line", "op" and so on
	Peaks  []Peak `json:"peaks"`  // one for each memory ID
}

// Peak breaks down the memory of one memory ID at an instant.
type Peak struct {
	File  string `json:"file"`  // capture
	Space string `json:"space"` // memory ID
	At    int64  `json:"at"`    // instant
	Bytes int64  `json:"bytes"` // occupied at that instant
	Rows  []Row  `json:"rows"`  // largest first; they sum to bytes
	Parts
	Older      []Part           `json:"older"`       // what was allocated before the recording and is not freed in it, by category and size, largest first: all buffers of an entry have one size
	HeldBy     []Part           `json:"held_by"`     // by what holds it at the end, largest first: a model, an optimizer, a list, a graph; empty if the recorder wrote no names
	Layers     []Layer          `json:"layers"`      // by layer, largest first; they sum to bytes; empty if no layer is known
	PhasePeaks []PhasePeak      `json:"phase_peaks"` // by phase, in the order of their first runs, whatever the instant; empty without phases
	Savings    []WhatIfScenario `json:"savings"`     // what would lower the peak, the cheapest first; empty at other instants
	Unchanged  *WhatIfScenario  `json:"unchanged"`   // what the savings lower if that is not this peak: the next step, or the program with the request that failed; null else
	Unfinished bool             `json:"unfinished"`  // the recording ends in the middle of a pass: the savings are those until then, and the rest may need more
	Program    *Program         `json:"program"`     // the same bytes of a compiled program by purpose; null for the recording of a run

	Unused    region.Unused       `json:"-"` // at most, unless s is a compiled program
	NameOlder string              `json:"-"` // how to record who allocated Older
	Total     lifetime.Amount     `json:"-"`
	Places    []Place             `json:"-"` // the rows by name, largest first
	UsageOnly bool                `json:"-"`
	Unknown   bool                `json:"-"` // nothing was recorded about the memory in use
	Limit     int64               `json:"-"` // 0 = unknown
	Of        *lifetime.SpaceInfo `json:"-"` // in the model
}

// Row sums up the buffers of one site and kind.
type Row struct {
	Site           Site    `json:"site"`            // call site or operation
	Op             string  `json:"op"`              // operation
	Shape          string  `json:"shape"`           // shape in the producer's notation; of several that of the largest buffer
	DType          string  `json:"dtype"`           // element type of the same buffer
	Shapes         int     `json:"shapes"`          // number of different shapes and element types, whatever their layouts; 0 if none was recorded
	Category       string  `json:"category"`        // category; in a compiled program its kind, if that is not known; purpose recorded by the allocator, "stack", "usage" or "before the recording"
	How            string  `json:"how"`             // how its name, category or phase is known: recorded, derived or inferred, as its weakest part; empty if it is not
	Bytes          int64   `json:"bytes"`           // occupied
	RequestedBytes int64   `json:"requested_bytes"` // requested by the program
	Count          int64   `json:"count"`           // buffers
	Share          float64 `json:"share"`           // share of the total, 0 to 1
	Instr          string  `json:"instr"`           // instruction of a compiled program
	PaddingBytes   *int64  `json:"padding_bytes"`   // padding in a compiled program
	Split          string  `json:"split"`           // parts of each dimension on the devices that run a compiled program: "1x8"; empty if it is not split
	Copies         int64   `json:"copies"`          // devices that have the same part; 0 if that was not recorded
}

// Parts sums up memory by what it is for. Each list is largest first and sums to all bytes; it is empty if nothing is
// known.
type Parts struct {
	Categories []Part `json:"categories"` // by category
	Phases     []Part `json:"phases"`     // by the phase of the program that allocated it
	Modules    []Part `json:"modules"`    // by the nn.Module that allocated it
	Inferred   bool   `json:"inferred"`   // rules found some of it; the capture did not record it
}

// Part is the memory of one category, phase or module.
type Part struct {
	Name           string  `json:"name"`            // "unknown" if the capture does not tell
	Bytes          int64   `json:"bytes"`           // occupied
	RequestedBytes int64   `json:"requested_bytes"` // requested by the program
	Count          int64   `json:"count"`           // buffers
	Share          float64 `json:"share"`           // share of the total, 0 to 1
	How            string  `json:"how"`             // how its name, category or phase is known: recorded, derived or inferred, as its weakest part; empty if it is not

	how purpose.How
}

// Place sums up the buffers of all sites with one name and, in a compiled program, of one category and shape.
type Place struct {
	Name string
	lifetime.Amount

	// For a compiled program.
	Category, Shape string
	Shapes          int // Shape is that of the largest buffer
	Instruction     Instruction

	// Paths are the call paths to a line, largest first; none if there is only one.
	Paths []callPath
}

// callPath sums up the buffers of one call path to a line.
type callPath struct {
	Callers []string // those that people read, innermost first, no more than tell the paths apart
	lifetime.Amount
}

// PeakOf breaks down the memory of a space at an instant. It leaves out Savings, which take longer than the rest:
// AddSavings.
func PeakOf(t *lifetime.Tables, s *lifetime.Space, at int64) Peak {
	p := peakOf(t, &s.SpaceInfo, at, s.Breakdown(at), groupedAt(s, at), s.UsageOnly(), s)
	if s.Ungrouped != nil { // groups have no categories of the producer
		rows := s.Ungrouped.Breakdown(at)
		layers := layer.Of(t)
		p.Parts, p.Layers = partsOf(layers, t, &s.SpaceInfo, rows), layersOf(layers, t, &s.SpaceInfo, rows)
	}
	p.PhasePeaks = phasePeaksOf(t, cmp.Or(s.Ungrouped, s))
	p.HeldBy, p.Older = heldBy(t, s, at), olderOf(t, cmp.Or(s.Ungrouped, s), at)
	return p
}

// PeakSumsOf returns only the bytes, the categories and the places of PeakOf at the peak of s, without the paths to places.
func PeakSumsOf(t *lifetime.Tables, s *lifetime.Space) Peak {
	at := s.Peak(lifetime.Occupied)
	p := Peak{Bytes: at.Bytes, UsageOnly: s.UsageOnly(), Parts: Parts{Categories: categoriesOf(t, &s.SpaceInfo, cmp.Or(s.Ungrouped, s).Breakdown(at.At))}}
	_, p.Places = placesOf(t, &s.SpaceInfo, s.Breakdown(at.At), nil, false)
	return p
}

// AddSavings fills Savings, and what was reserved and idle, from the recording of the space or the compiled program, which may be nil, if the
// instant is that of its peak.
func (p *Peak) AddSavings(c *judge.Capture, s *lifetime.Space) {
	switch {
	case s == nil || p.At != s.Peak(lifetime.Occupied).At:
	case static(&s.SpaceInfo):
		p.Savings = plansOf(c, cmp.Or(s.Ungrouped, s))
	default:
		p.Unused = c.Idle(s)
		p.Savings = scenariosOf(RemediesOf(c, s))
		if e := autoEngine(c, s); e != nil {
			p.Unchanged, p.Unfinished = unchangedOf(e), e.Unfinished
		}
	}
}

// OutlinePeakOf is PeakOf for AtPeak and AtEnd.
func OutlinePeakOf(t *lifetime.Tables, s *outline.Space, m selection.Moment) Peak {
	at, rows := s.Peak.At, s.PeakRows
	if m == selection.AtEnd {
		at, rows = s.AtEnd(), s.EndRows
	}
	p := peakOf(t, &s.SpaceInfo, at, rows, nil, s.UsageOnly, s.Program)
	p.PhasePeaks, p.HeldBy, p.Older = phasePeaksOf(t, s.Recording), heldBy(t, s.Recording, p.At), olderOf(t, s.Recording, p.At)
	return p
}

func peakOf(t *lifetime.Tables, s *lifetime.SpaceInfo, at int64, rows []lifetime.Row, of grouped, usageOnly bool, program *lifetime.Space) Peak {
	out := Peak{File: t.Sources[s.Source].File, Space: s.ID(), At: at, Rows: []Row{}, Savings: []WhatIfScenario{},
		PhasePeaks: []PhasePeak{}, HeldBy: []Part{}, Older: []Part{}, NameOlder: selection.NameOlder(t, s),
		// A copy: s is a part of a space with all buffers, which the answer does not keep.
		Of: new(*s), UsageOnly: usageOnly, Unknown: s.Facts == 0 && len(rows) == 0, Limit: s.Limit}
	out.Total, out.Places = placesOf(t, s, rows, of, true)
	out.Bytes = out.Total.Bytes
	for _, r := range byCategory(t, s, rows) {
		site := &t.Sites[r.Site]
		array, shapes := of.arrays(t, r.of)
		row := Row{Site: siteOf(t, s, r.Site), Bytes: r.Bytes, RequestedBytes: r.Requested, Count: r.Count,
			Share: share(r.Bytes, out.Bytes),
			Op:    site.Op, Shape: array.Shape, DType: array.DType, Shapes: shapes, Instr: site.Instr, Category: r.category, How: howOf(r.category, r.how),
			Split: site.Split, Copies: site.Copies}
		if static(s) {
			row.PaddingBytes = new(r.Bytes - r.Requested)
		}
		out.Rows = append(out.Rows, row)
	}
	layers := layer.Of(t)
	out.Parts, out.Layers = partsOf(layers, t, s, rows), layersOf(layers, t, s, rows)
	if static(s) {
		out.Program = compiledOf(t, program, rows)
	}
	return out
}

// categoryRow sums up the rows of one site, kind and category, whatever else their purposes tell.
type categoryRow struct {
	lifetime.Row
	category string
	how      purpose.How
	of       []lifetime.Row
}

// byCategory sums up rows by category, largest first.
func byCategory(t *lifetime.Tables, s *lifetime.SpaceInfo, rows []lifetime.Row) (all []categoryRow) {
	type key struct {
		lifetime.SiteID
		lifetime.Kind
		category string
	}
	index := map[key]int{}
	for _, r := range rows {
		k, how := key{r.Site, r.Kind, t.Category(s, r.Kind, r.Site, r.Purpose)}, t.Purpose(r.Purpose).HowNamed()
		row := keyed.At(index, &all, k, categoryRow{lifetime.Row{Site: r.Site, Kind: r.Kind}, k.category, how, nil})
		row.Add(r.Amount)
		row.of = append(row.of, r)
		row.how = min(row.how, how)
	}
	slices.SortStableFunc(all, func(x, y categoryRow) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return all
}

// grouped has the largest buffer of each site of a space below the rows into which selection.GroupBy put it, without their amounts.
type grouped map[lifetime.Row][]lifetime.Row

// groupedAt returns nil if the space was not grouped.
func groupedAt(s *lifetime.Space, at int64) grouped {
	if s.Ungrouped == nil {
		return nil
	}
	of := grouped{}
	for _, i := range s.LiveAt(at) {
		b := &s.Buffers[i]
		row := lifetime.Row{Site: b.Site, Kind: b.Kind, Purpose: s.PurposeOf(i)}
		of[row] = append(of[row], lifetime.Row{Site: s.Ungrouped.Buffers[i].Site, Amount: lifetime.Amount{Bytes: b.Size}})
	}
	return of
}

// arrays returns the site of the largest buffer of rows whose array is known, and how many kinds of arrays they have.
func (g grouped) arrays(t *lifetime.Tables, rows []lifetime.Row) (largest lifetime.Site, shapes int) {
	known, most := map[string]bool{}, int64(-1)
	for _, r := range rows {
		all, ok := g[lifetime.Row{Site: r.Site, Kind: r.Kind, Purpose: r.Purpose}]
		if !ok {
			all = []lifetime.Row{r}
		}
		for _, o := range all {
			site := &t.Sites[o.Site]
			if name, _, _ := strings.Cut(site.TypeAndShape(), "{"); name != "" { // whatever its layout
				if known[name] = true; o.Bytes > most {
					most, largest = o.Bytes, *site
				}
			}
		}
	}
	return largest, len(known)
}

func partsOf(layers *layer.Layers, t *lifetime.Tables, s *lifetime.SpaceInfo, rows []lifetime.Row) Parts {
	return Parts{
		Inferred: slices.ContainsFunc(rows, func(r lifetime.Row) bool {
			e := t.Purpose(r.Purpose).Evidence
			return e != purpose.NoEvidence && e != purpose.FromRecord
		}),
		Categories: categoriesOf(t, s, rows),
		Phases: partsBy(rows, func(r *lifetime.Row) (string, purpose.How) {
			p := t.Purpose(r.Purpose)
			if p.Phase == purpose.UnknownPhase {
				return "", 0
			}
			return p.Phase.String(), p.PhaseHow
		}),
		Modules: partsBy(rows, func(r *lifetime.Row) (string, purpose.How) {
			return layers.ModuleOf(r.Site, r.Purpose), t.Purpose(r.Purpose).ModuleHow()
		}),
	}
}

func categoriesOf(t *lifetime.Tables, s *lifetime.SpaceInfo, rows []lifetime.Row) []Part {
	return partsBy(rows, func(r *lifetime.Row) (string, purpose.How) {
		return t.Category(s, r.Kind, r.Site, r.Purpose), t.Purpose(r.Purpose).HowNamed()
	})
}

// partsBy sums up rows by name, largest first. "" is unknown; if all buffers are, there are no parts.
func partsBy(rows []lifetime.Row, name func(r *lifetime.Row) (string, purpose.How)) []Part {
	var all sums
	any := false
	for k := range rows {
		text, how := name(&rows[k])
		any = any || text != "" && rows[k].Kind.OfBuffers()
		all.add(text, how, rows[k].Amount)
	}
	if !any {
		return []Part{}
	}
	return all.parts()
}

var rowNames = map[lifetime.Kind]string{
	lifetime.FromBase: purpose.Words(lifetime.FromBase.String()), lifetime.FromStack: purpose.Words(lifetime.FromStack.String()),
	lifetime.FromUsage: "(only the total was recorded)",
}

func placesOf(t *lifetime.Tables, s *lifetime.SpaceInfo, rows []lifetime.Row, of grouped, paths bool) (total lifetime.Amount, places []Place) {
	type key struct {
		name, shape, category string
	}
	index := map[key]int{}
	var rowsOf [][]lifetime.Row // of each place
	for _, r := range rows {
		k := key{name: rowNames[r.Kind]}
		if k.name == "" {
			k.name = siteName(t, s, r.Site)
		}
		if static(s) && r.Kind.OfBuffers() {
			k.shape, k.category = t.Sites[r.Site].Shape, t.Category(s, r.Kind, r.Site, r.Purpose)
		}
		i, ok := index[k]
		if !ok {
			i = len(places)
			index[k] = i
			places = append(places, Place{Name: k.name, Category: k.category, Instruction: instructionOf(t, r.Site)})
			rowsOf = append(rowsOf, nil)
		}
		total.Add(r.Amount)
		places[i].Add(r.Amount)
		rowsOf[i] = append(rowsOf[i], r)
	}
	for i := range places {
		if paths {
			places[i].Paths = pathsOf(t, rowsOf[i])
		}
		if static(s) {
			array, shapes := of.arrays(t, rowsOf[i])
			places[i].Shape, places[i].Shapes = array.Shape, shapes
		}
	}
	slices.SortStableFunc(places, func(x, y Place) int { return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), byName(x.Name, y.Name)) })
	return total, places
}

// callersOf returns the callers of the line of a site; none if its place is no line.
func callersOf(t *lifetime.Tables, id lifetime.SiteID) []string {
	p := t.PlaceOf(id)
	if p.Frame.Kind != frame.User || p.Node != "" || p.Unseen {
		return nil
	}
	shown, _ := Fold(framesOf(t, t.Sites[id].Stack))
	names := make([]string, len(shown))
	for i := range shown {
		names[i] = shown[i].String()
	}
	return names[slices.Index(names, p.String())+1:]
}

// pathsOf returns the paths by which the line of rows was called, largest first; none if there is only one.
func pathsOf(t *lifetime.Tables, rows []lifetime.Row) []callPath {
	if len(rows) < 2 {
		return nil
	}
	paths := map[string]*callPath{}
	for _, r := range rows {
		callers := callersOf(t, r.Site)
		if len(callers) == 0 {
			continue
		}
		text := strings.Join(callers, "\n")
		if paths[text] == nil {
			paths[text] = &callPath{Callers: callers}
		}
		paths[text].Add(r.Amount)
	}
	return sortedPaths(paths)
}

// sortedPaths returns several paths, largest first; none if there is only one.
func sortedPaths(of map[string]*callPath) (all []callPath) {
	if len(of) < 2 {
		return nil
	}
	for _, path := range of {
		all = append(all, *path)
	}
	slices.SortFunc(all, func(x, y callPath) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), slices.Compare(x.Callers, y.Callers))
	})
	same := commonHead(all, 1)
	for i := range all {
		all[i].Callers = all[i].Callers[same:]
	}
	n := 1 // the fewest callers that tell the paths apart
	byCallers := slices.Clone(all)
	slices.SortFunc(byCallers, func(x, y callPath) int { return slices.Compare(x.Callers, y.Callers) })
	for i := 1; i < len(all); i++ {
		n = max(n, 1+commonHead(byCallers[i-1:i+1], 0))
	}
	for i := range all {
		all[i].Callers = all[i].Callers[:min(n, len(all[i].Callers))]
	}
	return all
}

// commonHead returns how many callers all paths begin with. Each path keeps some callers.
func commonHead(all []callPath, kept int) (n int) {
	for ; ; n++ {
		for i := range all {
			if of := all[i].Callers; n+kept >= len(of) || of[n] != all[0].Callers[n] {
				return n
			}
		}
	}
}

// heldBy sums up the buffers that are alive at an instant by what holds them at the end, largest first. It is empty if
// no holder was recorded. "unknown" are those without a recorded holder; if the recorder did not name all, those that are alive at the end are "not named".
func heldBy(t *lifetime.Tables, s *lifetime.Space, at int64) []Part {
	var all sums
	if s == nil || s.Holders == nil {
		return all.parts()
	}
	why := loss.Unnamed(t.Losses)
	for _, i := range s.LiveAt(at) {
		name := ""
		if h := t.HolderOf(s, i); h != nil {
			name = holder.FoldIndexes(h.Whole())
		} else if why != "" && s.Buffers[i].Edge&lifetime.EndOpen != 0 {
			name = "not named: " + why
		}
		all.add(name, purpose.Recorded, lifetime.Amount{Count: 1, Bytes: s.Buffers[i].Size, Requested: s.Buffers[i].Requested})
	}
	return all.parts()
}

// olderOf sums up what was allocated before the recording and is alive at an instant by size and category, largest first. What the recording
// frees has the place of the free instead. If outlines have no whole history, there is none: an answer does not depend on what was read.
func olderOf(t *lifetime.Tables, s *lifetime.Space, at int64) []Part {
	all, total, of := []Part{}, int64(0), map[int64]*sums{}
	if s == nil || t.Sources[s.Source].Traits.Folded {
		return all
	}
	for _, i := range s.LiveAt(at) {
		b, id := &s.Buffers[i], s.PurposeOf(i)
		if site := &t.Sites[b.Site]; !site.Unseen || site.Stack != 0 || site.Op != "" {
			continue
		}
		if of[b.Size] == nil {
			of[b.Size] = &sums{}
		}
		of[b.Size].add(t.Category(&s.SpaceInfo, b.Kind, b.Site, id), t.Purpose(id).HowNamed(), lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested})
		total = units.AddSat(total, b.Size)
	}
	for _, size := range slices.Sorted(maps.Keys(of)) {
		all = append(all, of[size].parts()...)
	}
	for i := range all {
		all[i].Share = share(all[i].Bytes, total)
	}
	slices.SortStableFunc(all, func(x, y Part) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return all
}

// sums adds up memory by name. "" is unknown.
type sums struct {
	index map[string]int
	of    []Part
	total int64
}

func (s *sums) add(name string, how purpose.How, more lifetime.Amount) {
	name = cmp.Or(name, purpose.UnknownCategory.String())
	if s.index == nil {
		s.index = map[string]int{}
	}
	p := keyed.At(s.index, &s.of, name, Part{Name: name, how: how})
	p.Count, p.how = p.Count+more.Count, min(p.how, how)
	p.Bytes, p.RequestedBytes = units.AddSat(p.Bytes, more.Bytes), units.AddSat(p.RequestedBytes, more.Requested)
	s.total = units.AddSat(s.total, more.Bytes)
}

// parts returns the sums, largest first.
func (s *sums) parts() []Part {
	for i := range s.of {
		s.of[i].Share, s.of[i].How = share(s.of[i].Bytes, s.total), howOf(s.of[i].Name, s.of[i].how)
	}
	slices.SortFunc(s.of, func(x, y Part) int { return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), byName(x.Name, y.Name)) })
	return append([]Part{}, s.of...)
}

// byName orders names: layers[2] comes before layers[10].
func byName(x, y string) int {
	letters := func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}
	return cmp.Or(cmp.Compare(strings.Map(letters, x), strings.Map(letters, y)), cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
}

// Layer is the memory of one layer: its activations, parameters, gradients and so on.
type Layer struct {
	Part
	Categories []Part `json:"categories"` // by category, largest first
}

// PhasePeak is what the runs of one phase reach, and what one of them leaves behind.
type PhasePeak struct {
	Phase     string `json:"phase"`      // forward, backward, optimizer or other
	Part      string `json:"part"`       // part of the phase: evaluation, setup, data and so on; "" if none is known
	How       string `json:"how"`        // how its name, category or phase is known: recorded, derived or inferred, as its weakest part; empty if it is not
	Runs      int64  `json:"runs"`       // runs of allocations of this phase
	PeakAt    int64  `json:"peak_at"`    // instant of the peak
	PeakBytes int64  `json:"peak_bytes"` // highest level in a run: occupied
	LeftBytes int64  `json:"left_bytes"` // most that a run allocated and that was alive when the next phase began
	Left      []Part `json:"left"`       // what that was, by category

	how purpose.How
}

// Name returns the phase and its part: "other, setup".
func (p *PhasePeak) Name() string {
	if p.Part == "" {
		return p.Phase
	}
	return p.Phase + ", " + p.Part
}

func layersOf(layers *layer.Layers, t *lifetime.Tables, s *lifetime.SpaceInfo, rows []lifetime.Row) []Layer {
	if !slices.ContainsFunc(rows, func(r lifetime.Row) bool { return layers.ModuleOf(r.Site, r.Purpose) != "" }) {
		return []Layer{}
	}
	of := map[string][]lifetime.Row{}
	layerOf := func(r *lifetime.Row) (string, purpose.How) {
		return layers.OfBuffer(r.Site, r.Purpose), t.Purpose(r.Purpose).ModuleHow()
	}
	for i := range rows {
		name, _ := layerOf(&rows[i])
		name = cmp.Or(name, purpose.UnknownCategory.String())
		of[name] = append(of[name], rows[i])
	}
	all := []Layer{}
	for _, p := range partsBy(rows, layerOf) {
		all = append(all, Layer{p, categoriesOf(t, s, of[p.Name])})
	}
	return all
}

// phasePeaksOf returns the peak of each phase, and what it leaves. s may be nil. If outlines have no whole history,
// there are none: an answer does not depend on what was read.
func phasePeaksOf(t *lifetime.Tables, s *lifetime.Space) []PhasePeak {
	all := []PhasePeak{}
	if s == nil || t.Sources[s.Source].Traits.Folded {
		return all
	}
	type phase struct {
		purpose.Phase
		purpose.Part
	}
	index := map[phase]int{}
	var most []program.PhaseSpan // of each phase: the run that leaves most
	for _, span := range program.PhasesOf(t, s) {
		k, ok := index[phase{span.Phase, span.Part}]
		if !ok {
			k = len(all)
			index[phase{span.Phase, span.Part}] = k
			all, most = append(all, PhasePeak{Phase: span.Phase.String(), Part: span.Part.String(), Left: []Part{}, how: span.How}), append(most, span)
		}
		p := &all[k]
		p.Runs++
		p.how = min(p.how, span.How)
		if span.Peak.Bytes > p.PeakBytes {
			p.PeakAt, p.PeakBytes = span.Peak.At, span.Peak.Bytes
		}
		if span.Left > most[k].Left {
			most[k] = span
		}
	}
	for k, span := range most {
		all[k].LeftBytes, all[k].How = span.Left, all[k].how.String()
		all[k].Left = categoriesOf(t, &s.SpaceInfo, leftOf(s, span))
	}
	return all
}

// leftOf returns what a run leaves behind.
func leftOf(s *lifetime.Space, span program.PhaseSpan) (rows []lifetime.Row) {
	from, _ := slices.BinarySearchFunc(s.Buffers, span.Begin, func(b lifetime.Buffer, t int64) int { return cmp.Compare(b.Begin, t) })
	index := map[lifetime.Row]int{}
	for i := from; i < len(s.Buffers) && s.Buffers[i].Begin < span.End; i++ {
		b := &s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen != 0 || b.End <= span.End && b.Edge&lifetime.EndOpen == 0 {
			continue
		}
		key := lifetime.Row{Site: b.Site, Kind: b.Kind, Purpose: s.PurposeOf(i)}
		keyed.At(index, &rows, key, key).Add(lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested})
	}
	return rows
}

// Of returns the bytes of a category.
func (l *Layer) Of(category string) (bytes int64) {
	for _, p := range l.Categories {
		if p.Name == category {
			bytes = units.AddSat(bytes, p.Bytes)
		}
	}
	return bytes
}
