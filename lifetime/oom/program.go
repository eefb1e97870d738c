package oom

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
)

// remedy is a change of a program and the peak that it would have, in bytes.
type remedy struct {
	advice, how string
	edit        string  // as whatif names it
	sizes       []int64 // that the buffers would have
	peak, low   int64   // if it is known without them; low is 0 if it is that or less
	sure        float64 // confidence that the program would have that peak; 0 = not measured
	cost        int     // 0: nothing; a change of the program, time, precision and devices cost more
}

func sizesOf(s *lifetime.Space) []int64 {
	sizes := make([]int64, len(s.Buffers))
	for i := range s.Buffers {
		sizes[i] = s.Buffers[i].Size
	}
	return sizes
}

// remedies sets the advice for a compiled program: of the changes that suffice, or else of all, the one that costs least, and of equals the
// one that lowers the peak most. Its proof is the peak on the program's own timeline.
func (d *Diagnosis) remedies(t *lifetime.Tables) {
	s, needed, capacity := d.Space, d.Needed, d.Capacity
	if d.alone() {
		d.Advice = spread(t, s, d.Mark.Begin, d.asked, capacity)
	}
	if needed < 0 || capacity < 0 {
		return
	}
	peak := peakWith(s, sizesOf(s))
	if peak == 0 || peak > units.AddSat(needed, d.Rounding) {
		return
	}
	var all []remedy
	tried := proven(t, s)
	for _, try := range []func(*lifetime.Tables, *lifetime.Space) remedy{lessPadding, donate, narrower, shard} {
		tried = append(tried, try(t, s))
	}
	for _, r := range tried {
		if r.sizes != nil {
			r.peak = peakWith(s, r.sizes)
		}
		if drop := peak - r.peak; r.advice != "" && drop > 0 && float64(drop) >= leastDrop*float64(peak) {
			if other := needed - peak; other != 0 { // the text may not list all
				if r.peak += other; r.low > 0 {
					r.low += other
				}
			}
			all = append(all, r)
		}
	}
	tooMuch := func(r remedy) int {
		if r.peak > capacity {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(x, y remedy) int {
		return cmp.Or(tooMuch(x)-tooMuch(y), x.cost-y.cost, cmp.Compare(x.peak, y.peak))
	})
	switch {
	case len(all) > 0 && (tooMuch(all[0]) == 0 || d.Reason == Padding):
		d.Advice, d.Sure = all[0].advice, all[0].sure
	case len(all) > 0 && (all[0].edit != "" || all[0].sure > untried): // it needs more devices only for what is left
		d.Sure, d.Advice = all[0].sure, fmt.Sprintf("%s Then shard it over %s times as many devices.", all[0].advice, units.Count((all[0].peak+capacity-1)/max(capacity, 1)))
	case d.Reason != Padding:
		d.Advice = spread(t, s, d.Mark.Begin, needed, capacity)
	}
	var parts []string
	for _, r := range all[:min(len(all), maxRemedies)] {
		with := units.Bytes(r.peak)
		if low := units.Bytes(r.low); r.low > 0 && low != with {
			with = low + " to " + with
		}
		if with += " instead of " + units.Bytes(needed); r.sure > 0 {
			with += fmt.Sprintf(" (confidence %.0f %%)", 100*r.sure)
		}
		parts = append(parts, r.how+" "+with)
	}
	if parts != nil {
		d.Proof = "peak " + strings.Join(parts, ", ")
	}
}

// spread returns the advice for a program for which no remedy suffices.
func spread(t *lifetime.Tables, s *lifetime.Space, at, needed, capacity int64) string {
	shard := fmt.Sprintf("hard it over at least %s times as many devices.", units.Count((needed+capacity-1)/max(capacity, 1)))
	var largest lifetime.Row
	again, first := int64(0), lifetime.SiteID(0) // what is recomputed, and the largest of it
	for _, row := range s.Breakdown(at) {
		if strings.Contains(t.Sites[row.Site].Op, "rematted_computation") {
			again, first = units.AddSat(again, row.Bytes), cmp.Or(first, row.Site)
		}
		row.Bytes /= max(row.Count, 1)
		if row.Bytes > max(capacity, largest.Bytes) && t.Sites[row.Site].Shape != "" && t.ArgumentOf(row.Kind, row.Site) == "" {
			largest = row
		}
	}
	if largest.Bytes > 0 {
		return fmt.Sprintf("Compute %s in blocks and keep only a reduction: it alone is %s. Or s%s", BufferName(t, largest.Site), units.Bytes(largest.Bytes), shard)
	}
	if float64(again) >= recomputes*float64(needed) {
		advice := "Checkpoint smaller parts"
		if outside, _, _ := strings.Cut(t.Sites[first].Op, "rematted_computation"); OnCPU(t, s) && !strings.Contains(outside, "while") {
			advice = "Put the parts into one lax.scan with jax.checkpoint around its body, which XLA for CPU undoes outside of loops"
		}
		return fmt.Sprintf("%s: %s that jax.checkpoint recomputes, such as %s, is alive at once. Or s%s", advice, units.Bytes(again), BufferName(t, first), shard)
	}
	if float64(needed-capacity) < nearMiss*float64(capacity) {
		return fmt.Sprintf("Save %s: recompute (jax.checkpoint), donate arguments, or use a smaller batch.", units.Bytes(needed-capacity))
	}
	return "S" + shard
}

// BufferName returns the name of a buffer of a compiled program: the end of the operation, the line, and the shape without its
// layout.
func BufferName(t *lifetime.Tables, id lifetime.SiteID) string {
	site := &t.Sites[id]
	name := site.Op // of an argument, its path: w['up']
	if site.Opcode != "parameter" && site.Role == "" {
		name, _, _ = strings.Cut(name, "[")
		name = name[strings.LastIndex(name, "/")+1:]
	}
	name = cmp.Or(name, site.Instr)
	if place := t.SourcePlace(id); place != "" {
		name += " (" + place + ")"
	}
	return strings.TrimSpace(name + " " + shortShape(site.Shape))
}

const (
	nearMiss    = 0.1  // share of the capacity: from there on, more devices cost less than what saves it
	recomputes  = 0.25 // share of what is needed: from there on, what is recomputed fills the memory
	leastDrop   = 0.01 // share of the peak: less is no remedy
	maxRemedies = 3
	arithmetic  = 0.9  // confidence of what follows from sizes
	donating    = 0.75 // and of ranges: of 19 programs that were changed and compiled again, 15 lay in it when it was first said
	rewriting   = 0.75 // 5 of 6
	recomputing = 0.68 // 16 of 23
	layering    = 0.5  // 8 of 16, and all 16 saved; two needed less than was predicted then
	untried     = 0.5  // and of a best case that no program was compiled for
)

// isBuffer reports whether a buffer is one, not the sum of what a text does not list.
func isBuffer(s *lifetime.Space, i int) bool { return s.BufNotes == nil || s.BufNotes[i] == 0 }

// tiled matches the parts of a shape on TPU: "f32[65536,3]{1,0:T(8,128)}".
var tiled = regexp.MustCompile(`^[a-z0-9]+\[([0-9,]+)\]\{([0-9]+)[0-9,]*:T\(([0-9,]+)\)`)

// lessPadding removes the padding of layouts. Its advice names the dimension of the buffer that wastes most.
func lessPadding(t *lifetime.Tables, s *lifetime.Space) remedy {
	sizes, most, worst := sizesOf(s), int64(0), 0
	for i := range s.Buffers {
		sizes[i] = s.Buffers[i].Requested
		if waste := s.Buffers[i].Size - s.Buffers[i].Requested; waste > most && isBuffer(s, i) {
			most, worst = waste, i
		}
	}
	if most == 0 {
		return remedy{}
	}
	shape := t.Sites[s.Buffers[worst].Site].Shape
	advice := "Make the last two dimensions multiples of 8 x 128, or transpose"
	if m := tiled.FindStringSubmatch(shape); m != nil {
		dimensions, tile := strings.Split(m[1], ","), m[3][strings.LastIndex(m[3], ",")+1:]
		minor, _ := strconv.Atoi(m[2])
		dimension := dimensions[min(minor, len(dimensions)-1)]
		size, _ := strconv.Atoi(dimension)
		if n, _ := strconv.Atoi(tile); n > 0 && size%n != 0 {
			advice = fmt.Sprintf("Make dimension %d (%s) of %s a multiple of %s, or put a longer one last", minor, dimension, shortShape(shape), tile)
		}
	}
	return remedy{advice: fmt.Sprintf("%s: it has %s of padding.", advice, units.Bytes(most)), how: "without padding", sizes: sizes}
}

func shortShape(shape string) string {
	short, _, _ := strings.Cut(shape, "{")
	return short
}

// proven are the changes that the program's own schedule proves: their peaks are exact, or lie in a range.
func proven(t *lifetime.Tables, s *lifetime.Space) (all []remedy) {
	for _, c := range s.Remedies {
		if c.What == "" { // it was tried, and lowers nothing
			continue
		}
		r := remedy{peak: c.High, low: c.Low}
		switch c.Kind {
		case compiled.Donate:
			r.sure, r.edit = donating, "donate"
			r.advice, r.how = fmt.Sprintf("Donate %s (%s).", shownList(c.What), donated(t, c.What)), "with donated arguments"
		case compiled.InPlace:
			r.how, r.cost, r.sure, r.edit = "in place", 1, rewriting, "in-place"
			r.advice = fmt.Sprintf("Carry %s through the loop and write into it in place (dynamic_update_slice): the loop makes another one.", shownList(c.What))
		case compiled.Checkpoint:
			r.how, r.cost, r.sure, r.edit = "with a checkpoint", 2, recomputing, "checkpoint=blocks"
			r.advice = fmt.Sprintf("Wrap the body of the scan at %s in jax.checkpoint, so that it saves only what it carries.", c.What)
		case compiled.Layers:
			r.how, r.cost, r.sure, r.edit = "with checkpoints", 2, layering, "checkpoint=blocks"
			r.advice = fmt.Sprintf("Wrap each layer that %s calls in jax.checkpoint, so that it saves only what later layers read.", shownList(c.What))
		}
		all = append(all, r)
	}
	return all
}

// Planned is a change of a compiled program, and the peak that it would have: from Low to High, likely Peak.
type Planned struct {
	Edit, Advice    string
	Low, Peak, High int64
}

// Plans returns the changes of a compiled program that its schedule proves.
func Plans(t *lifetime.Tables, s *lifetime.Space) (all []Planned) {
	for _, r := range proven(t, s) {
		if r.advice != "" {
			all = append(all, Planned{r.edit, r.advice, r.low, r.peak, r.peak})
		}
	}
	return all
}

// Dropped returns the peak of a compiled program without arguments whose names are chosen, and their copies. n is the number of those arrays.
// The memory of a donated one is that of a result.
func Dropped(t *lifetime.Tables, s *lifetime.Space, chosen func(name string) bool) (p Planned, n int) {
	sizes := sizesOf(s)
	results := map[uint64]bool{}
	for i := range s.Regions {
		results[s.Regions[i].Addr] = s.Regions[i].Uses&compiled.ForOutput != 0
	}
	for i := range sizes {
		b := &s.Buffers[i]
		if name := t.ArgumentOf(b.Kind, b.Site); name != "" && chosen(name) && !results[b.Addr] {
			sizes[i] = 0
			n++
		}
	}
	peak := peakWith(s, sizes)
	return Planned{Low: peak, Peak: peak, High: peak}, n
}

// Narrowed returns the peak of a compiled program whose arguments with chosen names have floats half as wide: at most only they and their copies
// are, likely also what is computed, and at least there is nothing but narrow arguments and results. n is the number of those arrays.
func Narrowed(t *lifetime.Tables, s *lifetime.Space, chosen func(name string) bool) (p Planned, n int) {
	named, computed, least := sizesOf(s), sizesOf(s), sizesOf(s)
	for i := range named {
		b := &s.Buffers[i]
		argument := t.ArgumentOf(b.Kind, b.Site)
		if b.Kind != lifetime.Parameter && b.Kind != lifetime.Output {
			least[i] = 0
		}
		if shape := t.Sites[b.Site].Shape; !strings.HasPrefix(shape, "f32[") && !strings.HasPrefix(shape, "f64[") {
			continue
		}
		least[i] /= 2
		if argument != "" && chosen(argument) {
			named[i] /= 2
			n++
		}
		if argument == "" || chosen(argument) {
			computed[i] /= 2
		}
	}
	p.Low, p.Peak, p.High = peakWith(s, least), peakWith(s, computed), peakWith(s, named)
	return p, n
}

// argument matches the name of an argument in that of a part of it: "cache" of "cache[0]".
var argument = regexp.MustCompile(`^\w+`)

// donated returns the option of jax.jit that donates arguments: by the names of those that they are parts of, if the program has them.
func donated(t *lifetime.Tables, list string) string {
	var names []string
	for name := range strings.SplitSeq(list, ", ") {
		if !slices.ContainsFunc(t.Sites, func(s lifetime.Site) bool { return s.Opcode == "parameter" && s.Op == name }) {
			return "donate_argnums"
		}
		if whole := argument.FindString(name); !slices.Contains(names, whole) {
			names = append(names, whole)
		}
	}
	return `donate_argnames=["` + strings.Join(names, `", "`) + `"]`
}

func shownList(list string) string {
	names := strings.Split(list, ", ")
	if n := len(names) - maxNames; n > 1 {
		return strings.Join(names[:maxNames], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return list
}

const maxNames = 4

// donate lets outputs use the memory of inputs of the same shape. It is the best case: without live ranges it is not known from when on they can.
func donate(t *lifetime.Tables, s *lifetime.Space) remedy {
	if slices.ContainsFunc(s.Remedies, func(c compiled.Change) bool { return c.Kind == compiled.Donate }) {
		return remedy{}
	}
	inputs := map[string][]lifetime.SiteID{} // by shape
	for i := range s.Buffers {
		if b := &s.Buffers[i]; b.Kind == lifetime.Parameter && isBuffer(s, i) && t.Sites[b.Site].Shape != "" {
			inputs[t.Sites[b.Site].Shape] = append(inputs[t.Sites[b.Site].Shape], b.Site)
		}
	}
	sizes := sizesOf(s)
	var names []string
	for i := range s.Buffers {
		b := &s.Buffers[i]
		if of := inputs[t.Sites[b.Site].Shape]; b.Kind == lifetime.Output && isBuffer(s, i) && len(of) > 0 {
			inputs[t.Sites[b.Site].Shape] = of[1:]
			sizes[i] = 0
			names = append(names, BufferName(t, of[0]))
		}
	}
	if names == nil {
		return remedy{}
	}
	return remedy{advice: fmt.Sprintf("Donate %s of the same shape as outputs (donate_argnums).", units.Plural(int64(len(names)), "input")),
		how: "with donated inputs at best", sizes: sizes, sure: untried}
}

// shard divides inputs and outputs of which several devices have copies among these devices. Its advice names the largest. The program may
// gather them again, so this is the best case.
func shard(t *lifetime.Tables, s *lifetime.Space) remedy {
	most, largest, n, all, left := int64(0), 0, 0, int64(0), int64(0)
	sizes := sizesOf(s)
	for i := range s.Buffers {
		b := &s.Buffers[i]
		copies := t.Sites[b.Site].Copies
		if b.Kind != lifetime.Parameter && b.Kind != lifetime.Output || copies < 2 || divisible(t.Sites[b.Site].Shape, copies) < 0 {
			continue
		}
		sizes[i] = b.Size / copies
		n++
		all, left = units.AddSat(all, b.Size), units.AddSat(left, sizes[i])
		if b.Size > most {
			most, largest = b.Size, i
		}
	}
	if n == 0 {
		return remedy{}
	}
	site := &t.Sites[s.Buffers[largest].Site]
	more := ""
	if n > 1 {
		more = fmt.Sprintf(", and %d more likewise", n-1)
	}
	return remedy{cost: 4, how: "with copies sharded at best", sure: untried, advice: fmt.Sprintf("Shard %s by axis %d over the %s that have copies%s: %s become %s at best.",
		BufferName(t, s.Buffers[largest].Site), divisible(site.Shape, site.Copies), units.Plural(site.Copies, "device"), more, units.Bytes(all), units.Bytes(left)),
		sizes: sizes}
}

// divisible returns the longest dimension of a shape that n divides; -1 if there is none.
func divisible(shape string, n int64) int {
	axis, longest := -1, int64(0)
	_, dimensions, _ := strings.Cut(shortShape(shape), "[")
	for i, text := range strings.Split(strings.TrimSuffix(dimensions, "]"), ",") {
		if d, err := strconv.ParseInt(text, 10, 64); err == nil && d > longest && d%n == 0 {
			axis, longest = i, d
		}
	}
	return axis
}

// narrower halves arrays of f32 and f64, on devices that compute with narrower types: a CPU would need them as f32 again.
func narrower(t *lifetime.Tables, s *lifetime.Space) remedy {
	if OnCPU(t, s) {
		return remedy{}
	}
	p, _ := Narrowed(t, s, func(string) bool { return true })
	return remedy{cost: 3, advice: "Use bfloat16 for arrays of float32.", how: "with half as wide floats", peak: p.Peak, sure: arithmetic}
}

// OnCPU reports whether a program is compiled for a CPU: neither a configuration for GPUs nor tiles of TPUs.
func OnCPU(t *lifetime.Tables, s *lifetime.Space) bool {
	return s.Target != "gpu" && !slices.ContainsFunc(s.Buffers, func(b lifetime.Buffer) bool { return strings.Contains(t.Sites[b.Site].Shape, ":T(") })
}

// peakWith returns the peak that the space would have if its buffers had other sizes.
func peakWith(s *lifetime.Space, sizes []int64) (peak int64) {
	level := s.Base
	peak = level
	for c := range s.Changes() {
		if n := sizes[c.Buffer]; c.Begin {
			level = units.AddSat(level, n)
		} else {
			level -= n
		}
		peak = max(peak, level)
	}
	return peak
}
