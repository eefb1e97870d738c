package oomtext

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
)

// A new text of another program is a row of sentences, and a row of programs for what is told about its failures; a line that it prints
// before about its memory is a row of contexts. Sources: vllm/v1/worker/utils.py, vllm/v1/worker/gpu_worker.py, vllm/worker/worker.py and
// vllm/v1/core/kv_cache_utils.py, sglang/srt/model_executor/model_runner.py and sglang/srt/mem_cache/memory_pool.py,
// onnxruntime/core/framework/bfc_arena.cc, ggml/src/ggml-cuda/ggml-cuda.cu and ggml-metal.m, paddle/phi/core/memory/allocation/cuda_allocator.cc,
// cupy/cuda/memory.pyx, mm/oom_kill.c of Linux, src/plugins/task/cgroup of Slurm, numpy/_core/_exceptions.py, TH/THGeneral.c of PyTorch to
// 0.4, xla/stream_executor/cuda and gpu, src/oom/oomd-manager.c of systemd, ray/_private/worker.py, megatron/training/utils.py
// (report_memory), deepspeed/runtime/utils.py (see_memory_usage), xla/hlo/transforms/simplifiers/hlo_rematerialization.cc; TensorRT is closed.

// programs are who prints each kind of text. Help is for people: one line of at most 80 columns, with the words in braces of package oom.
var programs = map[string]struct {
	name    string // of the producer
	help    string // what helps; "" = as for its framework
	atStart string // the same if the text says what was free when the program began
	plans   bool   // it refuses plans
	opaque  bool   // memlane reads no recordings of it
	twice   bool   // it prints a failure again, with the exact size
}{
	failure.FromTorch:      {name: "PyTorch"},
	failure.FromLibrary:    {name: "PyTorch"},
	failure.FromTensorFlow: {name: "TensorFlow"},
	failure.FromCompiler:   {name: "XLA"},
	failure.FromXLA:        {name: "XLA"},
	failure.FromKernel:     {help: "Request more host memory (--mem), or use fewer workers and smaller caches."},
	"vllm": {name: "vLLM", plans: true, help: "Raise gpu_memory_utilization, lower max_model_len, or use more devices.",
		atStart: "Lower gpu_memory_utilization to {free share}, or free what others hold; see {monitor}."},
	"tensorrt-llm": {name: "TensorRT-LLM", opaque: true, help: "Lower kv_cache_free_gpu_memory_fraction, max_num_tokens or max_batch_size."},
	"sglang":       {name: "SGLang", plans: true, help: "Raise --mem-fraction-static, shorten the context, or use more devices (--tp)."},
	"tensorrt":     {name: "TensorRT", opaque: true, help: "Lower the workspace limit or the batch; see {monitor} for other processes."},
	"onnxruntime": {name: "onnxruntime", opaque: true,
		help: "Use a smaller batch or input, or arena_extend_strategy=kSameAsRequested."},
	"llama.cpp": {name: "llama.cpp", opaque: true, twice: true,
		help: "Offload fewer layers (-ngl), shorten the context (-c), or use another device."},
	"paddle": {name: "Paddle", opaque: true, help: "See {monitor} for other processes; without any, use a smaller batch."},
	"cupy": {name: "CuPy", opaque: true,
		help: "Compute in chunks, or call cupy.get_default_memory_pool().free_all_blocks()."},
	failure.FromOther: {opaque: true, help: "See {monitor} for other processes; without any, use a smaller batch."}, // not named
}

// contexts are lines that programs print about the memory that they plan or use. The last one before a failure says how much was left for it.
var contexts = []struct {
	word    string // part of the line
	setting string // of a server whose cache took the rest
	text    pattern
}{
	{"KV cache memory", "gpu_memory_utilization", lazily(`Available KV cache memory: [0-9.]+ GiB`)},
	{"reserved for KV Cache", "gpu_memory_utilization", lazily(`the rest of the memory reserved for KV Cache is [0-9.]+ ?GiB`)},
	{"KV Cache is allocated", "mem_fraction_static", lazily(`KV Cache is allocated\. .{1,100}`)},
	{"in paged KV cache", "kv_cache_free_gpu_memory_fraction", lazily(`Allocated [0-9.]+ [GM]i?B for max tokens in paged KV cache`)},
	{"memory (MB) |", "", lazily(`memory \(MB\) \| allocated: [0-9.]+ \| max allocated: [0-9.]+ \| reserved: [0-9.]+ \| max reserved: [0-9.]+`)},
	{"by rematerialization", "", lazily(`Can't reduce memory use below [0-9.]+[KMGT]?i?B \([0-9]+ bytes\) by rematerialization; only reduced to [0-9.]+[KMGT]?i?B`)},
	{"Max_MA ", "", lazily(`MA [0-9.]+ GB +Max_MA [0-9.]+ GB +CA [0-9.]+ GB +Max_CA [0-9.]+ GB`)},
}

// form is a text of one form. Its groups have the names of the figures: see (*printed).take.
type form struct {
	word           string // every such text has it
	source, device string // of the device also the memory: "cpu/pinned"
	unit           string // of figures that have none
	text           pattern
}

// sentences are those of other programs.
var sentences = []form{
	{"less than desired GPU memory", "vllm", "cuda", " GiB", lazily(
		`[Ff]ree memory on device (?:(?P<device>[a-z]+:[0-9]+) )?` +
			`\((?P<free>[0-9.]+)/(?P<capacity>[0-9.]+) GiB\) on startup is less than desired GPU memory utilization ` +
			`\([0-9.]+, (?P<requested>[0-9.]+) GiB\)`)},
	{"available KV cache memory", "vllm", "cuda", " GiB", lazily(
		`(?P<requested>[0-9.]+) GiB KV cache is needed, which is larger than the available KV cache memory \((?P<allowed>[0-9.]+) GiB\)(?:.{1,60} estimated maximum model length is (?P<tokens>[0-9]+))?`)},
	{"Not enough memory. Please", "sglang", "cuda", "", lazily(
		`Not enough memory\. Please try to increase --mem-fraction-static`)},
	{"insufficient GPU memory", "tensorrt-llm", "cuda", " GiB", lazily(`insufficient GPU memory\. (?:.{1,40} could not be created: (?P<op>.{1,60}?) )?` +
		`Total GPU memory \(GiB\): (?P<capacity>[0-9.]+) Free GPU memory .{1,40} \(GiB\): (?P<free>[0-9.]+)`)},
	{"untime error in ", "tensorrt-llm", "cuda", "", lazily(`CUDA runtime error in (?:::)?cudaMalloc\w*\(.{1,60}\): out of memory`)},
	{"available memory for the cache", "vllm", "cuda", "", lazily(`No available memory for the cache blocks`)},
	{"stored in KV cache", "vllm", "cuda", "", lazily(
		`larger than the maximum number of tokens that can be stored in KV cache`)},
	{"allocate memory for requested buffer", "onnxruntime", "", "", lazily(
		`Failed to allocate memory for requested buffer of size (?P<requested>[0-9]+)`)},
	{"failed: out of memory", "llama.cpp", "cuda", "", lazily(
		`allocating (?P<requested>[0-9.]+ MiB) on device (?P<index>[0-9]+): \w+ failed: out of memory`)},
	{"ailed to allocate ", failure.FromHost, "cpu", "", lazily(
		`failed to allocate (?:CPU buffer|buffer) of size (?P<requested>[0-9]+)`)},
	{"ailed to allocate ", "llama.cpp", "", "", lazily(
		`failed to allocate (?P<backend>CUDA|ROCm|Vulkan|SYCL|Metal)(?P<index>[0-9]*) buffer of size (?P<requested>[0-9]+)`)},
	{"ailed to allocate ", "llama.cpp", "metal", "", lazily(
		`failed to allocate buffer, size = *(?P<requested>[0-9.]+ MiB)`)},
	{"ailed to allocate ", failure.FromHost, "cpu/pinned", " MiB", lazily(
		`failed to allocate (?P<requested>[0-9]+)[.,][0-9]+ MiB of pinned memory`)},
	{"amount of GPU memory (", "tensorrt", "cuda", "", lazily(
		`Requested amount of GPU memory \((?P<requested>[0-9]+) bytes\) could not be allocated`)},
	{"(out of memory)", "tensorrt", "cuda", "", lazily(`Cuda (?:Runtime|Error in [\w:]*allocate: 2) \(out of memory\)`)},
	{"Out of memory error on GPU", "paddle", "gpu", "", lazily(
		`Out of memory error on GPU (?P<index>[0-9]+)\. Cannot allocate (?P<requested>[0-9.]+[KMGT]?B) (?:GPU )?` +
			`memory(?: on GPU [0-9]+)?,(?: (?P<live>[0-9.]+[KMGT]?B) memory has been allocated and)? ` +
			`available memory is(?: only)? (?P<free>[0-9.]+[KMGT]?B)`)},
	{"ut of memory to allocate", "cupy", "cuda", "", lazily(
		`out of memory to allocate (?P<requested>[0-9]+) bytes \(total (?P<total>[0-9]+) bytes\)`)},
	{"ut of memory allocating", "cupy", "cuda", "", lazily(
		`Out of memory allocating (?P<requested>[0-9,]+) bytes \(allocated so far: (?P<reserved>[0-9,]+) bytes` +
			`(?:, limit set to: (?P<allowed>[0-9,]+) bytes)?`)},
	{"Killed process", failure.FromKernel, "cpu", " KiB", lazily(
		`Killed process [0-9]+ \((?P<op>[^)]{1,64})\)+,? (?:UID:? ?[0-9]+,? )?total-vm: ?[0-9]+ ?kB, anon-rss: ?(?P<live>[0-9]+) ?kB`)},
	{"kill event", failure.FromKernel, "cpu", "", lazily(`Detected [0-9]+ oom[_-]kill event`)},
	{"due to memory", failure.FromKernel, "cpu", "", lazily(
		`systemd-oomd\[[0-9]+\]: Killed .{1,300}? due to memory|Workers \(tasks / actors\) killed due to memory pressure`)},
	{"of the memory on node", failure.FromKernel, "cpu", " GB", lazily(
		`of the memory on node \S+ is used \((?P<live>[0-9.]+) / (?P<capacity>[0-9.]+) GB\)`)},
	{"memory usage threshold", failure.FromKernel, "cpu", "", lazily(
		`was running was (?P<live>[0-9.]+GB) / (?P<capacity>[0-9.]+GB) \([0-9.]+\), which exceeds the memory usage threshold`)},
	{"exceeded memory limit", failure.FromKernel, "cpu", " KiB", lazily(
		`(?:[Ss]tep|[Jj]ob) \S+ exceeded memory limit \((?P<live>[0-9]+) > (?P<allowed>[0-9]+)\)`)},
	{"for an array with shape", failure.FromHost, "cpu", "", lazily(
		`Unable to allocate (?P<requested>[0-9.]+ (?:bytes|[KMGTPE]iB)) for an array with shape`)},
	{"$ Torch: not enough memory", failure.FromHost, "cpu", "", lazily(
		`\$ Torch: not enough memory: you tried to allocate (?P<requested>[0-9]+[GM]B)`)},
	{"EigenAllocator", failure.FromTensorFlow, "gpu", "", lazily(
		`EigenAllocator for GPU ran out of memory when allocating (?P<requested>[0-9]+)`)},
	{"cuMemAllocAsync failed", failure.FromTensorFlow, "gpu", "", lazily(
		`(?:gpu_async_(?P<index>[0-9]+) )?cuMemAllocAsync failed to allocate (?P<requested>[0-9]+) bytes` +
			`(?:.{1,99} Free memory/Total memory: (?P<free>[0-9]+)/(?P<capacity>[0-9]+))?(?:.{1,99} InUse: (?P<live>[0-9]+))?`)},
	{"in-memory CUBIN", failure.FromLibrary, "gpu", "", lazily(`Failed to load in-memory CUBIN.{1,99} CUDA_ERROR_OUT_OF_MEMORY`)},
	{"cuDevicePrimaryCtxRetain", failure.FromLibrary, "gpu", "", lazily(
		`device ordinal (?P<index>[0-9]+): \w+: failed call to cuDevicePrimaryCtxRetain: ` +
			`CUDA_ERROR_OUT_OF_MEMORY: out of memory(?:; total memory reported: (?P<capacity>[0-9]+))?`)},
}

// read returns the failure of the first sentence that a text has; nil if there is none.
func read(sentences []form, text string) *printed {
	for i := range sentences {
		s := &sentences[i]
		if !strings.Contains(text, s.word) { // regular expressions are slow
			continue
		}
		if m := s.text().FindStringSubmatch(text); m != nil {
			f := newFailure(s.source)
			f.device, f.memory, _ = strings.Cut(s.device, "/")
			for g, name := range s.text().SubexpNames() {
				if m[g] != "" {
					f.take(name, m[g], s.unit)
				}
			}
			if at := programs[s.source].atStart; at != "" && f.Capacity >= 0 {
				f.Help = at
			}
			f.device, f.memory = strings.Replace(strings.ToLower(f.device), "rocm", "hip", 1), strings.ToLower(f.memory)
			f.Cut = f.Cut || s.word == totalCapacity && f.Reserved < 0
			if f.device == "" {
				f.allocator = s.source
			}
			return f
		}
	}
	return nil
}

// take sets what a group of that name matched.
func (f *printed) take(name, text, unit string) {
	words := map[string]*string{"device": &f.device, "backend": &f.device, "memory": &f.memory, "module": &f.module, "op": &f.op, "call": &f.op,
		"shape": &f.shape, "dtype": &f.dtype, "kernel": &f.kernel}
	switch {
	case name == "":
	case words[name] != nil:
		*words[name] = text
	case name == "index":
		f.device += ":" + text
	case name == "place":
		if d := tensorDevice().FindStringSubmatch(text); d != nil {
			f.device = backend(d[1], d[2])
		}
	case name == "allocator":
		f.allocator = text
		if m := gpuAllocator().FindStringSubmatch(text); m != nil && f.device == "gpu" {
			f.device = "gpu:" + m[1]
		}
	case name == "nccl":
		f.op = nccl
	case name == "load":
		f.op = failure.LoadProgram
	case name == "growth":
		f.Growth, f.op = true, "enlarge the pool"
	case name == "single": // the shape of the request
		f.buffers = []buffer{{size: f.requested, unpadded: f.requested, count: 1, shape: text, kind: lifetime.Plain}}
	case name == "tag": // what that is: "output of fusion.3@{1}"
		for i := range f.buffers {
			if of, ok := strings.CutPrefix(text, "output of "); ok {
				f.buffers[i].label = strings.Replace(strings.TrimSuffix(of, "@{}"), "@", "", 1)
			} else {
				f.buffers[i].op = text
			}
		}
	case name == "usage":
		f.usage(text)
	case name == "tokens":
		f.Help = fmt.Sprintf("Set max_model_len to %s at most, or raise gpu_memory_utilization.", text)
	case name == "absurd":
		f.Absurd = true
	case name == "cut":
		f.Cut = true
	default:
		if text = strings.ReplaceAll(text, ",", ""); strings.HasSuffix(text, "B") || strings.HasSuffix(text, "bytes") {
			unit = ""
		}
		f.takeFigure(name, f.figure(text+unit))
	}
}

func (f *printed) takeFigure(name string, bytes int64) {
	switch name {
	case "requested":
		f.requested = max(bytes, 0)
	case "exact":
		if bytes >= 0 {
			f.requested = bytes
		}
	case "free":
		f.free = bytes
	case "peak":
		f.peak = bytes
	case "total": // with the request
		f.Reserved = max(bytes-f.requested, 0)
	case "cached": // beside the live bytes
		f.Unallocated, f.Reserved = bytes, units.AddSat(f.Live, bytes)
	case "in_total":
		f.Unallocated, f.Reserved = max(bytes-f.Live, 0), bytes
	case "block": // the largest that IPEX can have
		f.Allowed, f.device = bytes, "xpu"
	case "beside": // the live bytes
		f.InProcess = units.AddSat(f.Live, bytes)
	case "program":
		f.Needed = bytes
		f.rest(lifetime.Plain, "the whole program", bytes)
	case "TensorCore", "SparseCore":
		f.Needed = units.AddSat(max(f.Needed, 0), bytes)
		f.rest(lifetime.Plain, name, bytes)
	default:
		*f.Figures()[name] = bytes
	}
}

type context struct {
	line          int64
	text, setting string
}

// notice keeps a line without a failure, if it says something about the memory.
func (r *reader) notice(line []byte, number int64) {
	if hasAny(line, partsOfShare) {
		if m := shareOfDevice().FindSubmatch(line); m != nil {
			w, _ := r.writerOf(line)
			value, _ := strconv.ParseFloat(string(m[2]), 64)
			r.share = share{string(m[1]), value}
			r.shares[w.key] = r.share
		}
	}
	for i := range contexts {
		c := &contexts[i]
		if !bytes.Contains(line, []byte(c.word)) {
			continue
		}
		if text := c.text().Find(line); text != nil {
			w, _ := r.writerOf(line)
			r.last = context{number, string(bytes.Join(bytes.Fields(text), []byte(" "))), c.setting}
			r.noticed[w.key] = r.last
		}
		return
	}
}
