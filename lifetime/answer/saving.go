package answer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Saving is a change of a program that would lower the peak of a memory ID.
type Saving struct {
	Action     string `json:"action"`      // checkpoint, no_grad, del, offload, zero_grad, foreach, chunk or cache
	SavesBytes int64  `json:"saves_bytes"` // drop of the peak, at most, computed on the recorded lifetimes
	PeakBytes  int64  `json:"peak_bytes"`  // peak that is left then, at another instant perhaps
	Buffers    int64  `json:"buffers"`     // buffers alive at the peak that it is about
	Site       *Site  `json:"site"`        // that allocates them; null if it is not one site
	Text       string `json:"text"`        // what to do, in a sentence
}

const (
	maxSavings = 5
	leastSaved = 0.05 // of the peak
	chunks     = 8    // that a large buffer is computed in
	largePart  = 0.1  // of the peak: a large site
)

// String returns what a change saves and what to do.
func (r *Saving) String() string {
	return fmt.Sprintf("up to %s, to %s: %s", units.Bytes(r.SavesBytes), units.Bytes(r.PeakBytes), r.Text)
}

// savingsOf returns what would lower the peak of a space, most first. It needs categories.
func savingsOf(t *lifetime.Tables, s *lifetime.Space) []Saving {
	all := []Saving{}
	if s == nil || s.Purposes == nil || s.Axis == lifetime.ProgramOrder {
		return all
	}
	s = cmp.Or(s.Ungrouped, s)
	peak := s.Peak(lifetime.Occupied)
	r := savings{t: t, s: s, peak: peak, live: s.LiveAt(peak.At)}
	if !r.trains() {
		return all
	}
	graph := [2]string{"checkpoint", "checkpoint the layers (torch.utils.checkpoint), which computes again what is kept for the backward pass"}
	if r.dropsGraphs(r.replaced()) {
		graph = [2]string{"no_grad", "run the forward pass under torch.no_grad(): the program drops its graph, and no backward pass runs over it"}
	}
	stacks := program.NewStacks(t)
	offload := "keep the state of the optimizer on the host"
	if stacks.HasFrame(program.Distributed | program.SendsGrads) {
		offload = "shard the state of the optimizer over the ranks (ZeRO, FSDP) or keep it on the host"
	}
	for _, category := range []struct {
		of           purpose.Category
		action, text string
	}{
		{purpose.Activation, graph[0], graph[1]},
		{purpose.OptimizerState, "offload", offload},
		{purpose.Cache, "cache", "bound what the program keeps beside its modules"},
	} {
		r.add(category.action, category.text, func(i int) (int64, bool) {
			return 0, t.Purpose(s.PurposeOf(i)).Category == category.of
		})
	}
	r.foreach(stacks)
	if r.phaseAt(peak.At) == purpose.Forward {
		r.add("zero_grad", "free gradients before the forward pass, zero_grad(set_to_none=True) after the step", nil)
	}
	r.chunk()
	slices.SortStableFunc(r.all, func(x, y Saving) int { return cmp.Compare(y.SavesBytes, x.SavesBytes) })
	return append(all, r.all[:min(len(r.all), maxSavings)]...)
}

type savings struct {
	t    *lifetime.Tables
	s    *lifetime.Space
	peak lifetime.Level
	live []int
	all  []Saving
}

// dropsGraphs reports whether what forward passes keep for a backward pass is freed, and none ran. That of the last pass need not be
// freed if it replaced that of another one.
func (r *savings) dropsGraphs(replaced bool) bool {
	kept := 0
	for _, i := range r.live {
		if r.t.Purpose(r.s.PurposeOf(i)).Category == purpose.Activation {
			if !replaced && r.s.Buffers[i].Edge&lifetime.EndOpen != 0 {
				return false // a backward pass may come
			}
			kept++
		}
	}
	return kept > 0 && !slices.ContainsFunc(r.s.Purposes, func(of lifetime.PurposeID) bool {
		p := r.t.Purpose(of)
		return p.Phase == purpose.Backward || p.Category == purpose.Gradient
	})
}

// isLine reports whether a frame is a line that a user can edit.
func isLine(f frame.Frame) bool { return f.Kind == frame.User && f.File != "" }

// sameGraph is how much of what a line replaces must be as large as what it makes.
const sameGraph = 0.9

// replaced adds the result of a line, with all that is kept for its backward pass, if the peak is where the line has computed the next one
// but not yet freed it. It reports whether there is one.
func (r *savings) replaced() bool {
	old := map[frame.Frame][]int{} // buffers that a line frees
	sums := map[frame.Frame]int64{}
	for _, i := range r.live {
		if r.s.FreeSites == nil || r.s.Buffers[i].Edge&lifetime.EndOpen != 0 {
			continue
		}
		if p := r.t.PlaceOf(r.s.FreeSites[i]); isLine(p.Frame) && p.Node == "" {
			old[p.Frame] = append(old[p.Frame], i)
			sums[p.Frame] += r.s.Buffers[i].Size
		}
	}
	var line frame.Frame
	for f, bytes := range sums {
		if cmp.Or(cmp.Compare(bytes, sums[line]), cmp.Compare(line.String(), f.String())) > 0 {
			line = f
		}
	}
	below := make([]bool, len(r.t.Stacks)) // the line is in the stack
	for id := 1; id < len(below); id++ {
		below[id] = r.t.Frames[r.t.Stacks[id].Frame] == line || below[r.t.Stacks[id].Caller]
	}
	gone := map[int]bool{}
	for _, i := range old[line] {
		gone[i] = true
	}
	made := map[int64]int{} // buffers of the next result, by size
	for _, i := range r.live {
		b := &r.s.Buffers[i]
		if r.t.Purpose(r.s.PurposeOf(i)).Category == purpose.Activation && below[r.t.Sites[b.Site].Stack] && !gone[i] {
			made[b.Size]++
		}
	}
	same := int64(0)
	for _, i := range old[line] {
		if size := r.s.Buffers[i].Size; made[size] > 0 {
			made[size]--
			same += size
		}
	}
	if same == 0 || float64(same) < sameGraph*float64(sums[line]) {
		return false
	}
	before := len(r.all)
	place := r.t.PlaceOf(r.s.FreeSites[old[line][0]])
	place.Unseen = false
	r.add("del", "delete the result of "+place.String()+" before that line computes the next one: del, or detach() what it needs", func(i int) (int64, bool) {
		return 0, gone[i]
	})
	return len(r.all) > before
}

// foreach adds the step of an optimizer that works on all parameters at once. One after the other, it needs two temporaries of one
// parameter: Adam holds the root of its second moment and the quotient of that.
func (r *savings) foreach(stacks *program.Stacks) {
	isOne := func(i int) bool {
		of := r.t.Purpose(r.s.PurposeOf(i))
		return of.Category == purpose.TemporaryData && of.Phase == purpose.OptimizerPhase &&
			stacks.Of(r.t.Sites[r.s.Buffers[i].Site].Stack).All&program.ForEach != 0
	}
	largest := -1
	for _, i := range r.live {
		if isOne(i) && (largest < 0 || r.s.Buffers[i].Size > r.s.Buffers[largest].Size) {
			largest = i
		}
	}
	if largest < 0 {
		return
	}
	r.add("foreach", "step the optimizer with fused=True or foreach=False, which needs no temporaries of all parameters at once", func(i int) (int64, bool) {
		if i == largest {
			return 2 * r.s.Buffers[i].Size, true
		}
		return 0, isOne(i)
	})
}

// trains reports whether categories beside temporaries are known: the allocator of TensorFlow records these only.
func (r *savings) trains() bool {
	return slices.ContainsFunc(r.live, func(i int) bool {
		c := r.t.Purpose(r.s.PurposeOf(i)).Category
		return c != purpose.UnknownCategory && c != purpose.TemporaryData
	})
}

// add adds a change if it saves enough. size returns the size that a buffer would have, and whether it changes; nil stands for
// gradients that are gone while a forward pass runs.
func (r *savings) add(action, text string, size func(i int) (int64, bool)) {
	gradients := size == nil
	if gradients {
		size = func(i int) (int64, bool) { return 0, r.t.Purpose(r.s.PurposeOf(i)).Category == purpose.Gradient }
	}
	n := int64(0)
	for _, i := range r.live {
		if _, ok := size(i); ok {
			n++
		}
	}
	if n == 0 {
		return
	}
	var left int64
	if gradients {
		left = r.without(size)
	} else {
		left = oom.PeakWith(r.s, func(i int) int64 {
			if small, ok := size(i); ok {
				return small
			}
			return r.s.Buffers[i].Size
		})
	}
	saved := r.peak.Bytes - left
	if float64(saved) < leastSaved*float64(r.peak.Bytes) {
		return
	}
	r.all = append(r.all, Saving{Action: action, SavesBytes: saved, PeakBytes: left, Buffers: n, Text: text + " (" + units.Plural(n, "buffer") + ")"})
}

// without returns the peak if buffers have other sizes while forward passes run.
func (r *savings) without(size func(i int) (int64, bool)) (peak int64) {
	var level, less units.Sum
	level.Add(r.s.Base)
	phase := purpose.UnknownPhase
	for c := range r.s.Changes() {
		whole, saved := r.s.Buffers[c.Buffer].Size, int64(0)
		if small, ok := size(c.Buffer); ok {
			saved = whole - small
		}
		if c.Begin {
			level.Add(whole)
			less.Add(saved)
			if p := r.t.Purpose(r.s.PurposeOf(c.Buffer)).Phase; p != purpose.UnknownPhase {
				phase = p
			}
		} else {
			level.Sub(whole)
			less.Sub(saved)
		}
		now := level.Value()
		if phase == purpose.Forward {
			now -= less.Value()
		}
		peak = max(peak, now)
	}
	return peak
}

// phaseAt returns the phase of the last allocation up to t whose phase is known.
func (r *savings) phaseAt(t int64) (phase purpose.Phase) {
	for i := range r.s.Buffers {
		b := &r.s.Buffers[i]
		if b.Begin > t {
			break
		}
		if p := r.t.Purpose(r.s.PurposeOf(i)).Phase; p != purpose.UnknownPhase && b.Edge&lifetime.BeginUnseen == 0 {
			phase = p
		}
	}
	return phase
}

// chunk adds the line of the user whose temporaries and activations of one size hold most, if it is large: their operation may be
// computed in chunks, like the loss of long sequences.
func (r *savings) chunk() {
	type key struct {
		site lifetime.SiteID
		size int64
	}
	held := map[key]int64{}
	for _, i := range r.live {
		b := &r.s.Buffers[i]
		of := r.t.Purpose(r.s.PurposeOf(i))
		if isLine(r.t.PlaceOf(b.Site).Frame) && of.Phase != purpose.OptimizerPhase && (of.Category == purpose.Activation || of.Category == purpose.TemporaryData) {
			held[key{b.Site, b.Size}] += b.Size
		}
	}
	var best key
	for k, bytes := range held {
		if k.size >= int64(largePart*float64(r.peak.Bytes)) && cmp.Or(cmp.Compare(bytes, held[best]), cmp.Compare(best.site, k.site), cmp.Compare(k.size, best.size)) > 0 {
			best = k
		}
	}
	if held[best] == 0 {
		return
	}
	before := len(r.all)
	place := r.t.PlaceOf(best.site).String()
	r.add("chunk", "compute in "+units.Count(chunks)+" chunks what "+place+" allocates", func(i int) (int64, bool) {
		b := &r.s.Buffers[i]
		return b.Size / chunks, b.Site == best.site && b.Size == best.size
	})
	if len(r.all) > before {
		site := siteOf(r.t, &r.s.SpaceInfo, best.site)
		r.all[before].Site = &site
	}
}
