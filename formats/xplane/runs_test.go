package xplane_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/memlane/memlane/formats/xplane"
	"github.com/memlane/memlane/lifetime"
)

// keptReports reads a profile as the exports of XProf's own JSON ask for it.
func keptReports(t *testing.T, data []byte) *lifetime.Capture {
	t.Helper()
	b := lifetime.NewBuilder()
	b.KeepReports()
	if err := xplane.ReadAt("test.xplane.pb", bytes.NewReader(data), int64(len(data)), b); err != nil {
		t.Fatal(err)
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRuns: the runs of programs are the events on the line of modules of every
// TPU, numbered over all of them; other lines and devices have none.
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
	if n := c.Spaces[0].Reports.Len(); n != len(story) {
		t.Errorf("%d reports", n)
	}
	if c, err := read(t, x.encode()); err != nil || c.Runs != nil {
		t.Errorf("nobody asked for runs: %v, %v", c.Runs, err)
	}
}

// TestGroups: the step of a report is that of the root that it is nested in, or
// that is linked to what it is nested in.
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
	c := keptReports(t, x.encode())
	var steps []int32
	for r := range c.Spaces[0].Reports.All() {
		steps = append(steps, r.Step)
	}
	if want := []int32{0, -1, 1, 0, -1}; !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
}
