package lifetime

import "iter"

// Stack is a call stack: its innermost frame, and the stack that called it. Stacks
// that have callers in common share them, so that a call costs one entry however
// deep it lies. A caller stands before what it called in Tables.Stacks.
type Stack struct {
	Frame  FrameID
	Caller StackID // 0: it has none
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

// UserFrame returns the innermost frame of the program itself on the stack of
// site, else the innermost frame that is not native, else the innermost one.
// ok is false when the site has no stack.
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
