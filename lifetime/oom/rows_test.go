package oom_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/oom"
)

// rareTexts are failures of which testdata has no log.
var rareTexts = []string{
	"Free memory on device cuda:1 (10.50/40.00 GiB) on startup is less than desired GPU memory utilization (0.9, 36.0 GiB).",
	"RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
	"Ran out of memory in memory space vmem while allocating on stack for %my.1 = f32[2048,2048]{1,0} custom-call(%p0). Scoped allocation with size 24.00M and limit 16.00M exceeded.",
	"Ran out of memory in memory space hbm. Used 20.00G of 15.75G hbm. Exceeded hbm capacity by 4.25G.\n  1. Size: 20.00G\n     Shape: f32[9,70]{1,0:T(8,128)}\n     Unpadded size: 11.00G\n" +
		"     Extra memory due to padding: 9.00G (1.8x expansion)\n     ==========================\n",
	"Error loading program 'jit_g': Attempting to reserve 6.00G at the bottom of memory. That was not possible. There are 6.50G free, 0B reserved, and 3.00G reservable.",
	"ggml_cuda_host_malloc: failed to allocate 900.00 MiB of pinned memory: invalid argument",
	table(8000, 3000, 2500), // as much is free in whole segments as in pieces
	table(8000, 7800, 150),
	"CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 300.00 MiB of which 0 bytes is free. Of the allocated memory 263.67 MiB is allocated by PyTorch, and 36.33 MiB is " +
		"reserved by PyTorch but unallocated.",
	"MPS backend out of memory (MPS allocated: 2.00 GB, other allocations: 5.00 GB, max allowed: 7.50 GB). Tried to allocate 1.00 GB on private pool.",
	"OOM when allocating tensor with shape[1024,1024] and type float on /job:localhost/device:GPU:0 by allocator GPU_0_bfc",
	"Allocator (GPU_0_bfc) ran out of memory trying to allocate 64.00MiB (rounded to 67108864)requested by op Fill\nLimit: 6710886400\nInUse: 209715200\n",
	"Out of memory while trying to allocate 1048576 bytes.\nBufferAssignment stats:\n  parameter allocation: 1.00MiB\n  preallocated temp allocation: 4.00MiB\n  total allocation: 5.00MiB\n",
	"Out of memory error on GPU 0. Cannot allocate 56.000000MB memory on GPU 0, 7.500000GB memory has been allocated and available memory is only 12.750000MB.",
	"Current platform can NOT allocate memory block with size larger than 4GB! Tried to allocate 6.00 GiB (GPU  0; 15.50 GiB total capacity; 0 bytes already allocated; 0 bytes reserved in total by PyTorch)",
	inUse + "Of the allocated memory 25.00 GiB is allocated by PyTorch,",
	inUse + "Of the allocated memory 25.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.",
	"CUDA out of memory. Tried to allocate 30.00 GiB. GPU 0 has a total capacity of 40.00 GiB of which 26.00 GiB is free. Of the allocated memory 13.00 GiB is allocated by PyTorch, and 512.00 MiB is " +
		"reserved by PyTorch but unallocated.",
}

const inUse = "CUDA out of memory. Tried to allocate 3.00 GiB. GPU 1 has a total capacity of 40.00 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 39.00 GiB memory in use. "

// table returns a memory_summary() with figures in MiB.
func table(reserved, live, pieces int) string {
	return fmt.Sprintf(`|                  PyTorch CUDA memory summary, device ID 0                 |
|            CUDA OOMs: 1            |        cudaMalloc retries: 4        |
| Allocated memory      |   %d MiB |   7000 MiB |     80 GiB |     74 GiB |
| GPU reserved memory   |   %d MiB |   8000 MiB |     16 GiB |      8 GiB |
| Non-releasable memory |   %d MiB |   4000 MiB |     40 GiB |     37 GiB |
`, live, reserved, pieces)
}

// recorded returns a recording of a device with 10 GiB, if that is known, whose allocator has 2 GiB in live buffers, and of a failed request.
func recorded(t *testing.T, device string, capacity, requested, free int64) *lifetime.Capture {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "x", Format: "torch-snapshot", Producer: "PyTorch"})
	s := b.Space()
	b.Region(s, lifetime.Region{Addr: 1 << 40, Size: 2 << 30, Edge: lifetime.BeginUnseen | lifetime.EndOpen})
	b.Alloc(s, 1, build.Block{Addr: 1 << 40, Requested: 2 << 30, Occupied: 2 << 30})
	b.Mark(s, lifetime.Mark{Begin: 2, End: 2, Kind: lifetime.OOM, Requested: requested, Free: failure.BytesOf(free)})
	b.Describe(s, lifetime.SpaceInfo{Device: device, Limit: capacity, Facts: lifetime.History | lifetime.Addresses | lifetime.Regions})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAlone: one buffer that is larger than the memory is computed in blocks. The text names it by its tag.
func TestAlone(t *testing.T) {
	log := filepath.Join(t.TempDir(), "x.log")
	text := "ValueError: Allocation (size=107374182400) would exceed memory (size=17179869184) :: #allocation0 [shape = 'u8[327680,327680]{1,0:T(8,128)(4,1)}', space=hbm, " +
		"size = 0xffffffffffffffff, tag = 'output of xor_convert_fusion@{}'] :: <no-hlo-instruction>"
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := formats.Open(log, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	want := "Compute xor_convert_fusion u8[327680,327680] in blocks and keep only a reduction: it alone is 100 GiB. Or shard it over at least 7 times as many devices."
	if d := oom.Of(&c.Tables, c.Spaces[0], 0, oom.Facts{}); len(d) != 1 || d[0].Advice != want || d[0].Reason != oom.Larger {
		t.Errorf("%+v", d)
	}
}

// TestRows: each row decides about a failure, and without the row another reason, other words or other advice would be given.
func TestRows(t *testing.T) {
	captures := []*lifetime.Capture{
		recorded(t, "cuda:0", 0, 3<<30, 0),          // larger than all that the allocator could have
		recorded(t, "cuda:0", 10<<30, 1<<30, 2<<30), // the device has more free
		recorded(t, "cuda:0", 10<<30, 1<<30, 1<<20), // others hold most of the device
		recorded(t, "cpu", 0, 1<<30, -1),
	}
	open := func(file string) {
		c, err := formats.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		captures = append(captures, c)
	}
	for _, pattern := range []string{"oomtext/*.log", "torchsnap/*oom*.pickle", "replay/*.oom.pickle.zst", "chrome/cpu_oom.json.gz"} {
		for _, file := range glob(t, "../../testdata/"+pattern) {
			open(file)
		}
	}
	log := filepath.Join(t.TempDir(), "x.log")
	for _, text := range rareTexts {
		if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		open(log)
	}
	var want [][]string
	for _, c := range captures {
		want = append(want, oom.Judge(c))
	}
	for row, name := range oom.Rows() {
		needed := false
		oom.Without(row, func() {
			for i, c := range captures {
				needed = needed || !slices.Equal(oom.Judge(c), want[i])
			}
		})
		if !needed {
			t.Errorf("%s changes nothing", name)
		}
	}
}
