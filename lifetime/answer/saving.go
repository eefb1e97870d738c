package answer

import (
	"cmp"
	"fmt"
	"maps"
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
	Action     string `json:"action"`      // checkpoint, no_grad, offload, zero_grad, foreach, chunk, del or cache
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
	stacks := program.NewStacks(t)
	graph := [2]string{"checkpoint", "checkpoint the layers (torch.utils.checkpoint), which computes again what is kept for the backward pass"}
	if r.dropsGraph(r.previous()) {
		graph = [2]string{"no_grad", "run the forward pass under torch.no_grad(): the program drops its graph, and no backward pass runs over it"}
	}
	offload := "keep the state of the optimizer on the host"
	if stacks.HasFrame(program.Distributed|program.SendsGrads) && !stacks.HasFrame(program.Shards) {
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
	r.chunk(stacks)
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

// dropsGraph reports whether most of what is kept for a backward pass at the peak is freed, and none ran over it. That of the last pass
// need not be freed if it replaced that of another one.
func (r *savings) dropsGraph(isReplaced bool) bool {
	var backward []int64 // when backward passes allocated
	gradients := false
	for i := range r.s.Buffers {
		of := r.t.Purpose(r.s.PurposeOf(i))
		if of.Phase == purpose.Backward {
			backward = append(backward, r.s.Buffers[i].Begin)
		}
		gradients = gradients || of.Category == purpose.Gradient
	}
	if gradients && len(backward) == 0 {
		return false // it was not recorded
	}
	kept, dropped := int64(0), int64(0)
	for _, i := range r.live {
		b := &r.s.Buffers[i]
		if r.t.Purpose(r.s.PurposeOf(i)).Category != purpose.Activation {
			continue
		}
		kept += b.Size
		next, _ := slices.BinarySearch(backward, b.Begin)
		switch isOver := next < len(backward) && (b.Edge&lifetime.EndOpen != 0 || backward[next] < b.End); {
		case isOver:
		case b.Edge&lifetime.EndOpen != 0 && !isReplaced:
			return false // a backward pass may come
		default:
			dropped += b.Size
		}
	}
	return dropped*2 > kept
}

// previous adds the results of a forward or backward pass that a variable holds until the next pass replaces them: the peak if they
// were gone when the next forward pass begins. It reports whether there are any.
func (r *savings) previous() bool {
	var starts []int64 // of forward passes after another phase
	last := purpose.UnknownPhase
	held := make([]bool, len(r.s.Buffers))
	lines := map[lifetime.SiteID]bool{} // whether a site is a line of the program
	byLine := func(i int) bool {
		if r.s.FreeSites == nil || r.s.Buffers[i].Edge&(lifetime.EndOpen|lifetime.EndInferred) != 0 {
			return false
		}
		site := cmp.Or(r.s.FreeSites[i], r.s.Buffers[i].Site)
		is, known := lines[site]
		if !known {
			is = isLine(r.t.PlaceOf(site)) && r.t.PlaceOf(site).Node == ""
			lines[site] = is
		}
		return is
	}
	for i := range r.s.Buffers {
		b, of := &r.s.Buffers[i], r.t.Purpose(r.s.PurposeOf(i))
		isOld := b.Edge&lifetime.BeginUnseen != 0
		switch of.Category {
		case purpose.UnknownCategory, purpose.Activation, purpose.TemporaryData:
			held[i] = (isOld || of.Phase == purpose.Forward || of.Phase == purpose.Backward) && byLine(i)
		}
		if isOld || of.Phase == purpose.UnknownPhase {
			continue
		}
		if of.Phase == purpose.Forward && last != purpose.Forward {
			starts = append(starts, b.Begin)
		}
		last = of.Phase
	}
	start := func(t int64) int { // the first one after t
		n, _ := slices.BinarySearch(starts, t+1)
		return n
	}
	n, bySite := int64(0), map[lifetime.SiteID]int64{}
	for i := range held {
		b := &r.s.Buffers[i]
		k := 0
		if held[i] {
			k = start(b.Begin)
		}
		if held[i] = held[i] && k < len(starts) && b.End > starts[k] && (k+1 == len(starts) || b.End <= starts[k+1]); !held[i] {
			continue
		}
		if starts[k] <= r.peak.At && b.End > r.peak.At {
			n++
			bySite[cmp.Or(r.s.FreeSites[i], b.Site)] += b.Size
		}
	}
	if n == 0 {
		return false
	}
	var level, gone units.Sum // gone: of those that a variable still holds
	level.Add(r.s.Base)
	next, alive, peak := 0, map[int]bool{}, int64(0)
	for c := range r.s.Changes() {
		for ; next < len(starts) && starts[next] <= c.T; next++ {
			for i := range alive {
				gone.Add(r.s.Buffers[i].Size)
			}
			clear(alive)
		}
		size := r.s.Buffers[c.Buffer].Size
		switch {
		case c.Begin:
			level.Add(size)
			if held[c.Buffer] {
				alive[c.Buffer] = true
			}
		default:
			level.Sub(size)
			if held[c.Buffer] {
				gone.Sub(size)
			}
		}
		peak = max(peak, level.Value()-gone.Value())
	}
	best := slices.MaxFunc(slices.Sorted(maps.Keys(bySite)), func(x, y lifetime.SiteID) int { return cmp.Compare(bySite[x], bySite[y]) })
	place := r.t.PlaceOf(best)
	place.Unseen = false
	r.save("del", "delete the result of the last pass before the next one (del, or detach() what it needs): "+place.String()+
		" holds it until then", peak, n, best)
	return true
}

// isLine reports whether a place is a line of the program.
func isLine(p lifetime.Place) bool { return p.Frame.File != "" && p.Frame.Kind == frame.User }

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
	text := "step the optimizer with fused=True or foreach=False, which needs no temporaries of all parameters at once"
	r.add("foreach", text, func(i int) (int64, bool) {
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
	r.save(action, text, left, n, 0)
}

// save adds a change if it saves enough: the peak that it leaves, the buffers that it is about, and their site; 0 = it is not one site.
func (r *savings) save(action, text string, left, buffers int64, site lifetime.SiteID) {
	saved := r.peak.Bytes - left
	if float64(saved) < leastSaved*float64(r.peak.Bytes) {
		return
	}
	text += " (" + units.Plural(buffers, "buffer") + ")"
	one := Saving{Action: action, SavesBytes: saved, PeakBytes: left, Buffers: buffers, Text: text}
	if site != 0 {
		of := siteOf(r.t, &r.s.SpaceInfo, site)
		one.Site = &of
	}
	r.all = append(r.all, one)
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

// chunk adds the line of the program whose temporaries and activations of one size hold most, if it is large: their operation may be
// computed in chunks, like the loss of long sequences. Of a loss it is all of its chain: logits, their copy in 32 bits, the logarithm of
// the softmax, and the gradients of these.
func (r *savings) chunk(stacks *program.Stacks) {
	type key struct {
		site lifetime.SiteID
		size int64
	}
	isOne := func(i int) bool {
		of := r.t.Purpose(r.s.PurposeOf(i))
		return of.Phase != purpose.OptimizerPhase && (of.Category == purpose.Activation || of.Category == purpose.TemporaryData)
	}
	held, losses := map[key]int64{}, map[int64]lifetime.SiteID{} // by size
	for _, i := range r.live {
		b := &r.s.Buffers[i]
		if !isOne(i) || b.Size < int64(largePart*float64(r.peak.Bytes)) {
			continue
		}
		loss, known := losses[b.Size]
		if !known {
			loss = r.lossOf(stacks, b.Size)
			losses[b.Size] = loss
		}
		if site := cmp.Or(loss, b.Site); isLine(r.t.PlaceOf(site)) {
			held[key{site, b.Size}] += b.Size
		}
	}
	var best key
	for k, bytes := range held {
		if cmp.Or(cmp.Compare(bytes, held[best]), cmp.Compare(best.site, k.site), cmp.Compare(k.size, best.size)) > 0 {
			best = k
		}
	}
	if held[best] == 0 {
		return
	}
	what := r.t.PlaceOf(best.site).String() + " allocates"
	isPart := func(i int) bool { return r.s.Buffers[i].Site == best.site && r.s.Buffers[i].Size == best.size }
	if losses[best.size] != 0 {
		what = "the loss in " + what + ": logits, their copies, the logarithm of their softmax, gradients"
		isPart = func(i int) bool {
			size := r.s.Buffers[i].Size
			return isOne(i) && (size == best.size || size == 2*best.size || 2*size == best.size)
		}
	}
	n := int64(0)
	for _, i := range r.live {
		if isPart(i) {
			n++
		}
	}
	left := oom.PeakWith(r.s, func(i int) int64 {
		if isPart(i) {
			return r.s.Buffers[i].Size / chunks
		}
		return r.s.Buffers[i].Size
	})
	r.save("chunk", "compute in "+units.Count(chunks)+" chunks what "+what, left, n, best.site)
}

// lossOf returns the site that allocated the logarithm of a softmax in the last loss up to the peak, if buffers of a size are of its
// chain: of its own size, or of half of it; 0 if they are not.
func (r *savings) lossOf(stacks *program.Stacks, size int64) (site lifetime.SiteID) {
	for i := range r.s.Buffers {
		b := &r.s.Buffers[i]
		if b.Begin > r.peak.At {
			break
		}
		if (b.Size == size || b.Size == 2*size) && stacks.Of(r.t.Sites[b.Site].Stack).All&program.Losses != 0 {
			site = b.Site
		}
	}
	return site
}
