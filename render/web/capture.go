package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/render/figure"
	"github.com/memlane/memlane/render/plot"
	"github.com/memlane/memlane/render/text"
)

// document is the data of a capture for decode.js. Records that occur often are lists
// without field names. Times are relative to the start of the window of their space.
type document struct {
	Name     string         `json:"name"`
	Headline string         `json:"headline"`         // the answer in one line
	Plenty   bool           `json:"plenty,omitempty"` // whether no memory needs to be saved
	Info     answer.Capture `json:"info"`             // the same as memlane info --json
	Frames   [][]any        `json:"frames"`           // name, file, line, kind, whether it is folded
	Stacks   [][2]int       `json:"stacks"`           // frame, caller
	Sites    [][]any        `json:"sites"`            // stack, op, region, shape, dtype, instr, opcode, source, name, place, whether its stack is that of the free
	Purposes [][3]string    `json:"purposes"`         // category, phase, module; the first is for buffers that were not judged
	Holders  [][4]any       `json:"holders"`          // name, what holds it, tensor, group; the first is for buffers without a recorded name
	Groups   []group        `json:"groups"`           // of holders, with folded indexes
	Spaces   []space        `json:"spaces"`
	Main     int            `json:"main"` // space to show first
	Findings []shownFinding `json:"findings"`
	OOMs     []oom          `json:"ooms"` // failed allocations: the first ended the program
}

// group is what holders with other indexes share.
type group struct {
	Name   string   `json:"name"`
	Holder string   `json:"holder"`
	Levels []string `json:"levels"` // outermost first
}

// oom is why an allocation failed, in lines of a label and a text.
type oom struct {
	Head  string      `json:"head"`
	Lines [][2]string `json:"lines"`
}

type space struct {
	ID          string        `json:"id"`
	Host        string        `json:"host"`
	Process     string        `json:"process"`
	Module      string        `json:"module"`
	Memory      string        `json:"memory"` // rest of the ID: allocator, device, kind of memory
	Unit        string        `json:"unit"`
	Begin       string        `json:"begin"`  // in Unit; too many digits for a JavaScript number
	Length      int64         `json:"length"` // of the recording
	Lowest      string        `json:"lowest"` // base of the addresses in the columns
	Buffers     int           `json:"buffers"`
	Levels      int           `json:"levels"` // of reserved memory
	Totals      int           `json:"totals"`
	Judged      bool          `json:"judged"`     // whether buffers have purposes
	Categories  bool          `json:"categories"` // whether the colours are by category unless the user chooses others
	Sizes       bool          `json:"sizes"`      // whether they are by size
	Crowded     bool          `json:"crowded"`    // whether the axis is of events unless the user chooses time
	Named       bool          `json:"named"`      // whether buffers have holders
	Values      bool          `json:"values"`     // whether buffers have value IDs of the compiler
	FreeSites   bool          `json:"freeSites"`  // whether sites of frees were recorded
	Static      bool          `json:"static"`
	UsageOnly   bool          `json:"usageOnly"`
	Addresses   bool          `json:"addresses"`
	Base        int64         `json:"base"`
	Peak        int64         `json:"peak"` // time of the peak
	Stack       [][2]int64    `json:"stack"`
	Regions     [][]any       `json:"regions"` // begin, end, address, size, kind, stream, pool, uses, whether it is for small requests
	Marks       [][]any       `json:"marks"`   // begin, end, kind, text, site, requested, free
	PeakHoles   *region.Holes `json:"peakHoles"`
	StepTimes   []int64       `json:"stepTimes"` // at which steps begin, for a comparison
	Inferred    bool          `json:"stepsInferred"`
	NoBlocks    string        `json:"noBlocks"`    // the reason if there are no blocks
	NotRecorded bool          `json:"notRecorded"` // only what was alive at the end
	Advice      string        `json:"advice"`      // how to record a history, if there is none
	Spark       []int64       `json:"spark"`       // highest bytes in use in equal parts of the recording; empty = not compared with others
	Picture     *picture      `json:"picture"`     // nil = none
	Without     string        `json:"without"`     // what the peak would be without the leaks; empty if not known
	Savings     []saving      `json:"savings"`     // what would lower the peak, the cheapest first; only of the main space
	Unchanged   string        `json:"unchanged"`   // what changes lower if that is not this peak, and until when, in words; else empty
	Needs       int64         `json:"needs"`       // and its bytes; else those of the peak
	Leaks       []int         `json:"leaks"`       // buffers that leak, see stepsOf
	Tries       bool          `json:"tries"`       // whether a part has changes to try; only of the main space
}

// saving is a change of the program that would lower the peak, or that a reader may try.
type saving struct {
	Change string `json:"change"` // with what it costs
	Peak   string `json:"peak"`   // with the change, in words
	Advice string `json:"advice"`
	Low    int64  `json:"low"` // bytes of the peak, at least and at most
	High   int64  `json:"high"`

	Line  []float64 `json:"line"`  // the bytes in use with it, see lineOf
	Marks []int     `json:"marks"` // buffers that it changes, see stepsOf
}

// savingsOf returns remedies of s, whose picture has the frame f, nil for none. It takes those that are known from there.
func savingsOf(s *lifetime.Space, f *plot.Frame, remedies iter.Seq[answer.Remedy], known []saving) []saving {
	all := []saving{}
	var on *lifetime.Space
	for remedy := range remedies {
		peak, change := text.Saving(&remedy.WhatIfScenario)
		if i := slices.IndexFunc(known, func(k saving) bool { return k.Change == change }); i >= 0 {
			all = append(all, known[i])
			continue
		}
		if on == nil {
			on = figure.OnAxis(s, figure.Recorded)
		}
		levels, changed := remedy.In(on)
		line := []float64{}
		if f != nil {
			line = lineOf(levels, f)
		}
		all = append(all, saving{change, peak, remedy.Advice, *remedy.LowBytes, *remedy.HighBytes, line, stepsOf(changed)})
	}
	return all
}

// stepsOf returns buffers, each as the distance from the one before.
func stepsOf(buffers []int) []int {
	steps, last := []int{}, 0
	for _, i := range buffers {
		steps, last = append(steps, i-last), i
	}
	return steps
}

type shownFinding struct {
	Rule         string            `json:"rule"`
	Severity     string            `json:"severity"`
	Confidence   float64           `json:"confidence"`
	Space        int               `json:"space"`
	Sites        []lifetime.SiteID `json:"sites"`
	Bytes        int64             `json:"bytes"`
	Count        int64             `json:"count"`
	BytesPerStep int64             `json:"bytesPerStep"`
	Description  string            `json:"description"`
	Suggestions  []string          `json:"suggestions"`
	Evidence     [][2]string       `json:"evidence"`
	Leak         bool              `json:"leak"`
	Failure      bool              `json:"failure"` // it is about failed allocations
}

// documentOf returns the document of c. place has the places of its spaces, pictures where their plots are. If
// compared, it has what a comparison needs. series are all captures of the page, empty if they are of several ranks.
func documentOf(c *judge.Capture, place []places, pictures []*plot.Frame, compared bool, series *finding.Series) document {
	r, found := answer.CaptureReportOf(c, ""), c.Findings()
	leaks := &r.Leaks
	if n := series.Captures(); n > 0 { // one judgement
		of, verdict := series.Findings(), "judged as one"
		if len(of) == 0 {
			verdict = "nothing grows"
		}
		found, leaks.Verdict, leaks.Notes = slices.Concat(of, found), verdict+" over "+units.Plural(n, "capture"), nil
	}
	d := document{Name: c.Tables.Name(), Headline: text.Headline(&r, answer.FindingsOf(c.Capture, found)),
		Info: r.Info, Spaces: []space{}, Findings: []shownFinding{}, OOMs: []oom{}}
	d.Plenty = text.Plenty(&d.Info)
	for _, f := range c.Frames {
		d.Frames = append(d.Frames, []any{f.Name(), f.File, f.Line, f.Kind.String(), f.Kind.Folded()})
	}
	for _, stack := range c.Stacks {
		d.Stacks = append(d.Stacks, [2]int{int(stack.Frame), int(stack.Caller)})
	}
	for i, s := range c.Sites {
		name, place := nameOf(&c.Tables, lifetime.SiteID(i))
		d.Sites = append(d.Sites, []any{s.Stack, s.Op, s.Region, s.Shape, s.DType, s.Instr, s.Opcode, s.Source, name, place, s.Unseen})
	}
	d.Purposes = [][3]string{{}}
	for _, p := range c.Purposes[1:] {
		d.Purposes = append(d.Purposes, [3]string{p.Name(), p.Phase.String(), p.Module})
	}
	d.addHolders(c.Holders)
	index, marks := map[*lifetime.Space]int{}, finding.MarksOf(found)
	for i, s := range c.Spaces {
		index[s] = i
		d.Spaces = append(d.Spaces, spaceOf(&c.Tables, s, place[i]))
		d.Spaces[i].Leaks = stepsOf(marks.Leaking(s))
		d.Spaces[i].Picture, d.Spaces[i].Sizes = pictureOf(pictures[i]), pictures[i] != nil && len(s.Buffers) > 0 && figure.SizesTell(c.Capture, s)
		if compared || len(c.Spaces) > 1 {
			d.Spaces[i].Spark = sparkOf(s)
		}
		if compared {
			d.Spaces[i].addSteps(c.Program().Steps(s), s)
		}
	}
	for _, without := range text.Without(leaks) {
		at := slices.IndexFunc(d.Spaces, func(s space) bool { return s.ID == without.Space })
		d.Spaces[at].Without = text.WithoutLeaks(&without)
	}
	if s := mainOf(c); s != nil {
		d.Main = index[s]
		of, frame := &d.Spaces[index[s]], pictures[index[s]]
		p := answer.Peak{At: s.Peak(lifetime.Occupied).At, Bytes: s.Peak(lifetime.Occupied).Bytes}
		p.AddSavings(c, s)
		most, remedies := map[bool]int{false: 4}[d.Plenty], slices.Clone(answer.RemediesOf(c, s)) // changes beside the picture
		if best := text.Best(&p); best >= most && most > 0 && best < len(remedies) {
			remedies[most-1] = remedies[best] // the answer on top names it
		}
		of.Savings = savingsOf(s, frame, slices.Values(remedies[:min(len(remedies), most)]), nil)
		if of.Needs = p.Bytes; p.Unchanged != nil {
			of.Unchanged, of.Needs = text.Unchanged(p.Unchanged), *p.Unchanged.ReplayedBytes
		}
		if p.Unfinished {
			of.Unchanged = strings.TrimPrefix(of.Unchanged+"; "+answer.Scope, "; ")
		}
		of.Tries = answer.TriesOf(c, s) != nil
	}
	for i := range found {
		if _, ok := index[found[i].Space]; ok { // those of a series are about its last capture
			d.Findings = append(d.Findings, findingOf(&found[i], index))
		}
	}
	for i := range leaks.OOMs[:min(len(leaks.OOMs), 8)] { // more are in memlane oom
		o := oom{Head: text.FailureHead(&leaks.OOMs[i])}
		for _, l := range slices.DeleteFunc(text.FailureLines(&leaks.OOMs[i]), func(l text.FailureLine) bool { return l.Label == "more" }) { // the page is more
			o.Lines = append(o.Lines, [2]string{l.Label, l.Text})
		}
		d.OOMs = append(d.OOMs, o)
	}
	return d
}

// addHolders adds the names of buffers and what holds them.
func (d *document) addHolders(all []holder.Holder) {
	d.Holders, d.Groups = [][4]any{{"", "", "", 0}}, []group{{Levels: []string{}}}
	index := map[[2]string]int{}
	for i := 1; i < len(all); i++ {
		h := &all[i]
		g := group{holder.FoldIndexes(h.Label()), holder.FoldIndexes(h.Whole()), nil}
		at, ok := index[[2]string{g.Name, g.Holder}]
		if !ok {
			at, g.Levels = len(d.Groups), h.Levels()
			index[[2]string{g.Name, g.Holder}], d.Groups = at, append(d.Groups, g)
		}
		d.Holders = append(d.Holders, [4]any{h.Label(), h.By(), h.Tensor, at})
	}
}

// nameOf returns the name of a site, and its file and line if the name does not have them.
func nameOf(t *lifetime.Tables, id lifetime.SiteID) (name, place string) {
	p := t.PlaceOf(id)
	if p.Node != "" || p.Unseen || p.Op != "" && t.Sites[id].Stack != 0 {
		return p.String(), ""
	}
	f, _ := t.FrameOf(id)
	return f.Function, f.Place()
}

func spaceOf(t *lifetime.Tables, s *lifetime.Space, place places) space {
	out := space{
		ID: s.ID(), Host: s.Host, Process: s.Process, Module: s.Module, Memory: strings.Join(slices.DeleteFunc([]string{s.Allocator, s.Device, s.Memory}, func(part string) bool { return part == "" }), "/"), Unit: s.Axis.Unit(),
		Begin: strconv.FormatInt(s.Begin, 10), Length: s.End - s.Begin, Lowest: strconv.FormatUint(place.lowest, 10),
		Buffers: len(s.Buffers), Levels: len(region.Levels(s)), Totals: len(shownTotals(s)), Judged: s.Purposes != nil,
		Categories: figure.CategoriesTell(t, s), Crowded: figure.Crowded(s), Named: s.Holders != nil, Values: s.ValueIDs != nil, FreeSites: s.FreeSites != nil,
		Static: s.Axis == lifetime.ProgramOrder, UsageOnly: s.UsageOnly(), Addresses: s.Facts&lifetime.Addresses != 0,
		Base: s.Base, Peak: s.Peak(lifetime.Occupied).At - s.Begin, Stack: [][2]int64{}, Regions: [][]any{},
		Marks: [][]any{}, StepTimes: []int64{}, Spark: []int64{},
		NotRecorded: s.Facts&lifetime.History == 0 && s.Allocations+s.Frees == 0 && !s.UsageOnly() && s.Axis != lifetime.ProgramOrder,
	}
	if traits := &t.Sources[s.Source].Traits; out.NotRecorded && traits.AdviceFor(s.Device) == traits.Advice {
		// else nothing records a history
		out.Advice = traits.Advice
	}
	if out.UsageOnly {
		out.NoBlocks = "Only totals were recorded, no buffers."
	} else if len(s.Buffers) == 0 {
		out.NoBlocks = "No buffers were recorded."
	}
	for _, l := range s.Stack {
		out.Stack = append(out.Stack, [2]int64{l.At - s.Begin, l.Bytes})
	}
	for i := range s.Regions {
		r := &s.Regions[i]
		out.Regions = append(out.Regions,
			[]any{r.Begin - s.Begin, r.End - s.Begin, place.of(r.Addr) - place.lowest, r.Size, r.Kind, r.Stream, r.Pool,
				strings.Join(r.Uses.Names(), ", "), r.Small})
	}
	for _, m := range s.Marks {
		out.Marks = append(out.Marks,
			[]any{m.Begin - s.Begin, m.End - s.Begin, m.Kind.String(), m.Text, m.Site, m.Requested, m.Free.Or(-1)})
	}
	if s.Facts&lifetime.Regions != 0 && !out.Static {
		holes := region.FreeAt(s, s.Peak(lifetime.Occupied).At)
		out.PeakHoles = &holes
	}
	return out
}

// sparkOf returns the highest bytes in use in equal parts of the recording of s; none of a compiled program.
func sparkOf(s *lifetime.Space) []int64 {
	if s.Facts&(lifetime.History|lifetime.EndState) == 0 && !s.UsageOnly() || s.Axis == lifetime.ProgramOrder {
		return []int64{}
	}
	return plot.Highest(s.Levels(lifetime.Occupied), s.Begin, s.End, int(min(60, max(s.End-s.Begin, 1)))) // at most 60 parts
}

// addSteps adds the beginnings of steps: that of the window for the one in which it begins.
func (out *space) addSteps(steps *program.Steps, s *lifetime.Space) {
	const most = 10_000
	for _, t := range steps.Begins[:min(len(steps.Begins), most)] {
		out.StepTimes = append(out.StepTimes, max(t, s.Begin)-s.Begin)
	}
	out.Inferred = steps.Inferred()
}

func findingOf(f *finding.Finding, index map[*lifetime.Space]int) shownFinding {
	out := shownFinding{
		Rule: f.Rule, Severity: f.Severity.String(), Confidence: f.Confidence, Space: index[f.Space],
		Sites: append([]lifetime.SiteID{}, f.Sites...),
		Bytes: f.Amount.Bytes, Count: f.Amount.Count, BytesPerStep: int64(math.Round(f.BytesPerStep)),
		Description: f.Description, Suggestions: append([]string{}, f.Suggestions...), Evidence: [][2]string{},
		Leak: f.IsLeak(), Failure: f.Kind == finding.KindFailure,
	}
	for _, e := range f.Evidence {
		out.Evidence = append(out.Evidence, [2]string{e.Name, cmp.Or(e.Text, strconv.FormatFloat(e.Value, 'g', 6, 64))})
	}
	return out
}

// Encode returns a document as JSON. It replaces marks of the writing direction, which would
// reorder the text next to a name.
func Encode(document any) ([]byte, error) {
	data, err := json.Marshal(document)
	for _, mark := range "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" {
		if m := []byte(string(mark)); bytes.Contains(data, m) {
			data = bytes.ReplaceAll(data, m, []byte("\ufffd"))
		}
	}
	return data, err
}
