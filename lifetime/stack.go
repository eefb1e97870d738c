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

// UserFrame returns the innermost User frame of the stack of site, else the innermost
// Framework frame, else the innermost frame. ok is false if the site has no stack.
func (t *Tables) UserFrame(site SiteID) (f Frame, ok bool) {
	var first, framework *Frame
	for f := range t.FramesOf(t.Sites[site].Stack) {
		switch {
		case f.Kind == User:
			return *f, true
		case f.Kind == Framework && framework == nil:
			framework = f
		}
		if first == nil {
			first = f
		}
	}
	switch {
	case framework != nil:
		return *framework, true
	case first != nil:
		return *first, true
	}
	return Frame{}, false
}
