package finding_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// marked marks every step of a simulated program.
func (p *program) marked(pattern func(step int)) func(int) {
	return func(step int) {
		p.b.Mark(p.s, lifetime.Mark{Begin: p.t + 1, End: p.t + 2, Kind: lifetime.Step, Text: "step"})
		pattern(step)
	}
}

// findingsOf runs a pattern and returns the findings by rule.
func findingsOf(t *testing.T, p *program, settings finding.Settings, pattern func(step int)) map[string][]finding.Finding {
	t.Helper()
	c, _ := p.run(t, pattern)
	found := map[string][]finding.Finding{}
	for _, f := range find(t, c, settings) {
		found[f.Rule] = append(found[f.Rule], f)
	}
	return found
}

func evidence(f finding.Finding, name string) any {
	for _, e := range f.Evidence {
		if e.Name == name && e.Text != "" {
			return e.Text
		}
		if e.Name == name {
			return e.Value
		}
	}
	return nil
}

// only returns the one finding of a rule.
func only(t *testing.T, found map[string][]finding.Finding, rule string) finding.Finding {
	t.Helper()
	if len(found[rule]) != 1 {
		t.Fatalf("%d findings of %s among %v", len(found[rule]), rule, found)
	}
	return found[rule][0]
}

// TestLookalikes: rules about memory that only looks like a leak name the site, with severity info.
func TestLookalikes(t *testing.T) {
	for pattern, want := range map[string]struct{ rule, function string }{
		"warm-up: a cache fills during the first part": {"cache", "cache"},
		"reference cycles freed in bursts":             {"delayed_free", "cycle"},
	} {
		p := newProgram(11)
		p.steps = 80
		c, _ := p.run(t, p.marked(healthy[pattern](p)))
		hit := false
		for _, f := range find(t, c, finding.Settings{}) {
			if f.Severity > finding.Info {
				t.Errorf("%s: %s", pattern, f.Description)
			}
			hit = hit || f.Rule == want.rule && c.FunctionName(f.Sites[0]) == want.function
		}
		if !hit {
			t.Errorf("%s: nothing by %s", pattern, want.rule)
		}
	}
}

// TestSuspicion: three retained buffers are a suspected leak, if their site freed none and no other site of the place leaks.
// Four are a leak, and then three of another caller of the same line are a part of it.
func TestSuspicion(t *testing.T) {
	for _, c := range []struct {
		name     string
		every    int
		freed    bool
		count    int64 // 0 = no finding
		severity finding.Severity
	}{
		{"three", 18, false, 3, finding.Info},
		{"three, and one is freed", 18, true, 0, finding.Info},
		{"two", 25, false, 0, finding.Info},
		{"four", 14, false, 4, finding.Warning},
	} {
		p := newProgram(3)
		p.steps = 60
		found := findingsOf(t, p, finding.Settings{}, p.marked(func(step int) {
			if step == 5 && c.freed {
				p.free(p.alloc("kept", 1<<20))
			}
			if step%c.every == c.every-1 {
				p.alloc("kept", 1<<20)
			}
		}))["leak"]
		switch {
		case c.count == 0 && len(found) > 0:
			t.Errorf("%s: %s", c.name, found[0].Description)
		case c.count > 0 && (len(found) != 1 || found[0].Amount.Count != c.count || found[0].Severity != c.severity):
			t.Errorf("%s: %+v", c.name, found)
		}
	}
	p := newProgram(3)
	p.steps = 60
	f := only(t, findingsOf(t, p, finding.Settings{}, p.marked(func(step int) {
		if step%14 == 13 {
			p.alloc("kept", 1<<20)
		}
		if step%18 == 17 {
			p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: "another caller"})}
			p.alloc("kept", 1<<20)
			p.frames = nil
		}
	})), "leak")
	if f.Amount.Count != 7 || f.Severity != finding.Warning {
		t.Errorf("two callers: %d buffers, %s", f.Amount.Count, f.Severity)
	}
}

// TestLongLived: a site retains one buffer and frees the others at once.
func TestLongLived(t *testing.T) {
	p := newProgram(3)
	p.steps = 60
	f := only(t, findingsOf(t, p, finding.Settings{}, func(step int) {
		x := p.alloc("result", 4<<20)
		if step != 5 {
			p.free(x)
		}
	}), "long_lived")
	if f.Amount.Count != 1 || f.Amount.Bytes != 4<<20 {
		t.Errorf("%+v", f.Amount)
	}
}

// TestUnneeded: what the first call returned, and the result of a pass before the recording. The input of an autoencoder has that size, too.
func TestUnneeded(t *testing.T) {
	for name, want := range map[string]string{
		"stale": "long_lived 33554432 saved 33554432, 0.50", "autoencoder": "",
		"first_call": "long_lived 8388608 saved 8388608, 1.00; long_lived 8388608 saved 8388608, 1.00",
	} {
		c, err := judged.Open("../../testdata/waste/"+name+".pickle.zst", formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range find(t, c.Capture, finding.Settings{}) {
			if f.Severity > finding.Info {
				t.Errorf("%s: %s", name, f.Description)
			}
			if f.Rule == "long_lived" {
				got = append(got, fmt.Sprintf("%s %d saved %.0f, %.2f", f.Rule, f.Amount.Bytes, f.Value(finding.FigSaved), f.Confidence))
			}
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestIdleMemory: idle memory is no fragmentation. Segments without a buffer return with empty_cache; idle pools are named as by oom.
func TestIdleMemory(t *testing.T) {
	for name, want := range map[string]string{
		"waste/cached":    "idle_memory info: 600 MiB of 620 MiB reserved are in segments without a buffer",
		"waste/idle_pool": "idle_memory info: 416 MiB of 516 MiB reserved are idle at +263 µs, 416 MiB of it in 1 private pool (torch.cuda.MemPool or torch.compile), which others cannot use",
		"replay/b16":      "",
	} {
		c, err := judged.Open("../../testdata/"+name+".pickle.zst", formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range find(t, c.Capture, finding.Settings{}) {
			if f.Rule == "idle_memory" || f.Rule == "fragmentation" && want != "" {
				got += f.Rule + " " + f.Severity.String() + ": " + f.Description
			}
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestSpike: the finding names the step with a high peak and the call site that causes it.
func TestSpike(t *testing.T) {
	p := newProgram(3)
	p.steps = 60
	f := only(t, findingsOf(t, p, finding.Settings{}, p.marked(func(step int) {
		if step == 40 {
			p.free(p.alloc("evaluate", 200<<20))
		}
	})), "spike")
	if evidence(f, "step") != 40.0 || !strings.Contains(f.Description, "evaluate") {
		t.Errorf("%s %v", f.Description, f.Evidence)
	}
}

// TestWaste: buffers much larger than requested, and buffers allocated again and again.
func TestWaste(t *testing.T) {
	p := newProgram(3)
	p.steps = 60
	var small []*tensor
	found := findingsOf(t, p, finding.Settings{}, p.marked(func(step int) {
		for step == 0 && len(small) < 100_000 {
			small = append(small, p.alloc("scalars", 4))
		}
		for range 2000 {
			p.free(p.alloc("again", 1<<16))
		}
	}))
	if f := only(t, found, "inefficient_allocation"); f.Amount.Count != 100_000 || f.Amount.Bytes != 512*100_000 {
		t.Errorf("inefficient: %+v", f.Amount)
	}
	if f := only(t, found, "repeated_allocation"); f.Amount.Count != 60*2000 {
		t.Errorf("repeated: %+v", f.Amount)
	}
}

// TestOutlook: since when a leak grows, how fast, when it reaches the limit, and that a release of cached memory did not free
// it.
func TestOutlook(t *testing.T) {
	p := newProgram(5)
	p.steps = 60
	found := findingsOf(t, p, finding.Settings{Limit: 1 << 30}, p.marked(func(step int) {
		if step >= 20 {
			p.alloc("leak", 1<<20)
		}
		if step == 50 {
			p.b.Reserve(p.s, p.t, lifetime.Region{Addr: 1 << 50, Size: 2 << 20})
			p.b.Release(p.s, p.t+1, lifetime.Region{Addr: 1 << 50, Size: 2 << 20})
		}
	}))
	f := only(t, found, "leak")
	if f.Severity != finding.Critical || evidence(f, "began_step") != 20.0 || evidence(f, "steps") != 60.0 || evidence(f,
		"outlives_releases") != 1.0 {
		t.Errorf("%v %v", f.Severity, f.Evidence)
	}
	// 1 MiB per step fills the rest of 1 GiB.
	if at := evidence(f, "projected_step").(float64); at < 900 || at > 1060 {
		t.Errorf("the limit is reached at step %v", at)
	}
	if f.BytesPerStep != 40<<20/60.0 {
		t.Errorf("%v bytes a step", f.BytesPerStep)
	}
	p = newProgram(5)
	p.steps = 30
	few := only(t, findingsOf(t, p, finding.Settings{}, p.marked(func(int) { p.alloc("leak", 1<<20) })), "leak")
	if few.Severity != finding.Warning || few.Confidence >= f.Confidence || !strings.Contains(few.Description, "only 30 steps were recorded") {
		t.Errorf("%v %v: %s", few.Severity, few.Confidence, few.Description)
	}
}

// keeping returns a program that retains 1 MiB per step from a step on, and the bytes in use at its end.
func keeping(t *testing.T, steps, from int) (p *program, pattern func(step int), bytes int64) {
	made := func() (*program, func(int)) {
		p := newProgram(5)
		p.steps = steps
		return p, p.marked(func(step int) {
			if step >= from {
				p.alloc("leak", 1<<20)
			}
		})
	}
	p, pattern = made()
	c, _ := p.run(t, pattern)
	for i := range c.Spaces[0].Buffers {
		if b := &c.Spaces[0].Buffers[i]; b.Edge&lifetime.EndOpen != 0 {
			bytes += b.Size
		}
	}
	p, pattern = made()
	return p, pattern, bytes
}

// TestFiguresOfLeak: the figures of a leak, and the thresholds of its severity.
func TestFiguresOfLeak(t *testing.T) {
	const few, enough = "10 to 49 steps", "50 steps or more"
	for _, c := range []struct {
		name             string
		steps, from      int
		beyond           int64 // the limit minus the bytes in use at the end; 0 = no limit
		critical         int64
		severity         finding.Severity
		evidence         string // of the confidence
		projected        any
		hasBegin, hasFew bool // parts of the text
	}{
		{"no limit", 60, 0, 0, 0, finding.Warning, enough, nil, false, false},
		{"few steps", 49, 0, 0, 0, finding.Warning, few, nil, false, true},
		{"enough of them", 50, 0, 0, 0, finding.Warning, enough, nil, false, false},
		{"from a tenth on", 60, 6, 0, 0, finding.Warning, enough, nil, false, false},
		{"from behind it", 60, 7, 0, 0, finding.Warning, enough, nil, true, false},
		{"the limit is near", 60, 20, 1000 * mib, 0, finding.Critical, enough, 1060.0, true, false},
		{"the limit is farther", 60, 20, 1000*mib + 1, 0, finding.Warning, enough, 1061.0, true, false},
		{"ten windows", 200, 0, 2000 * mib, 0, finding.Critical, enough, 2200.0, false, false},
		{"more than ten windows", 200, 0, 2000*mib + 1, 0, finding.Warning, enough, 2201.0, false, false},
		{"beyond the limit", 60, 20, -mib, 0, finding.Critical, enough, 60.0, true, false},
		{"critical bytes", 60, 20, 0, 40 * mib, finding.Critical, enough, nil, true, false},
		{"a byte less", 60, 20, 0, 40*mib + 1, finding.Warning, enough, nil, true, false},
	} {
		p, pattern, bytes := keeping(t, c.steps, c.from)
		settings := finding.Settings{Critical: c.critical}
		if c.beyond != 0 {
			settings.Limit = bytes + c.beyond
		}
		capture, _ := p.run(t, pattern)
		var f finding.Finding
		for _, found := range find(t, capture, settings) {
			if found.Rule == "leak" {
				f = found
			}
		}
		if f.Space == nil {
			t.Fatalf("%s: no leak", c.name)
		}
		n := c.steps - c.from
		if f.Severity != c.severity || f.Basis.Evidence != c.evidence || f.Confidence != finding.Measured[f.Basis].Confidence() ||
			f.BytesPerStep != float64(n)*float64(mib)/float64(c.steps) || f.Amount.Bytes != int64(n)*mib {
			t.Errorf("%s: %s, %v, want %v, %v bytes a step, %v", c.name, f.Severity, f.Basis, c.evidence, f.BytesPerStep, f.Amount)
		}
		began := capture.Spaces[0].Buffers[f.Kept[0]].Begin - capture.Spaces[0].Begin
		for name, want := range map[string]any{"survivors": float64(n), "mean_bytes": float64(mib), "began_after": float64(began),
			"steps":      float64(c.steps),
			"began_step": float64(c.from), "projected_step": c.projected, "outlives_releases": nil, "steps_inferred": nil} {
			if have := evidence(f, name); have != want {
				t.Errorf("%s: %s %v, want %v", c.name, name, have, want)
			}
		}
		if has := strings.Contains(f.Description, fmt.Sprintf("it began at step %d of %d and grows", c.from, c.steps)); has != c.hasBegin {
			t.Errorf("%s: %s", c.name, f.Description)
		}
		if has := strings.Contains(f.Description, "steps were recorded"); has != c.hasFew {
			t.Errorf("%s: %s", c.name, f.Description)
		}
	}
}

// TestCauses: leaks from the same few steps share a cause. Leaks of every step share all steps, which says nothing.
func TestCauses(t *testing.T) {
	p := newProgram(9)
	p.steps = 60
	found := findingsOf(t, p, finding.Settings{}, p.marked(func(step int) {
		if step%3 == 0 {
			p.alloc("input", 1<<18)
			p.alloc("hidden", 1<<20)
		}
		if step%4 == 0 {
			p.alloc("metric", 1<<12)
		}
		p.alloc("always", 1<<14)
		p.alloc("lookup", int64(1<<10*(step+1)))
	}))["leak"]
	causes := map[string]string{}
	for _, f := range found {
		causes[strings.Fields(f.Description)[0]] = evidence(f, "cause").(string)
	}
	if len(causes) != 5 || causes["input"] != causes["hidden"] || causes["metric"] == causes["hidden"] || causes["always"] == causes["lookup"] {
		t.Errorf("causes: %v", causes)
	}
}

// TestCauseOfOne: the cause of a single leak.
func TestCauseOfOne(t *testing.T) {
	called := func(p *program, name string, by ...frame.Frame) {
		for i := range by {
			p.frames = append(p.frames, p.b.Frame(by[i]))
		}
		p.alloc(name, 1<<20)
		p.frames = nil
	}
	module := frame.Frame{Function: "_call_impl", File: "/site-packages/torch/nn/modules/module.py", Kind: frame.Framework}
	node := frame.Frame{Function: "MulBackward0", Kind: frame.Node}
	var garbage []*tensor
	keys := map[int]bool{}
	for want, pattern := range map[finding.Cause]func(p *program, step int){
		finding.UnboundedCache: func(p *program, step int) {
			if k := p.IntN(70); !keys[k] {
				keys[k] = true
				p.alloc("lookup", int64(1<<10*(k+1)))
			}
		},
		finding.Collection: func(p *program, step int) { // results that vary in size
			p.free(p.alloc("input", int64(1<<10*(step+1))))
			p.alloc("kept", int64(1<<10*(step+1)))
		},
		finding.Hook:      func(p *program, _ int) { called(p, "save_output", module) },
		finding.Gradients: func(p *program, _ int) { called(p, "kept", node) },
		finding.FailedAllocations: func(p *program, _ int) {
			p.alloc("kept", 1<<20)
			p.b.Mark(p.s, lifetime.Mark{Begin: p.t, End: p.t, Kind: lifetime.OOM, Requested: 1 << 40})
		},
		finding.ReferenceCycle: func(p *program, step int) {
			p.alloc("kept", 1<<20)
			garbage = append(garbage, p.alloc("kept", 1<<20))
			if step%5 == 4 {
				p.freeIn(fmt.Sprint("anywhere", step%4), garbage...)
				garbage = nil
			}
		},
	} {
		p := newProgram(9)
		p.steps = 60
		f := only(t, findingsOf(t, p, finding.Settings{}, p.marked(func(step int) { pattern(p, step) })), "leak")
		if f.Cause != want || f.Suggestions[0] != want.Advice() {
			t.Errorf("%s: %s %v", want, f.Cause, f.Evidence)
		}
	}
}

// TestGraphOfOneLine: a library computes what a graph retains, so it has one place. Without a backward pass, it comes from modules of
// many kinds; two kinds may be a cache of keys and values.
func TestGraphOfOneLine(t *testing.T) {
	for _, c := range []struct {
		kinds               int // of modules
		trains, switchedOff bool
		want                finding.Cause
	}{{2, true, false, finding.LossGraph}, {2, true, true, finding.LossGraph}, {6, false, false, finding.LossGraph}, {2, false, false,
		finding.Collection},
		{6, false, true, finding.Collection}} {
		p := newProgram(9)
		p.steps = 60
		call := p.b.Frame(frame.Frame{Function: "train", File: "train.py", Line: 7})
		module := p.b.Frame(frame.Frame{Function: "_call_impl", File: "/site-packages/torch/nn/modules/module.py", Kind: frame.Framework})
		off := p.b.Frame(frame.Frame{Function: "decorate_context", File: "/site-packages/torch/utils/_contextlib.py", Kind: frame.Framework})
		found := findingsOf(t, p, finding.Settings{}, p.marked(func(int) {
			for k := range 6 {
				layer := p.b.Frame(frame.Frame{Function: "forward", File: "/site-packages/library/layers.py", Line: k % c.kinds, Kind: frame.Framework})
				stack := []lifetime.FrameID{layer, module, call}
				if c.switchedOff {
					stack = append(stack, off)
				}
				p.allocAt(p.b.Site(lifetime.Site{Stack: p.b.Stack(stack)}), 1<<20)
			}
			if c.trains {
				p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: "MulBackward0", Kind: frame.Node})}
				p.free(p.alloc("gradient", 1<<18))
				p.frames = nil
			}
		}))["leak"]
		if len(found) != 1 || found[0].Cause != c.want {
			t.Errorf("%+v: %v", c, found)
		}
	}
}

// TestDataBesideGraph: a graph keeps what a forward pass computes. Data that is kept beside it has a cause of its own, and so have
// observations, if each backward pass frees what its forward pass saved, and what a function without other operators copies.
func TestDataBesideGraph(t *testing.T) {
	for _, graph := range []bool{true, false} {
		p := newProgram(9)
		p.steps = 60
		module := p.b.Frame(frame.Frame{Function: "_call_impl", File: "/site-packages/torch/nn/modules/module.py", Kind: frame.Framework})
		node := p.b.Frame(frame.Frame{Function: "MulBackward0", Kind: frame.Node})
		clone := p.b.Frame(frame.Frame{Function: "aten::clone", Kind: frame.Operator})
		within := func(name string, by lifetime.FrameID) *tensor {
			caller := p.b.Frame(frame.Frame{Function: name, File: "app.py", Line: 1})
			return p.allocAt(p.b.Site(lifetime.Site{Stack: p.b.Stack([]lifetime.FrameID{by, caller})}), 1<<18)
		}
		found := findingsOf(t, p, finding.Settings{}, p.marked(func(int) {
			for range 3 {
				p.alloc("observe", 1<<18)
				if !graph {
					within("act", module)
				}
			}
			saved := within("update", module)
			gradient := within("update", node)
			p.free(saved)
			p.free(gradient, within("update", node))
			if graph {
				for _, name := range []string{"first", "second", "third"} {
					p.alloc(name, 1<<18)
				}
				within("grab", clone)
			}
		}))["leak"]
		causes := map[string]finding.Cause{}
		for _, f := range found {
			causes[strings.Fields(f.Description)[0]] = f.Cause
		}
		want := map[string]finding.Cause{"observe": finding.Collection, "act": finding.Collection}
		if graph {
			want = map[string]finding.Cause{"observe": finding.Collection, "first": finding.LossGraph, "second": finding.LossGraph, "third": finding.LossGraph,
				"grab": finding.Collection}
		}
		if !maps.Equal(causes, want) {
			t.Errorf("with a graph %v: %v", graph, causes)
		}
	}
}

// TestNoCause: what looks like a cause, but lacks its evidence.
func TestNoCause(t *testing.T) {
	var session []*tensor
	for name, pattern := range map[string]func(p *program, step int){
		"copies of gradients, made in one line": func(p *program, _ int) {
			p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: "MulBackward0", Kind: frame.Node})}
			p.free(p.alloc("gradient", 1<<18))
			p.frames = nil
			for range 4 {
				p.alloc("copies", 1<<18)
			}
		},
		"two leaks without a backward pass": func(p *program, _ int) {
			p.alloc("feature", 1<<20)
			p.alloc("statistic", 1<<18)
		},
		"two leaks with one": func(p *program, _ int) {
			p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: "MulBackward0", Kind: frame.Node})}
			p.free(p.alloc("gradient", 1<<18))
			p.frames = nil
			p.alloc("feature", 1<<20)
			p.alloc("statistic", 1<<18)
		},
		"three lists of results beside others that a backward pass needs": func(p *program, _ int) {
			var saved []*tensor
			for k := range 4 {
				saved = append(saved, p.alloc(fmt.Sprint("layer", k), 1<<19))
			}
			for _, name := range []string{"feature", "logits", "labels"} {
				p.alloc(name, 1<<18)
			}
			p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: "MulBackward0", Kind: frame.Node})}
			p.free(append(saved, p.alloc("gradient", 1<<18))...)
			p.frames = nil
		},
		"sessions that end at one place": func(p *program, step int) {
			p.alloc("session", 1<<20)
			session = append(session, p.alloc("session", 1<<20))
			if step%5 == 4 {
				p.freeIn("end", session...)
				session = nil
			}
		},
		"a function that is named after a hook": func(p *program, _ int) { p.alloc("save_hook", 1<<20) },
		"the forward pass of a module": func(p *program, _ int) {
			p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: "_call_impl", File: "/torch/nn/modules/module.py", Kind: frame.Framework})}
			p.alloc("forward", 1<<20)
			p.frames = nil
		},
	} {
		p := newProgram(9)
		p.steps = 60
		for _, f := range findingsOf(t, p, finding.Settings{}, p.marked(func(step int) { pattern(p, step) }))["leak"] {
			if f.Cause != finding.Collection {
				t.Errorf("%s: %s", name, f.Cause)
			}
		}
	}
}

// TestOOM: the cause of failed allocations, in captures of programs with a known cause.
func TestOOM(t *testing.T) {
	for name, want := range map[string]string{"frag_oom": "fragmented", "t215_frag_oom": "fragmented", "oom_observer": "exhausted"} {
		c, err := judged.Open("../../testdata/torchsnap/"+name+".pickle", formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		found := find(t, c.Capture, finding.Settings{})
		if f := found[0]; f.Rule != "oom" || f.Severity != finding.Critical || evidence(f, "reason") != want {
			t.Errorf("%s: %s %v", name, f.Description, f.Evidence)
		}
		if want == "fragmented" && (evidence(found[0], "largest_hole") != float64(8<<20) ||
			c.PlaceOf(found[0].Place()).String() != "<listcomp> (frag.py:12)") {
			t.Errorf("%s: %s", name, found[0].Description)
		}
	}
	// The same failure on a device with a larger limit.
	c, err := judged.Open("../../testdata/torchsnap/oom_observer.pickle", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	found := find(t, c.Capture, finding.Settings{Limit: 512 << 20})
	if f := found[0]; evidence(f, "reason") != "outside" || evidence(f, "outside") != float64(64<<20) {
		t.Errorf("%s %v", f.Description, f.Evidence)
	}
}

// TestDied: a program that runs out of memory after very many rounds leaks, as its history without the failure shows where others work,
// too. The activations of a first pass and data that is loaded look like fewer rounds. A remedy is one only if what comes next fits.
func TestDied(t *testing.T) {
	for name, want := range map[string]struct {
		reason, proof string
		leaks         int
	}{
		"table":      {"leak", "; expandable_segments:True only delays it, by at most 47 steps (11 %)", 2},
		"ahead":      {"leak", "without it 160 MiB would be in use instead of 381 MiB", 1},
		"first_pass": {"exhausted", "; expandable_segments:True only delays it, by at most 1 %", 0},
		"shards":     {"exhausted", "", 0},
		"whole":      {"exhausted", "", 0},
	} {
		c, err := judged.Open("../../testdata/failures/"+name+".pickle.zst", formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		all := find(t, c.Capture, finding.Settings{})
		leaks := slices.DeleteFunc(slices.Clone(all), func(f finding.Finding) bool { return !f.IsLeak() })
		if d := all[0].Failures[0]; string(d.Reason) != want.reason || !strings.HasSuffix(d.Proof, want.proof) || len(leaks) != want.leaks {
			t.Errorf("%s: %d leaks, %s, %s", name, len(leaks), d.Reason, d.Proof)
		} else if name == "whole" && (d.Live != 236<<20 || d.Unallocated != 0 || evidence(all[0], "in_use") != float64(d.Live)) { // blocks of 118 MiB
			t.Errorf("%d B live, %d B free, %v", d.Live, d.Unallocated, all[0].Evidence)
		}
	}
}

// TestLeakBelowFailure: the leak that a failure names is that of the rule leak. What the step that failed had in use, at the same call site, is
// no part of it.
func TestLeakBelowFailure(t *testing.T) {
	p := newProgram(3)
	p.steps = 60
	var used *tensor
	found := findingsOf(t, p, finding.Settings{}, p.marked(func(step int) {
		if step == p.steps-1 {
			used = p.alloc("kept", 1<<20)
			p.t++
			p.b.Mark(p.s, lifetime.Mark{Begin: p.t, End: p.t, Kind: lifetime.OOM, Requested: 16 << 20, Free: failure.BytesOf(1 << 20)})
			p.free(used)
			return
		}
		p.free(p.alloc("kept", 1<<20))
		p.alloc("kept", 1<<20)
	}))
	leak, below := only(t, found, "leak"), only(t, found, "oom").Failures[0].Leak
	if below == nil || below.Amount != leak.Amount || below.Amount.Count != 59 {
		t.Fatalf("%+v, want %+v", below, leak.Amount)
	}
	if steps := evidence(leak, "steps").(float64); below.PerStep != float64(below.Amount.Bytes)/steps || len(below.Kept) != 59 {
		t.Errorf("%v per step, want %v", below.PerStep, leak.BytesPerStep)
	}
}

// TestTooLargeProgram: a compiled program that does not fit.
func TestTooLargeProgram(t *testing.T) {
	c, err := judged.Open("../../testdata/xplane/seed_oom.hlo.pb", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	f := find(t, c.Capture, finding.Settings{Limit: 16 << 30})[0]
	if f.Rule != "oom" || evidence(f, "peak") != float64(300<<30) || !strings.Contains(f.Description, "200 GiB") {
		t.Errorf("%s: %s", f.Rule, f.Description)
	}
}

// usage returns a capture with only totals, and its findings.
func usage(t *testing.T, levels func(i int) int64) (*lifetime.Capture, []finding.Finding) {
	t.Helper()
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "counters"})
	s := b.Space()
	for i := range 400 {
		b.Total(s, lifetime.Total{T: int64(i * 1000), Bytes: levels(i), Measure: lifetime.Occupied})
	}
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c, find(t, c, finding.Settings{})
}

// TestTrend: with only totals, a rising floor is a finding; a sawtooth, a warm-up and a random walk are not.
func TestTrend(t *testing.T) {
	p := newProgram(1)
	walk := int64(1 << 30)
	for name, c := range map[string]struct {
		levels func(i int) int64
		trend  bool
	}{
		"grows":    {func(i int) int64 { return int64(i)<<20 + int64(i%7)<<22 }, true},
		"sawtooth": {func(i int) int64 { return int64(i%50) << 20 }, false},
		"warm-up":  {func(i int) int64 { return int64(min(i, 60)) << 20 }, false},
		"walk": {func(int) int64 {
			walk += int64(p.NormFloat64() * (5 << 20))
			return walk
		}, false},
	} {
		if _, found := usage(t, c.levels); len(found) > 0 != c.trend {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// TestFlatLine: all allocations are at the beginning.
func TestFlatLine(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "flat"})
	s := b.Space()
	for i := range int64(20) {
		b.Alloc(s, 1000+i, build.Block{Addr: uint64(i) << 20, Requested: 1 << 20, Occupied: 1 << 20})
	}
	b.Describe(s, lifetime.SpaceInfo{Device: "tpu:0", Begin: 1, End: 1_000_000, Facts: lifetime.Clock | lifetime.History})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	found := find(t, c, finding.Settings{})
	if len(found) != 1 || found[0].Rule != "trend" || !strings.Contains(found[0].Description, "flat") {
		t.Errorf("%v", found)
	}
}

// TestThreeSteps: three marked steps show a leak if each retains the same, and not if one of them retains more, or less.
func TestThreeSteps(t *testing.T) {
	for _, c := range []struct {
		kept [3]int // buffers that a step retains
		leak bool
	}{
		{[3]int{1, 1, 1}, true},
		{[3]int{2, 2, 2}, true},
		{[3]int{2, 1, 1}, false},
		{[3]int{1, 1, 2}, false},
		{[3]int{2, 2, 0}, false},
		{[3]int{0, 1, 1}, false},
	} {
		p := newProgram(5)
		p.steps = 3
		found := findingsOf(t, p, finding.Settings{}, func(step int) {
			begin := p.t
			for range c.kept[step] {
				p.alloc("history", 8<<20)
			}
			for range 50 {
				p.free(p.alloc("work", 1<<20))
			}
			p.b.Mark(p.s, lifetime.Mark{Begin: begin, End: p.t, Kind: lifetime.Step, Text: "step"})
		})
		if got := len(found["leak"]) > 0; got != c.leak {
			t.Errorf("%v: %v", c.kept, found)
		}
	}
}
