package category

import (
	"path"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/internal/interned"
)

// facts is what a call stack says about an allocation or a free.
type facts struct {
	known  bool
	python bool // it has Python frames
	engine bool // the autograd engine ran it
	within part // the innermost part of PyTorch that tells the phase
	rooted bool // the outermost Python frame starts a program or thread

	flags flag

	converts lifetime.FrameID // the innermost frame of Module._apply
	isPart   bool             // it has frames that are not in path
	path     pathID           // its Python frames
	rootCall pathID           // those of the caller of the outermost call of a module
	call     callID           // the calls of modules
	caller   lifetime.FrameID // the line that calls a module whose forward is not yet on the stack; 0 = none
	last     lifetime.FrameID // the innermost frame of Python, but for those of runsCompiled
	compiled bool             // such frames are inside of it
	module   textID           // the innermost module that a trace names
}

// pathID is a list of Python frames: a StackID, or a number above these. Stacks with frames of C++ differ where those of Python do not.
type pathID uint32

// call is a frame and the path of its callers.
type call struct {
	frame  lifetime.FrameID
	caller pathID
}

// part is a part of PyTorch that tells the phase of an allocation.
type part uint8

const (
	noPart         part = iota
	inModule            // the forward pass of a module
	inOptimizer         // a step, or what belongs to it
	inBackwardCall      // the caller of a backward pass
	inSetup             // makes or moves modules, optimizers, data
)

// flag marks stacks of one purpose.
type flag uint32

const (
	converting  flag = 1 << iota // Module._apply: to, cuda, half
	ofParameter                  // a Parameter is converted or copied
	ofTensor                     // a tensor that is not a Parameter is converted or copied
	constructs                   // the constructor of a module of PyTorch
	initializes                  // torch.nn.init
	clips                        // clip_grad_norm_
	clearsGrads                  // zero_grad
	makesState                   // the state of an optimizer
	loadsData
	sendsGrads // buckets of DDP
	cublas
	cublasLt
	recomputes   // checkpointing runs a part of the forward pass again
	callsModule  // Module.__call__
	returnsGrads // torch.autograd.grad
	compiles     // torch.compile compiles the code that called it, or tries which of its kernels is fastest
	runsCompiled // torch.compile runs what it compiled
	embeds       // torch.nn.functional.embedding or embedding_bag
	ofFunction   // the forward or backward of a torch.autograd.Function
)

// known functions of PyTorch. A stack is read from its outermost frame; the innermost part counts.
// Sources: torch/nn/modules/module.py, torch/optim/optimizer.py, torch/amp/grad_scaler.py, torch/nn/utils/clip_grad.py,
// torch/_tensor.py, torch/_dynamo/convert_frame.py, torch/_inductor/runtime/triton_heuristics.py, torch/autograd/__init__.py,
// torch/autograd/graph.py, torch/utils/checkpoint.py, torch/utils/data, torch/nn/parallel/distributed.py.
var functions = []struct {
	file      string // part of the path
	functions string // separated by spaces; "" = all
	part      part
	flags     flag
}{
	{"torch/nn/modules/module.py", "_call_impl _wrapped_call_impl", inModule, callsModule},
	{"torch/nn/modules/module.py", "_apply", inSetup, converting},
	{"torch/nn/modules/module.py", "zero_grad", inOptimizer, clearsGrads},
	{"torch/nn/modules/linear.py", "forward", noPart, 0},
	{"torch/nn/modules/transformer.py", "forward", inModule, 0}, // the fast path of inference calls no module
	{"torch/nn/functional.py", "embedding embedding_bag", noPart, embeds},
	{"torch/nn/modules/", "__init__", inSetup, constructs},
	{"torch/nn/modules/", "reset_parameters _reset_parameters", inSetup, initializes},
	{"torch/nn/parameter.py", "__deepcopy__", inSetup, ofParameter},
	{"torch/nn/parameter.py", "__new__ materialize", inSetup, constructs},
	{"torch/_tensor.py", "__deepcopy__", inSetup, ofTensor},
	{"torch/nn/init.py", "", inSetup, initializes},
	{"torch/nn/utils/clip_grad.py", "", inOptimizer, clips},
	{"torch/optim/optimizer.py", "zero_grad", inOptimizer, clearsGrads},
	{"torch/optim/optimizer.py", "load_state_dict add_param_group", inSetup, makesState},
	{"torch/optim/lr_scheduler.py", "", noPart, 0},
	{"torch/_dynamo/convert_frame.py", "", inSetup, compiles},
	{"torch/_inductor/runtime/triton_heuristics.py", "autotune_to_one_config coordinate_descent_tuning", inSetup, compiles},
	{"torch/_dynamo/eval_frame.py", "__call__", inModule, callsModule},
	{"torch/_dynamo/", "", noPart, runsCompiled},
	{"torch/_functorch/", "", noPart, runsCompiled},
	{"torch/_inductor/", "", noPart, runsCompiled},
	{"torch/autograd/function.py", "apply", noPart, runsCompiled | ofFunction},
	{"torch/optim/swa_utils.py", "", noPart, 0},
	{"torch/optim/", "__init__", inSetup, makesState},
	{"torch/optim/", "_init_group", inOptimizer, makesState},
	{"torch/optim/", "", inOptimizer, 0},
	{"/bitsandbytes/optim/", "", inOptimizer, 0},
	{"/apex/optimizers/", "", inOptimizer, 0},
	{"amp/grad_scaler.py", "scale", inModule, 0},
	{"amp/grad_scaler.py", "_lazy_init_scale_growth_tracker", noPart, 0},
	{"amp/grad_scaler.py", "unscale_ _unscale_grads_ step update _maybe_opt_step", inOptimizer, 0},
	{"torch/_tensor.py", "backward", inBackwardCall, 0},
	{"torch/autograd/__init__.py", "grad", inBackwardCall, returnsGrads},
	{"torch/autograd/__init__.py", "backward _make_grads", inBackwardCall, 0},
	{"torch/autograd/graph.py", "_engine_run_backward", inBackwardCall, 0},
	{"torch/utils/checkpoint.py", "unpack_hook recompute_fn backward", noPart, recomputes},
	{"torch/utils/data/", "", inSetup, loadsData},
	{"/accelerate/data_loader.py", "", inSetup, loadsData},
	{"/torch_geometric/data/", "", inSetup, loadsData},
	{"torch/nn/parallel/distributed.py", "__init__ _ddp_init_helper", inSetup, sendsGrads},
	{"", "forward", inModule, 0}, // a module that another one calls by this name
}

// rowsOf has the rows of functions that may fit a function of a name, in order; those that fit all are under "".
var rowsOf = func() map[string][]int {
	all := map[string][]int{}
	for i := range functions {
		for _, name := range strings.Fields(functions[i].functions) {
			all[name] = append(all[name], i)
		}
		if functions[i].functions == "" {
			all[""] = append(all[""], i)
		}
	}
	for name, rows := range all {
		if name != "" {
			all[name] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(rows, all[""]))))
		}
	}
	return all
}()

// partOf returns what a frame of Python says. It is called once for each frame.
func (r *reader) partOf(f *lifetime.Frame) frameFacts {
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

// partIn returns what the first of some rows that fits a file says.
func partIn(rows []int, file string) frameFacts {
	file = strings.ReplaceAll(file, `\`, "/")
	for _, i := range rows {
		if k := &functions[i]; strings.Contains(file, k.file) {
			return frameFacts{true, k.part, k.flags}
		}
	}
	return frameFacts{known: true}
}

// roots are the functions that start a program or a thread of Python. The autograd engine calls hooks, custom
// functions and recomputations from a thread whose stack begins with none of them.
var roots = map[string]bool{
	"<module>": true, "_run_module_as_main": true, "_run_code": true, "run_code": true, "_bootstrap": true, "_bootstrap_inner": true, "run": true,
	"_start": true, "main": true, "_run_once": true,
}

// frameFacts is what a frame says.
type frameFacts struct {
	known bool
	part  part
	flags flag
}

// reader reads call stacks, each call and each frame once.
type reader struct {
	t      *lifetime.Tables
	stacks []facts
	frames []frameFacts
	files  map[string]frameFacts // what functions that rowsOf does not name say, by their file

	paths   map[call]pathID    // nil: all are stacks
	callers []pathID           // by pathID
	lines   []lifetime.FrameID // by pathID: its innermost frame

	calls      []moduleCallSite // by callID
	callIDs    map[moduleCallSite]callID
	chains     [][]callID // by callID; nil = not read
	sequential []bool     // by callID: its line is that of a Sequential, which calls all its modules

	places []place // by SiteID
	texts  texts   // of verdicts

	opScopes       []opScope // by SiteID; nil = not read
	differentiates bool      // an operation is part of a pass with derivatives

	todo        []lifetime.StackID // scratch space
	engineKnown uint8              // 0: not yet looked, 1: no, 2: yes
}

func newReader(t *lifetime.Tables) *reader {
	r := &reader{t: t, places: make([]place, len(t.Sites)), stacks: make([]facts, len(t.Stacks)), frames: make([]frameFacts, len(t.Frames)), files: map[string]frameFacts{},
		callers: make([]pathID, len(t.Stacks)), lines: make([]lifetime.FrameID, len(t.Stacks)),
		calls: make([]moduleCallSite, 1), callIDs: map[moduleCallSite]callID{}, chains: make([][]callID, 1), sequential: make([]bool, 1)}
	r.texts.ids = interned.New[string, textID](&r.texts.all)
	return r
}

// noFacts is what no stack says.
var noFacts facts

// of returns what a stack says.
func (r *reader) of(id lifetime.StackID) *facts {
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

// add adds a frame to what its callers say.
func (r *reader) add(id lifetime.StackID) facts {
	frame, caller := r.t.Stacks[id].Frame, r.t.Stacks[id].Caller
	var f facts
	if caller != 0 {
		f = r.stacks[caller]
	}
	f.known = true
	l := &r.t.Frames[frame]
	if l.File == "" {
		if name, ok := moduleName(l.Function); ok {
			f.module = r.texts.ids.ID(path.Base(name))
		}
	}
	isPart := f.isPart
	f.isPart = true // but for frames of Python
	switch l.Kind {
	case lifetime.Engine, lifetime.Node:
		// Python frames outside of the engine made the node, or called the engine.
		f.engine, f.python, f.within, f.flags = true, false, noPart, 0
		return f
	case lifetime.Runtime:
		switch l.Name() {
		case "cuBLASLt workspace":
			f.flags |= cublasLt
		case "cuBLAS workspace":
			f.flags |= cublas
		case "DDP buckets":
			f.flags |= sendsGrads
		}
		return f
	case lifetime.User, lifetime.Framework:
	default:
		return f
	}
	if l.File == "" { // calls that a trace names
		return f
	}
	f.isPart = isPart
	if !f.python {
		f.python, f.rooted = true, roots[l.Function]
	}
	callers := f.path
	f.path = r.path(id, call{frame, callers}, f.isPart)
	k := &r.frames[frame]
	if !k.known {
		*k = r.partOf(l)
	}
	if (f.flags|k.flags)&compiles != 0 { // a trial run of modules and of the code that is made
		f.flags, f.within, f.last = f.flags|compiles, inSetup, frame
		return f
	}
	if k.flags&runsCompiled != 0 {
		f.compiled = true
		f.flags |= k.flags & ofFunction
		return f
	}
	isCall := k.flags&callsModule != 0
	switch {
	case isCall && f.compiled: // the module that was compiled, not another
	case isCall && (f.last == 0 || r.frames[f.last].flags&callsModule == 0):
		f.caller = f.last
	case !isCall && f.caller != 0:
		f.call, f.caller = r.called(moduleCallSite{f.caller, l.File + " " + l.Function, f.call}), 0
	case !isCall && k.part == inModule && f.last != 0 && !f.compiled: // by its name
		f.call = r.called(moduleCallSite{f.last, l.File + " " + l.Function, f.call})
	}
	f.last, f.compiled = frame, false
	f.flags |= k.flags
	if k.flags&converting != 0 {
		f.converts = frame
	}
	switch k.part {
	case noPart:
		return f
	case inModule:
		if f.within != inModule {
			f.rootCall = callers
		}
		f.flags &^= makesState | clips | clearsGrads
	}
	f.within = k.part
	return f
}

// path returns the Python frames of a stack that ends with c. While no stack has other frames among them, they are the stack.
func (r *reader) path(id lifetime.StackID, c call, isPart bool) pathID {
	if r.paths == nil {
		if !isPart {
			r.callers[id], r.lines[id] = c.caller, c.frame
			return pathID(id)
		}
		r.paths = map[call]pathID{}
		for i := range r.stacks {
			if path := r.stacks[i].path; path > 0 && int(path) == i {
				r.paths[call{r.t.Stacks[i].Frame, r.callers[path]}] = path
			}
		}
	}
	path, ok := r.paths[c]
	if !ok {
		path = pathID(len(r.callers))
		r.paths[c], r.callers, r.lines = path, append(r.callers, c.caller), append(r.lines, c.frame)
	}
	return path
}

// reaches reports whether path is at the end of a path that begins with caller.
func (r *reader) reaches(caller, path pathID) bool {
	for ; path != 0; path = r.callers[path] {
		if path == caller {
			return true
		}
	}
	return false
}
