package category

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// Rule says what follows from evidence.
type Rule struct {
	Name       string
	Evidence   lifetime.Evidence
	Confidence float32
	Reason     string // why it holds
	Source     string // where that can be read; "" = measured on testdata/meaning

	match
}

// match is the answer of a rule and when it applies.
type match struct {
	category lifetime.Category
	phase    lifetime.Phase // keep: that of the stack
	fits     func(v *view) bool

	// other is used instead if the answer depends on the buffer.
	other func(v *view) (category lifetime.Category, phase lifetime.Phase, ok bool)
}

// of returns the category, and the phase if the rule knows it better. ok is false if the rule does not apply.
func (m *match) of(v *view) (category lifetime.Category, phase lifetime.Phase, ok bool) {
	if m.other != nil {
		return m.other(v)
	}
	return m.category, m.phase, m.fits(v)
}

const (
	keep      = lifetime.UnknownPhase // the phase is that of the stack
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
	{func(v *view) bool { return v.b.Kind != lifetime.Plain || v.r.place(v.b.Site).hasRegion }, []Rule{
		{"recorded", lifetime.FromRecord, 1, "the producer wrote the category of the tensor", "torch/profiler/_memory_profiler.py, Category",
			match{other: func(v *view) (lifetime.Category, lifetime.Phase, bool) {
				c := recorded[strings.ToLower(v.t.Sites[v.b.Site].Region)]
				return c, keep, c != lifetime.UnknownCategory
			}}},
		{"argument_name", lifetime.FromFrames, 0.85, "an argument of a compiled program, by the name of the function's parameter", "jax/_src/api_util.py, names of arguments",
			match{other: func(v *view) (lifetime.Category, lifetime.Phase, bool) {
				if v.b.Kind != lifetime.Parameter {
					return 0, 0, false
				}
				c := argument(v.t.Sites[v.b.Site].Op)
				return c, keep, c != lifetime.UnknownCategory
			}}},
		{"kept_for_derivatives", lifetime.FromLifetime, 0.85, "the forward part of a differentiated program computes it, and it is alive when the backward part begins", "jax/_src/interpreters/ad.py, jvp and transpose",
			always(lifetime.Activation, func(v *view) bool {
				return v.b.Kind == lifetime.Temporary && v.phase == lifetime.Forward && v.b.Begin < v.firstBackward && v.b.End > v.firstBackward
			})},
		{"program_temporary", lifetime.FromRecord, 0.97, "the compiler's assignment says that it lives between two instructions", "xla/service/buffer_assignment.h",
			always(lifetime.TemporaryData, func(v *view) bool { return v.b.Kind == lifetime.Temporary })},
		{"kernel_temporary", lifetime.FromRecord, 0.97, "the kernel of an operation allocated it for itself: region temp", "tensorflow/core/framework/op_kernel.cc, allocate_temp",
			always(lifetime.TemporaryData, func(v *view) bool { return v.b.Kind == lifetime.Plain && v.t.Sites[v.b.Site].Region == "temp" })},
	}},
	{func(v *view) bool {
		return v.f.flags&(cublas|cublasLt) != 0 || v.b.Requested == lowMiB || isHandleWorkspace(v.b.Requested)
	}, []Rule{
		{"library_workspace", lifetime.FromFrames, 0.99, "a function of the library allocates its workspace", "aten/src/ATen/cuda/CublasHandlePool.cpp",
			always(lifetime.Workspace, func(v *view) bool { return v.f.flags&(cublas|cublasLt) != 0 })},
		{"workspace_size", lifetime.FromSize, 0.97, "cuBLAS gets a workspace of this size for each handle and stream and keeps it", "aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize",
			always(lifetime.Workspace, func(v *view) bool { return v.b.Requested == workspace })},
		{"workspace_size_hopper", lifetime.FromSize, 0.8, "on Hopper the workspace has another size; only the first matrix product of a pass makes one. More of this size are weights, such as 4096 x 4096 elements of 16 bits", "aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize",
			always(lifetime.Workspace, func(v *view) bool { return v.mayServeHopper() && v.fewServeHopper() })},
		{"linear_workspace", lifetime.FromSize, 0.95, "cuBLASLt takes 1 MiB for one product with bias and gives it back at once", "aten/src/ATen/cuda/CUDABlas.cpp, CublasLtWorkspace",
			always(lifetime.Workspace, func(v *view) bool { return v.b.Requested == lowMiB && v.f.flags&linear != 0 && v.momentary() })},
		{"product_workspace", lifetime.FromSize, 0.75, "1 MiB, allocated just after another buffer of the same line and given back at once: the workspace of a product whose result that is", "aten/src/ATen/cuda/CUDABlas.cpp, CublasLtWorkspace",
			always(lifetime.Workspace, func(v *view) bool { return v.b.Requested == lowMiB && v.followsOwnLine() && v.momentary() })},
	}},
	{func(v *view) bool { return v.sizes != nil && v.sizes.marks[v.i] != 0 }, []Rule{
		{"copied_gradients", lifetime.FromSize, 0.75, "a line of the program copies all gradients before the step", "",
			is(lifetime.Gradient, lifetime.OptimizerPhase, func(v *view) bool { return v.sizes.is(v.i, gradientCopy) })},
		{"bucket_sizes", lifetime.FromSize, 0.8, "buffers that no parameter explains have together exactly the bytes of all gradients", "",
			match{other: func(v *view) (lifetime.Category, lifetime.Phase, bool) {
				if !v.sizes.is(v.i, inBucket) {
					return 0, 0, false
				}
				if v.phase == lifetime.OptimizerPhase && !v.sure {
					return lifetime.Bucket, lifetime.OtherPhase, true
				}
				return lifetime.Bucket, keep, true
			}}},
		{"master_weights", lifetime.FromSize, 0.8, "copies of all parameters in another precision, whose size the optimizer's state has", "",
			is(lifetime.OptimizerState, keep, func(v *view) bool { return v.sizes.is(v.i, masterWeight) })},
		{"swapped_parameter", lifetime.FromSize, 0.7, "a line copies all parameters in each step, and a copy is alive in the backward pass after the next copy: it became the parameter", "",
			is(lifetime.ModelParameter, lifetime.OptimizerPhase, func(v *view) bool { return v.sizes.is(v.i, swapped) })},
		{"copied_weights", lifetime.FromSize, 0.75, "a line of the program copies all parameters and keeps the copies: the best weights, or those of an earlier step", "",
			is(lifetime.Cache, lifetime.OtherPhase, func(v *view) bool { return v.sizes.is(v.i, weightCopy) })},
		{"kept_by_update", lifetime.FromSize, 0.6, "a line that works on tensors of the gradients' sizes after the backward pass keeps it over passes", "",
			is(lifetime.OptimizerState, lifetime.OptimizerPhase, func(v *view) bool { return v.sizes.is(v.i, updateSized) && (v.outlives || v.leftAtEnd()) && !v.byGraph })},
		{"update", lifetime.FromSize, 0.85, "a line that is no optimizer of PyTorch works on tensors of the gradients' sizes after the backward pass", "",
			is(lifetime.TemporaryData, lifetime.OptimizerPhase, func(v *view) bool { return v.sizes.is(v.i, updateSized) && !v.outlives && !v.open })},
		{"gathered_weights", lifetime.FromSize, 0.8, "a line makes, in one pass, a buffer for each parameter, as many times larger: weights put together from their shards", "torch/distributed/fsdp/_flat_param.py",
			always(lifetime.ModelParameter, func(v *view) bool { return v.sizes.is(v.i, gathered) })},
		{"counted_parameter", lifetime.FromSize, 0.93, "older than the window; their size has exactly the parameters and states that the optimizer keeps, and parameters came first", "torch/optim, _init_group",
			is(lifetime.ModelParameter, keep, func(v *view) bool { return v.sizes.is(v.i, counted) && v.sizes.is(v.i, trained) })},
		{"counted_state", lifetime.FromSize, 0.93, "older than the window; their size has exactly the parameters and states that the optimizer keeps, and states came last", "torch/optim, _init_group",
			is(lifetime.OptimizerState, keep, func(v *view) bool { return v.sizes.is(v.i, counted) && v.sizes.is(v.i, stateSized) })},
		{"flat_parameters", lifetime.FromSize, 0.8, "no long-lived buffer has the size of a gradient, and this one has exactly the bytes of all gradients: parameters are views of it", "megatron/core/distributed/param_and_grad_buffer.py",
			is(lifetime.ModelParameter, keep, func(v *view) bool { return v.sizes.is(v.i, flatParameter) })},
		{"flat_gradients", lifetime.FromSize, 0.75, "beside a buffer that holds all parameters, one with exactly the bytes of all gradients, in their precision or that of the sums: gradients are views of it", "megatron/core/distributed/param_and_grad_buffer.py",
			is(lifetime.Gradient, keep, func(v *view) bool { return v.sizes.is(v.i, flatGradient) })},
		{"trained_size", lifetime.FromSize, 0.85, "a long-lived buffer has the size of a gradient that no other parameter accounts for", "",
			is(lifetime.ModelParameter, keep, func(v *view) bool { return v.sizes.is(v.i, trained) })},
		{"state_size", lifetime.FromSize, 0.7, "long-lived, with the size of a gradient or of a state, and more than the parameters are; a copy of the model looks the same", "",
			is(lifetime.OptimizerState, keep, func(v *view) bool { return v.sizes.is(v.i, stateSized) })},
		{"copied_parameter", lifetime.FromSize, 0.6, "older than the window, with the size of a parameter, and neither that nor a state: a copy of the model, or a state that an option of the optimizer adds", "torch/optim/swa_utils.py",
			is(lifetime.ModelParameter, keep, func(v *view) bool { return v.sizes.is(v.i, copied) })},
		{"gradient_size", lifetime.FromSize, 0.65, "older than the window, with the size of a parameter, while backward passes leave none; or without a stack, as the engine's threads are, while parameters have one", "",
			is(lifetime.Gradient, keep, func(v *view) bool { return v.sizes.is(v.i, gradSized) })},
		{"quantized_weights", lifetime.FromSize, 0.7, "older than the window; each pass makes a temporary of twice or four times its size: it converts them, and modules keep quantized weights as buffers", "",
			is(lifetime.ModelBuffer, keep, func(v *view) bool { return v.sizes.is(v.i, quantized) })},
		{"multiplied_weights", lifetime.FromSize, 0.9, "older than the window; at one number of rows the sizes of the input and the output of a linear module tell the size of its weight, and nearly all of its calls in a pass have a weight of that size", "torch/nn/modules/linear.py",
			is(lifetime.ModelParameter, keep, func(v *view) bool { return v.sizes.is(v.i, multiplied) })},
		{"layer_caches", lifetime.FromSize, 0.6, "older than the window; linear modules have no weight of its size, and there are one or two for each layer, at addresses above all weights; or several of one size that the program frees after calls of the model", "",
			is(lifetime.Cache, keep, func(v *view) bool { return v.sizes.is(v.i, layerCache) })},
		{"older_weights", lifetime.FromSize, 0.55, "older than the window and still there at its end, with the size of no gradient", "",
			is(lifetime.ModelParameter, keep, func(v *view) bool { return v.sizes.is(v.i, noGradient) })},
	}},
	{func(v *view) bool { return v.f.within == inSetup }, []Rule{
		{"named_parameter", lifetime.FromFrames, 0.99, "a Parameter is moved, cast or copied", "torch/nn/parameter.py, Parameter.__deepcopy__",
			is(lifetime.ModelParameter, lifetime.OtherPhase, func(v *view) bool { return v.f.within == inSetup && v.f.flags&ofParameter != 0 })},
		{"named_tensor", lifetime.FromFrames, 0.9, "a module is moved or copied; this tensor of it is no Parameter", "torch/nn/modules/module.py, Module._apply",
			is(lifetime.ModelBuffer, lifetime.OtherPhase, func(v *view) bool { return v.f.within == inSetup && v.f.flags&ofTensor != 0 })},
		{"converted_again", lifetime.FromLifetime, 0.9, "a module was converted twice; the first copy is gone before the first pass", "torch/nn/modules/module.py, Module._apply",
			is(lifetime.TemporaryData, lifetime.OtherPhase, func(v *view) bool {
				return v.f.within == inSetup && v.f.flags&converting != 0 && !v.open && !v.outlives && v.firstSpanAfter(v.b.Begin)
			})},
		{"converted", lifetime.FromFrames, 0.85, "Module._apply converts it; stacks without lines do not tell parameters from buffers", "torch/nn/modules/module.py, Module._apply",
			is(lifetime.ModelParameter, lifetime.OtherPhase, func(v *view) bool {
				return !v.hasLines() && v.f.within == inSetup && v.f.flags&converting != 0
			})},
		{"converted_parameter", lifetime.FromFrames, 0.97, "Module._apply converts parameters first, in a line of their own", "torch/nn/modules/module.py, Module._apply",
			is(lifetime.ModelParameter, lifetime.OtherPhase, func(v *view) bool { return v.isConverted(lifetime.ModelParameter) })},
		{"converted_gradient", lifetime.FromFrames, 0.9, "Module._apply converts the gradient of a parameter right after it, in a line of its own", "torch/nn/modules/module.py, Module._apply",
			is(lifetime.Gradient, lifetime.OtherPhase, func(v *view) bool { return v.isConverted(lifetime.Gradient) })},
		{"converted_buffer", lifetime.FromFrames, 0.95, "Module._apply converts buffers in a later line than parameters", "torch/nn/modules/module.py, Module._apply",
			is(lifetime.ModelBuffer, lifetime.OtherPhase, func(v *view) bool { return v.isConverted(lifetime.ModelBuffer) })},
		{"initialized", lifetime.FromFrames, 0.9, "an initializer works on a parameter that exists", "torch/nn/init.py",
			is(lifetime.TemporaryData, lifetime.OtherPhase, func(v *view) bool { return v.f.within == inSetup && v.f.flags&initializes != 0 && !v.long })},
		{"compiling", lifetime.FromFrames, 0.95, "torch.compile allocates it while it compiles: constants, benchmarks, examples", "torch/_dynamo/convert_frame.py",
			is(lifetime.TemporaryData, lifetime.OtherPhase, func(v *view) bool { return v.f.flags&compiles != 0 && !v.open })},
		{"constructed", lifetime.FromFrames, 0.85, "the constructor of a module makes its parameters", "torch/nn/modules",
			is(lifetime.ModelParameter, lifetime.OtherPhase, func(v *view) bool { return v.f.within == inSetup && v.f.flags&constructs != 0 && v.long })},
	}},
	{func(v *view) bool {
		return v.phase == lifetime.OptimizerPhase || v.f.flags&(sendsGrads|makesState) != 0
	}, []Rule{
		{"ddp_bucket", lifetime.FromFrames, 0.97, "DistributedDataParallel makes buckets for gradients", "torch/csrc/distributed/c10d/reducer.cpp",
			always(lifetime.Bucket, func(v *view) bool { return v.f.flags&sendsGrads != 0 })},

		{"clipping", lifetime.FromFrames, 0.97, "clip_grad_norm_ keeps nothing but the norm that it returns", "torch/nn/utils/clip_grad.py",
			always(lifetime.TemporaryData, func(v *view) bool { return v.phase == lifetime.OptimizerPhase && v.f.flags&clips != 0 })},
		{"made_state", lifetime.FromFrames, 0.98, "the optimizer makes its state", "torch/optim, _init_group",
			always(lifetime.OptimizerState, func(v *view) bool { return v.f.flags&makesState != 0 && (v.outlives || v.leftAtEnd()) })},
		{"kept_by_optimizer", lifetime.FromLifetime, 0.93, "what a step of the optimizer allocates and keeps is its state", "torch/optim/optimizer.py, profile_hook_step",
			always(lifetime.OptimizerState, func(v *view) bool {
				return v.phase == lifetime.OptimizerPhase && v.sure && (v.outlives || v.leftAtEnd()) && !v.byGraph && !v.freedInStep()
			})},
		{"used_by_optimizer", lifetime.FromLifetime, 0.97, "the optimizer frees it before the step ends", "torch/optim/optimizer.py, profile_hook_step",
			always(lifetime.TemporaryData, func(v *view) bool { return v.phase == lifetime.OptimizerPhase && v.sure && !v.open })},
	}},
	{func(v *view) bool { return v.phase == lifetime.Backward }, []Rule{
		{"recomputed", lifetime.FromLifetime, 0.9, "checkpointing runs the forward pass again; the graph frees what it kept", "torch/utils/checkpoint.py",
			always(lifetime.Activation, func(v *view) bool { return v.inRecomputation() && v.byGraph && !v.freedInRecomputation() })},
		{"recomputed_so_far", lifetime.FromLifetime, 0.7, "memory ran out while checkpointing ran the forward pass again", "torch/utils/checkpoint.py",
			always(lifetime.Activation, func(v *view) bool { return v.inRecomputation() && v.interruptedSpan() })},
		{"used_in_recomputation", lifetime.FromLifetime, 0.9, "Python in the engine's thread freed it, or, if that is not recorded, the recomputation goes on after its free", "torch/utils/checkpoint.py",
			always(lifetime.TemporaryData, func(v *view) bool { return v.inRecomputation() && (!v.outlives || v.freedInRecomputation()) })},
		{"kept_for_next_backward", lifetime.FromLifetime, 0.9, "torch.autograd.grad made it, and the graph freed it in a later backward pass: create_graph=True", "torch/autograd/__init__.py, grad",
			always(lifetime.Activation, func(v *view) bool {
				return v.isReturned() && v.byGraph && v.follow(lifetime.Backward) > 0 && v.feedsNext(v.next-1)
			})},
		{"returned_so_far", lifetime.FromLifetime, 0.6, "torch.autograd.grad returned it, and memory ran out in the next backward pass", "torch/autograd/__init__.py, grad",
			always(lifetime.Activation, func(v *view) bool { return v.isReturned() && v.interruptedPass() != nil })},
		{"intermediate_gradient", lifetime.FromLifetime, 0.75, "torch.autograd.grad returned it, and a later backward pass goes through the same call: create_graph=True", "torch/autograd/__init__.py, grad",
			always(lifetime.TemporaryData, func(v *view) bool { return v.isReturned() && v.feedsNext(v.next-1) })},
		{"returned_gradient", lifetime.FromLifetime, 0.85, "torch.autograd.grad returned it to the program", "torch/autograd/__init__.py, grad",
			always(lifetime.Gradient, func(v *view) bool { return v.isReturned() })},
		{"gradient_in_hook", lifetime.FromLifetime, 0.8, "the engine allocated it, a hook freed it, and it has the size of a parameter", "torch/csrc/autograd/functions/accumulate_grad.h, post hooks",
			always(lifetime.Gradient, func(v *view) bool {
				return v.freedByHook() && v.sizes != nil && v.sizes.parametersOf[v.b.Requested] > 0
			})},
		{"used_in_hook", lifetime.FromLifetime, 0.5, "a hook of the backward pass, or a backward function of the program, allocated it", "",
			always(lifetime.TemporaryData, func(v *view) bool { return v.inHook() && !v.outlives })},
		{"freed_by_hook", lifetime.FromLifetime, 0.6, "the engine made it and a hook freed it in the same pass: Python held it, as .grad does", "torch/csrc/autograd/functions/accumulate_grad.h, post hooks",
			always(lifetime.Gradient, func(v *view) bool { return v.freedByHook() })},
		{"kept_by_hook", lifetime.FromLifetime, 0.7, "a hook of the backward pass allocated it and kept it: a gradient in another place or precision", "",
			always(lifetime.Gradient, func(v *view) bool { return v.inHook() && v.leftByBackward() })},
		{"older_gradient", lifetime.FromFrames, 0.85, "older than the window; the engine allocated it, and it is still there when a pass ends", "torch/csrc/autograd/functions/accumulate_grad.h",
			always(lifetime.Gradient, func(v *view) bool { return v.unseen && v.sure && v.leftByBackward() })},
		{"gradient", lifetime.FromLifetime, 0.95, "the backward pass allocated it and left it to Python, as .grad", "torch/csrc/autograd/functions/accumulate_grad.h",
			always(lifetime.Gradient, func(v *view) bool {
				return v.phase == lifetime.Backward && v.sure && v.leftByBackward() && !v.inRecomputation()
			})},
		{"gradient_so_far", lifetime.FromSize, 0.6, "memory ran out in the backward pass that allocated it; it has the size of a parameter", "",
			always(lifetime.Gradient, func(v *view) bool { return v.sure && v.interruptedSpan() && v.parameterSized() })},
		{"used_so_far", lifetime.FromLifetime, 0.6, "memory ran out in the backward pass that allocated it", "",
			always(lifetime.TemporaryData, func(v *view) bool { return v.sure && v.interruptedSpan() })},
		{"used_by_backward", lifetime.FromLifetime, 0.97, "the engine frees it before the backward pass ends", "torch/csrc/autograd/engine.cpp",
			always(lifetime.TemporaryData, func(v *view) bool { return v.phase == lifetime.Backward && v.sure && !v.outlives })},
	}},
	{func(v *view) bool { return v.phase == lifetime.Forward && !v.unseen }, []Rule{
		{"grown_cache", lifetime.FromLifetime, 0.9, "modules leave it after the call, at a place that leaves as many bytes more after each call: a cache to which each call adds", "transformers/cache_utils.py",
			always(lifetime.Cache, func(v *view) bool { return v.grows() })},
		{"carried", lifetime.FromLifetime, 0.75, "the graph of a later pass freed it, and its own pass freed what else the call left: a state that a step hands to the next", "",
			always(lifetime.Cache, func(v *view) bool { return v.keptOver() && v.handsOn(v.next-1) })},
		{"kept_over_passes", lifetime.FromLifetime, 0.9, "the graph freed it in a later backward pass than the next: that of another loss", "torch/csrc/autograd/saved_variable.cpp",
			always(lifetime.Activation, func(v *view) bool { return v.keptOver() })},
		{"kept_for_backward", lifetime.FromLifetime, 0.97, "the backward pass frees it without Python: only the graph held it", "torch/csrc/autograd/saved_variable.cpp",
			always(lifetime.Activation, func(v *view) bool { return v.phase == lifetime.Forward && v.byGraph })},
		{"kept_so_far", lifetime.FromLifetime, 0.7, "memory ran out before the backward pass of this forward pass was over; what it left until then is for that", "torch/csrc/autograd/saved_variable.cpp",
			always(lifetime.Activation, func(v *view) bool {
				f := v.interruptedPass()
				return v.phase == lifetime.Forward && v.sure && f != nil && (v.follow(lifetime.Backward) > 0 || v.keepsUntil(f))
			})},
		{"alive_at_failure", lifetime.FromLifetime, 0.6, "memory ran out in this forward pass, which keeps little of what it allocates", "",
			always(lifetime.TemporaryData, func(v *view) bool {
				return v.phase == lifetime.Forward && v.sure && !v.open && v.interruptedPass() != nil
			})},
		{"kept_between_calls", lifetime.FromLifetime, 0.85, "no graph exists; a later call of the model uses what an inner module left", "transformers/cache_utils.py",
			always(lifetime.Cache, func(v *view) bool {
				return v.phase == lifetime.Forward && !v.trains && v.f.within == inModule && !v.lasts[v.i] && v.follow(lifetime.Forward) > 0 && v.leavesSeveral(v.next-1)
			})},
		{"left_by_call", lifetime.FromLifetime, 0.6, "no graph exists, and a call leaves only this: its result, which a variable holds until the next", "",
			always(lifetime.TemporaryData, func(v *view) bool {
				return v.phase == lifetime.Forward && v.sure && !v.trains && !v.open && v.f.within == inModule && v.follow(lifetime.Forward) > 0
			})},
		{"used_by_forward", lifetime.FromLifetime, 0.97, "it is freed before the backward pass begins", "",
			always(lifetime.TemporaryData, func(v *view) bool {
				return v.phase == lifetime.Forward && v.sure && !v.open && v.follow(lifetime.Backward) == 0
			})},
		{"held_by_python", lifetime.FromLifetime, 0.8, "a variable held it through the backward pass; the graph may have, too", "",
			always(lifetime.TemporaryData, func(v *view) bool {
				return v.phase == lifetime.Forward && v.sure && !v.long && (!v.open || v.follow(lifetime.Backward) > 0)
			})},
		{"kept_at_end", lifetime.FromLifetime, 0.75, "a pass keeps much of what its modules allocate, and the recording ends before the backward pass", "torch/csrc/autograd/saved_variable.cpp",
			always(lifetime.Activation, func(v *view) bool {
				return v.phase == lifetime.Forward && v.open && v.f.within == inModule && v.next == len(v.spans) && v.keeps()
			})},
		{"result", lifetime.FromLifetime, 0.5, "it was alive at the end and no pass followed", "",
			always(lifetime.TemporaryData, func(v *view) bool { return v.phase == lifetime.Forward && v.sure && v.open && !v.trains })},
	}},
	{func(v *view) bool { return true }, []Rule{
		{"loaded", lifetime.FromFrames, 0.9, "a data loader made it", "torch/utils/data",
			is(lifetime.Input, lifetime.OtherPhase, func(v *view) bool { return v.f.flags&loadsData != 0 })},
		{"used_in_gap", lifetime.FromLifetime, 0.8, "it is freed before the next phase begins", "",
			always(lifetime.TemporaryData, func(v *view) bool {
				return !v.unseen && !v.outlives && !v.open && v.phase != lifetime.UnknownPhase
			})},
		{"used_by_graph", lifetime.FromLifetime, 0.85, "made after torch.autograd.grad returned, and only the graph held it at last", "torch/csrc/autograd/saved_variable.cpp",
			is(lifetime.Activation, lifetime.Forward, func(v *view) bool {
				return !v.unseen && v.phase == lifetime.OtherPhase && v.byGraph && v.next > 0 && v.spans[v.next-1].returns
			})},
		{"replaced_in_growing", lifetime.FromLifetime, 0.9, "freed by a place that leaves more after each call of the model: the part of a cache to which it adds", "transformers/cache_utils.py",
			always(lifetime.Cache, func(v *view) bool { return v.freedByGrowing() })},
		{"for_forward", lifetime.FromLifetime, 0.75, "made outside of modules before a forward pass that it lives to see, and gone a step later", "",
			is(lifetime.Input, lifetime.OtherPhase, func(v *view) bool {
				return !v.unseen && v.phase == lifetime.OtherPhase && v.nextIs(lifetime.Forward) && (!v.long || v.inOneStep())
			})},
		{"freed_before_backward", lifetime.FromSize, 0.75, "older than the window, with the size of a gradient, and gone before the first backward pass; frees have no stacks", "",
			always(lifetime.Gradient, func(v *view) bool {
				return v.unseen && !v.open && v.freed == nil && v.sizes != nil && v.sizes.gradientsOf[v.b.Requested] > 0 && v.beforeBackward()
			})},
		{"freed_by_graph", lifetime.FromLifetime, 0.85, "the backward pass freed it without Python", "torch/csrc/autograd/saved_variable.cpp",
			always(lifetime.Activation, func(v *view) bool { return v.unseen && v.byGraph })},
		{"replaced_state", lifetime.FromFrames, 0.9, "older than the window; a step of the optimizer freed it, and not zero_grad: the step replaced its state", "torch/optim/optimizer.py, profile_hook_step",
			always(lifetime.OptimizerState, func(v *view) bool {
				return v.unseen && v.freed != nil && v.freed.within == inOptimizer && v.freed.flags&(clearsGrads|clips) == 0
			})},
		{"freed_by_zero_grad", lifetime.FromFrames, 0.97, "zero_grad freed it", "torch/optim/optimizer.py, zero_grad",
			always(lifetime.Gradient, func(v *view) bool { return v.unseen && v.freed != nil && v.freed.flags&clearsGrads != 0 })},
		{"kept_data", lifetime.FromFrames, 0.5, "allocated before the first pass, by a function other than a constructor, at a place that allocates nothing later, and kept while the program trains: a data set on the device. Objects allocate what they store in their constructors", "",
			always(lifetime.Input, func(v *view) bool {
				return v.trains && v.keptBeside() && !v.r.inConstructor(v.f.path) && v.madeBeforePasses()
			})},
		{"kept_by_program", lifetime.FromLifetime, 0.4, "the program keeps it beside its modules", "",
			always(lifetime.Cache, func(v *view) bool { return v.keptBeside() })},
	}},
}

// recorded maps the categories of PyTorch's memory timeline, and of other producers, to categories.
var recorded = map[string]lifetime.Category{
	"parameter": lifetime.ModelParameter, "optimizer_state": lifetime.OptimizerState, "input": lifetime.Input, "temporary": lifetime.TemporaryData,
	"optimizer state": lifetime.OptimizerState, "activation": lifetime.Activation, "gradient": lifetime.Gradient,
}

// always returns the match of a category in the phase of the stack.
func always(c lifetime.Category, fits func(v *view) bool) match { return is(c, keep, fits) }

// is returns the match of a category and a phase.
func is(c lifetime.Category, phase lifetime.Phase, fits func(v *view) bool) match {
	return match{category: c, phase: phase, fits: fits}
}

// momentary reports whether the buffer is freed before the next allocation, the workspace of a new cuBLAS handle aside.
func (v *view) momentary() bool {
	if v.unseen || v.open {
		return false
	}
	next := v.i + 1
	if next < len(v.s.Buffers) && isHandleWorkspace(v.s.Buffers[next].Requested) {
		next++
	}
	return next >= len(v.s.Buffers) || v.b.End <= v.s.Buffers[next].Begin
}

// followsOwnLine reports whether the allocation before was made by the same calls and is still alive.
func (v *view) followsOwnLine() bool {
	if v.i == 0 || v.unseen || v.at(v.b).path == 0 {
		return false
	}
	last := &v.s.Buffers[v.i-1]
	return last.Edge&lifetime.BeginUnseen == 0 && last.Site == v.b.Site && last.End > v.b.End
}

// beforeBackward reports whether the buffer ended before the first backward pass.
func (v *view) beforeBackward() bool {
	first := slices.IndexFunc(v.spans, func(s span) bool { return s.phase == lifetime.Backward })
	return first >= 0 && v.b.End <= v.spans[first].begin
}

// isHandleWorkspace reports whether a size is that of the workspace of a cuBLAS handle.
func isHandleWorkspace(size int64) bool { return size == workspace || size == hopper }

// mayServeHopper reports whether a buffer has the size of a workspace on Hopper, and is kept like one.
func (v *view) mayServeHopper() bool {
	return v.b.Requested == hopper && (v.unseen || v.long && (v.phase == lifetime.Forward || v.phase == lifetime.Backward))
}

// fewServeHopper reports whether no more buffers may be workspaces on Hopper than the program has handles: one for the forward pass, one for the
// backward pass.
func (a *analysis) fewServeHopper() bool {
	const most = 2
	if !a.hopperKnown {
		a.hopperKnown = true
		for i := range a.s.Buffers {
			if a.s.Buffers[i].Requested != hopper {
				continue
			}
			if v := a.view(i); v.mayServeHopper() {
				a.ofHopper++
			}
		}
	}
	return a.ofHopper <= most
}

// leftAtEnd reports whether the recording ended after the phase that allocated the buffer, but before the next one, while it was
// alive. If memory ran out, the phase had not ended.
func (v *view) leftAtEnd() bool { return v.open && v.next == len(v.spans) && len(v.failed) == 0 }

// keptOver reports whether the graph held a buffer of a forward pass over a whole backward pass.
func (v *view) keptOver() bool {
	return v.phase == lifetime.Forward && v.byGraph && v.follow(lifetime.Backward) > 1
}

// keeps reports whether the last pass keeps a quarter of the buffers that its modules allocate: so does a graph, but not a
// cache.
func (a *analysis) keeps() bool {
	if !a.counted {
		a.counted = true
		kept, all := 0, 0
		for i := range a.s.Buffers {
			b := &a.s.Buffers[i]
			if int(a.next[i]) == len(a.spans) && b.Edge&lifetime.BeginUnseen == 0 && a.at(b).within == inModule {
				all++
				if b.Edge&lifetime.EndOpen != 0 {
					kept++
				}
			}
		}
		a.manyKept = keepsEnough(kept, all)
	}
	return a.manyKept
}

// feedsNext reports whether a backward pass that returns gradients made something that the graph held until a later pass. At least
// half of such passes must do so: Python may collect garbage in the thread of the engine.
func (a *analysis) feedsNext(span int) bool {
	if a.feeds == nil {
		a.feeds = make([]bool, len(a.spans))
		for i := range a.s.Buffers {
			if v := a.view(i); v.byGraph && v.isReturned() && v.follow(lifetime.Backward) > 0 {
				a.feeds[v.next-1] = true
			}
		}
		passes, feed := 0, 0
		for i, s := range a.spans {
			if s.returns {
				passes++
			}
			if a.feeds[i] {
				feed++
			}
		}
		if 2*feed < passes {
			clear(a.feeds)
		}
	}
	return a.feeds[span]
}

// leavesSeveral reports whether several buffers that modules allocated in a call are alive when the next call begins.
func (a *analysis) leavesSeveral(span int) bool {
	if a.leaves == nil {
		a.leaves = make([]int32, len(a.spans))
		for i := range a.s.Buffers {
			if v := a.view(i); v.phase == lifetime.Forward && v.next > 0 && v.f.within == inModule && v.follow(lifetime.Forward) > 0 {
				a.leaves[v.next-1]++
			}
		}
	}
	return span >= 0 && a.leaves[span] > 1
}

// freedInStep reports whether it was freed in the step of an optimizer that allocated it: the step may call forward and backward
// passes.
func (v *view) freedInStep() bool {
	i, ok := v.stepAt(v.b.Begin)
	return ok && !v.open && v.b.End <= v.steps[i].End
}

// handsOn reports whether the backward pass that follows a span freed most of the buffers that the graph kept of it. A pass
// whose graph waits for its turn keeps nearly all.
func (a *analysis) handsOn(span int) bool {
	if a.freedNext == nil {
		a.freedNext = make([]int32, len(a.spans))
		for i := range a.s.Buffers {
			b := &a.s.Buffers[i]
			last := int(a.next[i]) - 1
			if b.Edge&lifetime.BeginUnseen == 0 && last >= 0 && a.out[i].Phase == lifetime.Forward && a.flags[i]&heldByGraph != 0 {
				if a.crosses(int(a.next[i]), b.End, lifetime.Backward) == 1 {
					a.freedNext[last]++
				} else {
					a.freedNext[last]--
				}
			}
		}
	}
	return span >= 0 && a.freedNext[span] > 0
}

// byPythonInEngine reports whether Python code allocated in the thread of the autograd engine.
func (v *view) byPythonInEngine() bool {
	return v.phase == lifetime.Backward && v.sure && v.f.python && (v.f.engine || !v.f.rooted || v.f.flags&recomputes != 0) && v.f.within != inBackwardCall
}

// inRecomputation reports whether checkpointing allocated it.
func (v *view) inRecomputation() bool {
	return v.byPythonInEngine() && (v.f.within == inModule || v.f.flags&recomputes != 0)
}

// inHook reports whether a hook of the backward pass, or the backward function of a program, allocated it.
func (v *view) inHook() bool { return v.byPythonInEngine() && !v.inRecomputation() }

// freedByHook reports whether the engine allocated it and a hook freed it in the same pass.
func (v *view) freedByHook() bool {
	return v.phase == lifetime.Backward && v.sure && !v.f.python && !v.outlives && v.freed != nil && v.freed.python && v.freed.within != inBackwardCall &&
		v.freed.flags&(clearsGrads|recomputes) == 0 && v.r.inEngine(v.freed)
}

// isReturned reports whether a backward pass that gives its gradients to its caller allocated it and left it.
func (v *view) isReturned() bool {
	return v.phase == lifetime.Backward && v.sure && v.outlives && !v.inRecomputation() && v.next > 0 && v.spans[v.next-1].returns
}

// freedInRecomputation reports, for frees without stacks, whether the next allocation after the free recomputes, too.
func (v *view) freedInRecomputation() bool {
	if v.freed != nil || v.open {
		return false
	}
	next, _ := slices.BinarySearchFunc(v.s.Buffers, v.b.End, func(b lifetime.Buffer, t int64) int { return cmp.Compare(b.Begin, t) })
	if next == len(v.s.Buffers) {
		return false
	}
	after := v.view(next)
	return after.inRecomputation()
}

// leftByBackward reports whether the buffer was alive after the backward pass, or Python freed it.
func (v *view) leftByBackward() bool {
	return v.leftAtEnd() || v.freed != nil && v.freed.flags&clearsGrads != 0 || v.outlives && !v.byGraph || v.outlives && v.follow(lifetime.Backward) > 0 || v.freed != nil && v.freed.rooted && v.freed.within != inBackwardCall
}

// isConverted reports whether Module._apply converts the buffer, in a line for tensors of a category.
func (v *view) isConverted(c lifetime.Category) bool {
	if v.f.within != inSetup || v.f.flags&converting == 0 {
		return false
	}
	if v.converts == nil {
		v.converts = v.linesOfApply()
	}
	return v.converts[v.f.converts] == c
}

// linesOfApply returns what the lines of Module._apply convert. The first converts parameters, a later one their gradients, each right
// after its parameter, and the last one buffers.
func (a *analysis) linesOfApply() map[lifetime.FrameID]lifetime.Category {
	first := map[string]lifetime.FrameID{}
	a.eachConverted(func(f *facts, _ int64) {
		l := &a.t.Frames[f.converts]
		if old, ok := first[l.File]; !ok || a.t.Frames[old].Line > l.Line {
			first[l.File] = f.converts
		}
	})
	lines := map[lifetime.FrameID]lifetime.Category{}
	for _, line := range first {
		lines[line] = lifetime.ModelParameter
	}
	all, after := map[lifetime.FrameID]int{}, map[lifetime.FrameID]int{} // after a parameter of the same size
	parameter := int64(-1)                                               // size of the tensor before, if it is a parameter
	a.eachConverted(func(f *facts, size int64) {
		all[f.converts]++
		if size == parameter {
			after[f.converts]++
		}
		if parameter = -1; lines[f.converts] == lifetime.ModelParameter {
			parameter = size
		}
	})
	for line, n := range all {
		switch {
		case lines[line] == lifetime.ModelParameter:
		case after[line]*10 >= n*9:
			lines[line] = lifetime.Gradient
		default:
			lines[line] = lifetime.ModelBuffer
		}
	}
	return lines
}

// eachConverted calls take with the tensors that Module._apply converts, in order of time or, at one time, of their addresses.
func (a *analysis) eachConverted(take func(f *facts, size int64)) {
	for i := range a.s.Buffers {
		if f := a.at(&a.s.Buffers[i]); f.flags&converting != 0 {
			take(f, a.s.Buffers[i].Requested)
		}
	}
}
