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
