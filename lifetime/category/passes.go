package category

import (
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// phases finds the phase of each allocation in the window: from its stack, then from those before and after it.
func (a *analysis) phases() {
	a.optimizerSteps(a.marks(isOptimizerMark))
	if !a.hasLines() {
		a.closures()
	}
	a.sure, a.lasts = make([]bool, len(a.s.Buffers)), make([]bool, len(a.s.Buffers))
	calls, lines := rootCalls{last: -1}, a.hasLines()
	between := false              // the program allocated outside of all passes since the last span
	thread := program.ThreadID(0) // what runs the passes
	a.aside = a.fleeting()
	returned, recorded := a.returned(), a.steps // recorded: what the optimizer does, also if it allocates nothing
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen != 0 {
			if b.Edge&lifetime.SiteFromFree == 0 {
				a.out[i].Phase = a.r.place(b.Site).phase
			}
			a.sure[i] = a.out[i].Phase != purpose.UnknownPhase
			a.isTorch = a.isTorch || a.sure[i] || a.r.named(a.at(b).path) != purpose.UnknownCategory
			continue
		}
		f, phase := a.at(b), a.phaseOf(b)
		calls.ended = calls.ended || returned[i] != 0 && !returned[i].IsOther(thread)
		for ; len(recorded) > 0 && recorded[0].Begin <= b.Begin; recorded = recorded[1:] {
			calls.ended = true
		}
		told := a.r.place(b.Site).phase != purpose.UnknownPhase // by the stack, not by a mark
		a.isTorch = a.isTorch || told
		if a.aside[i] = a.aside[i] || !told && f.thread.IsOther(thread); a.aside[i] {
			a.out[i].Phase, a.sure[i] = phase, phase != purpose.UnknownPhase
			if told && phase == purpose.OptimizerPhase && a.last() == purpose.Backward && f.rooted && !a.r.isUsers(f.path) {
				a.add(phase, b.Begin, false) // the backward pass is over
			}
			continue
		}
		if told && f.rooted {
			thread = f.thread
		}
		if phase == purpose.UnknownPhase {
			calls.ended = calls.ended || f.python
			between = between || f.rooted || !lines
			if !lines || calls.last < 0 || !f.python || f.path != calls.root || a.last() != purpose.Forward {
				continue
			}
			phase, between = purpose.Forward, false // works on the result of the call
		}
		a.isTorch = true
		a.out[i].Phase, a.sure[i] = phase, true
		begins := phase == purpose.Forward && calls.add(i, f, a.lasts) || phase == purpose.Backward && between
		if phase == purpose.OtherPhase || phase == purpose.OptimizerPhase && a.last() == purpose.Backward && a.r.inEngine(f) {
			continue // an optimizer that steps within the backward pass does not end it
		}
		a.add(phase, b.Begin, begins)
		if phase == purpose.Backward && f.flags&program.ReturnsGrads != 0 {
			a.spans[len(a.spans)-1].returns = true
		}
		between = false
	}
	calls.end(a.lasts)
	a.passesWithoutModules()
	a.addSteps()
	a.edges(thread)
	hasPasses := slices.ContainsFunc(a.spans, func(s span) bool { return s.phase != purpose.OptimizerPhase })
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if !a.isTorch || b.Edge&lifetime.BeginUnseen != 0 || a.out[i].Phase != purpose.UnknownPhase || !hasPasses && !a.at(b).python ||
			lines && !a.at(b).python && b.Begin < a.begun { // perhaps a backward pass
			continue
		}
		a.out[i].Phase, a.sure[i] = a.between(b)
		last, _ := a.around(b.Begin)
		if a.out[i].Phase == purpose.OtherPhase && last >= 0 && a.spans[last].phase == purpose.Forward && a.byGraph(i) {
			a.out[i].Phase, a.sure[i] = purpose.Forward, true
		}
	}
}

// closures takes the closures out of steps of optimizers that call them, if stacks do not tell their forward passes:
// what is after the last backward pass in a step is of the optimizer.
func (a *analysis) closures() {
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if b.Edge&(lifetime.BeginUnseen|lifetime.SiteFromFree) != 0 || a.r.place(b.Site).phase != purpose.Backward {
			continue
		}
		if n, ok := a.stepAt(b.Begin); ok {
			a.steps[n].Begin = b.Begin + 1
		}
	}
}

// fleeting returns, by buffer, whether nothing else began or ended while it was alive, but for others like it. That
// something used memory and gave it back tells of itself only.
func (a *analysis) fleeting() []bool {
	all, open := make([]bool, len(a.s.Buffers)), []int(nil) // open: what began since the last end of another
	for c := range a.s.Changes() {
		switch n := len(open); {
		case c.Begin:
			open = append(open, c.Buffer)
		case n > 0 && open[n-1] == c.Buffer:
			all[c.Buffer], open = true, open[:n-1]
		default:
			open = open[:0]
		}
	}
	return all
}

// returned returns, by buffer, what runs in the thread that freed something outside of all calls since the allocation
// before; 0 if none did. What a line assigns the result of a call to is freed when the call has ended.
func (a *analysis) returned() []program.ThreadID {
	all, by := make([]program.ThreadID, len(a.s.Buffers)), program.ThreadID(0)
	if a.s.FreeSites == nil || !a.hasLines() {
		return all
	}
	for c := range a.s.Changes() {
		if a.aside[c.Buffer] {
			continue
		}
		if c.Begin {
			all[c.Buffer], by = by, 0
		} else if f := a.freed(c.Buffer); f != nil && f.python && f.rooted && f.within == program.NoPart {
			by = f.thread
		}
	}
	return all
}

// rootCalls finds the calls of root modules: runs of allocations below one call. What the program allocates outside of modules ends a call.
type rootCalls struct {
	root  program.PathID
	last  int  // buffer of the current call; -1 = none
	ended bool // the program allocated outside since then
}

// add takes the next allocation of a forward pass, and reports whether a call begins with it. lasts gets the last allocation of the call before.
func (r *rootCalls) add(i int, f *facts, lasts []bool) bool {
	if f.within != program.InModule {
		return false
	}
	begins := r.last < 0 || r.ended || f.rootCall != r.root
	if begins {
		r.end(lasts)
	}
	r.root, r.last, r.ended = f.rootCall, i, false
	return begins
}

// hasLines reports whether stacks have the lines of calls. Those of traces have functions.
func (a *analysis) hasLines() bool {
	return a.s.Source < len(a.t.Sources) && a.t.Sources[a.s.Source].Traits.Stacks
}

func (r *rootCalls) end(lasts []bool) {
	if r.last >= 0 {
		lasts[r.last] = true
	}
}

// passesWithoutModules finds the forward passes of a program that has no modules: from the first allocation that the graph keeps to the backward pass.
func (a *analysis) passesWithoutModules() {
	if !a.trains || slices.ContainsFunc(a.spans, func(s span) bool { return s.phase == purpose.Forward }) {
		return
	}
	old := a.spans
	var all []span
	last := int64(math.MinInt64) // end of the span before
	for _, s := range old {
		if s.phase == purpose.Backward {
			if begin, end, ok := a.keptBetween(last, s); ok {
				all = append(all, span{phase: purpose.Forward, begin: begin, end: end})
			}
		}
		all = append(all, s)
		last = s.end
	}
	a.spans = all
}

// keptBetween returns the first allocation after an instant that a backward pass frees without Python, and the last
// allocation before the pass. Allocations of its callers just before it belong to the pass.
func (a *analysis) keptBetween(after int64, backward span) (begin, end int64, ok bool) {
	var callers []lifetime.Buffer
	from := a.allocatedBefore(after + 1)
	for i := from; i < len(a.s.Buffers) && a.s.Buffers[i].Begin < backward.begin; i++ {
		b := &a.s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen != 0 || a.aside[i] {
			continue
		}
		switch kept := !ok && b.End >= backward.begin && a.byGraph(i); {
		case kept:
			begin, ok = b.Begin, true
			for _, c := range slices.Backward(callers) {
				if !a.r.Reaches(a.at(&c).path, a.at(b).path) {
					break
				}
				begin = c.Begin
			}
		case !ok:
			callers = append(callers, *b)
		}
		end = b.Begin
	}
	return begin, end, ok
}

// edges finds what the recording has of the passes at its ends. The first pass is over when the thread that runs passes does something else; so is the
// last one. What is alive where a recording ends in the middle of a span may be anything that the rest of it would use.
func (a *analysis) edges(thread program.ThreadID) {
	a.whole, a.begun = math.MaxInt64, math.MaxInt64
	if a.over = len(a.spans) == 0; a.over {
		return
	}
	if i := slices.IndexFunc(a.spans, func(s span) bool { return s.phase != purpose.Backward }); i >= 0 {
		a.begun = a.spans[i].begin
	}
	last := a.spans[len(a.spans)-1]
	n, inStep := a.stepAt(last.end)
	a.over = inStep && a.steps[n].End < a.s.End
	does := func(t int64, p *place) {
		if f := p.stack; f.python && f.rooted && !f.thread.IsOther(thread) {
			ofStep := inStep && t >= last.begin && p.phase == purpose.OptimizerPhase // PyTorch recorded its end
			a.over = a.over || ofStep || t > last.end && p.phase != last.phase
			if p.phase != purpose.Backward {
				a.begun = min(a.begun, t)
			}
		}
	}
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if a.aside[i] {
			continue
		}
		if b.Edge&lifetime.BeginUnseen == 0 {
			does(b.Begin, a.r.place(b.Site))
		}
		if a.freed(i) != nil {
			does(b.End, a.r.place(a.freeSite(i)))
		}
	}
	first := 1 + slices.IndexFunc(a.spans[1:], func(s span) bool { return s.phase == purpose.Backward })
	if first > 0 && first+1 < len(a.spans) {
		a.whole = a.spans[first+1].begin
	} else if first > 0 && a.over {
		a.whole = last.end
	}
}

// byGraph reports whether the autograd graph was the last to hold a buffer: the engine freed it without any Python. If
// frees have no stacks, the time tells.
func (a *analysis) byGraph(i int) bool {
	b := &a.s.Buffers[i]
	if b.Edge&(lifetime.EndOpen|lifetime.EndInferred) != 0 {
		return false
	}
	if f := a.freed(i); f != nil {
		return f.engine && !f.python || f.within == program.InBackwardCall
	}
	last, _ := a.around(b.End)
	return last >= 0 && a.spans[last].phase == purpose.Backward && b.End <= a.spans[last].end
}
