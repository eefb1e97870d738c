package lifetime

import "iter"

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

// MaxDepth is the most calls of a stack in outputs that write a whole stack for each row: the limit of Python's own
// interpreter (sys.getrecursionlimit). Otherwise calls inside calls would make outputs grow with the square of their depth.
const MaxDepth = 1000

// OuterCalls is the name of the frame that stands for the calls beyond MaxDepth.
const OuterCalls = "[outer calls left out]"

// Innermost appends the frames of a stack, innermost first, without those beyond MaxDepth. cut reports that there were some.
func (t *Tables) Innermost(to []FrameID, id StackID) (frames []FrameID, cut bool) {
	for n := 0; id != 0; id = t.Stacks[id].Caller {
		if n++; n > MaxDepth {
			return to, true
		}
		to = append(to, t.Stacks[id].Frame)
	}
	return to, false
}
