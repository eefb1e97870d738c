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
	"github.com/memlane/memlane/lifetime/frame"
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
		if all := answer.NewLeaks([]answer.CaptureLeaks{l}, nil, nil); (all.Unjudged == "not judged: cuda:0 (1 step)") != (steps == 1) || answer.Unjudged(c) != "" {
			t.Errorf("%d steps: %q", steps, all.Unjudged)
		}
	}
}

// TestOnePass: a single pass that leaves memory behind is too short to judge, several are not, and neither is one that leaves nothing.
func TestOnePass(t *testing.T) {
	for _, c := range []struct {
		passes, leaves int
		want           string
	}{{1, 1, "not judged: cuda:0 (one pass)"}, {1, 0, ""}, {2, 1, ""}, {8, 8, ""}} {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "made", Format: "torch-snapshot", Producer: "PyTorch 2.8"})
		s := b.Space()
		line := func(line int, function, file string, kind frame.Kind) lifetime.FrameID {
			return b.Frame(frame.Frame{Function: function, File: file, Line: line, Kind: kind})
		}
		at, loop := int64(0), b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{line(9, "<module>", "/x/run.py", frame.User)})})
		for pass := range c.passes {
			for layer := range 12 {
				site := b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{line(5+layer, "forward", "/x/model.py", frame.User),
					line(1747, "_call_impl", "torch/nn/modules/module.py", frame.Framework), line(7, "<module>", "/x/run.py", frame.User)})})
				block := build.Block{Addr: uint64(1+pass*20+layer) << 20, Requested: 1 << 19, Occupied: 1 << 19, Site: site}
				b.Alloc(s, at+1, block)
				if pass >= c.leaves || layer > 3 {
					b.Free(s, at+3, block)
				}
				at += 10
			}
			block := build.Block{Addr: 1 << 40, Requested: 1 << 10, Occupied: 1 << 10, Site: loop}
			b.Alloc(s, at+1, block)
			b.Free(s, at+2, block)
			at += 10
		}
		b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock})
		made, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if all := answer.NewLeaks([]answer.CaptureLeaks{answer.LeaksOf(judge.New(made, finding.Settings{}), "")}, nil, nil); all.Unjudged != c.want {
			t.Errorf("%d passes, %d leave something: %q, want %q", c.passes, c.leaves, all.Unjudged, c.want)
		}
	}
}

// TestWrapped: a ring buffer that kept a few of many steps has most of what a leak retained before them. Then little can be judged, and what is
// far older than others of its call site are is a suspicion. Weights of a long training are of no call site that goes on.
func TestWrapped(t *testing.T) {
	for _, c := range []struct {
		what            string
		older, at       int // buffers, and line
		judged, suspect bool
	}{{"sessions", 80, 5, false, true}, {"a few sessions", 2, 5, true, false}, {"data", 80, 7, false, false}} {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "made", Format: "torch-snapshot", Producer: "PyTorch 2.8"})
		s := b.Space()
		block := func(addr, line int) build.Block {
			site := b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{b.Frame(frame.Frame{Function: "decode", File: "/x/serve.py", Line: line, Kind: frame.User})})})
			return build.Block{Addr: uint64(addr) << 20, Requested: 1 << 18, Occupied: 1 << 18, Site: site}
		}
		for k := range c.older {
			b.Live(s, block(1000+k, c.at))
		}
		for k := range 100 { // five at once
			b.Alloc(s, int64(2*k+1), block(1+k, 5))
			if k >= 5 {
				b.Free(s, int64(2*k+2), block(1+k-5, 5))
			}
			if k >= 95 {
				b.Live(s, block(1+k, 5))
			}
		}
		b.RingFull(s)
		b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock | lifetime.EndState})
		made, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		l := answer.LeaksOf(judge.New(made, finding.Settings{}), "")
		all := answer.NewLeaks([]answer.CaptureLeaks{l}, nil, nil)
		suspect := slices.ContainsFunc(l.Findings, func(f answer.Finding) bool { return f.Rule == "long_lived" && f.Severity == "info" })
		if (all.Unjudged == "") != c.judged || suspect != c.suspect {
			t.Errorf("%s: unjudged %q, %q, findings %v", c.what, all.Unjudged, l.Notes, l.Findings)
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

// TestReportOfSeries: what three captures prove together is not said to be open of each.
func TestReportOfSeries(t *testing.T) {
	for _, n := range []int{2, 3} {
		var series finding.Series
		var of []answer.CaptureReport
		for range n {
			b := build.New(build.Everything)
			b.Source(lifetime.Source{File: "made", Format: "jaxprof"})
			s := b.Space()
			b.Describe(s, lifetime.SpaceInfo{Device: "cpu:0", Axis: lifetime.Event, Facts: lifetime.EndState})
			b.Live(s, build.Block{Addr: 1 << 20, Requested: 8, Occupied: 8, Site: b.Site(lifetime.Site{Op: "a"})})
			made, err := b.Finish()
			if err != nil {
				t.Fatal(err)
			}
			series.Add(made)
			of = append(of, answer.CaptureReportOf(judge.New(made, finding.Settings{}), ""))
		}
		r := answer.NewReport("default", of, nil, series.Findings())
		r.AddSeries(&series)
		for _, c := range r.Captures {
			want := "judged as one of 3 captures"
			if n < 3 {
				want = "leaks cannot be judged"
			}
			if c.Leaks.Verdict != want || (len(c.Leaks.Notes) == 0) != (n == 3) {
				t.Errorf("%d captures: %q, %q", n, c.Leaks.Verdict, c.Leaks.Notes)
			}
		}
	}
}
