package oomtext_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/oomtext"
	"github.com/memlane/memlane/lifetime/answer"
)

// sum returns what an answer says in one line: sizes in MiB.
func sum(f *answer.Failure) string {
	words := []string{f.Source, f.Device, f.Reason}
	for _, figure := range []struct {
		name  string
		bytes *int64
	}{{"asked", f.RequestedBytes}, {"capacity", f.CapacityBytes}, {"limit", f.LimitBytes}, {"live", f.LiveBytes}, {"reserved", f.ReservedBytes}, {"outside", f.OutsideBytes},
		{"others", f.OthersBytes}, {"free", f.FreeBytes}, {"needed", f.NeededBytes}, {"exceeded", f.ExceededBytes},
		{"rest", unaccounted(f)}} {
		if figure.bytes != nil {
			words = append(words, fmt.Sprintf("%s %d", figure.name, *figure.bytes>>20))
		}
	}
	if f.Rank != nil {
		words = append(words, fmt.Sprintf("rank %d", *f.Rank))
	}
	if f.Requester != nil {
		words = append(words, "by "+f.Requester.Name)
	}
	return strings.Join(words, " ")
}

// unaccounted returns what nobody has that the text names, nil if that is what is outside of the allocator.
func unaccounted(f *answer.Failure) *int64 {
	if a := f.Account; a != nil && a.UnaccountedBytes > 64<<20 && (f.OutsideBytes == nil || a.OutsideBytes != nil) {
		return &a.UnaccountedBytes
	}
	return nil
}

const v2 = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 16.00 GiB of which 512.00 MiB is free. "

// TestOthers: texts of other programs, and texts of PyTorch and XLA that were cut off, quoted or prefixed.
func TestOthers(t *testing.T) {
	for _, test := range []struct{ name, text, want, advice string }{
		{"vLLM: others hold the device", "(EngineCore_0 pid=7) ERROR 09-03 11:03:37 [core.py:712] ValueError: Free memory on device cuda:1 (10.50/40.00 GiB) on startup is less than " +
			"desired GPU memory utilization (0.9, 36.0 GiB). Decrease GPU memory utilization", "vllm cuda:1 other_process asked 36864 capacity 40960 free 10752 rest 30208", "to 0.26,"},
		{"vLLM: only its context is in the way", "Free memory on device (3.25/4.0 GiB) on startup is less than desired GPU memory utilization (0.9, 3.6 GiB).",
			"vllm cuda limit asked 3686 capacity 4096 free 3328 rest 768", "to 0.81,"},
		{"vLLM: no cache", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", "vllm cuda limit", "Raise gpu_memory_utilization"},
		{"vLLM: a small cache", "(2.0 GiB KV cache is needed, which is larger than the available KV cache memory (1.50 GiB).", "vllm cuda limit asked 2048 limit 1536", "max_model_len"},
		{"vLLM: few tokens", "max seq len (4096) is larger than the maximum number of tokens that can be stored in KV cache (3664). Try increasing gpu_memory_utilization", "vllm cuda limit", "max_model_len"},
		{"onnxruntime", "bfc_arena.cc:376 onnxruntime::BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 2097152",
			"onnxruntime  unknown asked 2", "smaller batch"},
		{"onnxruntime: a wrong size", "AllocateRawInternal Failed to allocate memory for requested buffer of size 4585490524328388608",
			"onnxruntime  larger_than_device asked 4373064541176", "wrong size"},
		{"llama.cpp: two lines, twice", strings.Repeat("ggml_backend_cuda_buffer_type_alloc_buffer: allocating 96.00 MiB on device 1: cudaMalloc failed: out of memory\n"+
			"ggml_gallocr_reserve_n: failed to allocate CUDA1 buffer of size 100663300\n", 2), "llama.cpp cuda:1 unknown asked 96", "-ngl"},
		{"llama.cpp: pinned", "ggml_cuda_host_malloc: failed to allocate 1900,00 MiB of pinned memory: invalid argument", "host cpu host asked 1900", "pinned"},
		{"llama.cpp: host memory", "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 2097152\nalloc_tensor_range: failed to allocate CPU buffer of size 2097152",
			"host cpu host asked 2", "host memory"},
		{"llama.cpp on HIP", "allocating 96.00 MiB on device 0: cudaMalloc failed: out of memory\nggml_gallocr_reserve_n: failed to allocate ROCm0 buffer of size 100663300",
			"llama.cpp hip:0 unknown asked 96", "-ngl"},
		{"TensorRT", "[E] Error[1]: [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)\n[W] [TRT] Requested amount of GPU memory (2097152 bytes) could not be allocated.",
			"tensorrt cuda unknown asked 2", "workspace"},
		{"TensorRT 7", strings.Repeat("[E] [TRT] ../rtSafe/safeRuntime.cpp (25) - Cuda Error in allocate: 2 (out of memory)\n", 2), "tensorrt cuda unknown", "workspace"},
		{"SGLang", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "sglang cuda limit", "Raise --mem-fraction-static"},
		{"XLA's asynchronous allocator", "gpu_async_1 cuMemAllocAsync failed to allocate 107374182400 bytes: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n Reported by CUDA: Free memory/Total memory: " +
			"1073741824/85899345920\nStats: Limit: 0\nInUse: 53687091200\nHistogram of current allocation: (sizes, numbers), ...;\n1048576, 4\n", "tensorflow gpu:1 larger_than_device asked 102400 " +
			"capacity 81920 live 51200 outside 29696 free 1024", "Split"},
		{"NCCL without its log", "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'", "torch-library cuda outside by NCCL", "nvidia-smi"},
		{"a kernel that was not loaded", "Failed to load in-memory CUBIN (compiled for a different GPU?).: CUDA_ERROR_OUT_OF_MEMORY: out of memory", "torch-library gpu outside", "nvidia-smi"},
		{"systemd", "systemd-oomd[588]: Killed /user.slice/vte.scope due to memory pressure for /user.slice being 57.97% > 50.00%", "oom-killer cpu host", "--mem"},
		{"Ray", "Memory on the node (IP: 10.0.0.1, ID: a) where the task (x) was running was 62.00GB / 64.00GB (0.96875), which exceeds the memory usage threshold of 0.95.",
			"oom-killer cpu host capacity 65536 live 63488", "--mem"},
		{"Ray, of a node", "(raylet) node_manager.cc:3277: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed", "oom-killer cpu host", "--mem"},
		{"Ray 0.6", "RayOutOfMemoryError: More than 95% of the memory on node\nn1 is used (11.5 / 12.0 GB).", "oom-killer cpu host capacity 12288 live 11776", "--mem"},
		{"MXNet", "mxnet.base.MXNetError: [11:18:15] src/storage/./pooled_storage_manager.h:157: cudaMalloc failed: out of memory", "other cuda unknown", "smaller batch"},
		{"TensorFlow, cut off the second time", "OOM when allocating tensor with shape[1024,1024] and type float on /job:localhost/device:GPU:0 by allocator GPU_0_bfc\n" +
			"OOM when allocating tensor with shape[1024,1024] and type flo", "tensorflow gpu:0 unknown asked 4 by float [1024,1024] (no operation recorded)", "dump"},
		{"a device without a number", "CUDA out of memory. Tried to allocate 1.00 GiB. GPU  has a total capacity of 16.00 GiB of which 512.00 MiB is free. Of the allocated memory 15.00 GiB is allocated by " +
			"PyTorch, and 0 bytes is reserved by PyTorch but unallocated.", "torch cuda exhausted asked 1024 capacity 16384 live 15360 reserved 15360 outside 512 free 512", "smaller batch"},
		{"a traceback without blanks", "Traceback (most recent call last):\nFile \"test.py\", line 195, in <module>\nmain()\nFile \"module.py\", line 897, in convert\nreturn t.to(device)\n" +
			"RuntimeError: CUDA error: out of memory", "torch-library cuda outside by convert (module.py:897)", "nvidia-smi"},
		{"Paddle", "Out of memory error on GPU 0. Cannot allocate 56.000000MB memory on GPU 0, 7.500000GB memory has been allocated and available memory is only 12.750000MB.",
			"paddle gpu:0 exhausted asked 56 live 7680 free 12", "smaller batch"},
		{"Paddle 1", "Out of memory error on GPU 2. Cannot allocate 145.000000MB GPU memory, available memory is 72.000000MB.", "paddle gpu:2 unknown asked 145 free 72", "nvidia-smi"},
		{"CuPy 5", "OutOfMemoryError: out of memory to allocate 1073741824 bytes (total 12884901888 bytes)", "cupy cuda unknown asked 1024 reserved 11264", "free_all_blocks"},
		{"CuPy 6", "Out of memory allocating 26,214,400 bytes (allocated so far: 104,857,600 bytes, limit set to: 125,829,120 bytes).",
			"cupy cuda unknown asked 25 limit 120 reserved 100 rest 100", "free_all_blocks"},
		{"Linux", "kernel: oom-kill:constraint=CONSTRAINT_NONE,task=python3,pid=7\nkernel: Out of memory: Killed process 7 (python3) total-vm:4194304kB, anon-rss:2097152kB, file-rss:4kB\n" +
			"kernel: oom_reaper: reaped process 7 (python3), now anon-rss:0kB", "oom-killer cpu host live 2048 by python3", "--mem"},
		{"Linux 4", "Out of memory: Kill process 7 (R) score 31 or sacrifice child\nKilled process 7 (R) total-vm:4194304kB, anon-rss:1048576kB", "oom-killer cpu host live 1024 by R", "--mem"},
		{"Slurm", "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks have been OOM Killed.\nsrun: error: n1: task 0: Out Of Memory",
			"oom-killer cpu host", "--mem"},
		{"Slurm 17", "slurmstepd: error: Step 7.0 exceeded memory limit (5242880 > 4194304), being killed", "oom-killer cpu host limit 4096 live 5120", "--mem"},
		{"numpy", "numpy.core._exceptions.MemoryError: Unable to allocate 6.00 GiB for an array with shape (40000, 20132) and data type float64", "host cpu host asked 6144", "host memory"},
		{"PyTorch 0.3", "RuntimeError: $ Torch: not enough memory: you tried to allocate 72GB. Buy new RAM!", "host cpu host asked 73728", "host memory"},
		{"TensorFlow 1", "OOM when allocating tensor with shape[1024,1024]\n\t [[Node: mul_23 = Mul[T=DT_FLOAT, _device=\"/job:localhost/replica:0/task:0/device:GPU:1\"](a, b)]]",
			"tensorflow gpu:1 unknown asked 4 by mul_23 float [1024,1024]", "dump"},
		{"TensorFlow on HIP", "failed to allocate 8.00G (8589934592 bytes) from device: hipError_t(1002)", "tensorflow hip not_granted asked 8192 by enlarge the pool", "rocm-smi"},
		{"a pool of JAX", "external/xla/xla/stream_executor/cuda.cc:9] failed to allocate 8.00G (8589934592 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY",
			"tensorflow gpu not_granted asked 8192 by enlarge the pool", "XLA_PYTHON_CLIENT_PREALLOCATE"},
		{"a dump of JAX and its error", "external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.00MiB (rounded to 1048832)requested by op\n" +
			"E0513 09:18:55.172311 18 pjrt_stream_executor_client.cc:2908] Execution of replica 0 failed: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1048576 bytes.",
			"tensorflow gpu:0 unknown asked 1", "dump"},
		{"a kernel of Pallas", "Ran out of memory in memory space vmem while allocating on stack for %my.1 = f32[2048,2048]{1,0} custom-call(%p0). Scoped allocation with size 24.00M and limit " +
			"16.00M exceeded scoped vmem limit by 8.00M.", "xla-compile tpu larger_than_device capacity 16 needed 24 exceeded 8", "vmem_limit_bytes"},
		{"a kernel, cut off", "Ran out of memory in memory space vmem. Please file a bug against XLA.", "xla-compile tpu larger_than_device", "vmem_limit_bytes"},
		{"another process has the device", "failed initializing StreamExecutor for CUDA device ordinal 3: INTERNAL: failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY: out of memory; " +
			"total memory reported: 34359738368", "torch-library gpu:3 outside capacity 32768", "nvidia-smi"},
		{"JAX: wrapped", "Execution of replica 0 failed: Resource exhausted: Out \nof memory while trying to allocate 1048576 bytes.", "xla-run gpu unknown asked 1", "profile"},
		{"TPU: enough, but not at the bottom", "Attempting to reserve 6.00G at the bottom of memory. That was not possible. There are 6.50G free, 0B reserved, and 3.00G reservable.",
			"xla-run tpu fragmented asked 6144 free 6656 by load the program", "before other arrays"},

		{"cut off at the beginning", "Tried to allocate 20.00 MiB (GPU 0; 2.00 GiB total capacity; 1.25 GiB already allocated; 2.00 MiB free; 1.50 GiB reserved in total by PyTorch)",
			"torch cuda:0 fragmented asked 20 capacity 2048 live 1280 reserved 1536 outside 510 free 2", "few sizes"},
		{"cut off at the end", "NPU out of memory. Tried to allocate 52.00 MiB (NPU 0; 60.00 GiB total capacity; 59.00 GiB already allocated;",
			"torch npu:0 exhausted asked 52 capacity 61440 live 60416 rest 1024", "smaller batch"},
		{"quoted", "> # RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 4.00 GiB total capacity; 7.00 GiB already allocated;\n" +
			"> # 0 bytes free; 9.00 GiB reserved in total by PyTorch)\n", "torch cuda:0 exhausted asked 1024 capacity 4096 live 7168 reserved 9216 free 0", "smaller batch"},
		{"no free bytes, and little is reserved", "XPU out of memory. Tried to allocate 1.50 GiB (GPU 0; 15.50 GiB total capacity; 0 bytes already allocated; 0 bytes reserved in total by PyTorch)",
			"torch xpu:0 unknown asked 1536 capacity 15872 live 0 reserved 0 rest 15872", "xpu-smi"},
		{"a limit of one block", "Current platform can NOT allocate memory block with size larger than 4GB! Tried to allocate 6.00 GiB (GPU  0; 15.50 GiB total capacity; 0 bytes already allocated; " +
			"0 bytes reserved in total by PyTorch)", "torch xpu:0 limit asked 6144 capacity 15872 limit 4096 live 0 reserved 0 rest 15872", "smaller blocks"},
		{"MPS, cut off", "MPS backend out of memory (MPS allocated: 8.00 GiB, other allocations: 1.00 GiB, max allowed: 9.00 GiB).", "torch mps limit limit 9216 live 8192 outside 1024", "HIGH_WATERMARK"},
		{"the process itself in a container", v2 + "Process 77 has 15.40 GiB memory in use. Of the allocated memory 10.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.",
			"torch cuda:0 outside asked 1024 capacity 16384 live 10240 reserved 11264 outside 4505 others 0 free 512 rest 102", "in this process"},
		{"the process itself, outside of the allocator", v2 + "Including non-PyTorch memory, this process has 15.40 GiB memory in use. Of the allocated memory 6.00 GiB is allocated by PyTorch, and " +
			"96.00 MiB is reserved by PyTorch but unallocated.", "torch cuda:0 outside asked 1024 capacity 16384 live 6144 reserved 6240 outside 9529 others 0 free 512 rest 102", "in this process"},
		{"the same, but more is in pieces", v2 + "Including non-PyTorch memory, this process has 15.40 GiB memory in use. Of the allocated memory 6.00 GiB is allocated by PyTorch, and " +
			"5.00 GiB is reserved by PyTorch but unallocated.", "torch cuda:0 fragmented asked 1024 capacity 16384 live 6144 reserved 11264 outside 4505 others 0 free 512 rest 102", "expandable_segments"},
		{"the same, but the request would not fit without it", strings.Replace(v2, "1.00 GiB", "6.00 GiB", 1) + "Including non-PyTorch memory, this process has 15.40 GiB memory in use. Of the " +
			"allocated memory 12.00 GiB is allocated by PyTorch, and 96.00 MiB is reserved by PyTorch but unallocated.",
			"torch cuda:0 exhausted asked 6144 capacity 16384 live 12288 reserved 12384 outside 3385 others 0 free 512 rest 102", "smaller batch"},
		{"three processes in a container", v2 + "Process 7 has 7.20 GiB memory in use. Process 8 has 4.10 GiB memory in use. Process 9 has 3.70 GiB memory in use. Of the allocated memory " +
			"3.00 GiB is allocated by PyTorch, and 256.00 MiB is reserved by PyTorch but unallocated.", "torch cuda:0 other_process asked 1024 capacity 16384 live 3072 reserved 3328 outside 460 others 11571 free 512 rest 512", "nvidia-smi"},
		{"the same in another order", v2 + "Process 9 has 3.70 GiB memory in use. Process 8 has 4.10 GiB memory in use. Process 7 has 7.20 GiB memory in use. Of the allocated memory " +
			"3.00 GiB is allocated by PyTorch, and 256.00 MiB is reserved by PyTorch but unallocated.", "torch cuda:0 other_process asked 1024 capacity 16384 live 3072 reserved 3328 outside 460 others 11571 free 512 rest 512", "nvidia-smi"},
		{"two processes that may be the own one", v2 + "Process 7 has 8.90 GiB memory in use. Process 8 has 6.50 GiB memory in use. Of the allocated memory 3.00 GiB is allocated by PyTorch, and " +
			"256.00 MiB is reserved by PyTorch but unallocated.", "torch cuda:0 outside asked 1024 capacity 16384 live 3072 reserved 3328 outside 12544 free 512", "nvidia-smi"},
		{"a process that was not found", v2 + "Including non-PyTorch memory, this process has 0 bytes memory in use. Of the allocated memory 14.50 GiB is allocated by PyTorch, and 512.00 MiB is " +
			"reserved by PyTorch but unallocated.", "torch cuda:0 exhausted asked 1024 capacity 16384 live 14848 reserved 15360 outside 512 free 512", "smaller batch"},
		{"unlisted processes", v2 + "Including non-PyTorch memory, this process has 4.00 GiB memory in use. Of the allocated memory 3.00 GiB is allocated by PyTorch, and 512.00 MiB is " +
			"reserved by PyTorch but unallocated.", "torch cuda:0 outside asked 1024 capacity 16384 live 3072 reserved 3584 outside 512 others 0 free 512 rest 11776", "nvidia-smi"},
		{"a wrapper of the error", "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests.\n" + v2 + "Of the allocated memory 14.50 GiB is allocated by PyTorch, and " +
			"512.00 MiB is reserved by PyTorch but unallocated.", "torch cuda:0 exhausted asked 1024 capacity 16384 live 14848 reserved 15360 outside 512 free 512", "smaller batch"},
		{"a rank of vLLM", "(Worker_TP1 pid=60) ERROR 05-03 00:18:16 [multiproc_executor.py:870] " + v2 + "Of the allocated memory 15.00 GiB is allocated by PyTorch, and 0 bytes is reserved by " +
			"PyTorch but unallocated.", "torch cuda:0 exhausted asked 1024 capacity 16384 live 15360 reserved 15360 outside 512 free 512 rank 1", "smaller batch"},
		{"VS Code", "Exception has occurred: RuntimeError\nCUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 7.50 GiB already allocated; 0 bytes free; 7.50 GiB reserved in total by PyTorch)\n" +
			"  File \"/src/layers.py\", line 248, in forward\n    x = y + 1\n  File \"/src/train.py\", line 412, in main\n    f(x)\n", "torch cuda:0 exhausted asked 2048 capacity 8192 live 7680 " +
			"reserved 7680 outside 512 free 0 by forward (layers.py:248)", "smaller batch"},
		{"rich", "╭─ Traceback (most recent call last) ─╮\n│ /src/train.py:412 in main            │\n│                                      │\n│ ❱ 412 │   f(x)                       │\n" +
			"│ /src/layers.py:248 in forward        │\n╰──────────────────────────────────────╯\nOutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; " +
			"7.50 GiB already allocated; 0 bytes free; 7.50 GiB reserved in total by PyTorch)", "torch cuda:0 exhausted asked 2048 capacity 8192 live 7680 reserved 7680 outside 512 free 0 " +
			"by forward (layers.py:248)", "smaller batch"},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := failuresOf(t, test.text)
			if len(all) != 1 {
				t.Fatalf("%d failures", len(all))
			}
			if got := sum(&all[0]); got != test.want {
				t.Errorf("%s, want\n%s", got, test.want)
			}
			if !strings.Contains(all[0].Advice, test.advice) {
				t.Error(all[0].Advice)
			}
		})
	}
}

// TestNotOurs: memory of other kinds is not judged.
func TestNotOurs(t *testing.T) {
	for _, text := range []string{"java.lang.OutOfMemoryError: Failed to allocate a 176 byte allocation with 504760 free bytes and 476KB until OOM",
		"W0000 00:00:1756998431.440298 5182 hlo_rematerialization.cc:3183] Can't reduce memory use below 10.64GiB (11428802214 bytes) by rematerialization; only reduced to 71.27GiB"} {
		if _, err := read(t, strings.NewReader(text)); !errors.Is(err, oomtext.ErrNone) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}
