package lifetime

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Place is the place of an allocation in the program, or what it was for. Places can be compared.
type Place struct {
	// Frame is the innermost user frame, else the innermost frame of a library. With Node it is the line of the
	// forward pass that made the node.
	Frame frame.Frame

	// Node is what a backward pass ran: "MmBackward0", an operator outside of nodes, a library's workspace.
	Node     string
	Inferred bool // Frame follows from the order of the passes, or Node from the thread

	// Without a frame: operation or library, such as "aten::mm", "cuBLAS workspace". Shape is that of the result of a
	// compiled program's instruction; elsewhere a buffer that grows has many.
	Op, Shape string

	Unseen bool // the allocation was before the window: the place is that of the free
}

// PlaceOf returns the place of a site.
func (t *Tables) PlaceOf(site SiteID) Place {
	s := &t.Sites[site]
	p := t.placeOf(s)
	p.Unseen = s.Unseen
	return p
}

// callers are the frames of a stack that can name a place, the innermost of each kind. If a user frame comes before any
// node, it is the place, and the frames outside it are left out.
type callers struct {
	user, node, engine, runtime, library, framework, scope, native, first *frame.Frame

	operator bool // there is an operator
}

func (t *Tables) callersOf(stack StackID) (c callers) {
	set := func(to **frame.Frame, f *frame.Frame) {
		if *to == nil {
			*to = f
		}
	}
	for f := range t.NearFramesOf(stack) {
		set(&c.first, f)
		switch f.Kind {
		case frame.User:
			set(&c.user, f)
			if c.node == nil {
				return c
			}
		case frame.Node:
			if c.user == nil {
				set(&c.node, f)
			}
		case frame.Engine:
			set(&c.engine, f)
		case frame.Runtime:
			set(&c.runtime, f)
		case frame.Scope:
			set(&c.scope, f)
		case frame.Native:
			set(&c.native, f)
		case frame.Operator:
			c.operator = true
		case frame.Framework:
			set(&c.framework, f)
			if !general(f) {
				set(&c.library, f)
			}
		}
	}
	return c
}

// general reports whether a frame of a library serves all programs: the standard library or PyTorch itself. Other
// packages, such as transformers or vllm, say more about an allocation.
func general(f *frame.Frame) bool {
	return !strings.Contains(f.File, "-packages") || strings.Contains(f.File, "-packages/torch/") ||
		strings.Contains(f.File, `-packages\torch\`)
}

func (t *Tables) placeOf(s *Site) Place {
	c := t.callersOf(s.Stack)
	if c.node != nil && c.node.Name() == frame.CustomNode {
		// Its code is in Python. Frames that the interpreter inlined are recorded at the outer end of the stack.
		switch {
		case c.user != nil:
			c.node = nil
		case c.framework != nil:
			return Place{Node: c.framework.String()}
		}
	}
	if c.node == nil && c.user != nil {
		return Place{Frame: *c.user}
	}
	if c.node != nil || c.engine != nil {
		return t.placeInBackward(s, &c)
	}
	switch f := cmp.Or(c.library, c.framework); {
	case c.runtime != nil:
		return Place{Op: c.runtime.Name()}
	case f != nil:
		return Place{Frame: *f}
	case c.operator:
		return Place{Op: t.OperatorOf(s.Stack)}
	case c.scope != nil && c.scope.File != "":
		p := Place{Frame: *c.scope}
		if own := t.callersOf(s.Source).user; own != nil { // the compiler may record a line of a library
			p.Frame.File, p.Frame.Line, p.Frame.Column = own.File, own.Line, own.Column
		}
		return p
	case s.Instr != "" && (c.first == nil || c.scope != nil):
		return Place{Op: cmp.Or(s.Op, s.Instr), Shape: s.Shape}
	case c.scope != nil: // an operator or region has no place in the program
		return Place{Op: cmp.Or(s.Op, c.scope.Function)}
	case c.native != nil:
		return Place{Frame: c.native.Code()}
	case c.first == nil && s.Op != "":
		return Place{Op: s.Op}
	case c.first == nil:
		return Place{Shape: s.Shape}
	}
	return Place{Frame: c.first.Code()}
}

// placeInBackward returns the place of an allocation that a backward pass made.
func (t *Tables) placeInBackward(s *Site, c *callers) Place {
	p := Place{}
	switch {
	case c.runtime != nil:
		p.Node = c.runtime.Name()
	case c.node != nil:
		p.Node = c.node.Name()
	default:
		p.Node = cmp.Or(t.OperatorOf(s.Stack), c.engine.Name())
		p.Inferred = c.engine.Function == frame.NoPython
	}
	switch {
	case s.Source != 0:
		if f := t.callersOf(s.Source).user; f != nil {
			p.Frame, p.Inferred = *f, true
		}
	case c.engine == nil && c.user != nil: // a trace: the stack goes on with that of the forward pass
		p.Frame = *c.user
	}
	return p
}

// OperatorOf returns the operator that allocated: the outermost one inside the innermost Python function or node.
// It is "" if the stack has no operators.
func (t *Tables) OperatorOf(stack StackID) string {
	var operator *frame.Frame
	for f := range t.NearFramesOf(stack) {
		switch f.Kind {
		case frame.Operator:
			operator = f
		case frame.User, frame.Framework, frame.Node, frame.Engine:
			if operator != nil {
				return operator.Name()
			}
		}
	}
	if operator == nil {
		return ""
	}
	return operator.Name()
}

// Shown returns the stack of a site as people read it, innermost first: its place, then the callers that frame.Fold
// keeps. named reports that the first frame stands for a place that is no function: it has the text of the place and no
// line.
func (t *Tables) Shown(site SiteID) (frames []frame.Frame, named bool) {
	ids, named, cut := t.ShownFrames(nil, site)
	if named {
		frames = append(frames, frame.Frame{Function: t.PlaceOf(site).String(), Kind: frame.Scope})
	}
	for _, id := range ids {
		frames = append(frames, t.Frames[id])
	}
	if cut {
		frames = append(frames, frame.Frame{Function: frame.OuterCalls, Kind: frame.Scope})
	}
	return frames, named
}

// ShownFrames appends the frames of Shown to a list. If named, it leaves out the first one, which is not in the
// capture. cut reports that the stack is deeper than Innermost returns: calls inside calls would otherwise take the
// square of their depth.
func (t *Tables) ShownFrames(to []FrameID, site SiteID) (frames []FrameID, named, cut bool) {
	all, cut := t.Innermost(to, t.Sites[site].Stack)
	if len(all) == len(to) && !t.Sites[site].Unseen {
		return to, false, false
	}
	shown, _ := frame.FoldTo(all[len(to):len(to)], all[len(to):], func(id FrameID) frame.Kind { return t.Frames[id].Kind })
	p := t.PlaceOf(site)
	if p.Node == "" && p.Op == "" && !p.Unseen {
		inner := slices.IndexFunc(shown, func(id FrameID) bool { return t.Frames[id] == p.Frame })
		if inner < 0 && cut {
			return to, true, true // it is farther out
		}
		return append(to, shown[max(0, inner):]...), false, cut // those inside it are of other libraries
	}
	outer := slices.DeleteFunc(shown, func(id FrameID) bool { // the rest is in the name
		kind := t.Frames[id].Kind
		return p.Unseen || kind.Folded() || kind == frame.Node
	})
	return append(to, outer...), true, cut
}

// FrameOf returns the frame of the place of a site or, if its stack has operators and scopes only, the innermost one.
// ok is false if there is none.
func (t *Tables) FrameOf(site SiteID) (f frame.Frame, ok bool) {
	if p := t.PlaceOf(site); p.Frame != (frame.Frame{}) {
		return p.Frame, true
	}
	if c := t.callersOf(t.Sites[site].Stack); c.scope != nil {
		return *c.scope, true
	}
	return frame.Frame{}, false
}

// SourcePlace returns the line of the program that an instruction was compiled from, such as "train.py:42"; "" if
// unknown.
func (t *Tables) SourcePlace(site SiteID) string {
	if own := t.callersOf(t.Sites[site].Source).user; own != nil {
		return own.Place()
	}
	f, _ := t.FrameOf(site)
	return f.Place()
}

// FunctionName returns the name of the place of a site without its file and line.
func (t *Tables) FunctionName(site SiteID) string {
	if name, _ := t.PlaceOf(site).Parts(); name != "" {
		return name
	}
	f, _ := t.FrameOf(site)
	return f.Function
}

// String returns the place for people: "step (train.py:12)", "MmBackward0 (backward) of model.py:31".
func (p Place) String() string {
	name, where := p.Parts()
	switch {
	case name == "":
		return "code without a recorded stack"
	case p.Unseen && where != "":
		return name + ", " + where
	case p.Node != "" && p.Frame != (frame.Frame{}):
		return name + " of " + where
	case where == "":
		return name
	}
	return fmt.Sprintf("%s (%s)", name, where)
}

// Parts returns the place in two parts: a name, and where that is. Both may be "".
func (p Place) Parts() (name, where string) {
	if p.Unseen {
		p.Unseen = false
		if p == (Place{}) {
			return BeforeWindow, ""
		}
		return BeforeWindow, "freed in " + p.String()
	}
	if p.Node != "" {
		name = p.Node + " (backward)"
		if p.Frame != (frame.Frame{}) {
			where = cmp.Or(p.Frame.Place(), p.Frame.Function)
			if p.Inferred {
				where += ", inferred"
			}
		}
		return name, where
	}
	where = p.Frame.Place()
	switch {
	case p.Frame.Function != "":
		return p.Frame.Function, where
	case where != "":
		return where, ""
	}
	if p.Op != "" {
		name = strings.TrimSpace(p.Op + " " + p.Shape)
	}
	return name, ""
}

// BeforeWindow is the name of memory that was allocated before the recording began.
const BeforeWindow = "allocated before the recording"

// HolderID is the number of a Holder in Tables; 0 = none.
type HolderID uint32

// PurposeID is the number of a purpose.Purpose in Tables.
type PurposeID uint32

// Purpose returns the purpose of a number; the zero one for 0.
func (t *Tables) Purpose(id PurposeID) purpose.Purpose {
	if id == 0 {
		return purpose.Purpose{}
	}
	return t.Purposes[id]
}

// PurposeOf returns the purpose of a buffer; 0 if package category did not judge the space.
func (s *Space) PurposeOf(buffer int) PurposeID {
	if s.Purposes == nil {
		return 0
	}
	return s.Purposes[buffer]
}

// Category returns what memory is for: the category of its purpose or, if that is not known, its kind in a compiled
// program and for kinds without buffers, else the producer's; "" = not recorded and not judged.
func (t *Tables) Category(s *SpaceInfo, k Kind, site SiteID, id PurposeID) string {
	switch {
	case !k.OfBuffers(), s.Axis == ProgramOrder && t.Purpose(id).Name() == purpose.UnknownCategory.String():
		return k.String()
	case id == 0:
		return t.Sites[site].Region
	}
	p := t.Purpose(id)
	if p.Category == purpose.UnknownCategory && p.Own == "" && t.Sites[site].Region != "" {
		return t.Sites[site].Region // in the producer's words
	}
	return p.Name()
}

// ArgumentOf returns the name of the argument of a compiled program that a buffer holds, or a copy of it; "" if it holds none or the program
// does not name it.
func (t *Tables) ArgumentOf(k Kind, site SiteID) string {
	if k == Parameter || t.Sites[site].Role != "" {
		return t.Sites[site].Op
	}
	return ""
}

// HolderOf returns the holder of a buffer; nil if none was recorded.
func (t *Tables) HolderOf(s *Space, buffer int) *holder.Holder {
	if s.Holders == nil || s.Holders[buffer] == 0 {
		return nil
	}
	return &t.Holders[s.Holders[buffer]]
}

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
