package lifetime

import (
	"cmp"
	"iter"

	"github.com/memlane/memlane/lifetime/frame"
)

// Stack is a call stack: its innermost frame, and the stack of its caller. Stacks share their callers, so each call is
// one entry at any depth. In Tables.Stacks, a caller comes before the stacks that it calls.
type Stack struct {
	Frame  FrameID
	Caller StackID // 0 = none
}

// FramesOf yields the frames of a stack, innermost first.
func (t *Tables) FramesOf(id StackID) iter.Seq[*frame.Frame] {
	return func(yield func(*frame.Frame) bool) {
		for ; id != 0; id = t.Stacks[id].Caller {
			if !yield(&t.Frames[t.Stacks[id].Frame]) {
				return
			}
		}
	}
}

// NearFramesOf yields the frames of a stack that Python could have called, innermost first: calls inside calls, as
// traces record them, would otherwise take the square of their depth.
func (t *Tables) NearFramesOf(id StackID) iter.Seq[*frame.Frame] {
	return func(yield func(*frame.Frame) bool) {
		for n := 0; id != 0 && n < pythonDepth; n++ {
			if !yield(&t.Frames[t.Stacks[id].Frame]) {
				return
			}
			id = t.Stacks[id].Caller
		}
	}
}

// Innermost appends the frames of a stack, innermost first, but no more than Tables.Depth. cut reports that there were
// more. Outputs that write a whole stack for each call site use it: otherwise calls inside calls would make them grow
// with the square of their depth.
func (t *Tables) Innermost(to []FrameID, id StackID) (frames []FrameID, cut bool) {
	for n := 0; id != 0; id = t.Stacks[id].Caller {
		if n++; n > t.MaxDepth() {
			return to, true
		}
		to = append(to, t.Stacks[id].Frame)
	}
	return to, false
}

// MaxDepth returns Depth or, if it is not set, the limit of Python.
func (t *Tables) MaxDepth() int { return cmp.Or(t.Depth, pythonDepth) }

// pythonDepth is the limit of Python's own interpreter (sys.getrecursionlimit).
const pythonDepth = 1000
