package oomtext_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestUnnamed: texts of programs that no table names are read by their phrases, with the figures that they give.
func TestUnnamed(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`libc++abi: terminating due to uncaught exception of type std::runtime_error: [metal::malloc] Attempting to allocate 12884901888 bytes which is greater than the maximum allowed buffer size of 9534832640 bytes.`, "metal 12884901888 limit 9534832640"},
		{`RuntimeError: [METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)`, "metal"},
		{`ValueError: [malloc_or_wait] Unable to allocate 34359738368 bytes.`, "gpu 34359738368"},
		{`MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /opt/conda/include/rmm/mr/device/cuda_memory_resource.hpp:70: cudaErrorMemoryAllocation out of memory`, "cuda"},
		{`RuntimeError: RMM failure at:/include/rmm/mr/device/pool_memory_resource.hpp:196: Maximum pool size exceeded (failed to allocate 3.725290 GiB)`, "gpu 3999999680"},
		{`CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:139`, "cuda"},
		{`torch.OutOfMemoryError: Allocation on device `, "cuda"},
		{`ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).
RuntimeError: DataLoader worker (pid 12345) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.`, "cpu"},
		{`RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::1610612736 (1536)MB`, "gpu 1610612736"},
		{`Error out of memory at line 380 in file /src/csrc/pythonInterface.cpp`, "gpu"},
		{`terminate called after throwing an instance of 'std::runtime_error'
  what():  [TM][ERROR] CUDA runtime error: out of memory /lmdeploy/src/turbomind/utils/allocator.h:231`, "cuda"},
		{`xgboost.core.XGBoostError: [10:11:12] /workspace/src/common/device_helpers.cuh:431: Memory allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out of memory
- Free memory: 1.3GB
- Requested memory: 2.4GB`, "cuda 2576980378 free 1395864371"},
		{`ERROR: Out of GPU memory trying to allocate 4.000 GiB
Effective GPU memory usage: 94.21% (7.375 GiB/7.828 GiB)
Memory pool usage: 6.250 GiB (6.500 GiB reserved)`, "gpu 4294967296 capacity 8405250998 live 6710886400"},
		{`numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY`, "cuda"},
		{`Error: model requires more system memory (8.4 GiB) than is available (6.1 GiB)`, "cpu 9019431322 free 6549825126"},
		{`    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Mon, 01 Jun 2026 10:00:00 +0000
    Ready:          False
    Restart Count:  4
    Limits:
      memory:  16Gi`, "cpu limit 17179869184"},
		{`        "State": {
            "Status": "exited",
            "OOMKilled": true,
            "ExitCode": 137,`, "cpu"},
		{`OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading "C:\lib\torch_cuda.dll" or one of its dependencies.`, "cpu"},
		{`ggml_vulkan: Device memory allocation of size 2147483648 failed.
ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory`, "gpu"},
		{`jaxlib.xla_extension.XlaRuntimeError: UNKNOWN: error: out of memory`, "gpu"},
		{`RuntimeError: CUDA Error 2, out of memory`, "cuda"},
		{`RuntimeError: hipErrorOutOfMemory: out of memory`, "hip"},
	} {
		c, err := read(t, strings.NewReader(test.text+"\n"))
		if err != nil {
			t.Errorf("%v: %s", err, test.text)
			continue
		}
		f, s := failuresOf(t, test.text+"\n")[0], c.Spaces[0]
		got := s.Device
		for _, figure := range []struct {
			name  string
			bytes *int64
		}{{"", f.RequestedBytes}, {"free", f.FreeBytes}, {"capacity", f.CapacityBytes}, {"limit", f.LimitBytes}, {"live", f.LiveBytes}} {
			if figure.bytes != nil {
				got += strings.TrimRight(" "+figure.name, " ") + fmt.Sprintf(" %d", *figure.bytes)
			}
		}
		if got != test.want || s.Marks[0].Failure.Times != 1 {
			t.Errorf("%q, want %q: %s", got, test.want, test.text)
		}
	}
	for _, text := range []string{
		"INFO out of memory handling is enabled",
		"warning: not enough memory channels are populated",
		"step 3 loss 2.1, failed to allocate budget: 3 retries",
		"java.lang.OutOfMemoryError: Java heap space",
		"FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
		"Memory allocation succeeded: 12 GiB free",
	} {
		if _, err := read(t, strings.NewReader(text+"\n")); err == nil {
			t.Errorf("a failure: %s", text)
		}
	}
}
