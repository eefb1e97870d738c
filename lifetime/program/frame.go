package program

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/frame"
)

// Part is a part of PyTorch that tells the phase of an allocation.
type Part uint8

const (
	NoPart         Part = iota
	InModule            // the forward pass of a module
	InOptimizer         // a step, or what belongs to it
	InBackwardCall      // the caller of a backward pass
	InSetup             // makes or moves modules, optimizers, data
)

// Flag marks stacks of one purpose.
type Flag uint32

const (
	Converting  Flag = 1 << iota // Module._apply: to, cuda, half
	OfParameter                  // a Parameter is converted or copied
	OfTensor                     // a tensor that is not a Parameter is converted or copied
	Constructs                   // the constructor of a module of PyTorch
	Initializes                  // torch.nn.init
	Clips                        // clip_grad_norm_
	ClearsGrads                  // zero_grad
	MakesState                   // the state of an optimizer
	LoadsData
	SendsGrads // buckets of DDP
	Cublas
	CublasLt
	Linear       // torch.nn.functional.linear or Linear.forward
	Recomputes   // checkpointing runs a part of the forward pass again
	CallsModule  // Module.__call__
	ReturnsGrads // torch.autograd.grad
	Compiles     // torch.compile compiles the code that called it, or tries which of its kernels is fastest
	RunsCompiled // torch.compile runs what it compiled
	OfFunction   // the forward or backward of a torch.autograd.Function
	WithoutGrad  // a function that no_grad or inference_mode decorates
	RunsHooks    // calls hooks of modules or of autograd
	OfModules    // any other function of torch.nn.modules
	OfAutograd   // any other function of torch.autograd
	ForEach      // a step of an optimizer on all parameters at once
	Distributed  // torch.distributed, and libraries that shard a program over ranks
	Shards       // what shards parameters and states over ranks
	ReducesGrads // FSDP sums up gradients over the ranks, and drops the whole ones
	Losses       // torch.nn.functional.cross_entropy or log_softmax, which the backward pass of a loss begins with
	Multiplies   // a function or an operator that multiplies matrices
	DropsCasts   // the end of an autocast context, which drops its copies of weights
	Checkpoints  // what it calls runs again in the backward pass
	RunsAhead    // torch.compile runs what it compiled together with its backward pass, if it has one
)

// functions are the known functions of PyTorch. A stack is read from its outermost frame; the innermost part counts. Sources: torch/nn/modules/module.py,
// torch/optim/optimizer.py, torch/amp/grad_scaler.py, torch/nn/utils/clip_grad.py, torch/_tensor.py, torch/_dynamo/convert_frame.py,
// torch/_inductor/runtime/triton_heuristics.py, torch/autograd/__init__.py, torch/autograd/graph.py, torch/utils/checkpoint.py, torch/utils/data,
// torch/nn/parallel/distributed.py, torch/utils/_contextlib.py, torch/utils/hooks.py, torch/amp/autocast_mode.py.
var functions = []struct {
	file      string // part of the path
	functions string // separated by spaces; "" = all
	part      Part
	flags     Flag
}{
	{"torch/nn/modules/module.py", "_call_impl _wrapped_call_impl", InModule, CallsModule},
	{"torch/nn/modules/module.py", "_apply", InSetup, Converting},
	{"torch/nn/modules/module.py", "zero_grad", InOptimizer, ClearsGrads},
	{"torch/nn/modules/linear.py", "forward", NoPart, Linear | Multiplies},
	{"/transformers/pytorch_utils.py", "forward", InModule, Multiplies},
	{"torch/functional.py", "einsum", NoPart, Multiplies},
	{"torch/nn/modules/transformer.py", "forward", InModule, Linear | Multiplies}, // the fast path of inference calls no module
	{functional, "cross_entropy log_softmax", NoPart, Losses},
	{functional, "linear multi_head_attention_forward _in_projection_packed _in_projection", NoPart, Linear | Multiplies},
	{"torch/nn/modules/", "__init__", InSetup, Constructs},
	{"torch/nn/modules/", "reset_parameters _reset_parameters", InSetup, Initializes},
	{"torch/nn/parameter.py", "__deepcopy__", InSetup, OfParameter},
	{"torch/nn/parameter.py", "__new__ materialize", InSetup, Constructs},
	{"torch/_tensor.py", "__deepcopy__", InSetup, OfTensor},
	{"torch/nn/init.py", "", InSetup, Initializes},
	{"torch/nn/utils/clip_grad.py", "", InOptimizer, Clips},
	{"torch/optim/optimizer.py", "zero_grad", InOptimizer, ClearsGrads},
	{"torch/optim/optimizer.py", "load_state_dict add_param_group", InSetup, MakesState},
	{"torch/optim/lr_scheduler.py", "", NoPart, 0},
	{"torch/_dynamo/convert_frame.py", "", InSetup, Compiles},
	{"torch/_inductor/runtime/triton_heuristics.py", "autotune_to_one_config coordinate_descent_tuning", InSetup, Compiles},
	{"torch/_dynamo/eval_frame.py", "__call__", InModule, CallsModule},
	{"torch/_dynamo/", "", NoPart, RunsCompiled},
	{"torch/_functorch/_aot_autograd/", "", NoPart, RunsCompiled | RunsAhead},
	{"torch/_functorch/", "", NoPart, RunsCompiled},
	{"torch/_inductor/", "", NoPart, RunsCompiled},
	{"torch/amp/autocast_mode.py", "__exit__", NoPart, DropsCasts},
	{"torch/autograd/function.py", "apply", NoPart, RunsCompiled | OfFunction},
	{"torch/optim/swa_utils.py", "", NoPart, 0},
	{"torch/optim/", "__init__", InSetup, MakesState},
	{"torch/optim/", "_init_group", InOptimizer, MakesState},
	{"torch/optim/", "_multi_tensor_adadelta _multi_tensor_adagrad _multi_tensor_adam _multi_tensor_adamax _multi_tensor_adamw _multi_tensor_asgd " +
		"_multi_tensor_nadam _multi_tensor_radam _multi_tensor_rmsprop _multi_tensor_rprop _multi_tensor_sgd", InOptimizer, ForEach},
	{"torch/optim/", "", InOptimizer, 0},
	{"/bitsandbytes/optim/", "", InOptimizer, 0},
	{"/apex/optimizers/", "", InOptimizer, 0},
	{"amp/grad_scaler.py", "scale", InModule, 0},
	{"amp/grad_scaler.py", "_lazy_init_scale_growth_tracker", NoPart, 0},
	{"amp/grad_scaler.py", "unscale_ _unscale_grads_ step update _maybe_opt_step", InOptimizer, 0},
	{"torch/_tensor.py", "backward", InBackwardCall, 0},
	{"torch/autograd/__init__.py", "grad", InBackwardCall, ReturnsGrads},
	{"torch/autograd/__init__.py", "backward _make_grads", InBackwardCall, 0},
	{"torch/autograd/graph.py", "_engine_run_backward", InBackwardCall, 0},
	{"torch/utils/checkpoint.py", "unpack_hook recompute_fn backward", NoPart, Recomputes},
	{"torch/utils/data/", "", InSetup, LoadsData},
	{"/accelerate/data_loader.py", "", InSetup, LoadsData},
	{"/torch_geometric/data/", "", InSetup, LoadsData},
	{"torch/nn/parallel/distributed.py", "__init__ _ddp_init_helper", InSetup, SendsGrads},
	{"", "forward", InModule, 0},                                                                                     // a module that another one calls by this name
	{"", "forward_features forward_head encode_image encode_text get_image_features get_text_features", InModule, 0}, // parts of timm, CLIP
	{"torch/nn/modules/module.py", "inner", NoPart, RunsHooks},
	{"torch/utils/hooks.py", "", NoPart, RunsHooks},
	{"torch/utils/_contextlib.py", "", NoPart, WithoutGrad},
	{"torch/utils/checkpoint.py", "", NoPart, Checkpoints},
	{"torch/distributed/fsdp/", "_init_sharded_param reset_sharded_param init_all_gather_outputs alloc_storage " +
		"flatten_tensors _get_shard _alloc_padded_unsharded_flat_param _use_low_precision_shard", NoPart,
		OfParameter | Distributed | Shards},
	{"torch/distributed/fsdp/", "foreach_reduce", NoPart, ReducesGrads | Distributed | Shards},
	{"torch/distributed/fsdp/", "", NoPart, Distributed | Shards},
	{"/deepspeed/runtime/zero/", "", NoPart, Distributed | Shards},
	{"torch/distributed/", "", NoPart, Distributed},
	{"/deepspeed/", "", NoPart, Distributed},
	{"/megatron/", "", NoPart, Distributed},
	{"torch/nn/modules/", "", NoPart, OfModules},
	{"torch/autograd/", "", NoPart, OfAutograd},
}

// PoolKind returns what a frame on a stack that reserved a private pool says about the pool: "CUDA graph", "sleep mode"; "" if nothing.
// Sources: torch/cuda/graphs.py, torch/_inductor/cudagraph_trees.py, vllm/device_allocator/cumem.py, torch_memory_saver.
func PoolKind(f *frame.Frame) string {
	for _, kind := range [][2]string{{"/cumem.py", "sleep mode"}, {"/torch_memory_saver/", "sleep mode"}, {"torch/cuda/graphs.py", "CUDA graph"},
		{"/cudagraph_trees.py", "CUDA graph of torch.compile"}, {"/cuda_graph", "CUDA graph"}} {
		if strings.Contains(f.File, kind[0]) {
			return kind[1]
		}
	}
	return ""
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

// partIn returns what the first of some rows that fits a file says.
func partIn(rows []int, file string) frameFacts {
	file = strings.ReplaceAll(file, `\`, "/")
	said := frameFacts{known: true, ofTorch: strings.HasPrefix(file, "torch/") || strings.Contains(file, "/torch/")}
	for _, i := range rows {
		if k := &functions[i]; strings.Contains(file, k.file) {
			said.part, said.flags = k.part, k.flags
			break
		}
	}
	return said
}

// roots are the functions that start a program or a thread of Python. The autograd engine calls hooks, custom
// functions and recomputations from a thread whose stack begins with none of them.
var roots = map[string]bool{
	"<module>": true, "_run_module_as_main": true, "_run_code": true, "run_code": true, "_bootstrap": true,
	"_bootstrap_inner": true, "run": true, "_start": true, "main": true, "_run_once": true,
}

const functional = "torch/nn/functional.py"

// IsFunctional reports whether a frame is a function of torch.nn.functional.
func IsFunctional(f *frame.Frame) bool { return strings.HasSuffix(f.File, functional) }

// Operator is what an operator of PyTorch does, as flags.
type Operator uint32

const (
	OpHalf          Operator = 1 << iota // autocast: its result has 16 bits, and so have copies of its operands
	OpFloat                              // autocast: its result has 32 bits
	OpSavesOwn                           // it saves its result for the backward pass, not its operand
	OpSavesOperand                       // it saves its operand, and is a function of that alone
	OpReduces                            // its result is of rows of its operand
	OpWeight                             // its second operand may be a weight
	OpProduct                            // makes the gradient of a weight, and that of its input
	OpLinear                             // a module Linear runs it
	OpConv                               // a convolution
	OpRecurrent                          // runs over a sequence
	OpOverTime                           // a whole recurrent layer: many products inside
	OpCompares                           // its result is a mask
	OpPerToken                           // its result grows with the length of sequences, not with its square
	OpNorm                               // a normalization, of either direction
	OpSoftmax                            // a softmax, of either direction
	OpLogSoftmax                         // a softmax of a loss, of either direction
	OpAttention                          // all of attention
	OpEmbedding                          // looks up tokens
	OpCast                               // changes how elements are stored
	OpOfActivations                      // a product of two activations
	OpElements                           // computes each element by itself, or casts or moves it
	OpBits                               // computes bits of integers
	OpNumbers                            // its result is integers
	OpIndices                            // its second result is integers: where those of the first are
	OpStores                             // copies its operand or makes a tensor: it saves nothing for the backward pass
)

// operators are the known operators, separated by spaces. Autocast: aten/src/ATen/autocast_mode.h.
var operators = []struct {
	names string
	does  Operator
}{
	{"linear", OpHalf | OpWeight | OpLinear | OpPerToken},
	{"mm addmm", OpHalf | OpWeight | OpLinear | OpProduct},
	{"matmul", OpHalf | OpLinear | OpOfActivations},
	{"bmm baddbmm", OpHalf | OpProduct | OpOfActivations},
	{"einsum", OpHalf | OpOfActivations},
	{"mv addbmm scaled_dot_product_attention _thnn_fused_lstm_cell", OpHalf},
	{"lstm_cell gru_cell", OpHalf | OpRecurrent},
	{"rnn_tanh_cell rnn_relu_cell", OpRecurrent},
	{"convolution_backward", OpProduct},
	{"softmax log_softmax exp", OpFloat | OpSavesOwn},
	{"sum prod cumsum cumprod norm linalg_vector_norm dist cdist cosine_similarity", OpFloat},
	{"group_norm logsumexp softplus log log10 log2 log1p pow square acos asin cosh sinh", OpFloat | OpSavesOperand},
	{"arange", OpFloat | OpNumbers},
	{"randint randperm argmax argmin argsort one_hot multinomial nonzero bincount searchsorted", OpNumbers},
	{"max min topk sort median cummax", OpIndices},
	{"expm1 rsqrt reciprocal tan", OpFloat},
	{"mse_loss l1_loss smooth_l1_loss huber_loss nll_loss kl_div binary_cross_entropy_with_logits triplet_margin_loss", OpFloat},
	{"embedding", OpFloat | OpPerToken},
	{"layer_norm native_layer_norm rms_norm", OpFloat | OpPerToken | OpSavesOperand},
	{"relu", OpSavesOwn | OpPerToken},
	{"tanh sigmoid", OpSavesOwn},
	{"mean var std var_mean amax amin", OpReduces},
	{"gelu silu", OpPerToken | OpSavesOperand},
	{"lstm gru rnn_tanh rnn_relu", OpOverTime | OpRecurrent},
	{"eq ne lt le gt ge logical_not bitwise_not", OpCompares},
	{"to _to_copy copy_", OpCast | OpElements | OpStores},
	{"dequantize", OpCast | OpElements},
	{"clone", OpElements | OpStores},
	{"empty empty_like zeros zeros_like ones ones_like full full_like rand rand_like randn randn_like", OpStores},
	{"contiguous mul div add sub rsub neg abs round clamp clamp_min stack cat index index_select where", OpElements},
	{"bitwise_and bitwise_right_shift __rshift__ __and__", OpElements | OpBits},
}

var families = []struct {
	part string
	does Operator
}{
	{"conv", OpConv}, {"norm", OpNorm}, {"softmax", OpSoftmax}, {"log_softmax", OpLogSoftmax}, {"attention", OpAttention}, {"embedding", OpEmbedding},
	{"upsample", OpFloat}, {"max_pool", OpIndices},
}

var operatorOf = func() map[string]Operator {
	all := map[string]Operator{}
	for _, row := range operators {
		for _, name := range strings.Fields(row.names) {
			all[name] = row.does
		}
	}
	return all
}()

// OperatorOf returns what an operator does: "aten::mm" or "mm".
func OperatorOf(name string) Operator {
	name = strings.TrimPrefix(name, "aten::")
	does := operatorOf[name]
	for _, family := range families {
		if strings.Contains(name, family.part) {
			does |= family.does
		}
	}
	if strings.HasPrefix(name, "conv") && does&OpProduct == 0 {
		does |= OpHalf | OpWeight
	}
	return does
}

// Is reports whether an operator does any of what flags say.
func (o Operator) Is(flags Operator) bool { return o&flags != 0 }
