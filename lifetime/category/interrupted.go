package category

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// failures returns the instants at which memory ran out, and the span of each: -1 if it was before all.
func (a *analysis) failures() (all []failure) {
	for _, m := range a.s.Marks {
		if m.Kind == lifetime.OOM {
			last, _ := a.around(m.Begin)
			all = append(all, failure{t: m.Begin, span: last})
		}
	}
	return all
}

// soFar are the rules for what was alive when memory ran out. Others of its place may well have been freed before: what is left
// is the rest.
var soFar = map[string]bool{"gradient_so_far": true, "used_so_far": true, "recomputed_so_far": true, "kept_so_far": true, "alive_at_failure": true}

// failure is an instant at which memory ran out, in the middle of a span.
type failure struct {
	t    int64
	span int

	counted, keeps bool // see keepsUntil
}

// interruptedPass returns the failure during the forward pass that allocated the buffer, or during its backward pass; nil if
// there is none. When and by whom the buffer was freed then does not tell what it was for: the exception frees it, or nobody.
func (v *view) interruptedPass() *failure {
	for i := range v.failed {
		f := &v.failed[i]
		if f.span < 0 || !v.aliveAt(f.t) || v.spans[f.span].phase != lifetime.Forward && v.spans[f.span].phase != lifetime.Backward {
			continue
		}
		whole := func(s span) bool { // the graph of the pass is gone after it
			return s.phase == lifetime.OptimizerPhase || s.phase == lifetime.Backward && !s.returns
		}
		if !slices.ContainsFunc(v.spans[min(v.next, f.span):f.span], whole) {
			return f
		}
	}
	return nil
}

// keepsUntil reports whether a forward pass kept, until memory ran out, a quarter of the buffers that its modules allocated: so
// does a graph.
func (a *analysis) keepsUntil(f *failure) bool {
	if !f.counted {
		f.counted = true
		first := f.span
		for first > 0 && a.spans[first-1].phase == lifetime.Forward {
			first--
		}
		kept, all := 0, 0
		for i := range a.s.Buffers {
			b := &a.s.Buffers[i]
			if b.Edge&lifetime.BeginUnseen == 0 && a.spans[first].begin <= b.Begin && b.Begin <= f.t && a.at(b).within == inModule {
				all++
				if b.Edge&lifetime.EndOpen != 0 || b.End > f.t {
					kept++
				}
			}
		}
		f.keeps = keepsEnough(kept, all)
	}
	return f.keeps
}

// keepsEnough reports whether so many kept buffers of a forward pass are those of a graph.
func keepsEnough(kept, all int) bool { return kept > 10 && kept*4 >= all }

// inFailedSpan reports whether memory ran out after t in the span of t. What was freed until then does not tell about the rest.
func (a *analysis) inFailedSpan(t int64) bool {
	return slices.ContainsFunc(a.failed, func(f failure) bool { return f.span >= 0 && a.spans[f.span].begin <= t && t <= f.t })
}

// interruptedSpan reports whether memory ran out in the span that allocated the buffer, before the next one began.
func (v *view) interruptedSpan() bool {
	for _, f := range v.failed {
		if f.span == v.next-1 && v.aliveAt(f.t) {
			return true
		}
	}
	return false
}

func (v *view) aliveAt(t int64) bool { return !v.unseen && v.b.Begin <= t && (v.open || v.b.End > t) }

// parameterSized reports whether a parameter has the size of the buffer.
func (v *view) parameterSized() bool {
	return v.sizes != nil && (v.sizes.parametersOf[v.b.Requested] > 0 || v.sizes.gradientsOf[v.b.Requested] > 0)
}

// wholeBackward reports whether a backward pass was recorded to its end.
func (a *analysis) wholeBackward() bool {
	last := len(a.spans) - 1
	for i, s := range a.spans {
		if s.phase == lifetime.Backward && !a.isInterrupted(i) && (i < last || len(a.failed) == 0) {
			return true
		}
	}
	return false
}

// compared is how many earlier spans an interrupted one is compared with.
const compared = 8

// resume gives buffers of passes in which memory ran out the purposes of those that an earlier pass allocated at the same
// place of its order.
func (a *analysis) resume() {
	done := map[int]bool{}
	for _, f := range a.failed {
		for span := f.span; span >= 0 && !done[span]; span-- {
			done[span] = true
			a.resumeSpan(span, f.t)
			if a.spans[span].phase == lifetime.Forward && (span == 0 || a.spans[span-1].phase != lifetime.Forward) {
				break
			}
		}
	}
}

// resumeSpan compares a span with the earlier one of its phase that begins with most of the same allocations, and changes what
// was alive at an instant.
func (a *analysis) resumeSpan(span int, at int64) {
	var best []int
	mine := a.allocatedIn(span)
	for other, n := span-1, 0; other >= 0 && n < compared; other-- {
		if a.spans[other].phase != a.spans[span].phase || a.isInterrupted(other) {
			continue
		}
		n++
		theirs := a.allocatedIn(other)
		same := 0
		for same < min(len(mine), len(theirs)) && a.isLike(mine[same], theirs[same]) {
			same++
		}
		if same > len(best) {
			best = theirs[:same]
		}
	}
	for k, like := range best {
		p, from := &a.out[mine[k]], &a.out[like]
		v := a.view(mine[k])
		if v.aliveAt(at) && from.Category != lifetime.UnknownCategory && from.Confidence >= weakest {
			p.Category, p.Evidence, p.Confidence, p.Rule = from.Category, lifetime.FromLifetime, 0.9*from.Confidence, repeats
		}
	}
}

// isLike reports whether two allocations are those of one place in two passes.
func (a *analysis) isLike(i, j int) bool {
	x, y := &a.s.Buffers[i], &a.s.Buffers[j]
	return x.Site == y.Site && x.Requested == y.Requested
}

func (a *analysis) isInterrupted(span int) bool {
	return slices.ContainsFunc(a.failed, func(f failure) bool { return f.span == span })
}

// allocatedIn returns the buffers that were allocated from the begin of a span to the next one.
func (a *analysis) allocatedIn(span int) (all []int) {
	from, _ := slices.BinarySearchFunc(a.s.Buffers, a.spans[span].begin, func(b lifetime.Buffer, t int64) int { return cmp.Compare(b.Begin, t) })
	for i := from; i < len(a.s.Buffers) && (span+1 == len(a.spans) || a.s.Buffers[i].Begin < a.spans[span+1].begin); i++ {
		if a.s.Buffers[i].Edge&lifetime.BeginUnseen == 0 {
			all = append(all, i)
		}
	}
	return all
}
