package xplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// around returns an event that encloses others. Times are microseconds.
func around(name string, begin, end int64, stats ...xstat) xevent {
	return xevent{name: name, offset: begin * 1e6, duration: (end - begin) * 1e6, stats: stats}
}

func launches(kind, id int64) []xstat { return []xstat{{"_pt", kind}, {"_p", id}} }
func launched(kind, id int64) []xstat { return []xstat{{"_ct", kind}, {"_c", id}} }

// stacksOf returns the stack of every allocation in order of time, innermost frame first.
func stacksOf(c *lifetime.Capture) (stacks []string) {
	s := c.Spaces[0]
	for i := range s.Buffers {
		var frames []string
		for f := range c.FramesOf(c.Sites[s.Buffers[i].Site].Stack) {
			frames = append(frames, f.Function)
		}
		stacks = append(stacks, strings.Join(frames, " < "))
	}
	return stacks
}

// TestCalls: the events that enclose an allocation are its stack, on its thread and on the thread that launched the work.
func TestCalls(t *testing.T) {
	at := func(us int64, op string) xevent { return alloc(us*1e6, 0x1000*us, 512, 512*us, op) }
	for name, c := range map[string]struct {
		lines []xline
		want  []string
	}{
		"nested": {
			[]xline{{events: []xevent{
				around("$train.py:10 main", 0, 100), around("PjitFunction(f)", 1, 50), around("Build buffer allocations", 2, 3),
				around("jit_step", 4, 49), at(5, ""), at(60, ""),
			}}},
			[]string{"jit_step < PjitFunction(f) < main", "main"},
		},
		"begins and ends with an event": {
			[]xline{{events: []xevent{around("a", 1, 2), at(1, ""), at(2, ""), around("b", 3, 4), at(3, ""), at(5, "")}}},
			[]string{"a", "a", "b", ""},
		},
		"the operator of the allocator": {
			[]xline{{events: []xevent{
				around("train#step_num=3#", 0, 100), around("EagerLocalExecute: Relu", 1, 9), around("EagerKernelExecute", 2, 8), at(3, "Relu"),
				around("enc/mul:Mul", 10, 12), at(11, "enc/mul"), at(20, "Sum"),
			}}},
			[]string{"EagerKernelExecute < Relu < train", "enc/mul < train", "Sum < train"},
		},
		"asynchronous events and instants enclose nothing": {
			[]xline{{events: []xevent{around("a", 0, 9), around("async", 1, 8, xstat{"_a", int64(1)}), around("instant", 2, 2), at(2, "")}}},
			[]string{"a"},
		},
		"launched": {
			[]xline{
				{events: []xevent{around("$train.py:10 main", 0, 100), around("Client::Execute", 1, 5, launches(5, 77)...), around("step 7", 10, 20)}},
				{events: []xevent{around("Client::Run", 11, 90), around("Client::Enqueue", 12, 80, launched(5, 77)...), around("dot", 13, 70), at(14, "")}},
			},
			[]string{"dot < Client::Enqueue < Client::Run < Client::Execute < main"},
		},
		"launched by an instant": {
			[]xline{{events: []xevent{around("main", 0, 3), around("linkage", 1, 1, launches(5, 77)...)}}, {events: []xevent{around("run", 2, 9, launched(5, 77)...), at(4, "")}}},
			[]string{"run < main"},
		},
		"another kind, another number, and a launch that comes later": {
			[]xline{
				{events: []xevent{around("a", 0, 1, launches(5, 1)...), around("b", 2, 3, launches(6, 2)...), around("c", 7, 8, launches(5, 3)...)}},
				{events: []xevent{around("x", 4, 5, launched(5, 2)...), at(4, ""), around("y", 6, 20, launched(5, 3)...), at(10, "")}},
			},
			[]string{"x", "y"},
		},
		"the launch is around it": {
			[]xline{{events: []xevent{around("a", 0, 9), around("b", 1, 8, launches(5, 1)...), around("c", 2, 7, launched(5, 1)...), at(3, "")}}},
			[]string{"c < b < a"},
		},
		"a function of Python on the own thread": {
			[]xline{{events: []xevent{around("a", 0, 1, launches(5, 1)...)}}, {events: []xevent{around("$worker.py:3 run", 2, 9), around("b", 3, 8, launched(5, 1)...), at(4, "")}}},
			[]string{"b < run"},
		},
	} {
		capture := mustRead(t, xspace{{name: "/host:CPU", lines: c.lines}})
		if got := stacksOf(capture); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q, want\n%q", name, got, c.want)
		}
	}
}

// TestRelaunched: a task that launches itself again has stacks of bounded depth, and tasks are few sites.
func TestRelaunched(t *testing.T) {
	const tasks = 1000
	lines := make([]xline, 2)
	for i := range int64(tasks) {
		l := &lines[i%2]
		l.events = append(l.events, around("task", 10*i, 10*i+9, launched(5, i)...), around("next", 10*i+1, 10*i+2, launches(5, i+1)...),
			alloc((10*i+3)*1e6, 0x1000*(i+1), 512, 512*(i+1), ""))
	}
	c := mustRead(t, xspace{{name: "/host:CPU", lines: lines}})
	if stacks := stacksOf(c); len(stacks) != tasks || len(c.Sites) > 10 || strings.Count(stacks[tasks-1], "task") > 10 {
		t.Errorf("%d stacks, %d sites, the last: %s", len(stacks), len(c.Sites), stacks[len(stacks)-1])
	}
}

// TestFunctions: the kind, file and line of a function of Python, from its name.
func TestFunctions(t *testing.T) {
	const user, library = frame.User, frame.Framework
	for name, want := range map[string]frame.Frame{
		"$generate_attention_trace.py:21 attention":            {Function: "attention", File: "generate_attention_trace.py", Line: 21},
		"$<ipython-input-3-1f2e>:1 <module>":                   {Function: "<module>", File: "<ipython-input-3-1f2e>", Line: 1},
		"$model.py:12 forward":                                 {Function: "forward", File: "model.py", Line: 12},
		"$core.py:12 train_one_epoch":                          {Function: "train_one_epoch", File: "core.py", Line: 12, Kind: user},
		"$core.py:630 bind":                                    {Function: "bind", File: "core.py", Line: 630, Kind: library},
		"$util.py:175 <genexpr>":                               {Function: "<genexpr>", File: "util.py", Line: 175, Kind: library},
		"$util.py:3 <module>":                                  {Function: "<module>", File: "util.py", Line: 3, Kind: user},
		"$pxla.py:230 batched_device_put":                      {Function: "batched_device_put", File: "pxla.py", Line: 230, Kind: library},
		"$array_methods.py:599 deferring_binary_op":            {Function: "deferring_binary_op", File: "array_methods.py", Line: 599, Kind: library},
		"$contextlib.py:141 __exit__":                          {Function: "__exit__", File: "contextlib.py", Line: 141, Kind: library},
		"$<frozen importlib._bootstrap>:1053 _handle_fromlist": {Function: "_handle_fromlist", File: "<frozen importlib._bootstrap>", Line: 1053, Kind: library},
		"$<string>:1 <lambda>":                                 {Function: "<lambda>", File: "<string>", Line: 1, Kind: library},
		"$<string>:7 train":                                    {Function: "train", File: "<string>", Line: 7},
		"$builtins len":                                        {Function: "builtins.len", Kind: library},
		"$<unknown> append":                                    {Function: "append", Kind: library},
		"$<unknown>":                                           {Function: "<unknown>", Kind: library},
		"$train.py:99999999999999999999 f":                     {Function: "f", File: "train.py"},
		"PjRtStreamExecutorLoadedExecutable::EnqueueExecution": {Function: "PjRtStreamExecutorLoadedExecutable::EnqueueExecution", Kind: frame.Native},
		"TFE_Py_FastPathExecute_C":                             {Function: "TFE_Py_FastPathExecute_C", Kind: frame.Native},
		"PjitFunction(matmul)":                                 {Function: "PjitFunction(matmul)", Kind: frame.Scope},
		"replica_4/bert/layer_7/Mul:Mul":                       {Function: "replica_4/bert/layer_7/Mul", Kind: frame.Scope},
		"EagerLocalExecute: Tanh":                              {Function: "Tanh", Kind: frame.Scope},
		"ThunkExecute#hlo_op=fusion.3,hlo_module=jit_step#":    {Function: "ThunkExecute", Kind: frame.Scope},
		"step 12":                 {Function: "step", Kind: frame.Scope},
		"jit_step:XLA GPU module": {Function: "jit_step:XLA GPU module", Kind: frame.Scope},
	} {
		line := xline{events: []xevent{around(name, 0, 9), alloc(1e6, 0x1000, 512, 512, "")}}
		c := mustRead(t, xspace{{name: "/host:CPU", lines: []xline{line}}})
		var got []frame.Frame
		for f := range c.FramesOf(c.Sites[c.Spaces[0].Buffers[0].Site].Stack) {
			got = append(got, *f)
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// TestGrowing: an operator whose result grows is one place, whatever its shapes.
func TestGrowing(t *testing.T) {
	var events []xevent
	for i := range int64(10) {
		e := alloc((i+1)*1e6, 0x1000*(i+1), 512, 512*(i+1), "ConcatV2")
		e.stats = append(e.stats, xstat{"shape", ref(fmt.Sprintf("[%d,64]", i))})
		events = append(events, e)
	}
	c := mustRead(t, xspace{{name: "/host:CPU", lines: []xline{{events: events}}}})
	places := map[lifetime.Place]bool{}
	for _, b := range c.Spaces[0].Buffers {
		places[c.PlaceOf(b.Site)] = true
	}
	if len(places) != 1 {
		t.Errorf("places: %v", places)
	}
}
