package category

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// parts finds the parts of phases, after the categories.
func (a *analysis) parts() {
	evaluates := a.evaluations()
	for i := range a.s.Buffers {
		b, next := &a.s.Buffers[i], a.next[i]
		switch phase := a.out[i].Phase; { // most buffers have no part
		case b.Edge&lifetime.BeginUnseen != 0,
			phase == purpose.Forward && (next == 0 || !evaluates[next-1]) && !a.isAutocastCopy(i), phase == purpose.Backward && !a.at(b).python:
			continue
		}
		a.out[i].Part = a.look(i).part(evaluates)
	}
}

// part returns the part of a phase that allocated the buffer. evaluates has the spans that are evaluations.
func (v *view) part(evaluates []bool) purpose.Part {
	p := &v.out[v.i]
	switch {
	case v.inRecomputation() && (v.f.within == program.InModule || v.f.flags&program.Recomputes != 0): // and not a hook
		return purpose.Recomputation
	case p.Phase == purpose.OptimizerPhase && v.f.flags&program.ClearsGrads != 0:
		return purpose.ZeroGrad
	case p.Phase == purpose.OptimizerPhase && v.f.flags&program.Clips != 0:
		return purpose.Clipping
	case p.Phase == purpose.Forward && v.next > 0 && evaluates[v.next-1] && v.b.Begin <= v.spans[v.next-1].end:
		return purpose.Evaluation
	case v.isAutocastCopy(v.i):
		return purpose.AutocastCopy
	case p.Phase != purpose.OtherPhase:
		return purpose.UnknownPart
	case p.Category == purpose.Input || v.f.flags&program.LoadsData != 0:
		return purpose.DataLoading
	case v.sizes.is(v.i, weightCopy):
		return purpose.Checkpoint
	case v.f.within == program.InSetup, v.firstSpanAfter(v.b.Begin) && v.long:
		return purpose.Setup
	}
	return purpose.UnknownPart
}

// evaluations returns, by span, whether it is a forward pass of a program that trains, for which the graph keeps
// nothing and which no backward pass follows: a leak may hold the graphs of passes. The last
// passes of a recording are left out: their graphs may be alive.
func (a *analysis) evaluations() []bool {
	is := make([]bool, len(a.spans))
	last := 0 // after the last backward pass
	for i, s := range a.spans {
		if s.phase == purpose.Backward {
			last = i
		}
	}
	for i := range is {
		is[i] = i < last && a.spans[i].phase == purpose.Forward && a.spans[i+1].phase != purpose.Backward
	}
	for i := range a.s.Buffers {
		if n := a.next[i]; n > 0 && a.flags[i]&heldByGraph != 0 && a.s.Buffers[i].Edge&lifetime.BeginUnseen == 0 {
			is[n-1] = false
		}
	}
	return is
}
