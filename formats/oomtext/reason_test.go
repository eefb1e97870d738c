package oomtext_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reasonTest is a text with one failure, and parts of what is said about it.
type reasonTest struct{ name, text, reason, words, advice string }

func (test *reasonTest) run(t *testing.T) {
	t.Run(test.name, func(t *testing.T) {
		all := failuresOf(t, test.text)
		if len(all) != 1 {
			t.Fatalf("%d failures", len(all))
		}
		f := &all[0]
		if f.Reason != test.reason || !strings.Contains(f.Words, test.words) || !strings.Contains(f.Advice, test.advice) {
			t.Errorf("%s: %s\n%s\nwant %s: %s\n%s", f.Reason, f.Words, f.Advice, test.reason, test.words, test.advice)
		}
		if len(f.Advice) > 90 {
			t.Errorf("%d columns: %s", len(f.Advice), f.Advice)
		}
	})
}

// TestSingleRequest: a request that is larger than all that is live must be split; nothing else fills the memory.
func TestSingleRequest(t *testing.T) {
	const v2 = "CUDA out of memory. Tried to allocate 30.00 GiB. GPU 0 has a total capacity of 40.00 GiB of which 26.00 GiB is free. "
	for _, test := range []reasonTest{
		{"larger than what is live", v2 + "Of the allocated memory 13.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.", "exhausted", "larger than all live", "Split"},
		{"smaller", strings.ReplaceAll(v2, " 26.00", " 4.00") + "Of the allocated memory 35.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.", "exhausted", "full of live", "batch"},
		{"others hold the memory", strings.ReplaceAll(v2, " 26.00", " 4.00") + "Of the allocated memory 13.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.", "outside", "outside", "nvidia-smi"},
		{"TensorFlow", "Allocator (GPU_0_bfc) ran out of memory trying to allocate 64.00MiB (rounded to 67108864)requested by op Fill\nLimit: 67108864\nInUse: 20971520\n", "exhausted", "larger than all live", "Split"},
	} {
		test.run(t)
	}
}

// TestCut: figures that a cut text does not have are not counted as memory outside of the allocator, and decide nothing.
func TestCut(t *testing.T) {
	const (
		v2 = "CUDA out of memory. Tried to allocate 3.00 GiB. GPU 1 has a total capacity of 40.00 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 39.00 GiB memory in use. " +
			"Of the allocated memory 25.00 GiB is allocated by PyTorch,"
		v1     = "CUDA out of memory. Tried to allocate 3.00 GiB (GPU 0; 40.00 GiB total capacity; 25.00 GiB already allocated; 1.00 GiB free;"
		listed = "CUDA out of memory. Tried to allocate 3.00 GiB. GPU 1 has a total capacity of 40.00 GiB of which 1.00 GiB is free. Process 7 has 39.00 GiB memory in use. " +
			"Of the allocated memory 25.00 GiB is allocated by PyTorch,"
		words = "cut off"
	)
	for _, test := range []reasonTest{
		{"2.x", v2, "unknown", words, "_record_memory_history"},
		{"whole", v2 + " and 13.00 GiB is reserved by PyTorch but unallocated.", "fragmented", "", ""},
		{"whole, outside", v2 + " and 1.00 GiB is reserved by PyTorch but unallocated.", "outside", "13.0 GiB outside", ""},
		{"in a container", listed, "unknown", words, ""},
		{"1.x", v1, "unknown", words, ""},
		{"1.x, whole", v1 + " 38.00 GiB reserved in total by PyTorch)", "fragmented", "", ""},
		{"only the request", "CUDA out of memory. Tried to allocate 3.00 GiB", "unknown", words, ""},
		{"nearly all is live", strings.Replace(v1, "25.00", "38.20", 1), "exhausted", "live", ""},
		{"larger than the device", strings.Replace(v1, "3.00", "50.00", 1), "larger_than_device", "", "Split"},
	} {
		test.run(t)
	}
	if f := failuresOf(t, v2)[0]; f.OutsideBytes != nil || *f.OthersBytes != 0 {
		t.Errorf("outside %v", f.OutsideBytes)
	}
	if f := failuresOf(t, listed)[0]; f.OutsideBytes != nil || f.OthersBytes != nil {
		t.Errorf("outside %v, others %v", f.OutsideBytes, f.OthersBytes)
	}
}

// tableOf returns a memory_summary() with figures in MiB.
func tableOf(ooms, live, reserved, pieces int) string {
	return fmt.Sprintf(`|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 0                 |
|            CUDA OOMs: %d            |        cudaMalloc retries: 4        |
| Allocated memory      |   %d MiB |   7000 MiB |     80 GiB |     74 GiB |
| GPU reserved memory   |   %d MiB |   %d MiB |     16 GiB |      8 GiB |
| Non-releasable memory |   %d MiB |   4000 MiB |     40 GiB |     37 GiB |
`, ooms, live, reserved, reserved, pieces)
}

// TestTable: a table alone says what is in pieces, not whether a request that it does not have would fit.
func TestTable(t *testing.T) {
	for _, test := range []reasonTest{
		{"in pieces", tableOf(1, 5000, 8000, 2900), "fragmented", "2.83 GiB of 7.81 GiB", ""},
		{"full", tableOf(1, 7800, 8000, 150), "exhausted", "", "batch"},
		{"whole segments are free", tableOf(1, 500, 8000, 20), "unknown", "later", "_record_memory_history"},
		{"without that row", strings.ReplaceAll(tableOf(1, 500, 8000, 20), "Non-rel", "Rel"), "unknown", "", ""},
	} {
		test.run(t)
	}
}

// TestCountedOOMs: a table of the allocator after its failures were printed is not another failure.
func TestCountedOOMs(t *testing.T) {
	const oom = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 50.00 MiB is free. Of the allocated memory 7.50 GiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but unallocated.\n"
	other := strings.ReplaceAll(oom, " 2.00", " 3.00")
	far := strings.Repeat("step\n", 300)
	for _, test := range []struct {
		name, text string
		want       int
	}{
		{"its table", oom + tableOf(1, 5000, 8000, 2900), 1},
		{"tables of one failure", tableOf(1, 5000, 8000, 2900) + far + tableOf(1, 5100, 8000, 2800), 1},
		{"its table, after failures that were not printed", oom + tableOf(3, 5000, 8000, 2900), 1},
		{"a later failure that was not printed", oom + far + tableOf(2, 5000, 8000, 2900), 2},
		{"two failures and their table", oom + other + far + tableOf(2, 5000, 8000, 2900), 2},
		{"another device", strings.ReplaceAll(oom, "GPU 0", "GPU 1") + tableOf(1, 5000, 8000, 2900), 2},
		{"an error without figures", "RuntimeError: CUDA out of memory.\n" + tableOf(1, 5000, 8000, 2900), 1},
		{"an error that the launcher repeats", oom + tableOf(1, 5000, 8000, 2900) + oom, 1},
	} {
		if all := failuresOf(t, test.text); len(all) != test.want {
			t.Errorf("%s: %d failures", test.name, len(all))
		}
	}
}

// TestSetting: advice against fragmentation fits the version, the platform and what is set already.
func TestSetting(t *testing.T) {
	v1 := func(end string) string {
		return "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 24.00 GiB total capacity; 12.00 GiB already allocated; 1.00 GiB free; " + end
	}
	const (
		hint = "If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF\n"
		v2   = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 1.00 GiB is free. Of the allocated memory 12.00 GiB is allocated by PyTorch, " +
			"and 10.00 GiB is reserved by PyTorch but unallocated."
		tip       = " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n"
		segments  = "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
		pieces    = "Set PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128"
		few       = "Use few sizes"
		windows   = "Traceback (most recent call last):\n  File \"D:\\work\\train.py\", line 7, in f\n    g()\ntorch.cuda.OutOfMemoryError: "
		supported = "UserWarning: expandable_segments not supported on this platform (Triggered internally at x.h:40.)\n"
	)
	for _, test := range []reasonTest{
		{"to 1.3", v1("10.00 GiB cached)"), "fragmented", "", few},
		{"1.4 to 1.9", v1("22.00 GiB reserved in total by PyTorch)"), "fragmented", "", few},
		{"1.10 to 2.0", v1("22.00 GiB reserved in total by PyTorch) " + hint), "fragmented", "", pieces},
		{"2.1", v2 + " If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.", "fragmented", "", segments},
		{"2.2", v2 + tip, "fragmented", "", segments},
		{"without the hint", v2, "fragmented", "", segments},
		{"2.9", v2 + strings.ReplaceAll(tip, "_CUDA", ""), "fragmented", "", "Set PYTORCH_ALLOC_CONF=expandable_segments:True"},
		{"HIP", strings.Replace(v2, "CUDA", "HIP", 1) + strings.ReplaceAll(tip, "CUDA", "HIP"), "fragmented", "", "Set PYTORCH_HIP_ALLOC_CONF=expandable_segments:True"},
		{"HIP, ignored", supported + strings.Replace(v2, "CUDA", "HIP", 1), "fragmented", "", "Set PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:128"},
		{"XPU", strings.Replace(v2, "CUDA", "XPU", 1) + " Please use `empty_cache` to release all unoccupied cached memory.", "fragmented", "", few},
		{"NPU", strings.NewReplacer("CUDA", "NPU", "GPU", "NPU").Replace(v1("22.00 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.")),
			"fragmented", "", "Set PYTORCH_NPU_ALLOC_CONF=max_split_size_mb:128"},
		{"Windows", windows + v2 + tip, "fragmented", "", pieces},
		{"exported", "+ export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n+ python train.py\n" + v2 + tip, "fragmented", "", few},
		{"in Python", "os.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] = \"garbage_collection_threshold:0.8,expandable_segments:True\"\n" + v2 + tip, "fragmented", "", few},
		{"for one command", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py\n" + v2 + tip, "fragmented", "", few},
		{"in a container", "docker run --gpus all -e PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True x\n" + v2 + tip, "fragmented", "", few},
		{"other settings", "export PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.8\n" + v2 + tip, "fragmented", "", segments},
		{"advice of a library", "WARNING: memory is short; consider setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n" + v2 + tip, "fragmented", "", segments},
		{"a wrapped hint", strings.ReplaceAll(v2+tip, "setting ", "setting\n"), "fragmented", "", segments},
		{"set on Windows", "set PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64\n" + windows + v2 + tip, "fragmented", "", few},
	} {
		test.run(t)
	}
}

// TestHost: advice about host memory fits the request, and names pinned memory only if the text does.
func TestHost(t *testing.T) {
	const cpu = "DefaultCPUAllocator: can't allocate memory: you tried to allocate "
	for _, test := range []reasonTest{
		{"an array", cpu + "8589934592 bytes. Error code 12", "host", "ran out", "Use smaller arrays"},
		{"a wrong size", cpu + "4398046511104 bytes. Error code 12", "host", "4.00 TiB at once", "wrong size"},
		{"of XLA", "RESOURCE_EXHAUSTED: Out of memory allocating 2199023255552 bytes.", "host", "2.00 TiB", "wrong size"},
		{"pinned", "ggml_cuda_host_malloc: failed to allocate 900.00 MiB of pinned memory: invalid argument", "host", "", "pinned"},
		{"pinned, of XLA", "RESOURCE_EXHAUSTED: Out of host memory while trying to allocate 1048576 bytes.", "host", "", "pinned"},
	} {
		test.run(t)
	}
}

// TestProgramsOfXLA: temporaries of a program are requested as one block; arrays on TPU are no program.
func TestProgramsOfXLA(t *testing.T) {
	assignment := func(requested string) string {
		return "RESOURCE_EXHAUSTED: Out of memory while trying to allocate " + requested + " bytes.\nBufferAssignment OOM Debugging.\nBufferAssignment stats:\n" +
			"  parameter allocation: 3.00GiB\n  constant allocation: 0B\n  maybe_live_out allocation: 1.00GiB\n  preallocated temp allocation: 10.00GiB\n  total allocation: 14.00GiB\n"
	}
	for _, test := range []reasonTest{
		{"temporaries", assignment("10737418240"), "exhausted", "10.0 GiB for them", "jax.checkpoint"},
		{"an output", assignment("1073741824"), "exhausted", "does not fit beside", "donate"},
		{"an array on TPU", "Error allocating device buffer: Attempting to allocate 1.00G. That was not possible. There are 3.10G free.; (0x0x0_HBM0)", "fragmented", "", "large arrays first"},
		{"a program on TPU", "Error loading program 'jit_g': Attempting to reserve 6.00G at the bottom of memory. That was not possible. There are 6.50G free, 0B reserved, and 3.00G reservable.",
			"fragmented", "", "Load the program"},
		{"MPS", "MPS backend out of memory (MPS allocated: 2.00 GB, other allocations: 5.00 GB, max allowed: 7.50 GB). Tried to allocate 1.00 GB on private pool.", "outside", "", "driver_allocated_memory"},
	} {
		test.run(t)
	}
}

// TestPoolSummary: the line of 2026 says what is free and how much of it is in one piece.
func TestPoolSummary(t *testing.T) {
	text := func(free, largest string) string {
		return "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB (rounded to 2147483648) from the lower end requested by op dot\n" +
			"Allocator memory summary: rounded request 2.00GiB, total free in pool " + free + ", largest free chunk usable by lower end " + largest +
			", unallocated bytes 0B, pool size 60.00GiB, pool limit 60.00GiB\n"
	}
	for _, test := range []reasonTest{
		{"in pieces", text("8.00GiB", "1.25GiB"), "fragmented", "pieces", "cuda_malloc_async"},
		{"nearly full", text("3.00GiB", "1.25GiB"), "exhausted", "full of live buffers, and the little that is free is in pieces", ""},
		{"full", text("1.50GiB", "1.25GiB"), "exhausted", "full of live", ""},
		{"cut off", strings.Split(text("4.00GiB", "1.25GiB"), ", unallocated")[0], "fragmented", "pieces", ""},
	} {
		test.run(t)
	}
	if f := failuresOf(t, text("4.00GiB", "1.25GiB"))[0]; *f.LiveBytes != 56<<30 || *f.LimitBytes != 60<<30 || *f.LargestFreeBytes != 5<<28 {
		t.Errorf("%d live, limit %d, largest %d", *f.LiveBytes, *f.LimitBytes, *f.LargestFreeBytes)
	}
}

// TestOperator: a request has its operation and tensor beside its line.
func TestOperator(t *testing.T) {
	text := "Traceback (most recent call last):\n  File \"t.py\", line 8, in step\n    z = x * y\nResourceExhaustedError: OOM when allocating tensor with shape[256,1024] and type float on " +
		"/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Mul]\n"
	f := failuresOf(t, text)[0]
	if got := f.Operator; f.Requester.Name != "step (t.py:8)" || got != "Mul float [256,1024]" {
		t.Errorf("%s: %q", f.Requester.Name, got)
	}
}

// TestCutBeginning: a message of PyTorch may begin with any of its clauses.
func TestCutBeginning(t *testing.T) {
	const (
		device = "GPU 0 has a total capacity of 24.00 GiB "
		free   = "of which 20.00 MiB is free. Including non-PyTorch memory, this process has 23.80 GiB memory in use. "
		use    = "Of the allocated memory 22.00 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated."
	)
	for _, test := range []struct{ name, text, want string }{
		{"in the request", "allocate 2.00 GiB. " + device + free + use, "torch cuda:0 exhausted asked 2048 capacity 24576 live 22528 reserved 23756 outside 614 others 0 free 20 rest 184"},
		{"before the capacity", device + free + use, "torch cuda:0 exhausted capacity 24576 live 22528 reserved 23756 outside 614 others 0 free 20 rest 184"},
		{"before the free bytes", free + use, "torch cuda exhausted live 22528 reserved 23756 outside 614 others 0 free 20"},
		{"wrapped", strings.ReplaceAll(device+free+use, ". ", ".\n"), "torch cuda:0 exhausted capacity 24576 live 22528 reserved 23756 outside 614 others 0 free 20 rest 184"},
		{"whole and wrapped", strings.ReplaceAll("CUDA out of memory. Tried to allocate 2.00 GiB. "+device+free+use, ". ", ".\n"),
			"torch cuda:0 exhausted asked 2048 capacity 24576 live 22528 reserved 23756 outside 614 others 0 free 20 rest 184"},
		{"what others hold", device + strings.ReplaceAll(free, "23.80", "5.80") + strings.ReplaceAll(use, "22.00", "4.00"),
			"torch cuda:0 unknown capacity 24576 live 4096 reserved 5324 outside 614 others 0 free 20 rest 18616"},
		{"wrapped without the prefix", "[rank1]: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1\nhas a total capacity of 24.00 GiB " + free + use, "torch cuda unknown asked 2048 rank 1"},
	} {
		all := failuresOf(t, test.text)
		if len(all) != 1 || sum(&all[0]) != test.want {
			t.Errorf("%s: %d failures, %s\nwant %s", test.name, len(all), sum(&all[0]), test.want)
		}
	}
}

// TestAccount: the parts of the memory add up to the capacity in every text, and texts with the same figures say the same.
func TestAccount(t *testing.T) {
	const (
		async = "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 3.10 GiB\nRequested               : 2.25 GiB\n" +
			"Device limit            : 11.60 GiB\nFree (according to CUDA): 25.00 MiB\nPyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB"
		usual = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB. GPU 0 has a total capacity of 11.60 GiB of which 25.00 MiB is free. Of the allocated memory 3.10 GiB is " +
			"allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
		tensorflow = "gpu_async_0 cuMemAllocAsync failed to allocate 2415919104 bytes: CUDA_ERROR_OUT_OF_MEMORY\n Reported by CUDA: Free memory/Total memory: 26214400/12455405158\n" +
			"Stats: Limit: 0\nInUse: 3328599654\n"
	)
	for _, text := range []string{async, usual, tensorflow} {
		f := failuresOf(t, text)[0]
		if f.Reason != "outside" || f.OutsideBytes == nil || *f.OutsideBytes>>20 != 8679 || *f.OutsideBytes != f.Account.UnaccountedBytes {
			t.Errorf("%.40s: %s, outside %v, %+v", text, f.Reason, f.OutsideBytes, f.Account)
		}
	}
	files, _ := filepath.Glob("../../testdata/oomtext/*.log")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range failuresOf(t, string(text)) {
			a := f.Account
			if a == nil || a.LiveBytes != nil && *a.LiveBytes > a.CapacityBytes {
				continue
			}
			sum := a.UnaccountedBytes
			for _, part := range []*int64{a.LiveBytes, a.IdleBytes, a.OutsideBytes, a.OthersBytes, a.FreeBytes} {
				if part != nil {
					sum += *part
				}
			}
			if off := sum - a.CapacityBytes; off < 0 || off > 8*f.RoundingBytes {
				t.Errorf("%s:%d: %d of %d", file, *f.Line, sum, a.CapacityBytes)
			}
		}
	}
}

// TestNotFree: the memory is in other processes only if a text lists them, and full of live buffers only if they fill it.
func TestNotFree(t *testing.T) {
	const v2 = "CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 8.00 GiB is free. Of the allocated memory 15.00 GiB is allocated by PyTorch, and " +
		"200.00 MiB is reserved by PyTorch but unallocated."
	for _, test := range []reasonTest{
		{"vLLM", "Free memory on device (10.50/40.00 GiB) on startup is less than desired GPU memory utilization (0.9, 36.0 GiB).", "other_process", "29.5 GiB of the device are not free", "to 0.26"},
		{"a part is live", v2, "exhausted", "does not fit beside", "batch"},
		{"all is live", strings.NewReplacer("15.00", "22.60", " 8.00", " 1.00").Replace(v2), "exhausted", "full of live", "batch"},
	} {
		test.run(t)
	}
	if f := failuresOf(t, "Free memory on device (10.50/40.00 GiB) on startup is less than desired GPU memory utilization (0.9, 36.0 GiB).")[0]; f.OthersBytes != nil {
		t.Errorf("%d in other processes", *f.OthersBytes)
	}
}
