package xplane_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/memlane/memlane/formats/xplane"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// keptReports reads a profile in the mode of the exports to XProf's own JSON.
func keptReports(t *testing.T, data []byte) *lifetime.Capture {
	t.Helper()
	b := build.New(build.Reports)
	if err := xplane.ReadAt("test.xplane.pb", bytes.NewReader(data), int64(len(data)), b); err != nil {
		t.Fatal(err)
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRuns: the runs of programs are the events on the module lines of every TPU, numbered across TPUs. Other
// lines and devices have none.
func TestRuns(t *testing.T) {
	run := func(name string, offset, duration int64) xevent {
		return xevent{name: name, offset: offset, duration: duration}
	}
	x := xspace{
		{name: "/device:TPU:0", lines: []xline{
			{name: "Steps", events: []xevent{run("1", 0, 9)}},
			{name: "XLA Modules", timestamp: 5, events: []xevent{run("jit_f(1)", 100, 50), run("jit_g(2)", 300, 7)}},
		}},
		{name: "/device:GPU:0", lines: []xline{{name: "XLA Modules", events: []xevent{run("jit_h(3)", 1, 1)}}}},
		{name: "/device:TPU:1", lines: []xline{{name: "XLA Modules", events: []xevent{run("jit_f(1)", 110, 50)}}}, namesFirst: true},
		{name: "/host:CPU", lines: []xline{{timestamp: 1000, events: story}}},
	}
	want := []lifetime.Run{
		{Name: "jit_f(1)", Plane: "TPU:0", ID: 0, Begin: 100, End: 150}, {Name: "jit_g(2)", Plane: "TPU:0", ID: 1, Begin: 300, End: 307},
		{Name: "jit_f(1)", Plane: "TPU:1", ID: 2, Begin: 110, End: 160},
	}
	c := keptReports(t, x.encode())
	if !slices.Equal(c.Runs, want) {
		t.Errorf("%+v", c.Runs)
	}
	if n := c.Spaces[0].Reports.N; n != len(story) {
		t.Errorf("%d reports", n)
	}
	if c, err := read(t, x.encode()); err != nil || c.Runs != nil {
		t.Errorf("runs although they were not requested: %v, %v", c.Runs, err)
	}
}

// TestGroups: the step of a report is that of the root that encloses it, or that is linked to its enclosing
// event.
func TestGroups(t *testing.T) {
	within := func(name string, offset, duration int64, stats ...xstat) xevent {
		return xevent{name: name, offset: offset, duration: duration, stats: stats}
	}
	root := xstat{"_r", int64(1)}
	produces := []xstat{{"_pt", int64(4)}, {"_p", int64(77)}}
	consumes := []xstat{{"_ct", int64(4)}, {"_c", int64(77)}}
	x := xspace{{name: "/host:CPU", lines: []xline{
		{timestamp: 0, events: []xevent{
			within("step 1", 0, 1000, root), alloc(10, 0x1000, 512, 512, "a"), within("enqueue", 20, 100, produces...),
			within("between", 1500, 10), alloc(1505, 0x2000, 512, 1024, "b"),
			within("step 2", 2000, 1000, root), alloc(2010, 0x3000, 512, 1536, "c"),
			within("async", 2020, 10, xstat{"_a", int64(1)}),
		}},
		{timestamp: 0, events: []xevent{within("run", 5000, 100, consumes...), alloc(5010, 0x4000, 512, 2048, "d"), alloc(9000, 0x5000, 512, 2560, "e")}},
	}}}
	steps := stepsOf(t, x)
	if want := []int32{0, -1, 1, 0, -1}; !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
}

// stepsOf returns the step of each report, in the order of the file.
func stepsOf(t *testing.T, x xspace) (steps []int32) {
	t.Helper()
	c := keptReports(t, x.encode())
	for r := range c.Spaces[0].Reports.All() {
		steps = append(steps, r.Step)
	}
	return steps
}

// TestGroupRules: which roots open groups, and what connects events to them.
func TestGroupRules(t *testing.T) {
	within := func(name string, offset, duration int64, stats ...xstat) xevent {
		return xevent{name: name, offset: offset, duration: duration, stats: stats}
	}
	at := func(offset int64) xevent { return alloc(offset, 0x1000+offset*512, 512, 512, "a") }
	root := func(level int64) xstat { return xstat{"_r", level} }
	produces := func(id int64) []xstat { return []xstat{{"_pt", int64(4)}, {"_p", id}} }
	consumes := func(id int64) []xstat { return []xstat{{"_ct", int64(4)}, {"_c", id}} }
	numbers := func(id, iteration int64) []xstat { return []xstat{{"id", id}, {"iter_num", iteration}} }
	run := func(offset, duration, id, iteration int64) xevent {
		return within("ExecutorState::Process", offset, duration, numbers(id, iteration)...)
	}
	one := func(events ...xevent) xspace { return xspace{{name: "/host:CPU", lines: []xline{{events: events}}}} }
	for name, c := range map[string]struct {
		x    xspace
		want []int32
	}{
		"a root in a root of its level opens none": {one(within("step", 0, 1000, root(1)), within("inner", 10, 100, root(1)), at(20), at(500), within("step", 2000, 1000, root(1)), at(2010)),
			[]int32{0, 0, 1}},
		"a root in one of another level":   {one(within("function", 0, 1000, root(1)), within("step", 10, 100, root(2)), at(20), at(500)), []int32{0, 1}},
		"roots of the highest level first": {one(within("early", 0, 100, root(1)), at(10), within("late", 1000, 100, root(2)), at(1010)), []int32{1, 0}},
		"roots of two threads by time": {xspace{{name: "/host:CPU", lines: []xline{
			{timestamp: 1, events: []xevent{within("late", 500, 100, root(1)), at(510)}}, {timestamp: 1, events: []xevent{within("early", 499, 100, root(1)), at(520)}}}}},
			[]int32{1, 0}},
		"what a group enqueues, and what that enqueues": {xspace{{name: "/host:CPU", lines: []xline{
			{events: []xevent{within("step", 0, 100, root(1)), within("enqueue", 10, 10, produces(7)...)}},
			{events: []xevent{within("run", 200, 100, consumes(7)...), at(210), within("enqueue", 220, 10, produces(8)...)}},
			{events: []xevent{within("run", 400, 100, consumes(8)...), at(410), within("run", 600, 100, consumes(9)...), at(610)}}}}},
			[]int32{0, 0, -1}},
		"a root that another one enqueues": {xspace{{name: "/host:CPU", lines: []xline{
			{events: []xevent{within("step", 0, 100, root(1)), within("enqueue", 10, 10, produces(7)...)}},
			{events: []xevent{within("run", 200, 100, append(consumes(7), root(1))...), at(210), within("step", 400, 100, root(1)), at(410)}}}}},
			[]int32{0, 1}},
		"a root that enqueues itself": {one(within("step", 0, 100, append(append(consumes(7), produces(7)...), root(1))...), at(10), within("step", 200, 100, root(1)), at(210)),
			[]int32{-1, 0}},
		"two consumers": {xspace{{name: "/host:CPU", lines: []xline{
			{events: []xevent{within("step", 0, 100, root(1)), within("enqueue", 10, 10, produces(7)...)}},
			{events: []xevent{within("run", 200, 100, consumes(7)...), at(210)}}, {events: []xevent{within("run", 300, 100, consumes(7)...), at(310)}}}}},
			[]int32{0, 0}},
		"another kind of link": {xspace{{name: "/host:CPU", lines: []xline{
			{events: []xevent{within("step", 0, 100, root(1)), within("enqueue", 10, 10, xstat{"_pt", int64(5)}, xstat{"_p", int64(7)})}},
			{events: []xevent{within("run", 200, 100, consumes(7)...), at(210)}}}}},
			[]int32{-1}},
		"what ends where its caller ends": {one(within("step", 0, 100, root(1)), within("inner", 50, 50), at(60), within("between", 100, 10), at(105)), []int32{0, -1}},
		"iterations of a loop of the executor": {xspace{{name: "/host:CPU", lines: []xline{
			{events: []xevent{within("step", 0, 1000, root(1)), run(10, 100, 5, 0), at(20), run(200, 100, 5, 1), at(210)}},
			{events: []xevent{run(150, 20, 5, 0), at(160), run(600, 10, 9, 0), at(605)}}}}},
			[]int32{0, 1, 0, -1}},
		"a loop of one iteration is none": {one(within("step", 0, 1000, root(1)), run(10, 100, 5, 0), at(20)), []int32{0}},
		"what an iteration takes from a data set": {xspace{{name: "/host:CPU", lines: []xline{
			{events: []xevent{run(10, 100, 5, 0), at(20), run(200, 100, 5, 1)}}, {events: []xevent{within("IteratorGetNextOp::DoCompute", 400, 50, numbers(5, 1)...), at(410)}}}}},
			[]int32{0, 1}},
		"functions of a data set are not steps": {one(within("step", 0, 100, append(numbers(3, 0)[:1], root(1))...), at(10),
			within("InstantiatedCapturedFunction::Run", 200, 50, numbers(3, 0)[:1]...), within("step", 300, 100, root(1)), at(310)),
			[]int32{-1, 0}},
		"an asynchronous event encloses none": {one(within("step", 0, 100, append([]xstat{{"_a", int64(1)}}, root(1))...), at(10)), []int32{-1}},
		"loops of the host":                   {one(within("WhileOp-EvalCond", 0, 5), within("step", 10, 100, root(1)), at(20)), []int32{-1}},
		"group_id in the file":                {one(within("step", 0, 100, root(1)), told(at(10), 7), told(at(200), 8), at(300)), []int32{7, 8, -1}},
	} {
		if got := stepsOf(t, c.x); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	// Link numbers that are reused many times connect nothing.
	for n, want := range map[int]int32{63: 0, 64: -1} {
		var enqueues, runs []xevent
		for i := range int64(n) {
			enqueues = append(enqueues, within("enqueue", 10*i, 5, produces(7)...))
		}
		for i := range int64(64) {
			runs = append(runs, within("run", 10_000+100*i, 50, consumes(7)...), at(10_000+100*i+10))
		}
		steps := stepsOf(t, xspace{{name: "/host:CPU", lines: []xline{{events: append([]xevent{within("step", 0, 5000, root(1))}, enqueues...)}, {events: runs}}}})
		if len(steps) != 64 || slices.Min(steps) != want || slices.Max(steps) != want {
			t.Errorf("%d producers: %v, want %d", n, steps, want)
		}
	}
}

func told(e xevent, group int64) xevent {
	e.stats = append(e.stats, xstat{"group_id", group})
	return e
}
