package program

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Facts is what a call stack says about an allocation or a free.
type Facts struct {
	known  bool
	Python bool // it has Python frames
	Engine bool // the autograd engine ran it
	Within Part // the innermost part of PyTorch that tells the phase
	Rooted bool // the outermost Python frame starts a program or thread
	Thread ThreadID
	Hook   bool  // a module or autograd called a function of the program as a hook
	parts  uint8 // bits of the parts of all frames

	Flags Flag // of the innermost part
	All   Flag // of all frames

	Converts lifetime.FrameID // the innermost frame of Module._apply
	ranBy    frame.Kind       // Engine or Node, if no frame of Python is inside of it
	isPart   bool             // it has frames that are not in Path
	Path     PathID           // its Python frames
	RootCall PathID           // those of the caller of the outermost call of a module
	Call     CallID           // the calls of modules
	Callee   lifetime.FrameID // the line of the innermost one; 0 = none
	caller   lifetime.FrameID // the line that calls a module whose forward is not yet on the stack; 0 = none
	last     lifetime.FrameID // the innermost frame of Python, but for those of RunsCompiled
	compiled bool             // such frames are inside of it
	Module   lifetime.FrameID // that of the innermost module that a trace names; 0 = none
}

// Has reports whether any frame is of a part.
func (f *Facts) Has(p Part) bool { return f.parts&(1<<p) != 0 }

// Backward reports whether a backward pass allocated, in Python or below.
func (f *Facts) Backward() bool { return f.Engine || f.Has(InBackwardCall) }

// Optimizes reports whether a step of an optimizer allocated, or what makes its state.
func (f *Facts) Optimizes() bool { return f.Has(InOptimizer) || f.All&MakesState != 0 }

// Computes reports whether a pass of modules, autograd or an optimizer allocated.
func (f *Facts) Computes() bool {
	return f.Backward() || f.Optimizes() || f.InModule() || f.All&OfAutograd != 0
}

// InModule reports whether a module of PyTorch is on the stack, or a call of one.
func (f *Facts) InModule() bool { return f.All&(CallsModule|OfModules|Linear) != 0 }

// PathID is a list of Python frames: a StackID, or a number above these. Stacks with frames of C++ differ where those of Python do not.
type PathID uint32

type call struct {
	frame  lifetime.FrameID
	caller PathID
}

type frameFacts struct {
	known, ofTorch bool
	part           Part
	flags          Flag
}

// Stacks reads call stacks, each call and each frame once.
type Stacks struct {
	t      *lifetime.Tables
	stacks []Facts
	frames []frameFacts
	files  map[string]frameFacts // what functions that rowsOf does not name say, by their file

	paths   map[call]PathID    // nil: all are stacks
	callers []PathID           // by PathID
	lines   []lifetime.FrameID // by PathID: its innermost frame

	calls   []moduleCallSite // by CallID
	callIDs map[moduleCallSite]CallID
	chains  [][]CallID // by CallID; nil = not read

	threads map[function]ThreadID

	todo      []lifetime.StackID // scratch space
	hasEngine bool               // see HasEngine

	forwards map[lifetime.FrameID]bool // lines that call a forward; nil = not read
}

// NewStacks returns a reader of the stacks of t.
func NewStacks(t *lifetime.Tables) *Stacks {
	return &Stacks{t: t, stacks: make([]Facts, len(t.Stacks)), frames: make([]frameFacts, len(t.Frames)), files: map[string]frameFacts{},
		callers: make([]PathID, len(t.Stacks)), lines: make([]lifetime.FrameID, len(t.Stacks)),
		threads: map[function]ThreadID{}, calls: make([]moduleCallSite, 1), callIDs: map[moduleCallSite]CallID{}, chains: make([][]CallID, 1),
		hasEngine: slices.ContainsFunc(t.Frames, func(f frame.Frame) bool { return f.Kind == frame.Engine })}
}

// StacksOf returns a reader that goes on where the last one that is done stopped. Any then counts what that one read.
func StacksOf(t *lifetime.Tables) *Stacks {
	select {
	case read := <-t.Read:
		if r := read.(*Stacks); r.isOf(t) {
			r.t = t
			return r
		}
	default:
	}
	return NewStacks(t)
}

// isOf reports whether the stacks and frames that r reads are those of t, which may be a copy of its tables.
func (r *Stacks) isOf(t *lifetime.Tables) bool {
	return len(r.stacks) == len(t.Stacks) && &r.t.Stacks[0] == &t.Stacks[0] && len(r.frames) == len(t.Frames) &&
		&r.t.Frames[0] == &t.Frames[0]
}

// Done leaves what r read to the next reader of its tables. r is not used afterwards.
func (r *Stacks) Done() {
	select {
	case r.t.Read <- r:
	default: // another one is there
	}
}

// Callers returns the path of the callers of a path, 0 for its outermost frame, and its innermost frame.
func (r *Stacks) Callers(path PathID) (PathID, *frame.Frame) {
	return r.callers[path], &r.t.Frames[r.lines[path]]
}

// HasEngine reports whether a thread of the autograd engine is known by its empty stacks.
func (r *Stacks) HasEngine() bool { return r.hasEngine }

// PhaseOf returns the phase that a stack tells; UnknownPhase if it does not.
func (r *Stacks) PhaseOf(f *Facts) purpose.Phase {
	switch {
	case f.Flags&Compiles != 0:
		return purpose.OtherPhase
	case f.Within == InOptimizer:
		return purpose.OptimizerPhase
	case f.Engine, f.Python && !f.Rooted && r.HasEngine(), f.Within == InBackwardCall, f.Flags&Recomputes != 0:
		return purpose.Backward
	case f.Within == InModule:
		return purpose.Forward
	case f.Within == InSetup:
		return purpose.OtherPhase
	}
	return purpose.UnknownPhase
}

var noFacts Facts

// Of returns what a stack says.
func (r *Stacks) Of(id lifetime.StackID) *Facts {
	if id == 0 {
		return &noFacts
	}
	todo := r.todo[:0]
	for at := id; at != 0 && !r.stacks[at].known; at = r.t.Stacks[at].Caller {
		todo = append(todo, at)
	}
	for _, at := range slices.Backward(todo) {
		r.stacks[at] = r.add(at)
	}
	r.todo = todo
	return &r.stacks[id]
}

func (r *Stacks) add(id lifetime.StackID) Facts {
	inner, caller := r.t.Stacks[id].Frame, r.t.Stacks[id].Caller
	var f Facts
	if caller != 0 {
		f = r.stacks[caller]
	}
	f.known = true
	l := &r.t.Frames[inner]
	if l.File == "" {
		if _, ok := ModuleName(l.Function); ok {
			f.Module = inner
		}
	}
	isPart := f.isPart
	f.isPart = true // but for frames of Python
	switch l.Kind {
	case frame.Engine, frame.Node:
		// Python frames outside of the engine made the node, or called the engine.
		f.Engine, f.Python, f.Within, f.Flags, f.ranBy, f.Thread = true, false, NoPart, 0, l.Kind, 0
		return f
	case frame.Runtime:
		switch l.Name() {
		case "cuBLASLt workspace":
			f.Flags |= CublasLt
		case "cuBLAS workspace":
			f.Flags |= Cublas
		case "DDP buckets":
			f.Flags |= SendsGrads
		}
		return f
	case frame.User, frame.Framework:
	case frame.Operator:
		if name := l.Name(); !strings.HasPrefix(name, "aten::empty") && name != "aten::resize_" { // these take memory for another
			if f.Flags &^= Multiplies; OperatorOf(name).Is(OpProduct | OpLinear) {
				f.Flags |= Multiplies
			}
		}
		return f
	default:
		if strings.HasSuffix(l.Function, "::release_variables()") { // of a node of a graph that is dropped
			f.Engine, f.Python, f.Within, f.Flags, f.Thread = true, false, NoPart, 0, 0
		}
		return f
	}
	if l.File == "" { // calls that a trace names
		return f
	}
	f.isPart = isPart
	if !f.Python {
		f.Python, f.Rooted = true, roots[l.Function]
	}
	if f.Rooted && f.Thread == 0 && !f.Engine {
		f.Thread = r.threadOf(l.Function, l.File)
	}
	callers := f.Path
	f.Path = r.path(id, call{inner, callers}, f.isPart)
	k := &r.frames[inner]
	if !k.known {
		*k = r.partOf(l)
	}
	f.All, f.parts = f.All|k.flags, f.parts|1<<k.part
	switch before := r.frames[f.last].flags; {
	case k.ofTorch:
	case l.Function == "forward": // what decorates a forward pass calls it
		f.Hook = false
	case f.last != 0 && before&(CallsModule|RunsHooks) != 0 && !r.callsForward(f.last), r.engineCalls(&f):
		f.Hook = true // a function that stands in for a forward is called where others call theirs
	}
	f.ranBy = frame.User
	if (f.Flags|k.flags)&Compiles != 0 { // a trial run of modules and of the code that is made
		f.Flags, f.Within, f.last = f.Flags|Compiles, InSetup, inner
		return f
	}
	if k.flags&RunsCompiled != 0 {
		f.compiled = true
		f.Flags |= k.flags & OfFunction
		return f
	}
	isCall := k.flags&CallsModule != 0
	switch {
	case isCall && f.compiled: // the module that was compiled, not another
	case isCall && (f.last == 0 || r.frames[f.last].flags&CallsModule == 0):
		f.caller = f.last
	case k.flags&RunsHooks != 0 && f.caller != 0 && r.callsForward(inner): // of a module with hooks, which comes next
	case !isCall && f.caller != 0:
		callee := l.File + " " + l.Function
		if k.flags&RunsHooks != 0 || !r.callsForward(f.last) && len(r.forwards) > 0 {
			callee = aHook
		}
		f.Call, f.caller, f.Callee = r.called(moduleCallSite{f.caller, callee, f.Call}), 0, inner
	case !isCall && k.part == InModule && f.last != 0 && !f.compiled: // by its name
		f.Call, f.Callee = r.called(moduleCallSite{f.last, l.File + " " + l.Function, f.Call}), inner
	}
	f.last, f.compiled = inner, false
	f.Flags |= k.flags
	if k.flags&Converting != 0 {
		f.Converts = inner
	}
	switch k.part {
	case NoPart:
		return f
	case InModule:
		if f.Within != InModule {
			f.RootCall = callers
		}
		f.Flags &^= MakesState | Clips | ClearsGrads
	}
	f.Within = k.part
	return f
}

// engineCalls reports whether the autograd engine itself calls the next frame, as it does hooks. Other functions of Python belong to nodes.
func (r *Stacks) engineCalls(f *Facts) bool {
	return f.ranBy == frame.Engine || f.last == 0 && !f.Engine && !f.Rooted && f.Flags&OfFunction == 0 && r.HasEngine()
}

// callsForward reports whether a line of PyTorch calls a function named forward in any stack.
func (r *Stacks) callsForward(line lifetime.FrameID) bool {
	if r.forwards == nil {
		r.forwards = map[lifetime.FrameID]bool{}
		for id := range r.t.Stacks {
			if r.t.Frames[r.t.Stacks[id].Frame].Function != "forward" {
				continue
			}
			at := r.t.Stacks[id].Caller
			for at != 0 && r.t.Frames[r.t.Stacks[at].Frame].Kind > frame.Framework { // C++ between
				at = r.t.Stacks[at].Caller
			}
			if at != 0 {
				r.forwards[r.t.Stacks[at].Frame] = true
			}
		}
	}
	return r.forwards[line]
}

// path returns the Python frames of a stack that ends with c. While no stack has other frames among them, they are the stack.
func (r *Stacks) path(id lifetime.StackID, c call, isPart bool) PathID {
	if r.paths == nil {
		if !isPart {
			r.callers[id], r.lines[id] = c.caller, c.frame
			return PathID(id)
		}
		r.paths = map[call]PathID{}
		for i := range r.stacks {
			if path := r.stacks[i].Path; path > 0 && int(path) == i {
				r.paths[call{r.t.Stacks[i].Frame, r.callers[path]}] = path
			}
		}
	}
	path, ok := r.paths[c]
	if !ok {
		path = PathID(len(r.callers))
		r.paths[c], r.callers, r.lines = path, append(r.callers, c.caller), append(r.lines, c.frame)
	}
	return path
}

// Reaches reports whether path is at the end of a path that begins with caller.
func (r *Stacks) Reaches(caller, path PathID) bool {
	for ; path != 0; path = r.callers[path] {
		if path == caller {
			return true
		}
	}
	return false
}

// IsBelow reports whether a function with any of some flags is on a path.
func (r *Stacks) IsBelow(path PathID, flags Flag) bool {
	for ; path != 0; path = r.callers[path] {
		if r.frames[r.lines[path]].flags&flags != 0 {
			return true
		}
	}
	return false
}

// partOf returns what a frame of Python says. It is called once for each frame.
func (r *Stacks) partOf(f *frame.Frame) frameFacts {
	if rows, ok := rowsOf[f.Function]; ok {
		return partIn(rows, f.File)
	}
	said, ok := r.files[f.File]
	if !ok {
		said = partIn(rowsOf[""], f.File)
		r.files[f.File] = said
	}
	return said
}

// CallID is a chain of calls of modules in the source: which line calls what, from which chain. 0 = none.
type CallID uint32

type moduleCallSite struct {
	line   lifetime.FrameID // that calls the module
	callee string           // file and function of its forward, or aHook: a line in a loop may call several classes
	caller CallID
}

// aHook stands for what a module calls before and after its forward.
const aHook = ""

// Same reports whether two calls may be of one run of a module: a line calls its hooks, then its forward.
func (r *Stacks) Same(x, y CallID) bool {
	a, b := &r.calls[x], &r.calls[y]
	return x == y || a.line == b.line && (a.callee == aHook || b.callee == aHook)
}

// Chain returns the calls of a chain, outermost first, the first maxDepth of them.
func (r *Stacks) Chain(id CallID) []CallID {
	if id == 0 || r.chains[id] != nil {
		return r.chains[id]
	}
	var chain []CallID
	for at := id; at != 0; at = r.calls[at].caller {
		chain = append(chain, at)
	}
	slices.Reverse(chain)
	r.chains[id] = slices.Clone(chain[:min(len(chain), maxDepth)])
	return r.chains[id]
}

// maxDepth bounds the names of modules.
const maxDepth = 48

// called returns the chain that a line and the function that it calls add to a chain.
func (r *Stacks) called(c moduleCallSite) CallID {
	id := intern(r.callIDs, c) + 1
	if int(id) == len(r.calls) {
		r.calls, r.chains = append(r.calls, c), append(r.chains, nil)
	}
	return id
}

// Calls returns how many chains are known; their IDs are below.
func (r *Stacks) Calls() int { return len(r.calls) }

// LineOf returns the line that makes the innermost call of a chain.
func (r *Stacks) LineOf(id CallID) lifetime.FrameID { return r.calls[id].line }

// classes are those of PyTorch's modules, by their file.
var classes = map[string]string{"activation": "Activation", "adaptive": "AdaptiveSoftmax", "batchnorm": "BatchNorm", "conv": "Conv", "dropout": "Dropout",
	"flatten": "Flatten", "fold": "Fold", "instancenorm": "InstanceNorm", "linear": "Linear", "loss": "Loss", "normalization": "Norm", "padding": "Pad",
	"pooling": "Pool", "rnn": "RNN", "sparse": "Embedding", "transformer": "Transformer", "upsampling": "Upsample"}

// ClassOf returns the class of the module that the innermost call of a chain is of, as far as its file tells; "" for one of the program.
func (r *Stacks) ClassOf(id CallID) string {
	_, file, _ := strings.Cut(r.calls[id].callee, "torch/nn/modules/")
	name, _, isModule := strings.Cut(file, ".py ")
	if !isModule {
		return ""
	}
	return classes[name]
}

// Inside returns the outermost frame of a path, inside of the caller of a root module, that does not only call modules.
func (r *Stacks) Inside(path, caller PathID) (line *frame.Frame) {
	for path != 0 && path != caller {
		if r.frames[r.lines[path]].flags&CallsModule == 0 {
			line = &r.t.Frames[r.lines[path]]
		}
		path = r.callers[path]
	}
	return line
}

// IsSequential reports whether that line is of a Sequential, which calls all its modules in it.
func (r *Stacks) IsSequential(id CallID) bool {
	return strings.HasSuffix(r.t.Frames[r.LineOf(id)].File, "torch/nn/modules/container.py")
}

// moduleCall begins the name of a call of a module: of the profiler's own events, and of annotations that hooks of a
// program make (docs/manual/pytorch.md).
const moduleCall = "nn.Module"

// ModuleName returns the module that an annotation or a frame names.
func ModuleName(text string) (string, bool) {
	name, ok := strings.CutPrefix(text, moduleCall)
	name = strings.TrimSpace(strings.TrimPrefix(name, ":"))
	return name, ok && name != ""
}

// NotedModule returns the module that the note of a buffer begins with: {"module":"Net.layers.0"}, as memlane's
// recorder writes it; "" if it names none. Annotations of the buffer follow.
func NotedModule(note string) string {
	var metadata struct{ Module string }
	if !strings.HasPrefix(note, "{") || json.NewDecoder(strings.NewReader(note)).Decode(&metadata) != nil {
		return ""
	}
	return metadata.Module
}
