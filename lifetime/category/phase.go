package category

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// span is a run of allocations of one phase: the call of a root module, a backward pass, a step of the optimizer.
type span struct {
	phase      purpose.Phase
	begin, end int64 // first and last allocation
	returns    bool  // a backward pass of torch.autograd.grad, which gives the gradients to its caller
}

type timeline struct {
	spans  []span
	steps  []lifetime.Mark // calls of Optimizer.step, by Begin
	names  []string        // classes of optimizers
	trains bool            // a backward pass allocated
	over   bool            // the last span was seen to end
	begun  int64           // until then, the recording may be in a backward pass that began before it
	whole  int64           // when the first backward pass of which the recording has all ended; the highest number if there is none

	before [purpose.OtherPhase + 1][]int32 // spans of each phase before a span
}

// isOptimizerMark reports whether PyTorch records a call of an optimizer.
func isOptimizerMark(m *lifetime.Mark) bool {
	return m.Kind != lifetime.OOM && (strings.HasPrefix(m.Text, program.OptimizerStep) || strings.HasPrefix(m.Text, program.ClearsGradients))
}

func (l *timeline) optimizerSteps(marks []lifetime.Mark) {
	for _, m := range marks {
		if !isOptimizerMark(&m) {
			continue
		}
		name, ok := strings.CutPrefix(m.Text, program.OptimizerStep)
		if n := len(l.steps); n == 0 || m.Begin >= l.steps[n-1].End { // not that of a closure
			l.steps = append(l.steps, m)
		}
		if name = strings.TrimSuffix(name, ".step"); ok && !slices.Contains(l.names, name) {
			l.names = append(l.names, name)
		}
	}
}

func (l *timeline) stepAt(t int64) (step int, ok bool) {
	i, _ := slices.BinarySearchFunc(l.steps, t+1, func(m lifetime.Mark, t int64) int { return cmp.Compare(m.Begin, t) })
	return i - 1, i > 0 && t < l.steps[i-1].End
}

// add adds an allocation whose phase is known. begins reports whether another call begins with it.
func (l *timeline) add(phase purpose.Phase, t int64, begins bool) {
	if n := len(l.spans); n > 0 && l.spans[n-1].phase == phase && !begins {
		l.spans[n-1].end = t
		return
	}
	l.spans = append(l.spans, span{phase: phase, begin: t, end: t})
	l.trains = l.trains || phase == purpose.Backward
}

// addSteps adds the steps of optimizers that allocate nothing, as marks record them. A step within a backward pass, by a hook, is a part of the pass.
func (l *timeline) addSteps() {
	var all []span
	next := 0
	for _, m := range l.steps {
		for ; next < len(l.spans) && l.spans[next].begin <= m.Begin; next++ {
			all = append(all, l.spans[next])
		}
		isStep := strings.HasPrefix(m.Text, program.OptimizerStep)
		if n := len(all); isStep && n > 0 && all[n-1].phase == purpose.Backward && all[n-1].end < m.Begin &&
			(next == len(l.spans) || l.spans[next].phase != purpose.Backward && l.spans[next].begin >= m.End) {
			all = append(all, span{phase: purpose.OptimizerPhase, begin: m.Begin, end: max(m.Begin, m.End-1)})
		}
	}
	l.spans = append(all, l.spans[next:]...)
}

func (l *timeline) last() purpose.Phase {
	if len(l.spans) == 0 {
		return purpose.UnknownPhase
	}
	return l.spans[len(l.spans)-1].phase
}

// around returns the last span that begins at or before t, and the next one; -1 and len(spans) if there is none.
func (l *timeline) around(t int64) (last, next int) {
	i, _ := slices.BinarySearchFunc(l.spans, t+1, func(s span, t int64) int { return cmp.Compare(s.begin, t) })
	return i - 1, i
}

// crosses counts the spans of a phase from span number i on that begin before an instant.
func (l *timeline) crosses(i int, end int64, phase purpose.Phase) int {
	if i >= len(l.spans) || l.spans[i].begin >= end {
		return 0
	}
	n, _ := slices.BinarySearchFunc(l.spans[i:], end, func(s span, t int64) int { return cmp.Compare(s.begin, t) })
	return int(l.before[phase][i+n] - l.before[phase][i])
}

// count counts the spans of each phase, when all are known.
func (l *timeline) count() {
	for phase := range l.before {
		l.before[phase] = make([]int32, len(l.spans)+1)
		for i, s := range l.spans {
			l.before[phase][i+1] = l.before[phase][i]
			if s.phase == purpose.Phase(phase) {
				l.before[phase][i+1]++
			}
		}
	}
}

// longLived is the number of passes after which a buffer is no longer data of a step.
const longLived = 3

// between returns the phase of an allocation whose stack has no part of PyTorch that tells it, from the phases before
// and after it, and whether the order of the passes leaves no other.
func (l *timeline) between(b *lifetime.Buffer) (phase purpose.Phase, sure bool) {
	last, next := l.around(b.Begin)
	before, after := purpose.OtherPhase, purpose.OtherPhase
	if last >= 0 {
		before = l.spans[last].phase
		if before != purpose.Backward && b.Begin <= l.spans[last].end { // inside a span
			return before, true
		}
	}
	if next < len(l.spans) {
		after = l.spans[next].phase
	}
	switch {
	case before == purpose.Forward && after == purpose.Backward: // the loss
		return purpose.Forward, true
	case before == purpose.Forward && after != purpose.OptimizerPhase && (next == len(l.spans) || b.End <= l.spans[next].begin):
		return purpose.Forward, false // works on a result
	case after == purpose.OptimizerPhase && before != purpose.Forward: // clips, casts or reduces gradients
		return purpose.OptimizerPhase, false
	case before == purpose.OptimizerPhase && after == purpose.Backward: // a program without modules
		return purpose.Forward, true
	}
	return purpose.OtherPhase, true
}

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

// evaluations returns, by span, whether it is a forward pass of a program that trains, for which the graph keeps nothing and which no backward pass
// follows: a leak may hold the graphs of passes. The last passes of a recording are left out: their graphs may be alive.
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
