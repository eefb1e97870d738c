package oom

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
)

// Reason is why an allocation failed, as JSON names it. The list is closed.
type Reason string

const (
	Exhausted    Reason = "exhausted"          // the program needs more than is available
	Leak         Reason = "leak"               // exhausted by a leak
	Fragmented   Reason = "fragmented"         // enough was free, but in smaller pieces
	Larger       Reason = "larger_than_device" // the request or the program is larger than the memory
	Limit        Reason = "limit"              // a limit that the program set for itself
	Other        Reason = "other_process"      // other processes hold the memory
	Outside      Reason = "outside"            // held outside the allocator: contexts, libraries, unlisted processes
	PrivatePools Reason = "private_pools"      // idle in the private pools of CUDA graphs
	Padding      Reason = "padding"            // most of it is padding of layouts
	NotGranted   Reason = "not_granted"        // refused although enough was free
	Host         Reason = "host"               // host memory, not the device's
	Survived     Reason = "survived"           // the program went on without it
	Unknown      Reason = "unknown"
)

// framework is who allocates: advice differs.
type framework uint8

const (
	other framework = iota // RMM, or unknown
	torch
	xla
	tensorflow
)

// OfPyTorch reports whether a capture is of PyTorch, as far as it tells.
func OfPyTorch(source *lifetime.Source) bool {
	f := frameworkOf("", source)
	return f == torch || f == other
}

func frameworkOf(said string, source *lifetime.Source) framework {
	from := func(names ...string) bool {
		by := cmp.Or(source.Producer, source.Format)
		return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(by, name) })
	}
	switch {
	case said == failure.FromTorch, said == failure.FromLibrary:
		return torch
	case said == failure.FromTensorFlow && !from("JAX"):
		return tensorflow
	case said == failure.FromCompiler, said == failure.FromXLA:
		return xla
	case from("PyTorch", "torch", "gpumemprof", "stormlog"):
		return torch
	case from("TensorFlow"):
		return tensorflow
	case from("XLA", "JAX", "XProf", "hlo", "jax", "xplane"):
		return xla
	}
	return other
}

// reasons describe each reason: in words, and what to do by framework; "" = as for others. Words in braces: (*Diagnosis).fill.
var reasons = map[Reason]struct {
	words   string
	advice  [4]string
	devices map[string]string // advice for kinds of devices, before that for frameworks
}{
	Exhausted: {words: "the memory is full of live buffers", advice: [4]string{
		other:      "Use a smaller batch, a narrower type, or free what is not needed any more.",
		torch:      "Use a smaller batch, activation checkpointing or a narrower type.",
		xla:        "Free arrays of earlier steps, donate arguments, or use a smaller batch.",
		tensorflow: "Use a smaller batch, mixed precision, or tf.recompute_grad."}},
	Leak: {words: "a leak filled the memory", advice: [4]string{other: "Fix the leak first; see memlane leaks."}},
	Fragmented: {words: "enough is reserved and free, but in smaller pieces", advice: [4]string{
		other:      fewSizes,
		torch:      "Set {setting}; bucket batch sizes.",
		xla:        "Allocate large buffers first; on GPU, TF_GPU_ALLOCATOR=cuda_malloc_async.",
		tensorflow: "Set TF_GPU_ALLOCATOR=cuda_malloc_async, or allocate large buffers first."},
		devices: map[string]string{"tpu": "Allocate large arrays first, or free arrays before them."}},
	Larger: {words: "it is larger than the memory, so freeing does not help", advice: [4]string{
		other: splitIt,
		xla:   "Shard it, recompute (jax.checkpoint), donate arguments, or use narrower types."}},
	Limit: {words: "the program's own limit was reached", advice: [4]string{
		other:      "Raise the limit of the memory pool.",
		torch:      "Raise set_per_process_memory_fraction.",
		xla:        "Raise XLA_CLIENT_MEM_FRACTION.",
		tensorflow: "Raise the memory limit of the logical device."},
		devices: map[string]string{"mps": "Use a smaller batch, or raise PYTORCH_MPS_HIGH_WATERMARK_RATIO."}},
	Other: {words: "other processes hold memory of the device", advice: [4]string{
		other: "End the other processes, or use another device; see {monitor}."}},
	Outside: {words: "memory outside of this allocator fills the device", advice: [4]string{
		other: "Run {monitor} on the host; leave room for other users.",
		torch: "Run {monitor} on the host; leave room for contexts, NCCL and cuBLAS.",
		xla:   "See {monitor}: other processes need XLA_PYTHON_CLIENT_PREALLOCATE=false."},
		devices: map[string]string{"mps": "Use smaller inputs; torch.mps.driver_allocated_memory() counts the rest."}},
	PrivatePools: {words: "private pools keep idle memory that others cannot use", advice: [4]string{
		other: AdvicePools}},
	Padding: {words: "most of it is padding", advice: [4]string{other: "Make the last two dimensions multiples of 8 x 128, or transpose."}},
	NotGranted: {words: "enough was free, but the driver or the system did not grant it", advice: [4]string{
		other:      "Check the page file, container limits and the driver; do not shrink the batch.",
		torch:      "Check a memory fraction, the page file, container limits; keep the batch.",
		xla:        "Set XLA_PYTHON_CLIENT_PREALLOCATE=false, or a lower XLA_CLIENT_MEM_FRACTION.",
		tensorflow: "See {monitor}: another process may hold what the pool needs to grow."},
		devices: map[string]string{"xpu": "Split the request: the driver may limit one allocation; see {monitor}."}},
	Host: {words: "host memory ran out, not the device's", advice: [4]string{
		other: "Use smaller arrays or fewer worker processes, or add host memory."}},
	Survived: {words: "the program went on without it", advice: [4]string{other: "Nothing has to be done; more memory may make it faster."}},
	Unknown: {words: "the text does not say", advice: [4]string{
		other:      "Keep what the allocator prints above the error, or record a profile.",
		torch:      "Record a snapshot with _record_memory_history and _dump_snapshot.",
		xla:        "Keep the allocator's dump above the error, or record a profile.",
		tensorflow: "Keep the allocator's dump above the error, or record a profile."},
		devices: map[string]string{"xpu": "See {monitor}: others may hold it, or the driver limits one allocation."}},
}

// AdvicePools is what to do about idle memory in private pools.
const AdvicePools = "Use fewer private pools: fewer CUDA graph sizes, no MemPool, no sleep mode."

const (
	fewSizes = "Use few sizes, and allocate long-lived buffers first." // if no setting helps
	splitIt  = "Split the operation: smaller chunks, a shorter sequence, no full matrix."
)

// Reasons returns all reasons.
func Reasons() []Reason { return slices.Sorted(maps.Keys(reasons)) }

// Words returns the reason as a clause.
func (r Reason) Words() string { return reasons[r].words }

// general returns what to do about the reason in a framework, with words in braces.
func (d *Diagnosis) general(f framework) string {
	all := reasons[d.Reason]
	kind, _, _ := strings.Cut(d.Space.Device, ":")
	switch {
	case (d.Reason == Exhausted || d.Reason == Unknown) && d.Filled != "":
		return d.Filled
	case d.Help != "" && d.Reason != Larger && d.Reason != Survived:
		return d.Help
	case d.Reason == Fragmented && d.Source == failure.FromTorch && d.Setting == "":
		return fewSizes
	}
	return cmp.Or(all.devices[kind], all.advice[f], all.advice[other])
}

// monitorOf returns the tool that shows who uses a device.
func monitorOf(device string) string {
	tools := map[string]string{"hip": "rocm-smi", "xpu": "xpu-smi", "npu": "npu-smi", "mps": "Activity Monitor", "metal": "Activity Monitor", "tpu": "tpu-info", "cpu": "top"}
	kind, _, _ := strings.Cut(device, ":")
	return cmp.Or(tools[kind], "nvidia-smi")
}
