package category

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Rule says what follows from evidence.
type Rule struct {
	Name     string
	Evidence purpose.Evidence
	Reason   string // why it holds; a comment says where that can be read, unless it follows from the order of phases

	match
}

type match struct {
	category purpose.Category
	phase    purpose.Phase // keep: that of the stack
	fits     func(v *view) bool

	// other is used instead if the answer depends on the buffer.
	other func(v *view) (category purpose.Category, phase purpose.Phase, ok bool)
}

// of returns the category, and the phase if the rule knows it better. ok is false if the rule does not apply.
func (m *match) of(v *view) (category purpose.Category, phase purpose.Phase, ok bool) {
	if m.other != nil {
		return m.other(v)
	}
	return m.category, m.phase, m.fits(v)
}

const (
	keep      = purpose.UnknownPhase // the phase is that of the stack
	lowMiB    = 1 << 20
	workspace = 4096*1024*2 + 16*1024*8 // bytes of ":4096:2:16:8"
	hopper    = 32 << 20                // bytes of ":4096:8"
)

// group is rules that apply to some buffers only.
type group struct {
	apply func(v *view) bool // a quick test; no rule of the group fits if it is false
	rules []Rule
}

// Rules lists all rules. The first one that fits a buffer counts.
var Rules = func() (all []Rule) {
	for _, g := range groups {
		all = append(all, g.rules...)
	}
	return all
}()

// general is the group of rules that hold for captures of all programs. The others are for PyTorch.
var general = groups[:1]

var groups = []group{
	{func(v *view) bool {
		return v.b.Kind != lifetime.Plain || v.r.place(v.b.Site).hasRegion || v.t.HolderOf(v.s, v.i) != nil
	}, []Rule{
		{"recorded", purpose.FromRecord,
			"the recorder found what holds it, the producer wrote the category of the tensor, or the region temp of an operation's kernel",
			// torch/profiler/_memory_profiler.py, Category; tensorflow/core/framework/op_kernel.cc, allocate_temp
			match{other: func(v *view) (purpose.Category, purpose.Phase, bool) {
				if h := v.t.HolderOf(v.s, v.i); h != nil && h.Category != purpose.UnknownCategory {
					return h.Category, keep, true
				}
				c := recorded[strings.ToLower(v.t.Sites[v.b.Site].Region)]
				return c, keep, c != purpose.UnknownCategory
			}}},
		{"argument_name", purpose.FromFrames,
			"an argument of a compiled program or a copy of one, by the name of the function's parameter; of m and v, also by the shapes of a third",
			// jax/_src/api_util.py, names of arguments
			match{other: func(v *view) (purpose.Category, purpose.Phase, bool) {
				if !v.isArgument(v.b) {
					return 0, 0, false
				}
				c := v.arguments[v.t.Sites[v.b.Site].Op]
				return c, keep, c != purpose.UnknownCategory
			}}},
		{"differentiated", purpose.FromLifetime,
			"what a differentiated program does with it: it overwrites a parameter, or keeps two moments of it; computes a gradient in the shape of one; or computes it forward and keeps it until its backward part begins",
			// jax/_src/interpreters/ad.py, jvp and transpose
			match{other: func(v *view) (purpose.Category, purpose.Phase, bool) {
				c := v.differentiated()
				return c, keep, c != purpose.UnknownCategory
			}}},
		{"program_temporary", purpose.FromRecord,
			"the compiler's assignment says that it lives between two instructions",
			// xla/service/buffer_assignment.h
			always(purpose.TemporaryData, func(v *view) bool { return v.b.Kind == lifetime.Temporary })},
	}},
	{func(v *view) bool {
		return v.f.flags&(program.Cublas|program.CublasLt|program.SendsGrads|program.LoadsData) != 0 || v.b.Requested == workspace || v.b.Requested == hopper
	}, []Rule{
		{"made_by_library", purpose.FromFrames,
			"a function that makes nothing else allocates it: the workspace of a library, a bucket of DistributedDataParallel, or a batch of a data loader",
			// aten/src/ATen/cuda/CublasHandlePool.cpp; torch/csrc/distributed/c10d/reducer.cpp; torch/utils/data
			match{other: func(v *view) (purpose.Category, purpose.Phase, bool) {
				switch {
				case v.f.flags&(program.Cublas|program.CublasLt) != 0:
					return purpose.Workspace, keep, true
				case v.f.flags&program.SendsGrads != 0:
					return purpose.Bucket, keep, true
				}
				return purpose.Input, purpose.OtherPhase, v.f.flags&program.LoadsData != 0
			}}},
		{"workspace_size", purpose.FromSize,
			"cuBLAS gets a workspace of this size for each handle and stream and keeps it, or for a call",
			// aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize
			always(purpose.Workspace, func(v *view) bool {
				return v.isOfCall() || !v.byGraph && (v.open || v.outlives) && (v.b.Requested == workspace || v.mayServeHopper() && v.fewServeHopper() &&
					(v.long || v.open && (v.unseen || v.next+1 < len(v.spans) || v.over))) // it outlived the next pass
			})},
	}},
	{func(v *view) bool { return v.sizes != nil && v.sizes.marks[v.i] != 0 }, []Rule{
		{"bucket_sizes", purpose.FromSize,
			"buffers that no parameter explains have together exactly the bytes of all gradients",
			// torch/csrc/distributed/c10d/reducer.cpp
			match{other: func(v *view) (purpose.Category, purpose.Phase, bool) {
				if !v.sizes.is(v.i, inBucket) {
					return 0, 0, false
				}
				if v.phase == purpose.OptimizerPhase && !v.sure {
					return purpose.Bucket, purpose.OtherPhase, true
				}
				return purpose.Bucket, keep, true
			}}},
		{"counted_parameter", purpose.FromSize,
			"older than the recording; their size has exactly the parameters and states that the optimizer keeps, and parameters came first",
			// torch/optim, _init_group
			is(purpose.ModelParameter, keep, func(v *view) bool { return v.sizes.is(v.i, counted) })},
		{"trained_size", purpose.FromSize,
			"long-lived, and each size has as many as gradients; parameters were allocated first",
			// torch/optim, _init_group
			is(purpose.ModelParameter, keep, func(v *view) bool { return v.sizes.is(v.i, trained) })},
		{"counted_state", purpose.FromSize,
			"older than the first step; each size has exactly the parameters and the states that the optimizer keeps, and it made none later",
			// torch/optim, _init_group
			is(purpose.OptimizerState, keep, func(v *view) bool { return v.sizes.is(v.i, stateSized) })},
		{"own_state", purpose.FromSize,
			"older than the recording, but not than the first pass; the optimizer is none of PyTorch's, and each size has one or two more than parameters, some two, of whose size a step drops a result",
			is(purpose.OptimizerState, keep, func(v *view) bool { return v.sizes.is(v.i, ownState) })},
		{"copied_model", purpose.FromSize,
			"older than the first pass, for it lies below the first workspace of a library; the optimizer has no more states than follow it",
			// torch/optim/swa_utils.py, AveragedModel
			is(purpose.ModelParameter, keep, func(v *view) bool { return v.sizes.is(v.i, copied) })},
		{"without_stack", purpose.FromFrames,
			"older than the recording; parameters of this size have a stack, and as many buffers have none, as those of the engine's threads",
			// torch/csrc/autograd/functions/accumulate_grad.h
			is(purpose.Gradient, keep, func(v *view) bool { return v.sizes.is(v.i, byEngine) })},
		{"without_gradient", purpose.FromSize,
			"older than the recording and never freed; the optimizer has no more states, and others have its size",
			is(purpose.ModelParameter, keep, func(v *view) bool { return v.sizes.is(v.i, noGradient) })},
	}},
	{func(v *view) bool { return v.previous[v.i] > 0 }, []Rule{
		{"replaces", purpose.FromLifetime,
			"the line that made it dropped an older one of its size: it takes the place of a parameter, a state or a buffer of a module",
			match{other: func(v *view) (purpose.Category, purpose.Phase, bool) {
				c := v.out[v.previous[v.i]-1].Category
				return c, keep, c == purpose.ModelParameter || c == purpose.OptimizerState || c == purpose.ModelBuffer
			}}},
	}},
	{func(v *view) bool { return v.f.within == program.InSetup || v.f.flags&program.OfParameter != 0 }, []Rule{
		{"made_by_module", purpose.FromFrames,
			"a Parameter or another tensor of a module is made or copied; or Module._apply converts parameters, the gradient of each right after it, and then buffers, each in a line of its own",
			// torch/nn/parameter.py, Parameter.__deepcopy__; torch/nn/modules; torch/nn/modules/module.py, Module._apply
			match{other: func(v *view) (purpose.Category, purpose.Phase, bool) {
				switch {
				case v.f.flags&program.OfParameter != 0:
					return purpose.ModelParameter, keep, true
				case v.f.flags&program.OfTensor != 0:
					return purpose.ModelBuffer, purpose.OtherPhase, true
				case v.f.flags&program.Constructs != 0 && v.f.flags&(program.Initializes|program.Compiles) == 0 && (v.long || v.open || v.overPasses(v.i)):
					return purpose.ModelParameter, purpose.OtherPhase, true
				}
				c := v.converted()
				return c, purpose.OtherPhase, c != purpose.UnknownCategory
			}}},
	}},
	{func(v *view) bool {
		return v.phase == purpose.OptimizerPhase || v.f.flags&program.MakesState != 0
	}, []Rule{
		{"kept_by_optimizer", purpose.FromLifetime,
			"what a step of the optimizer allocates and keeps is its state",
			// torch/optim/optimizer.py, profile_hook_step
			always(purpose.OptimizerState, func(v *view) bool {
				inStep := v.phase == purpose.OptimizerPhase && v.sure && v.f.flags&program.Clips == 0 && !v.byGraph && !v.freedInStep() && !v.mayBeParameter()
				if v.f.flags&program.MakesState != 0 {
					return v.outlives || v.open // memory may run out in the first step
				}
				return inStep && (v.outlives || v.before[purpose.OptimizerPhase][v.next] <= 1 && v.leftAtEnd())
			})},
	}},
	{func(v *view) bool { return v.phase == purpose.Forward || v.phase == purpose.Backward || v.byGraph }, []Rule{
		{"kept_for_backward", purpose.FromLifetime,
			"a backward pass frees it without Python, so that only the graph held it; or the backward of a torch.autograd.Function, also one of torch.compile, frees it",
			// torch/csrc/autograd/saved_variable.cpp; torch/autograd/function.py, save_for_backward
			always(purpose.Activation, func(v *view) bool { return v.onlyByGraph() || v.freedByFunction() })},
		{"kept_by_pass", purpose.FromLifetime,
			"a graph may hold it, and no whole backward pass follows: the pass keeps a quarter of what modules allocate, or something of half of their lines",
			// torch/csrc/autograd/saved_variable.cpp
			always(purpose.Activation, func(v *view) bool { return v.keptByPass() })},
		{"kept_between_calls", purpose.FromLifetime,
			"no graph exists; a later call of the model uses what an inner module left",
			// transformers/cache_utils.py
			always(purpose.Cache, func(v *view) bool {
				return v.phase == purpose.Forward && !v.trains && v.f.within == program.InModule && !v.lasts[v.i] &&
					v.follow(purpose.Forward) > 0 && v.leavesSeveral(v.next-1) && (!v.open || v.passedOn[v.b.Site])
			})},
		{"gradient", purpose.FromLifetime,
			"the backward pass allocated it in the size of a parameter and left it to Python, as .grad",
			// torch/csrc/autograd/functions/accumulate_grad.h
			always(purpose.Gradient, func(v *view) bool {
				isReturned := v.outlives && v.next > 0 && v.spans[v.next-1].returns // to the caller of torch.autograd.grad
				if v.phase != purpose.Backward || !v.sure || v.inRecomputation() || isReturned {
					return false
				}
				return v.leftByBackward() && v.ofParameterSize() || !v.f.python && v.isReduced(v.i)
			})},
	}},
	{func(v *view) bool { return true }, []Rule{
		{"named_by_function", purpose.FromFrames,
			"a function made it that says by its name or file what it makes: weights, a cache of keys and values if no graph exists, flat buffers",
			// transformers/cache_utils.py; vllm/worker/cache_engine.py; megatron/core/distributed/param_and_grad_buffer.py
			match{other: func(v *view) (purpose.Category, purpose.Phase, bool) {
				if !v.f.python || !v.open && !v.long && (v.next == 0 || v.b.End <= v.spans[v.next-1].end) { // it is gone with the call
					return 0, 0, false
				}
				switch c := v.r.named(v.f.path); c {
				case purpose.Cache:
					if v.phase == purpose.Forward && v.follow(purpose.Backward) > 0 {
						return purpose.Activation, keep, true // attention keeps the keys and values, whoever holds the cache
					}
					return c, keep, !v.trains && (v.phase != purpose.Forward || !v.unseen || v.follow(purpose.Forward) > 1)
				default:
					return c, keep, c != purpose.UnknownCategory && (v.open || v.long)
				}
			}}},
		{"temporary", purpose.FromLifetime,
			"it is freed before the phase that allocated it ends; or a variable holds it: a result until the next one, or what a cross entropy read, which keeps the logarithm of its softmax instead",
			// torch/csrc/autograd/generated/Functions.cpp, LogSoftmaxBackward0
			always(purpose.TemporaryData, func(v *view) bool { return v.readByLoss() || v.usedWithinPhase() || v.isHeldResult() })},
		{"for_forward", purpose.FromLifetime,
			"made outside of modules for the next forward pass of a training, gone a step later; no parameter has its size",
			is(purpose.Input, purpose.OtherPhase, func(v *view) bool { return !v.unseen && !v.open && v.phase == purpose.OtherPhase && v.isData() })},
		{"freed_by_zero_grad", purpose.FromFrames,
			"older than the recording; zero_grad freed it",
			// torch/optim/optimizer.py, zero_grad
			always(purpose.Gradient, func(v *view) bool { return v.unseen && v.freed != nil && v.freed.flags&program.ClearsGrads != 0 })},
		{"multiplied", purpose.FromSize,
			"older than all passes, and kept; it has the columns of an input and of a result of their products, and no more have than there are products",
			is(purpose.ModelParameter, keep, func(v *view) bool { return v.sizes.is(v.i, multiplied) })},
		{"kept_by_constructor", purpose.FromFrames,
			"the constructor of an object that is no module allocated it, and the program keeps it over passes: a store of its own",
			always(purpose.Cache, func(v *view) bool {
				return v.sizes != nil && v.sizes.gradientsOf[v.b.Requested] == 0 && !v.unseen && v.phase == purpose.OtherPhase && v.long &&
					v.f.within == program.NoPart && v.r.inConstructor(v.f.path) && (len(v.sizes.parametersOf) > 0 || !v.trains && v.s.Buffers[0].Edge&lifetime.BeginUnseen != 0)
			})},
	}},
}

// recorded maps the categories of PyTorch's memory timeline, and of other producers, to categories.
var recorded = map[string]purpose.Category{
	"parameter": purpose.ModelParameter, "optimizer_state": purpose.OptimizerState, "optimizer state": purpose.OptimizerState,
	"input": purpose.Input, "activation": purpose.Activation, "gradient": purpose.Gradient,
	"temporary": purpose.TemporaryData, "temp": purpose.TemporaryData,
}

func always(c purpose.Category, fits func(v *view) bool) match { return is(c, keep, fits) }

func is(c purpose.Category, phase purpose.Phase, fits func(v *view) bool) match {
	return match{category: c, phase: phase, fits: fits}
}

// differentiated returns what a compiled program that has derivatives uses or makes a buffer for; UnknownCategory if nothing tells it.
func (v *view) differentiated() purpose.Category {
	isTemporary, site := v.b.Kind == lifetime.Temporary, &v.t.Sites[v.b.Site]
	switch {
	case site.Role == compiled.Trained:
		return purpose.ModelParameter
	case site.Role == compiled.State:
		return purpose.OptimizerState
	case isTemporary && v.phase == purpose.Backward && v.shapes[arrayOf(site.Shape)]:
		return purpose.Gradient
	case isTemporary && v.phase == purpose.Forward && v.b.Begin < v.firstBackward && v.b.End > v.firstBackward:
		return purpose.Activation
	}
	return purpose.UnknownCategory
}

// isOfCall reports whether a buffer has the size of a workspace and nothing that is allocated while it lives stays longer, as results of an operation do.
func (v *view) isOfCall() bool {
	if v.b.Requested != workspace || v.open {
		return false
	}
	const most = 64 // temporaries of others meanwhile
	for n, b := range v.s.Buffers[v.i+1:] {
		if b.Begin > v.b.End {
			break
		}
		if n == most || b.End > v.b.End {
			return false
		}
	}
	return true
}

// mayServeHopper reports whether a buffer has the size of a workspace on Hopper, and is kept like one.
func (v *view) mayServeHopper() bool {
	inPass := v.phase == purpose.Forward || v.phase == purpose.Backward
	return v.b.Requested == hopper && (v.unseen || inPass && (v.long || v.open && v.outlives))
}

// fewServeHopper reports whether no more buffers may be workspaces on Hopper than the program has handles: one for the
// forward pass, one for the backward pass.
func (a *analysis) fewServeHopper() bool {
	const most = 2
	if a.ofHopper == 0 {
		a.ofHopper = 1
		for i := range a.s.Buffers {
			if a.s.Buffers[i].Requested != hopper {
				continue
			}
			if v := a.view(i); v.mayServeHopper() {
				a.ofHopper++
			}
		}
	}
	return a.ofHopper-1 <= most
}

// leftAtEnd reports whether the recording ended after the phase that allocated the buffer, but before the next one,
// while it was alive. If memory ran out, the phase had not ended.
func (v *view) leftAtEnd() bool {
	return v.open && v.next == len(v.spans) && v.over && len(v.failedIn(v.next-1)) == 0
}

// leavesSeveral reports whether several buffers that modules allocated in a call are alive when the next call begins.
func (a *analysis) leavesSeveral(span int) bool {
	if a.leaves == nil {
		a.leaves, a.passedOn = make([]int32, len(a.spans)), map[lifetime.SiteID]bool{}
		for i := range a.s.Buffers {
			if v := a.view(i); v.phase == purpose.Forward && v.next > 0 && v.f.within == program.InModule && v.follow(purpose.Forward) > 0 {
				a.leaves[v.next-1]++
				a.passedOn[v.b.Site] = a.passedOn[v.b.Site] || !v.open
			}
		}
	}
	return span >= 0 && a.leaves[span] > 1
}

// mayBeParameter reports whether something that a step of an optimizer keeps may take the place of a parameter.
func (v *view) mayBeParameter() bool {
	if i := v.previous[v.i]; i > 0 {
		return v.out[i-1].Category == purpose.UnknownCategory || v.out[i-1].Category == purpose.ModelParameter
	}
	return v.rebinds()
}

// rebinds reports whether steps of an optimizer free what has the size of the buffer and is alive over the first backward pass, as parameters are, and it
// is not known what takes their place: what a step keeps may be a parameter. Where all parameters are known, only they count.
func (v *view) rebinds() bool {
	if v.rebound == nil {
		v.rebound = map[int64]bool{}
		for i := range v.s.Buffers {
			b := &v.s.Buffers[i]
			if v.replaced[i] || v.analysis.next[i] > 0 || b.Edge&(lifetime.BeginUnseen|lifetime.EndOpen) != 0 || !v.overPasses(i) {
				continue
			}
			if z := v.sizes; z != nil && v.out[i].Category != purpose.ModelParameter && z.toldAtOnce[b.Requested] >= max(1, z.gradientsOf[b.Requested]) {
				continue
			}
			v.rebound[b.Requested] = v.rebound[b.Requested] || v.freedByStep(i)
		}
	}
	return v.rebound[v.b.Requested]
}

func (a *analysis) freedByStep(i int) bool {
	_, inStep := a.stepAt(a.s.Buffers[i].End - 1)
	f := a.freed(i)
	return inStep || f != nil && f.within == program.InOptimizer && f.flags&program.ClearsGrads == 0
}

// freedInStep reports whether it was freed in the step of an optimizer that allocated it: the step may call forward and backward passes.
func (v *view) freedInStep() bool {
	i, ok := v.stepAt(v.b.Begin)
	return ok && !v.open && v.b.End <= v.steps[i].End
}

// byPythonInEngine reports whether Python code allocated in the thread of the autograd engine.
func (v *view) byPythonInEngine() bool {
	inEngine := v.f.engine || !v.f.rooted || v.f.flags&program.Recomputes != 0
	return v.phase == purpose.Backward && v.sure && v.f.python && inEngine && v.f.within != program.InBackwardCall
}

// onlyByGraph reports whether the autograd graph was the last to hold what it keeps: of a forward pass, of a part of it that checkpointing runs again, of
// a backward pass through which a later one goes, or of a pass before the window. Without stacks of frees, only a forward pass tells it.
func (v *view) onlyByGraph() bool {
	switch {
	case !v.byGraph || v.phase == purpose.OptimizerPhase:
		return false
	case v.unseen && (v.atEdge(v.i) || v.sizes == nil || v.sizes.gradientsOf[v.b.Requested] > 0):
		return false // it may be what a backward pass allocated
	case v.phase == purpose.Backward && !v.unseen:
		return v.freed != nil && (v.inRecomputation() || v.sure && v.outlives && v.follow(purpose.Backward) > 0)
	}
	return true
}

// freedByFunction reports whether a forward pass made it and the backward of a torch.autograd.Function freed it.
func (v *view) freedByFunction() bool {
	f := v.freed
	if v.phase != purpose.Forward || !v.sure || f == nil || v.open || !f.python || f.within == program.InBackwardCall ||
		f.flags&(program.Recomputes|program.OfFunction) != program.OfFunction || !v.r.inEngine(f) {
		return false
	}
	last, _ := v.around(v.b.End)
	return last >= 0 && v.spans[last].phase == purpose.Backward && v.b.End <= v.spans[last].end
}

// usedWithinPhase reports whether it was freed before the phase that allocated it ended. A forward pass of a program that trains may be several calls.
// What an exception frees because memory ran out tells nothing; nor does the time of a free in a recomputation.
func (v *view) usedWithinPhase() bool {
	if v.unseen || v.phase == purpose.UnknownPhase {
		return false
	}
	switch f := v.interruptedPass(); {
	case f != nil && f.span == v.next-1 && v.phase == purpose.Forward && v.f.within == program.InModule && !v.aside[v.i]:
		return v.fateOf(f.span, v.i) == drops
	case v.open, f != nil, slices.ContainsFunc(v.failedIn(v.next-1), func(f failure) bool { return v.aliveAt(f.t) }), v.freed == nil && v.inRecomputation():
		return false
	case v.isAutocastCopy(v.i):
		return true
	case v.phase == purpose.OptimizerPhase && v.previous[v.i] > 0 && v.out[v.previous[v.i]-1].Category == purpose.UnknownCategory:
		return false // it may take the place of a parameter
	case v.phase == purpose.Forward && !v.trains && v.handedOut():
		return false // to the next call, perhaps
	case !v.outlives:
		return v.phase != purpose.Backward || v.sure && !v.leftByBackward()
	case v.phase == purpose.Forward:
		return v.sure && v.trains && v.follow(purpose.Backward) == 0 && v.follow(purpose.OptimizerPhase) == 0
	}
	return v.phase == purpose.OptimizerPhase && v.sure && v.freedInStep()
}

// isAutocastCopy reports whether autocast kept it until its context ended: a copy of a weight in 16 bits.
// (torch/amp/autocast_mode.py, autocast.__exit__; aten/src/ATen/autocast_mode.cpp, clear_cache)
func (a *analysis) isAutocastCopy(i int) bool {
	f := a.freed(i)
	return a.out[i].Phase == purpose.Forward && f != nil && f.flags&program.DropsCasts != 0
}

// isHeldResult reports whether it is the last allocation of a call in inference, which the function that made the call, or a caller of it,
// frees: when it has the next result, or with del.
func (v *view) isHeldResult() bool {
	if v.trains || !v.lasts[v.i] || v.freed == nil || !v.freed.python {
		return false
	}
	same, at := v.r.Callers(v.freed.path)
	path, f := v.r.Callers(v.f.rootCall)
	for path != 0 && path != same {
		path, f = v.r.Callers(path)
	}
	return path == same && f.File == at.File && f.Function == at.Function
}

// handedOut reports whether something that an inner module made is alive after the call of the model. What the call itself frees when it returns is not.
func (v *view) handedOut() bool {
	return v.f.within == program.InModule && v.next > 0 && !v.lasts[v.i] && !v.aside[v.i] && v.b.End > v.spans[v.next-1].end &&
		(v.freed == nil || v.freed.flags&program.CallsModule == 0)
}

// readByLoss reports whether a cross entropy was computed of something that Python holds: it is the last allocation
// before it with the size of the logarithm, or half of it and then copied to 32 bits.
func (v *view) readByLoss() bool {
	if v.phase != purpose.Forward || v.unseen || v.byGraph || !v.outlives && !v.open || v.f.flags&program.Losses != 0 {
		return false
	}
	size, copied := v.b.Requested, false
	for i, n := v.i+1, 0; n < beforeLoss && i < len(v.s.Buffers); i++ {
		b := &v.s.Buffers[i]
		if v.aside[i] {
			continue
		}
		n++
		switch same, double := b.Requested == size, b.Requested == 2*size; {
		case !same && !double:
		case v.at(b).flags&program.Losses != 0:
			return true
		case same || copied:
			return false // another result
		default:
			size, copied = b.Requested, true
		}
	}
	return false
}

// beforeLoss is how many allocations may be between a result and the logarithm of its softmax: labels are shifted, a copy is made.
const beforeLoss = 8

// isData reports whether a buffer that the program makes between steps is data of the next one. Without a known optimizer,
// it may be the update or work on a result; in the size of a parameter, a copy of it.
func (v *view) isData() bool {
	z, size := v.sizes, v.b.Requested
	inOneStep := v.optimizes() && v.follow(purpose.OptimizerPhase) <= 1 // several passes may belong to a step
	return z != nil && v.outlives && v.spans[v.next].phase == purpose.Forward && (!v.long || inOneStep) && v.f.within == program.NoPart &&
		v.f.flags&program.Losses == 0 && v.trains && v.optimizes() && z.parametersOf[size]+z.gradientsOf[size] == 0
}

// ofParameterSize reports whether something that is alive over passes, as parameters are, has the size of the buffer.
// Traces record blocks, which may have up to 1 MiB more.
func (v *view) ofParameterSize() bool {
	if v.s.Facts&lifetime.EndState == 0 {
		return true // a trace has nothing from before the window
	}
	if v.lasting == nil {
		v.lasting = map[int64]bool{}
		for i := range v.s.Buffers {
			if b := &v.s.Buffers[i]; v.overPasses(i) {
				v.lasting[b.Requested] = true
			}
		}
	}
	return v.lasting[v.b.Requested]
}

func (v *view) inRecomputation() bool {
	return v.byPythonInEngine() && (v.f.within == program.InModule || v.f.flags&program.Recomputes != 0)
}

// leftByBackward reports whether the buffer was alive after the backward pass, or Python freed it.
func (v *view) leftByBackward() bool {
	byPython := v.freed != nil && (v.freed.flags&program.ClearsGrads != 0 || v.freed.rooted && v.freed.within != program.InBackwardCall)
	return v.leftAtEnd() || byPython || v.outlives && (!v.byGraph || v.follow(purpose.Backward) > 0)
}

// overPasses reports whether a buffer that no backward pass made is alive over one, as parameters are.
func (a *analysis) overPasses(i int) bool {
	b := &a.s.Buffers[i]
	open := b.Edge&lifetime.EndOpen != 0
	if b.Edge&lifetime.BeginUnseen != 0 {
		return !a.trains || a.whole < a.s.End && (open || b.End > a.whole)
	}
	next := int(a.next[i])
	if a.out[i].Phase == purpose.Backward || a.flags[i]&heldByGraph != 0 {
		return false
	}
	return a.flags[i]&isLong != 0 || next == 0 && a.crosses(next, b.End, purpose.Backward) > 0 && (!open || a.whole < a.s.End)
}

// converted returns the category of the tensors for which Module._apply has the line that converts the buffer; UnknownCategory if there is none. Stacks
// without lines do not tell parameters from buffers. A module may be converted twice: the first copy is gone before the first pass.
func (v *view) converted() purpose.Category {
	if v.f.within != program.InSetup || v.f.flags&program.Converting == 0 || !v.open && !v.outlives {
		return purpose.UnknownCategory
	}
	if !v.hasLines() {
		return purpose.ModelParameter
	}
	if v.converts == nil {
		v.converts = v.linesOfApply()
	}
	return v.converts[v.f.converts]
}

// linesOfApply returns what the lines of Module._apply convert. The first converts parameters, a later one their
// gradients, each right after its parameter, and the last one buffers.
func (a *analysis) linesOfApply() map[lifetime.FrameID]purpose.Category {
	first := map[string]lifetime.FrameID{}
	a.eachConverted(func(f *facts, _ int64) {
		l := &a.t.Frames[f.converts]
		if old, ok := first[l.File]; !ok || a.t.Frames[old].Line > l.Line {
			first[l.File] = f.converts
		}
	})
	lines := map[lifetime.FrameID]purpose.Category{}
	for _, line := range first {
		lines[line] = purpose.ModelParameter
	}
	all, after := map[lifetime.FrameID]int{}, map[lifetime.FrameID]int{} // after a parameter of the same size
	parameter := int64(-1)                                               // size of the tensor before, if it is a parameter
	a.eachConverted(func(f *facts, size int64) {
		all[f.converts]++
		if size == parameter {
			after[f.converts]++
		}
		if parameter = -1; lines[f.converts] == purpose.ModelParameter {
			parameter = size
		}
	})
	for line, n := range all {
		switch {
		case lines[line] == purpose.ModelParameter:
		case after[line]*10 >= n*9:
			lines[line] = purpose.Gradient
		default:
			lines[line] = purpose.ModelBuffer
		}
	}
	return lines
}

// eachConverted calls take with the tensors that Module._apply converts, in order of time or, at one time, of their addresses.
func (a *analysis) eachConverted(take func(f *facts, size int64)) {
	for i := range a.s.Buffers {
		if f := a.at(&a.s.Buffers[i]); f.flags&program.Converting != 0 {
			take(f, a.s.Buffers[i].Requested)
		}
	}
}
