package finding_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/purpose"
)

// variants are simulated programs that differ in one parameter. Some leak at the site "leak", and no other site leaks.
type variants struct {
	name       string
	leaks      bool
	parameters []int
	pattern    func(p *program, parameter int) func(step int)
}

// try runs each variant with several seeds, prints a table, and fails for each wrong answer.
func try(t *testing.T, all []variants) {
	t.Helper()
	seeds := deep.Or(4, 10)
	for _, v := range all {
		line := fmt.Sprintf("%-62s leaks %-5v", v.name, v.leaks)
		for _, parameter := range v.parameters {
			right := 0
			for seed := range uint64(seeds) {
				p := newProgram(seed)
				c, findings := p.run(t, v.pattern(p, parameter))
				ok := len(findings) == 1 == v.leaks && len(findings) <= 1
				for _, f := range findings {
					if frame, _ := c.FrameOf(f.Sites[0]); frame.Function != "leak" {
						t.Logf("%s, %d, seed %d: %s", v.name, parameter, seed, f.Description)
						ok = false
					}
				}
				if ok {
					right++
				} else {
					t.Logf("%s, %d, seed %d: %d leaks", v.name, parameter, seed, len(findings))
				}
			}
			line += fmt.Sprintf("  %d: %d/%d", parameter, right, seeds)
			if right < seeds {
				t.Errorf("%s, %d: %d of %d right", v.name, parameter, right, seeds)
			}
		}
		t.Log(line)
	}
}

// TestStepsAreTime: a leak that retains all that would have been freed stops the clock of work. Steps go on. The parameter is
// the share of the steps, in percent, after which only the leak allocates.
func TestStepsAreTime(t *testing.T) {
	try(t, []variants{
		{"nothing else is allocated from then on", true, []int{30, 40, 60, 75}, func(p *program, from int) func(int) {
			p.steps += 40
			p.idle = func(step int) bool { return step >= p.steps*from/100 }
			return p.marked(func(step int) {
				if p.idle(step) {
					p.alloc("leak", 1<<18)
				}
			})
		}},
		{"little else is freed from then on", true, []int{30, 40, 60, 75}, func(p *program, from int) func(int) {
			p.steps += 40
			p.idle = func(step int) bool { return step >= p.steps*from/100 }
			return p.marked(func(step int) {
				if p.idle(step) {
					p.free(p.alloc("forward", 1<<16))
					p.alloc("leak", 1<<18)
				}
			})
		}},
		{"a cache fills while nothing else is allocated, then work goes on", false, []int{10, 20, 30, 40}, func(p *program, until int) func(int) {
			p.steps += 40
			p.idle = func(step int) bool { return step < p.steps*until/100 }
			return p.marked(func(step int) {
				if p.idle(step) {
					p.alloc("leak", 1<<18)
				}
			})
		}},
	})
}

// TestSizesThatVary: a leak whose sizes vary is no set-up, also if many of the sizes repeat or are freed. The parameter is the
// number of sizes.
func TestSizesThatVary(t *testing.T) {
	kept := func(every int) func(p *program, sizes int) func(int) {
		return func(p *program, sizes int) func(int) {
			p.steps *= 2
			return func(step int) {
				if x := p.alloc("leak", 512*(1+p.Int64N(int64(sizes)))); step%every > 0 {
					p.free(x)
				}
			}
		}
	}
	sizes := []int{1, 3, 10, 40, 200, 100_000}
	try(t, []variants{
		{"all are kept", true, sizes, kept(1)},
		{"every second is kept", true, sizes, kept(2)},
		{"every fourth is kept", true, sizes, kept(4)},
		{"a workspace, then each is freed", false, sizes, func(p *program, sizes int) func(int) {
			return func(step int) {
				x := p.alloc("matmul", 512*(1+p.Int64N(int64(sizes))))
				if step == 0 {
					p.alloc("matmul", 8519680)
				}
				p.free(x)
			}
		}},
		{"a pool of one buffer per size, of at most 20 sizes", false, []int{1, 5, 10, 20}, func(p *program, sizes int) func(int) {
			p.steps += 60
			pool := map[int]bool{}
			return func(int) {
				if k := p.IntN(sizes); !pool[k] {
					pool[k] = true
					p.alloc("pool", 512*int64(k+1))
				}
			}
		}},
	})
}

// TestManyPaths: a line that leaks through many call paths retains few buffers through each. The parameter is the number of
// paths.
func TestManyPaths(t *testing.T) {
	through := func(p *program, path int, name string) *tensor {
		defer func(frames []lifetime.FrameID) { p.frames = frames }(p.frames)
		p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: fmt.Sprint("path", path), File: "sim.py", Line: 100 + path})}
		return p.alloc(name, 1<<18)
	}
	paths := []int{1, 2, 10, 25, 40}
	try(t, []variants{
		{"each step retains a buffer, on the next path", true, paths, func(p *program, paths int) func(int) {
			p.steps += 60
			return func(step int) { through(p, step%paths, "leak") }
		}},
		{"each step retains a buffer on one of the paths, and frees others", true, paths, func(p *program, paths int) func(int) {
			p.steps += 60
			return func(int) {
				p.free(through(p, p.IntN(paths), "leak"))
				through(p, p.IntN(paths), "leak")
			}
		}},
		{"caches of three buffers for each path fill", false, []int{1, 2, 10}, func(p *program, paths int) func(int) {
			p.steps += 60
			return func(step int) {
				if step < 3*paths {
					through(p, step%paths, "cache")
				}
			}
		}},
		{"a queue with buffers of all paths", false, paths, func(p *program, paths int) func(int) {
			p.steps += 60
			var queue []*tensor
			return func(int) {
				if queue = append(queue, through(p, p.IntN(paths), "queue")); len(queue) > 20 {
					p.free(queue[0])
					queue = queue[1:]
				}
			}
		}},
		{"each path replaces its buffer", false, paths, func(p *program, paths int) func(int) {
			p.steps += 60
			last := map[int]*tensor{}
			return func(int) {
				k := p.IntN(paths)
				x := through(p, k, "state")
				if last[k] != nil {
					p.free(last[k])
				}
				last[k] = x
			}
		}},
		{"each layer builds one buffer", false, []int{1000}, func(p *program, paths int) func(int) {
			return func(step int) { through(p, step, "build layer") }
		}},
	})
}

// TestWorkingSets: a working set that is replaced in every step, oldest first, is no backlog, however it grows. The parameter is
// the number of steps until it has a buffer more.
func TestWorkingSets(t *testing.T) {
	inOrder := func(p *program, add int, frees func(held, added int) int) func(step int) {
		var queue []*tensor
		return func(step int) {
			held, n := len(queue), 2+step/add
			for range n {
				queue = append(queue, p.alloc("leak", 1<<18))
			}
			n = frees(held, n)
			p.free(queue[:n]...)
			queue = queue[n:]
		}
	}
	rates := []int{1, 2, 5, 20}
	try(t, []variants{
		{"a working set, steps marked", false, rates, func(p *program, add int) func(int) {
			return p.marked(inOrder(p, add, func(held, _ int) int { return held }))
		}},
		{"a working set", false, rates, func(p *program, add int) func(int) {
			return inOrder(p, add, func(held, _ int) int { return held })
		}},
		{"a backlog, steps marked", true, []int{30, 1000}, func(p *program, add int) func(int) {
			p.steps += 20
			return p.marked(inOrder(p, add, func(_, added int) int { return added / 2 }))
		}},
		{"a backlog", true, []int{30, 1000}, func(p *program, add int) func(int) {
			p.steps += 20
			return inOrder(p, add, func(_, added int) int { return added / 2 })
		}},
		{"a backlog of results whose operands have their stack", true, []int{1}, func(p *program, _ int) func(int) {
			p.steps += 20
			var queue []*tensor
			return func(int) {
				for range 2 {
					operand := p.alloc("leak", 1<<18)
					queue = append(queue, p.alloc("leak", 1<<18))
					p.free(operand)
				}
				p.free(queue[0])
				queue = queue[1:]
			}
		}},
	})
}

// TestNoWork: a program that only allocates is not known to leak, however often a function is called: it may be building a model. Marked
// steps are steps. That memory runs out says neither.
func TestNoWork(t *testing.T) {
	for _, c := range []struct{ marked, fails, leaks bool }{
		{false, false, false}, {true, false, true}, {false, true, false}, {true, true, true},
	} {
		p := newProgram(3)
		p.steps, p.idle = 24, func(int) bool { return true }
		p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: "build", File: "sim.py", Line: 7, Kind: frame.User})}
		calls := func(step int) {
			p.alloc("weight", 32<<20)
			p.alloc("bias", 32<<20)
			if c.fails && step == p.steps-1 {
				p.b.Mark(p.s, lifetime.Mark{Begin: p.t, End: p.t, Kind: lifetime.OOM, Requested: 32 << 20})
			}
		}
		if c.marked {
			calls = p.marked(calls)
		}
		for _, f := range findingsOf(t, p, finding.Settings{}, calls)["leak"] {
			if (f.Severity > finding.Info) != c.leaks {
				t.Errorf("%+v: %v %s", c, f.Severity, f.Description)
			}
		}
	}
}

// TestLoading: a program that loads layer by layer, and does nothing else, is not known to leak. The parameter is the number of
// layers.
func TestLoading(t *testing.T) {
	idle := func(int) bool { return true }
	layers := []int{6, 20, 100}
	load := func(p *program, layers int) func(int) {
		p.steps, p.idle = layers, idle
		return func(int) {
			staging := p.alloc("load", 64<<20)
			p.alloc("load", 40<<20+512*p.Int64N(3))
			p.free(staging)
		}
	}
	try(t, []variants{
		{"staging buffer and weight of each layer", false, layers, load},
		{"the same in an installed program, beside a thread that measures", false, layers, func(p *program, layers int) func(int) {
			p.steps, p.idle, p.measured = layers, idle, true
			installed := func(function string, line int) lifetime.FrameID {
				return p.b.Frame(frame.Frame{Function: function, File: "/venv/lib/python3.11/site-packages/proj/io.py", Line: line, Kind: frame.Framework})
			}
			return func(int) {
				p.measures()
				stack := func(line int) []lifetime.FrameID {
					return []lifetime.FrameID{installed("load", line), installed("main", 3), installed("<module>", 9)}
				}
				site := func(line int) lifetime.SiteID { return p.b.Site(lifetime.Site{Stack: p.b.Stack(stack(line))}) }
				staging := p.allocAt(site(1), 64<<20)
				p.allocAt(site(2), 40<<20+512*p.Int64N(3))
				p.free(staging)
			}
		}},
		{"the same in steps", true, []int{20, 100}, func(p *program, layers int) func(int) {
			run := load(p, layers)
			return p.marked(func(step int) {
				p.alloc("leak", 1<<20)
				p.free(p.alloc("scratch", 1<<20))
				if step == 0 {
					run(step)
				}
			})
		}},
		{"a step with other work", true, []int{20, 100}, func(p *program, layers int) func(int) {
			return func(int) { p.alloc("leak", 1<<20) }
		}},
	})
}

// TestGrowsByFactor: a buffer that is replaced by one that is larger by a factor whenever it is full. The parameter is the factor,
// in percent.
func TestGrowsByFactor(t *testing.T) {
	// fill appends rows until a step, from a step on.
	fill := func(p *program, factor, until int) func(step int) {
		p.steps = 100 + p.IntN(100)
		capacity, rows := int64(16), int64(0)
		var log *tensor
		return func(step int) {
			if step*100 < until*p.steps {
				rows += 8
			}
			if log != nil && rows <= capacity {
				return
			}
			for rows > capacity {
				capacity = capacity * int64(factor) / 100
			}
			x := p.alloc("leak", capacity<<12)
			if log != nil {
				p.free(log)
			}
			log = x
		}
	}
	factors := []int{150, 200, 300}
	try(t, []variants{
		{"appended to in every step", true, factors, func(p *program, factor int) func(int) { return fill(p, factor, 100) }},
		{"the same, steps marked", true, factors, func(p *program, factor int) func(int) { return p.marked(fill(p, factor, 100)) }},
		{"until a quarter of the steps", false, factors, func(p *program, factor int) func(int) { return fill(p, factor, 25) }},
	})
}

// TestGrowsByShape: without stacks the shape is a part of the site, so each buffer that grows has another site. The parameter is
// the number of rows that a step adds. The operation also has a result of a fixed size, and so do others.
func TestGrowsByShape(t *testing.T) {
	for _, rows := range []int64{1, 7, 64} {
		p := newProgram(uint64(rows))
		p.steps = 60
		var last *tensor
		var fixed []*tensor
		_, leaks := p.run(t, func(step int) {
			shape := lifetime.Site{Op: "ConcatV2", Shape: fmt.Sprintf("[%d,256]", rows*int64(step+1))}
			x := p.allocAt(p.b.Site(shape), rows*int64(step+1)<<10)
			if last != nil {
				p.free(last)
			}
			last = x
			p.free(fixed...)
			fixed = nil
			for _, op := range []string{"ConcatV2", "Fill", "MatMul", "Relu"}[min(step/(p.steps-1), 1):] { // the last one without it
				fixed = append(fixed, p.allocAt(p.b.Site(lifetime.Site{Op: op, Shape: "[4]"}), 512))
			}
		})
		if len(leaks) != 1 || leaks[0].Rule != "growing_buffer" || leaks[0].Amount.Count != 1 {
			t.Errorf("%d rows: %v", rows, leaks)
		}
	}
}

// TestRolesAreNoCache: state that grows in number and then stops is a full cache, unless the program needs it.
func TestRolesAreNoCache(t *testing.T) {
	p := newProgram(3)
	p.steps = 60
	c, _ := p.run(t, func(step int) {
		if step < 20 {
			p.alloc("state", 1<<20)
		}
	})
	for category, want := range map[purpose.Category]bool{purpose.OptimizerState: false, purpose.Activation: false, purpose.Cache: true,
		purpose.UnknownCategory: true} {
		c.Purposes = []purpose.Purpose{{}, {Category: category}}
		s := c.Spaces[0]
		s.Purposes = make([]lifetime.PurposeID, len(s.Buffers))
		for i := range s.Buffers {
			if frame, _ := c.FrameOf(s.Buffers[i].Site); frame.Function == "state" {
				s.Purposes[i] = 1
			}
		}
		named := slices.ContainsFunc(judge.Of(c).Findings(), func(f finding.Finding) bool {
			frame, _ := c.FrameOf(f.Place())
			return frame.Function == "state"
		})
		if named != want {
			t.Errorf("%s: %v, want %v", category, named, want)
		}
	}
}

// TestKeptByRole: one matrix product of a call site makes the workspace of cuBLAS and all make results, so the workspace is older than
// they are, and no reference was taken. An activation is kept by a graph, and something refers to that.
func TestKeptByRole(t *testing.T) {
	for category, want := range map[purpose.Category]int{purpose.Workspace: 0, purpose.ModelParameter: 0, purpose.ModelBuffer: 0, purpose.Gradient: 0,
		purpose.OptimizerState: 0, purpose.Bucket: 0, purpose.Activation: 1, purpose.Input: 1, purpose.Cache: 1, purpose.UnknownCategory: 1} {
		h := newByHand()
		for i := range 40 {
			if i == 5 { // else its size tells that it is set-up
				h.alloc("product", 800<<10)
			}
			h.free(h.alloc("product", 100<<10))
		}
		c := h.capture(t, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock})
		c.Purposes = []purpose.Purpose{{}, {Category: category}}
		c.Spaces[0].Purposes = make([]lifetime.PurposeID, len(c.Spaces[0].Buffers))
		c.Spaces[0].Purposes[5] = 1
		n := 0
		for _, f := range judge.Of(c).Findings() {
			if f.Rule == "long_lived" {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d findings of long_lived, want %d", category, n, want)
		}
	}
}

// TestStepsOfTheLoop: nothing marks the steps, and a cache fills through as many call sites as the loop has. The parameter is the
// number of its keys.
func TestStepsOfTheLoop(t *testing.T) {
	try(t, []variants{{"prompts that repeat", false, []int{6, 12, 24}, func(p *program, keys int) func(int) {
		p.steps = 120 + p.IntN(60)
		p.idle = func(int) bool { return true }
		cached := map[int]bool{}
		return func(int) {
			for range 2 {
				p.free(p.alloc("linear", 1<<20))
				p.free(p.alloc("zeros", 1<<18))
			}
			p.free(p.alloc("relu", 1<<20))
			if key := p.IntN(keys); !cached[key] {
				cached[key] = true
				p.free(p.alloc("encode", 1<<16))
				p.alloc("cache", 1<<16)
			}
		}
	}}})
}

// TestHandledFailures: a program that survives failures of the same request survives the last one too, unless they come one after the
// other. The parameter is the number of steps that fail before the last.
func TestHandledFailures(t *testing.T) {
	for _, c := range []struct {
		steps, burst int // failures, each in a step, and then together
		want         finding.Severity
	}{{0, 1, finding.Critical}, {3, 1, finding.Critical}, {4, 1, finding.Info}, {30, 1, finding.Info}, {0, 8, finding.Critical}, {3, 8,
		finding.Critical}} {
		h := newByHand()
		fail := func() {
			h.at += 10
			h.b.Mark(h.s, lifetime.Mark{Begin: h.at, End: h.at, Kind: lifetime.OOM, Requested: 900 << 20, Site: h.site("attempt")})
		}
		work := func() {
			h.step()
			h.free(h.alloc("work", 1<<16))
		}
		work()
		for range c.steps {
			fail()
			work()
		}
		for range c.burst {
			fail()
		}
		_, found := h.find(t, "oom")
		if len(found) != 1 || found[0].Severity != c.want {
			t.Errorf("%+v: %v", c, found)
		}
	}
}

// TestLuckOfPaths: a line that leaks through many call paths, each of which has its own luck. All its buffers are found, those of an
// unlucky path in nearly all programs. The parameter is the number of paths. What is retained in the first step is set-up.
func TestLuckOfPaths(t *testing.T) {
	for _, paths := range []int{2, 6, 12, 20} {
		const seeds = 20
		all := 0
		for seed := range uint64(seeds) {
			p := newProgram(seed)
			p.steps = 150
			at := func(name string) {
				p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: name, File: "sim.py", Line: 2})}
				p.alloc("leak", 1<<20)
				p.frames = nil
			}
			_, leaks := p.run(t, func(step int) {
				for i := 0; step == 0 && i < 8*int(seed%2); i++ {
					at("warm_up")
				}
				at(fmt.Sprint("path", p.IntN(paths)))
			})
			if len(leaks) != 1 || leaks[0].Amount.Count > int64(p.steps) {
				t.Errorf("%d paths, seed %d: %v", paths, seed, leaks)
			} else if leaks[0].Amount.Count == int64(p.steps) {
				all++
			}
		}
		t.Logf("%2d paths: all buffers in %d of %d programs", paths, all, seeds)
		if all < seeds*9/10 {
			t.Errorf("%d paths: all buffers in %d of %d programs", paths, all, seeds)
		}
	}
}

// TestEvaluationAfterLoop: a line that also retains buffers in an evaluation after the loop grows by what each step retains.
func TestEvaluationAfterLoop(t *testing.T) {
	p := newProgram(1)
	p.steps = 60
	_, leaks := p.run(t, func(step int) {
		at := func(name string, n int) {
			p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: name, File: "sim.py", Line: 2})}
			for range n {
				p.alloc("leak", 1<<20)
			}
			p.frames = nil
		}
		at("train", 1)
		if step == p.steps-1 {
			at("evaluate", 8)
		}
	})
	if len(leaks) != 1 || leaks[0].Amount.Count <= 60 || leaks[0].BytesPerStep > 1<<20 || leaks[0].BytesPerStep < 59.0/60*(1<<20) {
		t.Error(leaks)
	}
}

// TestTraces: TensorFlow numbers the traces of a tf.function. One that is traced again and again leaks; functions that each keep a buffer
// do not. The parameter is the number of steps between two traces.
func TestTraces(t *testing.T) {
	traced := func(name string) func(p *program, every int) func(int) {
		return func(p *program, every int) func(int) {
			p.steps = 60
			return p.marked(func(step int) {
				if step%every == 0 {
					p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: fmt.Sprintf(name, 100+96*step), Kind: frame.Scope})}
					p.alloc("leak", 1<<18)
					p.frames = nil
				}
			})
		}
	}
	steps := []int{1, 2, 5}
	try(t, []variants{
		{"a function is traced again", true, steps, traced("__inference_step_%d")},
		{"its gradient is", true, steps, traced("__backward_step_%d")},
		{"other functions", false, steps, traced("layer_%d_call")},
	})
	for name, want := range map[string]finding.Cause{"__inference_step_%d": finding.Retracing,
		"tf.function-graph_building": finding.Retracing, "step": finding.Collection} {
		p := newProgram(4)
		p.steps = 60
		f := only(t, findingsOf(t, p, finding.Settings{}, p.marked(func(step int) {
			p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: strings.ReplaceAll(name, "%d", fmt.Sprint(step)), Kind: frame.Scope})}
			p.alloc("leak", 1<<18)
			p.frames = nil
		})), "leak")
		if f.Cause != want {
			t.Errorf("%s: %s", name, f.Cause)
		}
	}
}

// TestInterpreterFrames: with C++ stacks, a call path changes when the interpreter has seen the call often. It is one call path. The
// parameter is the number of calls until then.
func TestInterpreterFrames(t *testing.T) {
	for _, until := range []int{2, 8, 30} {
		p := newProgram(uint64(until))
		p.steps = 70
		c, _ := p.run(t, func(step int) {
			native := "_PyEval_EvalFrameDefault"
			if step < until {
				native = "_PyObject_MakeTpCall"
			}
			p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: native, File: "ceval.c", Kind: frame.Native})}
			p.alloc("leak", 1<<20)
			p.frames = nil
		})
		for _, f := range find(t, c, finding.Settings{}) {
			frame, _ := c.FrameOf(f.Place())
			if frame.Function == "leak" && (!f.IsLeak() || f.Amount.Count != int64(p.steps)) {
				t.Errorf("until %d: %s", until, f.Description)
			}
		}
	}
}

// TestSetUpBeside: set-up that stays at the site of a leak, and data that a trainer frees when it is done, hide no leak. The parameter is
// the number of buffers of the set-up, or of the data.
func TestSetUpBeside(t *testing.T) {
	try(t, []variants{
		{"a short leak beside set-up", true, []int{0, 1, 2, 3}, func(p *program, setUp int) func(int) {
			p.steps = 5
			return func(step int) {
				for k := 0; step == 0 && k < setUp; k++ {
					p.alloc("leak", int64(8<<20+k<<10))
				}
				p.alloc("leak", 1<<19)
			}
		}},
		{"a trainer returns the model", true, []int{4, 20, 40}, func(p *program, model int) func(int) {
			p.steps = 44
			var weights []*tensor
			under := func(caller string, work func()) {
				p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: caller, File: "sim.py", Line: 2})}
				work()
				p.frames = nil
			}
			return func(step int) {
				for step == 0 && len(weights) < model {
					under("to", func() { weights = append(weights, p.alloc("leak", 1<<15)) })
				}
				under("batch", func() {
					p.alloc("leak", 1<<16)
					p.free(p.alloc("leak", 1<<14))
				})
				if step == p.steps-1 {
					p.free(weights...)
				}
			}
		}},
	})
}

// TestWorkspaces: a library allocates a workspace for each run or handle at the site of a leak. The leak is the rest, also if nothing tells
// that it is a workspace. A size that the site retains soon again, or often, leaks too.
func TestWorkspaces(t *testing.T) {
	for _, every := range []int{48, 24, 16, 12, 4} {
		for _, known := range []bool{true, false} {
			p := newProgram(1)
			p.steps = 48
			c, _ := p.run(t, func(step int) {
				if step%every == 0 {
					p.alloc("leak", 8519680)
				}
				p.alloc("leak", 1<<19)
			})
			s, want := c.Spaces[0], int64(p.steps)<<19
			if every < 16 {
				want += int64(p.steps/every) * 8519680
			}
			c.Purposes = []purpose.Purpose{{}, {Category: purpose.Workspace}}
			s.Purposes = make([]lifetime.PurposeID, len(s.Buffers))
			for i := range s.Buffers {
				if known && s.Buffers[i].Requested == 8519680 {
					s.Purposes[i] = 1
				}
			}
			found := find(t, c, finding.Settings{})
			if len(found) == 0 || !found[0].IsLeak() || found[0].Amount.Bytes != want {
				t.Errorf("a workspace in %d steps, known %v: %v", every, known, found)
			}
		}
	}
}
