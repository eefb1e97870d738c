package answer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
)

// TestTooShort: with one step, nothing can be judged that grows from step to step; with two, hardly. The exit status is not affected.
func TestTooShort(t *testing.T) {
	for steps, want := range map[int]string{0: "no leak found", 1: "leaks cannot be judged", 2: "no leak found", 3: "no leak found"} {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "made"})
		s := b.Space()
		at := int64(0)
		for step := range max(steps, 1) {
			if steps > 0 {
				b.Mark(s, lifetime.Mark{Begin: at + 1, End: at + 40, Kind: lifetime.Step, Text: fmt.Sprint("step ", step)})
			}
			for k := range 4 {
				block := build.Block{Addr: uint64(1+k) << 20, Requested: 1 << 10, Occupied: 1 << 10}
				b.Alloc(s, at+2, block)
				b.Free(s, at+4, block)
				at += 10
			}
		}
		b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock})
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		l := answer.LeaksOf(judge.New(c, finding.Settings{}), "")
		said := slices.ContainsFunc(l.Notes, func(note string) bool { return strings.Contains(note, fmt.Sprintf("cuda:0: only %d step", steps)) })
		if l.Verdict != want || said != (steps == 1 || steps == 2) {
			t.Errorf("%d steps: %s, %q", steps, l.Verdict, l.Notes)
		}
		if all := answer.NewLeaks([]answer.CaptureLeaks{l}, nil, nil); (all.Unjudged == "not judged: cuda:0") != (steps == 1) || answer.Unjudged(c) != "" {
			t.Errorf("%d steps: %q", steps, all.Unjudged)
		}
	}
}

// TestAdviceOnCPU: JAX records no history on CPU, so memlane does not advise its profiler there.
func TestAdviceOnCPU(t *testing.T) {
	for device, want := range map[string]string{"cpu:0": "three or more profiles", "gpu:0": "jax.profiler.trace()", "tpu:1": "jax.profiler.trace()"} {
		traits := lifetime.Traits{Advice: "record with jax.profiler.trace()", OnCPU: "give three or more profiles"}
		if got := traits.AdviceFor(device); !strings.Contains(got, want) {
			t.Errorf("%s: %s", device, got)
		}
		if traits.OnCPU = ""; traits.AdviceFor(device) != traits.Advice {
			t.Errorf("%s: %s", device, traits.AdviceFor(device))
		}
	}
}
