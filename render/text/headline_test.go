package text_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/render/text"
)

// TestHeadline checks the answer about a failure, a leak, categories, places and totals. Only what records all requests, or the capacity, tells that
// none failed, or that the memory was not full: no ring buffer that overflowed, no end state.
func TestHeadline(t *testing.T) {
	for file, want := range map[string]string{
		"torchsnap/frag_oom.pickle": "Use few sizes. The buffers of <listcomp> (frag.py:12) keep 132 MiB of free memory in pieces: allocate them first, or free them together.\n" +
			"Out of memory: 60.0 MiB by big_request (frag.py:16), called by <module> (frag.py:20); enough is reserved and free, but in smaller pieces.\n" +
			"Held: <listcomp> (frag.py:12) 108 MiB in 18 buffers.",
		"torchsnap/twodev.pickle": "Find with gc.get_referrers what keeps the buffers of leaky_step (twodev.py:11); clear or limit it.\n" +
			"Probable leak in cuda:1: leaky_step (twodev.py:11): 10 buffers (10.0 MiB) were never freed; it grows until the recording ends.\n" +
			"The peak of cuda:1 is 14.0 MiB; the largest: 10.0 MiB leaky_step (twodev.py:11), 4.00 MiB leaky_step (twodev.py:10). No request failed in the recording.",
		"torchsnap/healthy.pickle": "Nothing has to be done. If you need room: Keep the state of the optimizer in 8 bits, as bitsandbytes does. The peak would be 15.2 MiB (15.2 to 16.0) instead of 17.6 MiB.\n" +
			"No request failed in the recording. No leak found.\n" +
			"The peak of cuda:0 is 17.6 MiB: 8.13 MiB workspace, 3.26 MiB optimizer state, 2.00 MiB temporary, 1.63 MiB parameter, 1.13 MiB gradient, 1.50 MiB others (inferred).",
		"whatif/retry.pickle.zst": "Nothing has to be done; more memory may make it faster. If you need room: Compute the loss in 8 chunks, with the product before it, under torch.utils.checkpoint. The peak until the recording ends would be 229 MiB (222 to 236).\n" +
			"1 request failed, and the program went on. The recording ends in the middle of a pass: the rest may need more. No leak found.\n" +
			"The peak of cuda:0 is 251 MiB: 110 MiB activation, 67.7 MiB optimizer state, 33.8 MiB parameter, 31.3 MiB unknown, 8.13 MiB workspace (inferred).",
		"meaning/principles/w19.pickle.zst": "No problem was found. Record about 50 steps to see what grows. If you need room: Checkpoint the layers (torch.utils.checkpoint). The peak until the recording ends would be 101 MiB (85.1 to 110) instead of 227 MiB.\n" +
			"No request failed in the recording. The recording ends in the middle of a pass: the rest may need more. Leaks cannot be judged: only one pass was recorded.\n" +
			"The peak of cuda:0 is 227 MiB: 154 MiB activation, 51.4 MiB parameter, 12.1 MiB unknown, 8.13 MiB workspace (inferred).",
		"xplane/tf_frag.xplane.pb": "Nothing has to be done.\n" + // XProf records the capacity, and no request that fails
			"At most 4.50 MiB of 256 MiB were in use. No leak found.\n" +
			"The peak of vm/bfc_cpu_allocator_for_gpu is 4.50 MiB: 4.50 MiB output. The largest by place: 4.50 MiB Fill in train.",
		"waste/idle_pool.pickle.zst": "Nothing has to be done. If you need room: Use fewer private pools: fewer CUDA graph sizes, no MemPool, no sleep mode.\n" +
			"In cuda:0: 416 MiB of 516 MiB reserved are idle at +263 µs, 416 MiB of it in 1 private pool (torch.cuda.MemPool or torch.compile), which others cannot use; " +
			"reserved memory is still growing at the end. No request failed in the recording. No leak found.\n" +
			"The peak of cuda:0 is 304 MiB; the largest: 256 MiB idle_pool (waste.py:84), 48.0 MiB idle_pool (waste.py:85).",
		"torchsnap/ring_100.pickle": "No problem was found. Raise max_entries to keep more.\n" +
			"No failed request is recorded. " +
			"Leaks cannot be judged: 25.2 MiB of 31.2 MiB alive at the end are older than the recording, as the ring buffer overflowed.\n" +
			"The peak of cuda:0 is 31.9 MiB; the largest: 19.0 MiB allocated before the recording, 6.15 MiB <listcomp> (ring.py:8), 2.68 MiB allocated before the recording, freed in <module> (ring.py:15).",
		"gpumemprof/spike.json": "No problem was found.\n" +
			"Whether a request failed is not recorded in this kind of capture. " +
			"Leaks cannot be judged: only totals were recorded, as in counters and memory timelines.\n" +
			"The peak of h/cuda:0 is 4.00 GiB.",
		"jaxprof/leak_before.memory.prof": "No problem was found. JAX on CPU records none; give three or more profiles from equal moments of the run, and leaks lists what grows.\n" +
			"Whether a request failed is not recorded in this kind of capture. " +
			"Leaks cannot be judged: no history of allocations and frees.\n" +
			"At the end cpu:0 has 256 KiB in use; the largest: 256 KiB <module> (gen_jax.py:146).",
		"xplane/oom.hlo.pb": "No problem was found. If you need room: Donate x (donate_argnames=[\"x\"]). The peak would be about 36.0 GiB instead of 48.0 GiB.\n" +
			"It is not recorded how much memory the device has: memlane oom --capacity SIZE tells whether the program fits.\n" +
			"The peak of jit_oom/space0 is 48.0 GiB: 24.0 GiB temporary, 12.0 GiB input, 12.0 GiB output (inferred).",
		"xplane/tf_oom.xplane.pb": "Find with gc.get_referrers what keeps the buffers of Relu; clear or limit it.\n" +
			"Probable leak in vm/bfc_cpu_allocator_for_gpu: Relu: 16 buffers (32.0 MiB) were never freed; it grows 2.00 MiB per step until the recording ends; " +
			"it reaches the capacity of 64.0 MiB at about step 19.\n" +
			"The peak of vm/bfc_cpu_allocator_for_gpu is 62.0 MiB: 62.0 MiB output. At most 62.0 MiB of 64.0 MiB were in use. Whether a request failed is not recorded in this kind of capture.",
		"replay/b02.c2.oom.pickle.zst": "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. " +
			"Keep activations on the host: torch.autograd.graph.save_on_cpu(). With offload=activations this request may have fit.\n" +
			"Out of memory: 8.13 MiB by thread without Python (backward); backward pass; enough is reserved and free, but in smaller pieces.\n" +
			"Held: forward (cnn_momentum.py:10) 54.0 MiB in 16 buffers; forward (cnn_momentum.py:11) 54.0 MiB in 16; forward (cnn_momentum.py:21) 18.0 MiB in 4.",
	} {
		c, err := judged.Open("../../testdata/"+file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		r := answer.CaptureReportOf(c, "")
		got := text.Headline(&r, r.Leaks.Findings)
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", file, got, want)
		}
	}
}

// TestTimeline: a memory timeline tells what the peak is for.
func TestTimeline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "timeline.json")
	if err := os.WriteFile(file, []byte("[[1000, 2000, 3000], [[0, 4194304, 0, 0, 0, 0, 0, 0, 0], [0, 4194304, 1048576, 0, 0, 6291456, 0, 0, 1024], [0, 4194304, 0, 0, 0, 0, 0, 0, 0]]]"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := judged.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	r := answer.CaptureReportOf(c, "")
	if got, want := text.Headline(&r, r.Leaks.Findings), "The peak of timeline is 11.0 MiB: 6.00 MiB activation, 4.00 MiB parameter, 1.00 MiB optimizer state."; !strings.HasSuffix(got, "\n"+want) {
		t.Errorf("%s, want %s", got, want)
	}
}
