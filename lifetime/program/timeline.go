package program

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Timeline is what a program did while a memory ID was recorded, as its allocations tell.
type Timeline struct {
	Spans []PhaseSpan // in order of time, each one up to the next; none if no phase is known
	Steps *Steps
}

// PhaseSpan is a run of allocations of one phase.
type PhaseSpan struct {
	Begin, End int64 // first allocation; that of the next span, or the end of the window
	Phase      purpose.Phase
	Part       purpose.Part   // the only one of its allocations, or of those that have one; Recomputation is none
	How        purpose.How    // of what its allocations tell
	Step       int            // index of the step in which it begins; -1 = none
	Peak       lifetime.Level // highest level of occupied bytes in it
	Left       int64          // bytes that it allocated and that were alive at its end
}

// Timeline returns the phases and steps of a space by the purposes of its buffers. It costs as much as Peak. The space may
// be on another axis than in the capture.
func (p *Program) Timeline(s *lifetime.Space) Timeline {
	if !slices.Contains(p.Spaces, s) {
		p = p.Part(s)
	}
	line := Timeline{Spans: PhasesOf(&p.Tables, s), Steps: p.Steps(s)}
	for i := range line.Spans {
		span := &line.Spans[i]
		if k := line.Steps.At(span.Begin); k >= 0 && span.Begin < line.Steps.Ends[k] {
			span.Step = k
		}
	}
	return line
}

// PhasesOf returns the phases of a space, of no step.
func PhasesOf(t *lifetime.Tables, s *lifetime.Space) []PhaseSpan {
	spans := phaseSpans(t, s, Evidence{})
	measure(s, spans)
	return spans
}

// phaseSpans returns the runs of phases, as the buffers that are evidence tell them.
func phaseSpans(t *lifetime.Tables, s *lifetime.Space, e Evidence) (spans []PhaseSpan) {
	if s.Purposes == nil || s.Axis == lifetime.ProgramOrder {
		return nil
	}
	for i := range s.Buffers {
		b := &s.Buffers[i]
		p := t.Purpose(s.PurposeOf(i))
		if b.Edge&lifetime.BeginUnseen != 0 || p.Phase == purpose.UnknownPhase || !e.Has(i) {
			continue
		}
		part := p.Part
		if part == purpose.Recomputation { // it takes turns with the backward pass
			part = purpose.UnknownPart
		}
		if n := len(spans); n > 0 {
			last := &spans[n-1]
			if last.Phase == p.Phase && (part == last.Part || part == purpose.UnknownPart || last.Part == purpose.UnknownPart) {
				last.Part, last.How = cmp.Or(last.Part, part), min(last.How, p.PhaseHow)
				continue
			}
			if last.Begin == b.Begin { // the clock does not tell the order
				continue
			}
			last.End = b.Begin
		}
		spans = append(spans, PhaseSpan{Begin: b.Begin, End: s.End, Phase: p.Phase, Part: part, How: p.PhaseHow, Step: -1})
	}
	return spans
}

// measure finds the peak of each span, and what it leaves.
func measure(s *lifetime.Space, spans []PhaseSpan) {
	k, level := 0, int64(0)
	for l := range s.Levels(lifetime.Occupied) {
		for k < len(spans) && l.At >= spans[k].End {
			k++
			if k < len(spans) {
				spans[k].Peak = lifetime.Level{At: spans[k].Begin, Bytes: level}
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
		if k < len(spans) && b.Edge&lifetime.BeginUnseen == 0 && b.Begin >= spans[k].Begin &&
			(b.End > spans[k].End || b.Edge&lifetime.EndOpen != 0) {
			spans[k].Left = units.AddSat(spans[k].Left, b.Size)
		}
	}
}
