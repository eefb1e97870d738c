package lifetime

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
)

// Timeline is what a program did while a memory ID was recorded, as its allocations tell.
type Timeline struct {
	Spans []PhaseSpan // in order of time, each one up to the next; none if no phase is known
	Steps []StepSpan  // in order of time; none if they are not known
}

// PhaseSpan is a run of allocations of one phase.
type PhaseSpan struct {
	Begin, End int64 // first allocation; that of the next span, or the end of the window
	Phase      Phase
	Part       Part  // the only one of its allocations, or of those that have one; Recomputation is none
	Step       int   // index of the step in which it begins; -1 = none
	Peak       Level // highest level of occupied bytes in it
	Left       int64 // bytes that it allocated and that were alive at its end
}

// StepSpan is one iteration of the program's loop.
type StepSpan struct {
	Begin, End int64
	Name       string // of the mark; "" = inferred: from the end of an optimizer's step to that of the next
}

// TimelineOf returns the phases and steps of a space by the purposes of its buffers. It costs as much as Peak.
func (t *Tables) TimelineOf(s *Space) Timeline {
	if s.Purposes == nil || s.Axis == ProgramOrder {
		return Timeline{}
	}
	line := Timeline{Spans: t.phaseSpans(s)}
	line.Steps = stepsOf(s, line.Spans)
	for i, k := 0, -1; i < len(line.Spans); i++ {
		at := line.Spans[i].Begin
		for k+1 < len(line.Steps) && line.Steps[k+1].Begin <= at {
			k++
		}
		line.Spans[i].Step = -1
		if k >= 0 && at < line.Steps[k].End {
			line.Spans[i].Step = k
		}
	}
	s.measure(line.Spans)
	return line
}

// At returns the index of the span that contains an instant; -1 = none.
func (l *Timeline) At(t int64) int {
	i, _ := slices.BinarySearchFunc(l.Spans, t, func(p PhaseSpan, t int64) int {
		if p.Begin <= t {
			return -1
		}
		return 1
	})
	if i == 0 || t >= l.Spans[i-1].End {
		return -1
	}
	return i - 1
}

// phaseSpans returns the runs of phases.
func (t *Tables) phaseSpans(s *Space) (spans []PhaseSpan) {
	for i := range s.Buffers {
		b := &s.Buffers[i]
		p := t.Purpose(s.PurposeOf(i))
		if b.Edge&BeginUnseen != 0 || p.Phase == UnknownPhase {
			continue
		}
		part := p.Part
		if part == Recomputation { // it takes turns with the backward pass
			part = UnknownPart
		}
		if n := len(spans); n > 0 {
			last := &spans[n-1]
			if last.Phase == p.Phase && (part == last.Part || part == UnknownPart || last.Part == UnknownPart) {
				last.Part = cmp.Or(last.Part, part)
				continue
			}
			if last.Begin == b.Begin { // the clock does not tell the order
				continue
			}
			last.End = b.Begin
		}
		spans = append(spans, PhaseSpan{Begin: b.Begin, End: s.End, Phase: p.Phase, Part: part, Step: -1})
	}
	return spans
}

// stepsOf returns the steps that the program marks or, if it marks none, those that end with steps of an optimizer.
func stepsOf(s *Space, spans []PhaseSpan) (steps []StepSpan) {
	for i := range s.Marks {
		if m := &s.Marks[i]; m.Kind == Step && (len(steps) == 0 || m.Begin >= steps[len(steps)-1].End) {
			steps = append(steps, StepSpan{m.Begin, m.End, m.Text})
		}
	}
	if len(steps) > 0 || len(spans) == 0 {
		return steps
	}
	begin, backward := spans[0].Begin, false
	for i, p := range spans {
		backward = backward || p.Phase == Backward
		last := i+1 == len(spans) || spans[i+1].Phase != OptimizerPhase && spans[i+1].Phase != Backward
		if p.Phase == OptimizerPhase && backward && last {
			steps = append(steps, StepSpan{Begin: begin, End: p.End})
			begin, backward = p.End, false
		}
	}
	return steps
}

// measure finds the peak of each span, and what it leaves.
func (s *Space) measure(spans []PhaseSpan) {
	k, level := 0, int64(0)
	for l := range s.Levels(Occupied) {
		for k < len(spans) && l.At >= spans[k].End {
			k++
			if k < len(spans) {
				spans[k].Peak = Level{spans[k].Begin, level}
			}
		}
		if level = l.Bytes; k < len(spans) && l.At >= spans[k].Begin && level > spans[k].Peak.Bytes {
			spans[k].Peak = l
		}
	}
	k = 0
	for i := range s.Buffers {
		b := &s.Buffers[i]
		for k < len(spans) && b.Begin >= spans[k].End {
			k++
		}
		if k < len(spans) && b.Edge&BeginUnseen == 0 && b.Begin >= spans[k].Begin && (b.End > spans[k].End || b.Edge&EndOpen != 0) {
			spans[k].Left = units.AddSat(spans[k].Left, b.Size)
		}
	}
}
