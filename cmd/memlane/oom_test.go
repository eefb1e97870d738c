package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/answer"
)

// TestRecordedFailures compares the answer about each recorded failure with what is known of it: the request from the event, the
// capacity of the simulated device, the reason from the program, and from a run of the same program with expandable segments
// whether the request would have fitted then.
func TestRecordedFailures(t *testing.T) {
	const mib = 1 << 20
	for _, want := range []struct {
		file, requester, holder, reason string
		requested, capacity             int64
		fits                            string // with expandable segments: yes, no, or "" if the replay is not exact or was not run
	}{
		{"torchsnap/frag_oom.pickle", "big_request (frag.py:16)", "<listcomp> (frag.py:12)", "fragmented", 60 * mib, 256 * mib, "no"},
		{"torchsnap/frag_oom_observer.pickle", "big_request (frag.py:16)", "<listcomp> (frag.py:12)", "fragmented", 60 * mib, 256 * mib, "no"},
		{"torchsnap/t215_frag_oom.pickle", "big_request (frag.py:16)", "<listcomp> (frag.py:12)", "fragmented", 60 * mib, 256 * mib, "no"},
		{"torchsnap/oom_observer.pickle", "forward_layer (oom.py:14)", "forward_layer (oom.py:14)", "exhausted", 56 * mib, 448 * mib, ""}, // others hold 64 MiB
		{"replay/b02.c2.oom.pickle.zst", "", "forward (cnn_momentum.py:10)", "fragmented", 8519680, 173015040, "yes"},
		{"replay/b03.c2.oom.pickle.zst", "", "forward (encoder_adamw.py:10)", "fragmented", 1048576, 319815680, "yes"},
		{"replay/b04.c2.oom.pickle.zst", "", "", "fragmented", 65536000, 457179136, "no"},
		{"replay/b09.c2.oom.pickle.zst", "forward (infer_kv.py:14)", "main (infer_kv.py:30)", "fragmented", 6553600, 84934656, "yes"}, // with roundings
		{"replay/b13.c2.oom.pickle.zst", "main (streams.py:8)", "main (streams.py:8)", "fragmented", 1870848, 70254592, ""},
		{"replay/b14.c2.oom.pickle.zst", "main (graph_pools.py:20)", "forward (graph_pools.py:4)", "private_pools", 20971520, 286261248, ""},
		{"replay/b16.c2.oom.pickle.zst", "buf (pinned_pieces.py:2)", "buf (pinned_pieces.py:2)", "fragmented", 73400320, 377487360, "yes"},
		{"replay/b19.c2.oom.pickle.zst", "", "main (big_logits.py:16)", "fragmented", 823410688, 5567938560, "yes"},
	} {
		file := filepath.Join("../../testdata", want.file)
		all := decode[answer.OOMs](t, succeed(t, "oom", "--json", file)).OOMs
		if len(all) != 1 {
			t.Errorf("%s: %d failures", want.file, len(all))
			continue
		}
		f := all[0]
		if f.RequestedBytes == nil || *f.RequestedBytes != want.requested || f.CapacityBytes == nil || *f.CapacityBytes != want.capacity {
			t.Errorf("%s: %v requested of %v, want %d of %d", want.file, f.RequestedBytes, f.CapacityBytes, want.requested, want.capacity)
		}
		if f.Reason != want.reason || f.Requester == nil || want.requester != "" && f.Requester.Name != want.requester ||
			want.holder != "" && f.Holders[0].Site.Name != want.holder {
			t.Errorf("%s: %s, asked by %v, held by %s", want.file, f.Reason, f.Requester, f.Holders[0].Site.Name)
		}
		proof := ""
		if f.Proof != nil {
			proof = *f.Proof
		}
		fits := map[bool]string{strings.Contains(proof, "it would have fit, replayed exactly"): "yes", strings.Contains(proof, "would not have helped, replayed exactly"): "no"}[true]
		advised := strings.Contains(f.Advice, "PYTORCH_CUDA_ALLOC_CONF=")
		if fits != want.fits || advised != (fits == "yes") {
			t.Errorf("%s: %q, %q; want %q", want.file, f.Advice, proof, want.fits)
		}
		if tuned := decode[answer.Tune](t, succeed(t, "tune", "--json", file)); want.fits != "" && slices.ContainsFunc(tuned.Settings, func(s answer.TuneSetting) bool {
			return s.Outcome == "ok" && s.Exact
		}) != (want.fits == "yes") {
			t.Errorf("%s: %+v; want %q", want.file, tuned.Settings, want.fits)
		}
	}
}

// TestFailureFirst: the answer of oom comes first in leaks and report, word for word.
func TestFailureFirst(t *testing.T) {
	file := "../../testdata/torchsnap/frag_oom.pickle"
	want := succeed(t, "oom", file)
	for _, command := range []string{"leaks", "report"} {
		if got := succeed(t, command, file); !strings.HasPrefix(got, want) {
			t.Errorf("%s begins with %.300s", command, got)
		}
	}
}

// TestOtherFailures: the answers for events of other profilers.
func TestOtherFailures(t *testing.T) {
	all := decode[answer.OOMs](t, succeed(t, "oom", "--json", "../../testdata/chrome/cpu_oom.json.gz")).OOMs
	var got []string
	for _, f := range all {
		got = append(got, f.Reason)
	}
	// Each of the first two steps is followed by another one.
	if strings.Join(got, " ") != "larger_than_device survived survived" || *all[0].RequestedBytes != 1<<50 || *all[0].LiveBytes != 3<<20 {
		t.Errorf("%v, %+v", got, all[0])
	}
	f := decode[answer.OOMs](t, succeed(t, "oom", "--json", "../../testdata/xplane/tf_oom.xplane.pb")).OOMs[0]
	if f.Reason != "leak" || f.Confidence > 0.7 || f.RequestedBytes != nil || *f.CapacityBytes != 64<<20 || f.Holders[0].Buffers != 15 {
		t.Errorf("%+v", f)
	}
	// A program is explained if it does not fit, and only then.
	program := "../../testdata/xplane/seed_oom.hlo.pb"
	f = decode[answer.OOMs](t, succeed(t, "oom", "--json", "--capacity", "16GiB", program)).OOMs[0]
	if f.Reason != "larger_than_device" || *f.NeededBytes != 300<<30 || *f.ExceededBytes != 284<<30 || f.Holders[0].Bytes != 200<<30 {
		t.Errorf("%+v", f)
	}
	if _, _, status := memlane("", "oom", program); status != statusNothing {
		t.Errorf("a program without a capacity: status %d", status)
	}
	if _, _, status := memlane("", "oom", "--capacity", "x", program); status != statusUsage {
		t.Errorf("a wrong capacity: status %d", status)
	}
}

// TestToolsOfDevices: what is advised exists for the device.
func TestToolsOfDevices(t *testing.T) {
	const elsewhere = " out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 29.50 GiB of which 1.00 GiB is free. " +
		"Of the allocated memory 20.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated."
	for text, want := range map[string][]string{
		"CUDA" + elsewhere: {"nvidia-smi", "torch.cuda.memory._record_memory_history()"},
		"HIP" + elsewhere:  {"rocm-smi", "torch.cuda.memory._record_memory_history()"},
		"XPU" + elsewhere:  {"xpu-smi", "torch.xpu.memory._record_memory_history()"},
		"NPU" + elsewhere:  {"npu-smi", "torch.npu.memory._record_memory_history()"},
		"MPS backend out of memory (MPS allocated: 6.04 GB, other allocations: 1.04 GB, max allowed: 6.77 GB). Tried to allocate 459.07 MB on private pool.": {
			"WATERMARK", "torch.mps.current_allocated_memory()"},
	} {
		answer, stderr, status := memlane("RuntimeError: "+text+"\n", "oom", "--quiet", "-")
		if status != statusOK {
			t.Errorf("status %d: %s", status, stderr)
		}
		for _, name := range want {
			if !strings.Contains(answer, name) {
				t.Errorf("no %s: %s", name, answer)
			}
		}
		if want[0] != "nvidia-smi" && strings.Contains(answer, "nvidia-smi") || want[0] == "WATERMARK" && strings.Contains(answer, "a recording") {
			t.Errorf("tools of another device: %s", answer)
		}
	}
}

// TestFits: a compiled program that the capacity has room for is an answer. One that does not fit is a failure, and then no other is said to fit.
func TestFits(t *testing.T) {
	small, large := "../../testdata/xplane/sharded.hlo.pb", "../../testdata/xplane/oom.hlo.pb"
	for _, want := range []struct {
		capacity string
		fits     []int64
		ooms     int
	}{{"1TiB", []int64{51539610624, 21495824}, 0}, {"1GiB", nil, 1}} {
		out := decode[answer.OOMs](t, succeed(t, "oom", "--json", "--capacity", want.capacity, small, large))
		var got []int64
		for _, f := range out.Fits {
			got = append(got, f.NeededBytes)
		}
		if !slices.Equal(got, want.fits) || len(out.OOMs) != want.ooms {
			t.Errorf("%s: %v fit and %d do not, want %v and %d", want.capacity, got, len(out.OOMs), want.fits, want.ooms)
		}
	}
	if got := succeed(t, "oom", "--capacity", "1GiB", small); !strings.Contains(got, "fits: needs ") {
		t.Error(got)
	}
}
