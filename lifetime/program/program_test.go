package program_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// recorder records allocations on several devices, one each microsecond.
type recorder struct {
	b      *build.Builder
	spaces map[string]build.SpaceRef
	t      int64
	live   map[string][]build.Block
	aside  string // a stack that allocates and frees at once after each allocation, on a stream of its own; "" = none
}

func record() *recorder {
	r := &recorder{build.New(build.Everything), map[string]build.SpaceRef{}, 0, map[string][]build.Block{}, ""}
	r.b.Source(lifetime.Source{File: "f"})
	return r
}

func (r *recorder) space(device string) build.SpaceRef {
	if _, ok := r.spaces[device]; !ok {
		r.spaces[device] = r.b.Space()
		r.b.Describe(r.spaces[device], lifetime.SpaceInfo{Device: device, Facts: lifetime.Clock | lifetime.History})
		for stream := range int64(2) {
			r.b.Reserve(r.spaces[device], r.t, lifetime.Region{Addr: uint64(stream) << 50, Size: 1 << 50, Stream: stream})
		}
	}
	return r.spaces[device]
}

// torch are frames that stacks name in short.
var torch = map[string]frame.Frame{
	"call":     {Function: "_call_impl", File: "/site-packages/torch/nn/modules/module.py", Line: 1},
	"inner":    {Function: "inner", File: "/site-packages/torch/nn/modules/module.py", Line: 2},
	"_apply":   {Function: "_apply", File: "/site-packages/torch/nn/modules/module.py", Line: 3},
	"backward": {Function: "backward", File: "/site-packages/torch/autograd/__init__.py", Line: 4},
	"adam":     {Function: "step", File: "/site-packages/torch/optim/adam.py", Line: 5},
	"no_grad":  {Function: "decorate_context", File: "/site-packages/torch/utils/_contextlib.py", Line: 6},
	"library":  {Function: "collect", File: "/site-packages/probes/probe.py", Line: 7},
	"theirs":   {Function: "forward", File: "/site-packages/models/model.py", Line: 8},
	"embeds":   {Function: "forward", File: "model.py", Line: 36},
	"blocks":   {Function: "forward", File: "model.py", Line: 56},
	"predicts": {Function: "forward", File: "model.py", Line: 67},
	"C":        {Function: "_PyEval_EvalFrameDefault", File: "ceval.c"},
	"node":     {Function: "torch::autograd::MulBackward0::apply(std::vector<at::Tensor>&&)", File: "Functions.cpp"},
	"thread":   {Function: "run", File: "/usr/lib/python3.11/threading.py", Line: 982},
	"engine":   {Function: "torch::autograd::Engine::thread_main()", File: "engine.cpp"},
}

// site returns the site of a stack, outermost frame first: names of torch, or functions of the program.
func (r *recorder) site(stack string) lifetime.SiteID {
	var frames []lifetime.FrameID
	if !strings.HasPrefix(stack, "thread") {
		stack = "<module> " + stack
	}
	for _, name := range strings.Fields(stack) {
		f, ok := torch[name]
		if !ok {
			f = frame.Frame{Function: name, File: "train.py", Line: len(name)}
		}
		f.Kind = frame.KindOf(f.Function, f.File)
		frames = append(frames, r.b.Frame(f))
	}
	slices.Reverse(frames)
	return r.b.Site(lifetime.Site{Stack: r.b.Stack(frames)})
}

// alloc allocates and, unless it keeps, frees what the stack allocated before.
func (r *recorder) alloc(device, stack string, keeps bool) {
	r.t += 1000
	block := build.Block{Addr: uint64(r.t) << 20, Requested: 1 << 16, Occupied: 1 << 16, Site: r.site(stack)}
	r.b.Alloc(r.space(device), r.t, block)
	if !keeps {
		r.free(device + " " + stack)
		r.live[device+" "+stack] = []build.Block{block}
	}
	if r.aside != "" {
		momentary := build.Block{Addr: 1 << 50, Requested: 1 << 12, Occupied: 1 << 12, Site: r.site(r.aside)}
		r.b.Alloc(r.space(device), r.t+1, momentary)
		r.b.Free(r.space(device), r.t+2, momentary)
	}
}

func (r *recorder) free(key string) {
	device, _, _ := strings.Cut(key, " ")
	for _, b := range r.live[key] {
		r.b.Free(r.space(device), r.t, b)
	}
	delete(r.live, key)
}

func (r *recorder) program(t *testing.T) (*program.Program, func(device string) *lifetime.Space) {
	t.Helper()
	c, err := r.b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return program.Of(c), func(device string) *lifetime.Space {
		return c.Spaces[slices.IndexFunc(c.Spaces, func(s *lifetime.Space) bool { return s.Device == device })]
	}
}

// TestFrames: what stacks of PyTorch say.
func TestFrames(t *testing.T) {
	for stack, want := range map[string]string{
		"train": "", "train call forward": "module computes", "train call call hook": "module computes hook", "train call C hook": "module computes hook",
		"train call inner hook": "module computes hook", "train call wrapper forward": "module computes", "train _apply cast": "",
		"train backward": "backward computes", "engine": "backward computes", "train adam": "optimizer computes", "eval no_grad call forward": "module computes without",
	} {
		r := record()
		site := r.site(stack)
		r.alloc("cuda:0", stack, true)
		p, _ := r.program(t)
		f, got := p.At(site), []string{}
		for _, is := range []struct {
			is   bool
			name string
		}{{f.InModule(), "module"}, {f.Backward(), "backward"}, {f.Optimizes(), "optimizer"}, {f.Computes(), "computes"}, {f.Hook, "hook"}, {f.All&program.WithoutGrad != 0, "without"}} {
			if is.is {
				got = append(got, is.name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", stack, got, want)
		}
	}
}

// TestHooks: what modules and the autograd engine call beside the passes is a hook. A function that stands in for a forward pass is
// called by the line that calls those of others.
func TestHooks(t *testing.T) {
	for stack, want := range map[string]bool{
		"train call patched": false, "train call C patched": false, "train inner patched": true, "engine hook": true, "engine C hook": true,
		"engine node function": false, "train call C library": false, "train inner library": true, "train inner library theirs": false,
	} {
		r := record()
		site := r.site(stack)
		for _, other := range []string{stack, "train call C forward", "train call forward"} {
			r.alloc("cuda:0", other, true)
		}
		if p, _ := r.program(t); p.At(site).Hook != want {
			t.Errorf("%s: %v", stack, !want)
		}
	}
}

// TestModulesWithHooks: a module is called by the same lines whether it has hooks or not.
func TestModulesWithHooks(t *testing.T) {
	r := record()
	sites := [2]lifetime.SiteID{r.site("train call forward call forward"), r.site("train call inner forward call inner forward")}
	r.alloc("cuda:0", "train call forward call forward", true)
	p, _ := r.program(t)
	stacks := program.NewStacks(&p.Tables)
	var lines [2][]lifetime.FrameID
	for i, site := range sites {
		for _, call := range stacks.Chain(stacks.Of(p.Sites[site].Stack).Call) {
			lines[i] = append(lines[i], stacks.LineOf(call))
		}
	}
	if len(lines[0]) != 2 || !slices.Equal(lines[0], lines[1]) {
		t.Errorf("lines %v without hooks, %v with", lines[0], lines[1])
	}
}

// TestStepsOfProcess: steps of one device are those of all, however they are known.
func TestStepsOfProcess(t *testing.T) {
	for source, mark := range map[program.Source]string{program.Marked: "ProfilerStep#", program.Annotated: "Optimizer.step#SGD.step", program.Recurrence: ""} {
		r := record()
		for range 20 {
			begin := r.t + 1
			r.alloc("cuda:0", "train load", false)
			r.alloc("cuda:0", "train compute", false)
			r.alloc("cuda:1", "train keep", true)
			kind := lifetime.Annotation
			if source == program.Marked {
				kind = lifetime.Step
			}
			if r.t++; mark != "" {
				r.b.Mark(r.space("cuda:0"), lifetime.Mark{Begin: begin, End: r.t, Kind: kind, Text: mark})
			}
		}
		p, space := r.program(t)
		for _, device := range []string{"cuda:1", "cuda:0"} {
			if steps := p.Steps(space(device)); steps.Source != source || len(steps.Begins) != 20 || len(steps.Ends) != 20 {
				t.Errorf("%s: %v", device, steps)
			}
		}
	}
}

// TestLayersAreNoSteps: the layers of one pass, of several passes, and steps that allocate nothing else.
func TestLayersAreNoSteps(t *testing.T) {
	for _, c := range []struct{ passes, layers, steps int }{{1, 30, 0}, {2, 30, 0}, {9, 30, 9}, {20, 1, 20}} {
		r := record()
		for range c.passes {
			r.alloc("cuda:0", "train load", false)
			r.alloc("cuda:0", "train target", false)
			for range c.layers {
				r.alloc("cuda:0", "train call forward call layer", false)
				r.alloc("cuda:0", "train call forward call relu", false)
			}
			if c.passes > 1 {
				r.alloc("cuda:0", "train backward", false)
			}
		}
		p, space := r.program(t)
		if steps := p.Steps(space("cuda:0")); len(steps.Begins) != c.steps {
			t.Errorf("%d passes of %d layers have %d steps", c.passes, c.layers, len(steps.Begins))
		}
	}
}

// TestStepsInGroups: in each step, most sites allocate several times one after the other.
func TestStepsInGroups(t *testing.T) {
	for _, c := range []struct{ steps, times, want int }{{8, 1, 8}, {8, 2, 8}, {8, 3, 8}, {3, 2, 0}} {
		r := record()
		for step := range c.steps {
			for range c.times {
				r.alloc("cuda:0", "run a", false)
				r.alloc("cuda:0", "run b", false)
			}
			for k := range 100 {
				r.alloc("cuda:0", fmt.Sprintf("run once%d_%d", step, k), false)
			}
		}
		p, space := r.program(t)
		if steps := len(p.Steps(space("cuda:0")).Begins); steps != c.want {
			t.Errorf("%d steps, %d times: %d", c.steps, c.times, steps)
		}
	}
}

// TestLayersWithoutCalls: the layers of one pass, if stacks have no frame of what calls modules. Passes with nothing in between, as of a
// batch that is loaded once, are told apart by the line that begins them.
func TestLayersWithoutCalls(t *testing.T) {
	for _, c := range []struct {
		passes int
		loads  bool
	}{{1, true}, {12, true}, {1, false}, {5, false}} {
		passes, r := c.passes, record()
		for range passes {
			if c.loads {
				r.alloc("cuda:0", "train load", false)
				r.alloc("cuda:0", "train target", false)
			}
			r.alloc("cuda:0", "train embeds", true)
			for range 12 {
				r.alloc("cuda:0", "train blocks block attend", true)
				r.alloc("cuda:0", "train blocks block project", true)
			}
			r.alloc("cuda:0", "train predicts", true)
		}
		p, space := r.program(t)
		if steps := len(p.Steps(space("cuda:0")).Begins); steps != passes && passes > 1 || passes == 1 && steps > 0 {
			t.Errorf("%+v have %d steps", c, steps)
		}
	}
}

// TestPartsOfPasses: a part of a forward pass that a program calls by its name is one pass, whichever modules it calls.
func TestPartsOfPasses(t *testing.T) {
	for name, passes := range map[string]int{"forward_features": 1, "another": 3} {
		r := record()
		r.alloc("cuda:0", "train load", false)
		for _, stack := range []string{" call embed forward", " concatenate", " call block forward", " scale", " call normal forward"} {
			r.alloc("cuda:0", "train "+name+stack, true)
		}
		p, space := r.program(t)
		if got := len(p.Passes(space("cuda:0"))); got != passes {
			t.Errorf("%s: %d passes", name, got)
		}
	}
}

// TestSettled: a pass without its backward pass keeps its buffers, but not if earlier ones left theirs.
func TestSettled(t *testing.T) {
	for _, c := range []struct {
		before  int // passes with a backward pass
		keeps   bool
		settled int
	}{{0, false, 0}, {3, false, 0}, {3, true, 20}} {
		r := record()
		for pass := range c.before + 1 {
			r.alloc("cuda:0", "train load", false)
			for range 5 {
				r.alloc("cuda:0", "train call forward call layer", c.keeps || pass == c.before)
			}
			if pass < c.before {
				r.alloc("cuda:0", "train backward", false)
			}
		}
		p, space := r.program(t)
		s, alive := space("cuda:0"), []int{}
		for i, b := range s.Buffers {
			if b.Edge&lifetime.EndOpen != 0 && p.At(b.Site).InModule() {
				alive = append(alive, i)
			}
		}
		if !c.keeps { // the last buffer of an earlier pass is freed only by the next
			alive = alive[max(0, len(alive)-5):]
		}
		if got := p.Settled(s, alive); len(got) != c.settled {
			t.Errorf("%+v: %d of %d", c, len(got), len(alive))
		}
	}
}

// TestClearedGradients: the next step clears what the last backward pass left. It stays if earlier passes left theirs too.
func TestClearedGradients(t *testing.T) {
	for _, c := range []struct {
		from    int // the first of four passes whose gradients stay
		settled int
	}{{0, 21}, {1, 16}, {2, 11}, {3, 1}} {
		r := record()
		for pass := range 4 {
			r.alloc("cuda:0", "train call forward call layer", false)
			if pass == 0 {
				r.alloc("cuda:0", "train backward", true) // a workspace
			}
			for range 5 {
				r.alloc("cuda:0", "train backward", pass >= c.from)
			}
			r.free("cuda:0 train backward")
		}
		p, space := r.program(t)
		s, alive := space("cuda:0"), []int{}
		for i, b := range s.Buffers {
			if b.Edge&lifetime.EndOpen != 0 && !p.At(b.Site).InModule() {
				alive = append(alive, i)
			}
		}
		if got := p.Settled(s, alive); len(got) != c.settled {
			t.Errorf("%+v: %d of %d", c, len(got), len(alive))
		}
	}
}

// TestBystanders: what a thread, or a function on a stream of its own, allocates and frees at once says nothing about the program.
func TestBystanders(t *testing.T) {
	pass := func(r *recorder, layers int) {
		r.alloc("cuda:0", "train load", false)
		r.alloc("cuda:0", "train call forward embed", true)
		for range layers {
			r.alloc("cuda:0", "train call forward call layer", true)
			r.alloc("cuda:0", "train call forward call relu", false)
		}
		r.alloc("cuda:0", "train call forward head", true)
	}
	for name, run := range map[string]func(r *recorder){
		"one pass": func(r *recorder) { pass(r, 20) },
		"passes": func(r *recorder) {
			for range 10 {
				pass(r, 3)
				r.alloc("cuda:0", "train backward", false)
			}
		},
		"call sites": func(r *recorder) {
			for step := range 24 {
				r.alloc("cuda:0", "train load", false)
				r.alloc("cuda:0", "train compute", step%8 > 0)
			}
		},
		"nothing recurs": func(r *recorder) {
			for k := range 24 {
				r.alloc("cuda:0", "train build"+strings.Repeat("x", k), true)
			}
		},
	} {
		want := ""
		for _, aside := range []string{"", "thread poll", "train call forward probe", "train probe"} {
			r := record()
			r.aside = aside
			run(r)
			p, space := r.program(t)
			s, kept, inOne := space("cuda:0"), map[lifetime.SiteID][]int{}, 0
			for i, b := range s.Buffers {
				if b.Edge&lifetime.EndOpen != 0 {
					kept[b.Site] = append(kept[b.Site], i)
				}
			}
			settled := 0
			for site, alive := range kept {
				settled += len(p.Settled(s, alive))
				if p.InOneCall(s, site) {
					inOne++
				}
			}
			steps := p.Steps(s)
			got := fmt.Sprint(len(steps.Begins), steps.Source, len(p.Passes(s)), settled, inOne)
			if aside == "" {
				want = got
			}
			if n := p.Evidence(s).Between(0, len(s.Buffers)); got != want || (n < len(s.Buffers)) != (aside != "") {
				t.Errorf("%s, beside %q: %s, not %s", name, aside, got, want)
			}
		}
	}
}

// TestThreads: two threads that compute do not end each other's passes, and a thread that retains its batches ends none.
func TestThreads(t *testing.T) {
	r := record()
	for k := range 12 {
		r.alloc("cuda:0", "train call forward layer", true)
		r.alloc("cuda:0", "thread serve call forward layer", true)
		r.alloc("cuda:0", "thread fetch", k%2 > 0)
	}
	p, space := r.program(t)
	if n := len(p.Passes(space("cuda:0"))); n != 2 {
		t.Errorf("%d passes", n)
	}
}

// TestCallsOfStep: an optimizer for each parameter, also one that hooks of a backward pass call, makes one step. Where nothing else was
// allocated between any two steps, each is one. A call that runs passes is a step, and so is one that allocates nothing after the last
// pass.
func TestCallsOfStep(t *testing.T) {
	for name, want := range map[string]int{"after": 5, "within": 5, "graph": 20, "closures": 20, "silent": 20} {
		r := record()
		for range 5 {
			if name != "graph" {
				r.alloc("cuda:1", "train call forward layer", false)
			}
			for range 4 {
				switch name {
				case "within":
					r.alloc("cuda:1", "train backward", false)
				case "silent":
					r.alloc("cuda:1", "train call forward layer", false)
				}
				begin := r.t + 1
				switch name {
				case "closures":
					r.alloc("cuda:1", "train call forward layer", false)
				case "silent":
					begin += 10
					r.t += 10
				default:
					r.alloc("cuda:1", "train adam", false)
				}
				r.t += 10
				r.b.Mark(r.space("cuda:0"), lifetime.Mark{Begin: begin, End: r.t, Kind: lifetime.Annotation, Text: program.OptimizerStep + "AdamW.step"})
			}
		}
		p, space := r.program(t)
		givePhases(p)
		for _, device := range []string{"cuda:0", "cuda:1"} {
			if steps := p.Steps(space(device)); len(steps.Begins) != want || steps.Source != program.Annotated {
				t.Errorf("%s, %s: %d steps", name, device, len(steps.Begins))
			}
		}
	}
}

// givePhases gives all buffers the phases of their stacks.
func givePhases(p *program.Program) {
	for _, s := range p.Spaces {
		p.Purposes, s.Purposes = append(p.Purposes, purpose.Purpose{}), make([]lifetime.PurposeID, len(s.Buffers))
		for i := range s.Buffers {
			p.Purposes = append(p.Purposes, purpose.Purpose{Phase: p.PhaseOf(s.Buffers[i].Site)})
			s.Purposes[i] = lifetime.PurposeID(len(p.Purposes) - 1)
		}
	}
}

// TestTurns: optimizers that step in turns make one step, and so do the passes that one optimizer calls. What is trained once on
// other lines is a step like others; turns without an order are none.
func TestTurns(t *testing.T) {
	for turns, want := range map[string][2]int{ // with marks of optimizers, without
		"dgdgdgdg": {4, 4}, "dgdgdgd": {4, 4}, "ddgddg": {6, 0}, "dddddd": {6, 6}, "wdddddd": {7, 7}, "ddddddxddddddddd": {16, 16}, "dgddgdddg": {9, 0},
		"ABBBABBBABBB": {3, 3},
	} {
		for k, marked := range []bool{true, false} {
			r := record()
			for _, turn := range strings.Split(turns, "") {
				begin := r.t + 1
				if turn < "a" {
					r.alloc("cuda:0", "train adam "+turn+" call forward layer", false)
					r.alloc("cuda:0", "train adam "+turn+" backward", false)
				} else {
					r.alloc("cuda:0", "train "+turn+" call forward layer", false)
					r.alloc("cuda:0", "train "+turn+" backward", false)
					begin = r.t + 1
				}
				r.alloc("cuda:0", "train "+strings.ToLower(turn)+"steps adam", false)
				if r.t += 10; marked {
					r.b.Mark(r.space("cuda:0"), lifetime.Mark{Begin: begin, End: r.t, Kind: lifetime.Annotation, Text: program.OptimizerStep + "Adam.step"})
				}
			}
			p, space := r.program(t)
			givePhases(p)
			s := space("cuda:0")
			if steps := p.Steps(s); len(steps.Begins) != want[k] {
				t.Errorf("%s, marked: %v: %d steps", turns, marked, len(steps.Begins))
			}
			rounds := slices.DeleteFunc(p.Work(s).Rounds, func(r program.Round) bool { return r.Open })
			if len(rounds) != len(turns) {
				t.Errorf("%s, marked: %v: %d rounds", turns, marked, len(rounds))
			}
		}
	}
}

// TestPassesOfSteps: an iteration of a program that trains has a backward pass, and as many as others. A loop within a step has not.
func TestPassesOfSteps(t *testing.T) {
	for _, c := range []struct{ steps, passes, samples, want int }{{6, 1, 0, 6}, {6, 4, 0, 6}, {6, 1, 40, 0}} {
		r := record()
		for range c.steps {
			for pass := range c.passes {
				where := "train more "
				if pass+1 == c.passes {
					where = "train last "
				}
				for _, stack := range []string{"call forward layer", "loss", "backward"} {
					r.alloc("cuda:0", where+stack, false)
				}
			}
		}
		for range c.samples {
			r.alloc("cuda:0", "train sample call forward layer", false)
			r.alloc("cuda:0", "train sample choose", false)
		}
		p, space := r.program(t)
		givePhases(p)
		if n := len(p.Steps(space("cuda:0")).Begins); n != c.want {
			t.Errorf("%+v: %d steps", c, n)
		}
	}
}

// TestRunsTwice: warm-up and a loop that run twice have twice the steps. An iteration that failed in the middle is a step too.
func TestRunsTwice(t *testing.T) {
	for _, c := range []struct{ runs, warmup, steps, half, want int }{{1, 2, 8, 0, 8}, {2, 2, 8, 0, 16}, {3, 2, 8, 0, 24}, {1, 0, 30, 1, 31}} {
		r := record()
		for range c.runs {
			for range c.warmup {
				r.alloc("cuda:0", "warmup in", false)
				r.alloc("cuda:0", "warmup out", false)
			}
			for range c.steps {
				r.alloc("cuda:0", "work in", false)
				r.alloc("cuda:0", "work out", false)
			}
		}
		if c.half > 0 {
			r.alloc("cuda:0", "work in", false)
		}
		p, space := r.program(t)
		if n := len(p.Steps(space("cuda:0")).Begins); n != c.want {
			t.Errorf("%+v: %d steps", c, n)
		}
	}
}

// TestOtherLoops: where many lines allocate in some iterations only, the steps are not known: what recurs most may be requests of a step, halves
// of what failed, or moves of a game. Iterations of any length are steps, and so is a loop with a rare line. A letter is a function of some lines.
func TestOtherLoops(t *testing.T) {
	lines := map[rune]int{'a': 1, 'b': 2, 'c': 3, 'd': 3}
	for loop, want := range map[string]int{
		"cc dd cc dd cc dd cc dd cc dd cc dd":                 0, // three lines for each of two adapters, then two requests
		"bb ccc bb ccc bb ccc bb ccc bb ccc bb ccc":           0,
		"c c dd c dd c c dd c c dd dd c c":                    0, // some fail, and are tried again in halves
		"ccccb ccccb ccccb ccccb ccccb ccccb":                 0, // moves and a result: episodes or moves
		"acd acd acd acd acd acd acd acd":                     8,
		"adcc adc adccc adcc adcccc adc adccc adcc":           8, // sequences of some lengths
		"cd cd cd acd cd cd acd cd cd acd cd cd acd cd cd cd": 16,
	} {
		r := record()
		for _, f := range strings.ReplaceAll(loop, " ", "") {
			for line := range lines[f] {
				r.alloc("cuda:0", "run "+string(f)+string(rune('m'+line)), false)
			}
		}
		p, space := r.program(t)
		if n := len(p.Steps(space("cuda:0")).Begins); n != want {
			t.Errorf("%s: %d steps, want %d", loop, n, want)
		}
	}
}

// TestClearedSteps: recorded calls of zero_grad tell the steps of a program whose optimizer does not step, whatever its layers repeat. z is a
// call, f a forward pass of four layers.
func TestClearedSteps(t *testing.T) {
	for what, want := range map[string]int{"zfzfzfzfzf": 5, "fzfzfzfz": 4, "zfzfzfz": 3, "zzfzzfzzf": 3, "zfffff": 0, "ffffffffzfzf": 0} {
		r := record()
		for _, c := range what {
			if r.t += 10; c == 'z' {
				r.b.Mark(r.space("cuda:0"), lifetime.Mark{Begin: r.t, End: r.t + 1, Kind: lifetime.Annotation, Text: program.ClearsGradients + "AdamW.zero_grad"})
				continue
			}
			for range 4 {
				r.alloc("cuda:0", "run call forward layer", false)
			}
		}
		p, space := r.program(t)
		if steps := p.Steps(space("cuda:0")); len(steps.Begins) != want || want > 0 && (steps.Inferred() || !slices.IsSorted(steps.Begins)) {
			t.Errorf("%s: %+v, want %d", what, steps, want)
		}
	}
}

// TestTwoOfAnOperator: an operator of a module that allocates a result and a workspace in each pass is as good as two lines, also without
// frames of C++. Buffers of one size, and those of other code, are not.
func TestTwoOfAnOperator(t *testing.T) {
	for _, c := range []struct {
		line        string
		other, want int
	}{{"run call theirs", 5, 6}, {"run call theirs", 0, 0}, {"run a", 5, 0}} {
		r := record()
		for range 6 {
			r.alloc("cuda:0", "run b", true)
			r.alloc("cuda:0", "run b", true)
			for k := range 2 {
				r.t += 1000
				size := int64(1+k*c.other) << 10
				r.b.Alloc(r.space("cuda:0"), r.t, build.Block{Addr: uint64(r.t) << 20, Requested: size, Occupied: size, Site: r.site(c.line)})
			}
		}
		p, space := r.program(t)
		if steps := len(p.Steps(space("cuda:0")).Begins); steps != c.want {
			t.Errorf("%v: %d steps", c, steps)
		}
	}
}

// TestPoolKind: the frames that reserve a private pool tell its kind.
func TestPoolKind(t *testing.T) {
	for file, want := range map[string]string{"/v/vllm/device_allocator/cumem.py": "sleep mode", "/v/torch/cuda/graphs.py": "CUDA graph",
		"/v/vllm/v1/worker/cuda_graph_runner.py": "CUDA graph", "train.py": ""} {
		if got := program.PoolKind(&frame.Frame{File: file}); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}
