package lifetime

import (
	"cmp"
	"iter"
	"math"
)

// Stack is a call stack: its innermost frame, and the stack of its caller. Stacks share
// their callers, so each call is one entry at any depth. In Tables.Stacks, a caller
// comes before the stacks that it calls.
type Stack struct {
	Frame  FrameID
	Caller StackID // 0 = none
}

// FramesOf yields the frames of a stack, innermost first.
func (t *Tables) FramesOf(id StackID) iter.Seq[*Frame] {
	return func(yield func(*Frame) bool) {
		for ; id != 0; id = t.Stacks[id].Caller {
			if !yield(&t.Frames[t.Stacks[id].Frame]) {
				return
			}
		}
	}
}

// OuterCalls is the name of the frame that stands for calls that Innermost leaves out.
const OuterCalls = "[outer calls left out]"

// Innermost appends the frames of a stack, innermost first, but no more than Tables.Depth. cut reports that there were more.
// Outputs that write a whole stack for each call site use it: otherwise calls inside calls would make them grow with the
// square of their depth.
func (t *Tables) Innermost(to []FrameID, id StackID) (frames []FrameID, cut bool) {
	for n := 0; id != 0; id = t.Stacks[id].Caller {
		if n++; n > t.MaxDepth() {
			return to, true
		}
		to = append(to, t.Stacks[id].Frame)
	}
	return to, false
}

// MaxDepth returns Depth, or PythonDepth if it is not set.
func (t *Tables) MaxDepth() int { return cmp.Or(t.Depth, PythonDepth) }

// PythonDepth is the limit of Python's own interpreter (sys.getrecursionlimit).
const PythonDepth = 1000

// Stacks of this depth are never cut. Stacks of all call sites may have this many frames, and more if they share few callers.
const (
	everyDepth  = 100
	fewFrames   = 100_000
	framesACall = 16
)

// SetDepth sets Depth to PythonDepth or, if the stacks of all call sites would then have far more frames than the tree has
// calls, to less. It returns the number of call sites whose stacks are deeper.
func (t *Tables) SetDepth() (cut int64) {
	t.Depth = PythonDepth
	if len(t.Stacks) <= everyDepth {
		return 0
	}
	depths := make([]uint16, len(t.Stacks)) // saturated
	for i := range t.Stacks[1:] {
		depths[i+1] = min(depths[t.Stacks[i+1].Caller], math.MaxUint16-1) + 1
	}
	frames, lists, most := 0, len(t.Sites), fewFrames+framesACall*len(t.Stacks)
	for i := range t.Sites {
		s := &t.Sites[i]
		frames += min(int(depths[s.Stack]), PythonDepth) + min(int(depths[s.Source]), PythonDepth)
		if s.Source != 0 {
			lists++
		}
	}
	if frames > most {
		t.Depth = max(everyDepth, most/lists)
	}
	for i := range t.Sites {
		if max(int(depths[t.Sites[i].Stack]), int(depths[t.Sites[i].Source])) > t.Depth {
			cut++
		}
	}
	return cut
}
