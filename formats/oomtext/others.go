package oomtext

import (
	"cmp"
	"strings"

	"github.com/memlane/memlane/lifetime/failure"
)

// sentences are texts of one form. Their groups have the names of the figures. Sources: vllm/v1/worker/utils.py and
// vllm/v1/core/kv_cache_utils.py, onnxruntime/core/framework/bfc_arena.cc, ggml/src/ggml-cuda/ggml-cuda.cu and ggml-metal.m,
// paddle/phi/core/memory/allocation/cuda_allocator.cc, cupy/cuda/memory.pyx, mm/oom_kill.c of Linux, src/plugins/task/cgroup of Slurm,
// numpy/_core/_exceptions.py, TH/THGeneral.c of PyTorch to 0.4, xla/stream_executor/cuda and gpu, src/oom/oomd-manager.c of systemd,
// sglang/srt/model_executor/model_runner.py, ray/_private/worker.py; TensorRT is closed.
var sentences = []struct {
	word           string // every such text has it
	source, device string // of the device also the memory: "cpu/pinned"
	unit           string // of figures that have none
	text           pattern
}{
	{"less than desired GPU memory", failure.FromVLLM, "cuda", " GiB", lazily(
		`[Ff]ree memory on device (?:(?P<device>[a-z]+:[0-9]+) )?` +
			`\((?P<free>[0-9.]+)/(?P<capacity>[0-9.]+) GiB\) on startup is less than desired GPU memory utilization ` +
			`\([0-9.]+, (?P<requested>[0-9.]+) GiB\)`)},
	{"available KV cache memory", failure.FromVLLM, "cuda", " GiB", lazily(
		`(?P<requested>[0-9.]+) GiB KV cache is needed, which is larger than the available KV cache memory \((?P<allowed>[0-9.]+) GiB\)`)},
	{"Not enough memory. Please", failure.FromSGLang, "cuda", "", lazily(
		`Not enough memory\. Please try to increase --mem-fraction-static`)},
	{"available memory for the cache", failure.FromVLLM, "cuda", "", lazily(`No available memory for the cache blocks`)},
	{"stored in KV cache", failure.FromVLLM, "cuda", "", lazily(
		`larger than the maximum number of tokens that can be stored in KV cache`)},
	{"allocate memory for requested buffer", failure.FromONNX, "", "", lazily(
		`Failed to allocate memory for requested buffer of size (?P<requested>[0-9]+)`)},
	{"failed: out of memory", failure.FromLlama, "cuda", "", lazily(
		`allocating (?P<requested>[0-9.]+ MiB) on device (?P<index>[0-9]+): \w+ failed: out of memory`)},
	{"failed: out of memory", failure.FromOther, "cuda", "", lazily(`cudaMalloc failed: out of memory`)},
	{"ailed to allocate ", failure.FromHost, "cpu", "", lazily(
		`failed to allocate (?:CPU buffer|buffer) of size (?P<requested>[0-9]+)`)},
	{"ailed to allocate ", failure.FromLlama, "", "", lazily(
		`failed to allocate (?P<backend>CUDA|ROCm|Vulkan|SYCL|Metal)(?P<index>[0-9]*) buffer of size (?P<requested>[0-9]+)`)},
	{"ailed to allocate ", failure.FromLlama, "metal", "", lazily(
		`failed to allocate buffer, size = *(?P<requested>[0-9.]+ MiB)`)},
	{"ailed to allocate ", failure.FromHost, "cpu/pinned", " MiB", lazily(
		`failed to allocate (?P<requested>[0-9]+)[.,][0-9]+ MiB of pinned memory`)},
	{"amount of GPU memory (", failure.FromTensorRT, "cuda", "", lazily(
		`Requested amount of GPU memory \((?P<requested>[0-9]+) bytes\) could not be allocated`)},
	{"(out of memory)", failure.FromTensorRT, "cuda", "", lazily(`Cuda (?:Runtime|Error in [\w:]*allocate: 2) \(out of memory\)`)},
	{"Out of memory error on GPU", failure.FromPaddle, "gpu", "", lazily(
		`Out of memory error on GPU (?P<index>[0-9]+)\. Cannot allocate (?P<requested>[0-9.]+[KMGT]?B) (?:GPU )?` +
			`memory(?: on GPU [0-9]+)?,(?: (?P<live>[0-9.]+[KMGT]?B) memory has been allocated and)? ` +
			`available memory is(?: only)? (?P<free>[0-9.]+[KMGT]?B)`)},
	{"ut of memory to allocate", failure.FromCupy, "cuda", "", lazily(
		`out of memory to allocate (?P<requested>[0-9]+) bytes \(total (?P<total>[0-9]+) bytes\)`)},
	{"ut of memory allocating", failure.FromCupy, "cuda", "", lazily(
		`Out of memory allocating (?P<requested>[0-9,]+) bytes \(allocated so far: (?P<reserved>[0-9,]+) bytes` +
			`(?:, limit set to: (?P<allowed>[0-9,]+) bytes)?`)},
	{"Killed process", failure.FromKernel, "cpu", " KiB", lazily(
		`Killed process [0-9]+ \((?P<op>[^)]{1,64})\)+,? (?:UID:? ?[0-9]+,? )?total-vm: ?[0-9]+ ?kB, anon-rss: ?(?P<live>[0-9]+) ?kB`)},
	{"oom_kill", failure.FromKernel, "cpu", "", lazily(`Detected [0-9]+ oom_kill event`)},
	{"oom-kill", failure.FromKernel, "cpu", "", lazily(`Detected [0-9]+ oom-kill event`)},
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

// parseSentence reads the first text of the table; nil if there is none.
func parseSentence(text string) *printed {
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
			if f.Source == failure.FromVLLM && f.Capacity >= 0 { // it has just begun
				f.InProcess = 0
			}
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
	figure := func() int64 {
		text = strings.ReplaceAll(text, ",", "")
		if strings.HasSuffix(text, "B") || strings.HasSuffix(text, "bytes") {
			unit = ""
		}
		return f.figure(text + unit)
	}
	switch name {
	case "":
	case "device":
		f.device = text
	case "backend":
		f.device = cmp.Or(map[string]string{"ROCm": "hip"}[text], strings.ToLower(text))
	case "index":
		f.device += ":" + text
	case "op":
		f.op = text
	case "requested":
		f.requested = max(figure(), 0)
	case "free":
		f.free = figure()
	case "total": // with the request
		f.Reserved = max(figure()-f.requested, 0)
	default:
		*f.Figures()[name] = figure()
	}
}
