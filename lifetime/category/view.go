package category

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// view is one buffer and what is known about it.
type view struct {
	*analysis
	i     int
	b     *lifetime.Buffer
	f     *facts // of the allocation
	freed *facts // of the free; nil = not recorded
	phase purpose.Phase
	sure  bool
	next  int // first span after the allocation

	unseen, open, byGraph bool
	outlives              bool // it was alive when another phase began
	long                  bool // it was alive in several steps, or from the set-up to the end

	asked       bool // interrupted is known
	interrupted *failure
}

// flags of buffers
const (
	heldByGraph = 1 << iota // the autograd graph was the last to hold it
	outlives                // it was alive when another phase began
	isLong                  // it was alive in several steps, or from the set-up to the end
)

// survey finds what rules ask of every buffer, after the phases.
func (a *analysis) survey() {
	a.count()
	a.failed = a.failures()
	a.next, a.flags = make([]int32, len(a.s.Buffers)), make([]uint8, len(a.s.Buffers))
	if !a.isTorch {
		return // no general rule asks
	}
	next := 0
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		for next < len(a.spans) && a.spans[next].begin <= b.Begin {
			next++
		}
		a.next[i] = int32(next)
		if a.byGraph(i) {
			a.flags[i] |= heldByGraph
		}
		if next < len(a.spans) && (a.spans[next].begin < b.End || b.Edge&lifetime.EndOpen != 0) {
			a.flags[i] |= outlives
		}
		if a.isLong(b, next) {
			a.flags[i] |= isLong
		}
		f := a.at(b)
		lives := a.flags[i] != 0 || a.out[i].Phase == purpose.OtherPhase || !a.sure[i]
		if b.Edge&lifetime.BeginUnseen != 0 || (f.python || !a.hasLines()) && f.within == program.NoPart && (lives || f.engine || !f.rooted) {
			a.candidates = append(a.candidates, i)
		}
	}
	a.successors()
}

// isLong reports whether a buffer was alive in several steps. next is the span after its allocation.
func (a *analysis) isLong(b *lifetime.Buffer, next int) bool {
	open := b.Edge&lifetime.EndOpen != 0
	switch {
	case b.Edge&lifetime.BeginUnseen != 0:
		return open && (!a.trains || a.whole < a.s.End)
	case !a.trains:
		return a.crosses(next, b.End, purpose.Forward) >= longLived
	}
	n := a.crosses(next, b.End, purpose.Backward)
	// Several backward passes may follow one forward pass.
	passes := min(longLived-1, int(a.before[purpose.Forward][len(a.spans)]))
	return n >= longLived && a.crosses(next, b.End, purpose.Forward) >= passes || open && n > 0 && next == 0 && a.whole < a.s.End
}

// look returns the view of a buffer. It is good until the next call.
func (a *analysis) look(i int) *view {
	v := &a.scratch
	v.analysis = a
	v.set(i)
	return v
}

func (a *analysis) view(i int) view {
	v := view{analysis: a}
	v.set(i)
	return v
}

// set makes v the view of a buffer.
func (v *view) set(i int) {
	a, b, flags := v.analysis, &v.s.Buffers[i], v.flags[i]
	v.i, v.b, v.f, v.freed, v.phase, v.sure, v.next = i, b, a.at(b), a.freed(i), a.out[i].Phase, a.sure[i], int(a.next[i])
	v.unseen, v.open = b.Edge&lifetime.BeginUnseen != 0, b.Edge&lifetime.EndOpen != 0
	v.asked, v.byGraph, v.outlives, v.long = false, flags&heldByGraph != 0, flags&outlives != 0, flags&isLong != 0
}

// follow counts the spans of a phase that begin after the allocation and before the free.
func (v *view) follow(phase purpose.Phase) int { return v.crosses(v.next, v.b.End, phase) }
