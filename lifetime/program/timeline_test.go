package program_test

import (
	"slices"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// allocation is a buffer of a program: begin, end and size, and the phase that allocated it.
type allocation struct {
	begin, end, size int64
	phase            purpose.Phase
	part             purpose.Part
}

// program returns a capture of allocations; end 0 stands for the end of the window, 100.
func ofPhases(all []allocation, marks ...lifetime.Mark) *lifetime.Capture {
	c := &lifetime.Capture{Tables: lifetime.Tables{Sites: make([]lifetime.Site, 1), Purposes: make([]purpose.Purpose, 1)}}
	s := &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{End: 100}}
	s.Marks = marks
	for i, a := range all {
		b := lifetime.Buffer{Begin: a.begin, End: a.end, Size: a.size}
		if a.end == 0 {
			b.End, b.Edge = 100, lifetime.EndOpen
		}
		s.Buffers = append(s.Buffers, b)
		c.Purposes = append(c.Purposes, purpose.Purpose{Phase: a.phase, Part: a.part})
		s.Purposes = append(s.Purposes, lifetime.PurposeID(i+1))
	}
	s.SortEnds(nil)
	c.Spaces = []*lifetime.Space{s}
	return c
}

// training is a set-up and two steps.
var training = []allocation{
	{0, 0, 8, purpose.OtherPhase, purpose.Setup},
	{10, 30, 2, purpose.OtherPhase, purpose.DataLoading},
	{12, 22, 4, purpose.Forward, purpose.UnknownPart},
	{14, 15, 1, purpose.UnknownPhase, purpose.UnknownPart},
	{20, 28, 3, purpose.Backward, purpose.UnknownPart},
	{21, 22, 5, purpose.Backward, purpose.Recomputation},
	{25, 26, 1, purpose.OptimizerPhase, purpose.UnknownPart},
	{27, 0, 8, purpose.OptimizerPhase, purpose.UnknownPart},
	{40, 60, 2, purpose.OtherPhase, purpose.DataLoading},
	{42, 52, 4, purpose.Forward, purpose.UnknownPart},
	{50, 58, 3, purpose.Backward, purpose.UnknownPart},
	{55, 56, 1, purpose.OptimizerPhase, purpose.UnknownPart},
	{70, 71, 4, purpose.Forward, purpose.Evaluation},
}

func TestTimeline(t *testing.T) {
	c := ofPhases(training)
	line := program.Of(c).Timeline(c.Spaces[0])
	want := []program.PhaseSpan{
		{Begin: 0, End: 10, Phase: purpose.OtherPhase, Part: purpose.Setup, Step: -1, Peak: lifetime.Level{At: 0, Bytes: 8}, Left: 8},
		{Begin: 10, End: 12, Phase: purpose.OtherPhase, Part: purpose.DataLoading, Step: 0, Peak: lifetime.Level{At: 10, Bytes: 10}, Left: 2},
		{Begin: 12, End: 20, Phase: purpose.Forward, Step: 0, Peak: lifetime.Level{At: 14, Bytes: 15}, Left: 4},
		{Begin: 20, End: 25, Phase: purpose.Backward, Step: 0, Peak: lifetime.Level{At: 21, Bytes: 22}, Left: 3},
		{Begin: 25, End: 40, Phase: purpose.OptimizerPhase, Step: 0, Peak: lifetime.Level{At: 27, Bytes: 21}, Left: 8},
		{Begin: 40, End: 42, Phase: purpose.OtherPhase, Part: purpose.DataLoading, Step: 1, Peak: lifetime.Level{At: 40, Bytes: 18}, Left: 2},
		{Begin: 42, End: 50, Phase: purpose.Forward, Step: 1, Peak: lifetime.Level{At: 42, Bytes: 22}, Left: 4},
		{Begin: 50, End: 55, Phase: purpose.Backward, Step: 1, Peak: lifetime.Level{At: 50, Bytes: 25}, Left: 3},
		{Begin: 55, End: 70, Phase: purpose.OptimizerPhase, Step: 1, Peak: lifetime.Level{At: 55, Bytes: 22}, Left: 0},
		{Begin: 70, End: 100, Phase: purpose.Forward, Part: purpose.Evaluation, Step: -1, Peak: lifetime.Level{At: 70, Bytes: 20}, Left: 0},
	}
	if !slices.Equal(line.Spans, want) {
		t.Errorf("spans:\n%v, want\n%v", line.Spans, want)
	}
	if got := line.Steps; got.Source != program.Phases || !slices.Equal(got.Begins, []int64{10, 40}) || !slices.Equal(got.Ends, []int64{40, 70}) {
		t.Errorf("steps %v", got)
	}
}

// TestTimelineOfMarks: marked steps count, and an optimizer that steps within the backward pass ends no step.
func TestTimelineOfMarks(t *testing.T) {
	marked := ofPhases(training, lifetime.Mark{Begin: 9, End: 38, Kind: lifetime.Step, Text: "ProfilerStep#0"}, lifetime.Mark{Begin: 39, End: 80, Kind: lifetime.Step, Text: "ProfilerStep#1"})
	line := program.Of(marked).Timeline(marked.Spaces[0])
	if got := line.Steps; !slices.Equal(got.Begins, []int64{9, 39}) || !slices.Equal(got.Ends, []int64{38, 80}) || got.Name(1) != "ProfilerStep#1" || got.Inferred() {
		t.Errorf("steps %v", got)
	}
	if line.Spans[0].Step != -1 || line.Spans[1].Step != 0 || line.Spans[9].Step != 1 {
		t.Errorf("steps of spans: %v", line.Spans)
	}
	within := ofPhases([]allocation{
		{0, 9, 1, purpose.Forward, 0}, {1, 9, 1, purpose.Backward, 0}, {2, 3, 1, purpose.OptimizerPhase, 0}, {4, 9, 1, purpose.Backward, 0},
		{5, 6, 1, purpose.OptimizerPhase, 0}, {10, 19, 1, purpose.Forward, 0},
	})
	if got := program.Of(within).Timeline(within.Spaces[0]).Steps; !slices.Equal(got.Begins, []int64{0}) || !slices.Equal(got.Ends, []int64{10}) {
		t.Errorf("steps of an optimizer in the backward pass: %v", got)
	}
	plain := ofPhases(training)
	plain.Spaces[0].Purposes = nil
	if got := program.Of(plain).Timeline(plain.Spaces[0]); got.Spans != nil || len(got.Steps.Begins) > 0 {
		t.Errorf("without purposes: %v", got)
	}
}
