package oom

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
)

// TestLeakFilled: a leak is the reason of a failure if the request would have fit without it. 100 MiB are live, 60 MiB free.
func TestLeakFilled(t *testing.T) {
	for _, x := range []struct {
		without                 Reason
		leaked, requested, free int64 // MiB
		joined, want            bool
	}{
		{Exhausted, 20, 70, 0, true, true},
		{Exhausted, 20, 90, 0, true, false},
		{Exhausted, 20, 90, 10, true, true},
		{Exhausted, 4, 50, 0, true, false}, // less than a twentieth
		{Limit, 20, 70, 0, true, true},     // under a limit of the program's own
		{Limit, 20, 90, 10, true, false},   // which keeps what the device has free from it
		{Fragmented, 70, 50, 0, true, true},
		{Fragmented, 40, 50, 0, true, false},
		{Fragmented, 55, 50, 0, true, false}, // 60 MiB are free in pieces that another setting joins
		{Fragmented, 55, 50, 0, false, true},
		{Larger, 90, 50, 0, true, false},
		{Survived, 90, 50, 0, true, false},
	} {
		state := failure.Unknown("")
		state.Live, state.Unallocated = 100<<20, 60<<20
		failed := &lifetime.Mark{Requested: x.requested << 20, Free: failure.BytesOf(x.free << 20)}
		if got := leakFilled(&state, failed, x.without, x.leaked<<20, x.joined); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// TestUnfit: where as much is free as was requested, the answer says why it did not fit. Sizes in MiB.
func TestUnfit(t *testing.T) {
	for _, x := range []struct {
		reason                             Reason
		source                             string
		asked, free, idle, largest, usable int64
		want                               string
	}{
		{Exhausted, failure.FromTorch, 22, 11, 195, -1, 0, "11.0 MiB more would have been enough; the 195 MiB reserved but free are in smaller pieces or for other streams"},
		{Exhausted, "", 4001, 3840, 807, 112, 112, "162 MiB more would have been enough; the 807 MiB reserved but free are in pieces of at most 112 MiB"}, // a segment has 4002
		{Exhausted, "", 30, 20, 40, 40, 8, "10.0 MiB more would have been enough; the 40.0 MiB reserved but free are for other streams or pools"},
		{Leak, "", 1, 0, 20, 16, 16, "the 20.0 MiB reserved but free are for requests of more than 1 MiB"},
		{Exhausted, failure.FromTorch, 300, 11, 195, -1, 0, ""}, // less is free
		{Exhausted, failure.FromTorch, 22, 11, 0, -1, 0, ""},
		{Fragmented, failure.FromTorch, 22, 11, 195, -1, 0, ""}, // the reason says it
		{Exhausted, failure.FromTensorFlow, 22, 11, 195, 4, 0, ""},
	} {
		d := Diagnosis{Failure: failure.Unknown(x.source), Reason: x.reason, asked: x.asked << 20, free: x.free << 20}
		d.Unallocated, d.usable.Largest, d.by = x.idle<<20, x.usable<<20, frameworkOf(x.source, &lifetime.Source{Producer: "PyTorch"})
		if d.LargestFree = x.largest << 20; x.largest < 0 {
			d.LargestFree = -1
		}
		if got := d.Unfit(); got != x.want {
			t.Errorf("%+v: %q", x, got)
		}
	}
}

// TestAdvice: advice names only tools of the framework and the device.
func TestAdvice(t *testing.T) {
	for producer, foreign := range map[string]string{
		"PyTorch": "jax XLA TF_ tf.", "stormlog": "jax XLA TF_ tf.", "XProf profiler": "PYTORCH tf. per_process", "JAX": "PYTORCH tf. per_process",
		"RMM": "PYTORCH jax XLA TF_ tf. per_process memory_history", "": "PYTORCH jax XLA TF_ tf. per_process", "TensorFlow 2.16": "PYTORCH jax XLA per_process",
	} {
		for r := range reasons {
			for device, tool := range map[string]string{"cuda:0": "nvidia-smi", "hip:1": "rocm-smi", "tpu": "tpu-info", "xpu:0": "xpu-smi"} {
				d := Diagnosis{Reason: r, Space: &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{Device: device}}}
				advice := d.fill(d.general(frameworkOf("", &lifetime.Source{Producer: producer})))
				if advice == "" || len(advice) > 80 || r.Words() == "" {
					t.Errorf("%s: %q", r, advice)
				}
				for _, word := range strings.Fields(foreign) {
					if strings.Contains(advice, word) {
						t.Errorf("%s is told %q", producer, advice)
					}
				}
				if r == Other && !strings.Contains(advice, tool) {
					t.Errorf("%s is told %q", device, advice)
				}
			}
		}
	}
}
