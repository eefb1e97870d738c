package chrometrace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/formats/chrometrace"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/region"
)

const captures = "../../testdata/chrome"

func open(t testing.TB, file string) *lifetime.Capture {
	t.Helper()
	c, err := formats.Open(file, formats.Input{Keep: build.Operations})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Errorf("%s: %v", file, err)
	}
	return c
}

// traceOf returns the file of a trace whose name has no extension.
func traceOf(t testing.TB, name string) string {
	t.Helper()
	for _, extension := range []string{".json", ".json.gz"} {
		if _, err := os.Stat(name + extension); err == nil {
			return name + extension
		}
	}
	t.Fatalf("no trace %s", name)
	return ""
}

// read reads a trace from its text.
func read(t testing.TB, text string) *lifetime.Capture {
	t.Helper()
	b := build.New(build.Everything)
	if err := chrometrace.Read("x", strings.NewReader(text), b); err != nil {
		t.Fatal(err)
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	return c
}

// trace returns a trace of events in the form of PyTorch.
func trace(events ...string) string {
	return `{"schemaVersion": 1, "profile_memory": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": 1000000000000000000, "traceEvents": [` +
		strings.Join(events, ",\n") + `]}`
}

// memory returns a [memory] event of a device on thread 1.
func memory(us string, device, addr, bytes, total int64) string {
	kind, id := 0, int64(-1)
	if device >= 0 {
		kind, id = 1, device
	}
	return fmt.Sprintf(`{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 7, "tid": 1, "ts": %s, "args": `+
		`{"Total Reserved": 4096, "Total Allocated": %d, "Bytes": %d, "Device Id": %d, "Device Type": %d, "Addr": %d, "Ev Idx": 1}}`, us, total, bytes, id, kind, addr)
}

// ran returns a call on a thread.
func ran(category, name, thread, us, duration, args string) string {
	return fmt.Sprintf(`{"ph": "X", "cat": %q, "name": %q, "pid": 7, "tid": %s, "ts": %s, "dur": %s, "args": {%s}}`, category, name, thread, us, duration, args)
}

func describe(c *lifetime.Capture) string {
	var out strings.Builder
	for _, s := range c.Spaces {
		fmt.Fprintf(&out, "%s base %d peak %d allocations %d frees %d\n", s.ID(), s.Base, s.Peak(lifetime.Occupied).Bytes, s.Allocations, s.Frees)
		for i := range s.Buffers {
			b := &s.Buffers[i]
			site := c.Sites[b.Site]
			var stack []string
			for f := range c.FramesOf(site.Stack) {
				stack = append(stack, fmt.Sprintf("%s %s:%d", f.Function, f.File, f.Line))
			}
			fmt.Fprintf(&out, "  %d at %#x %s op=%q shape=%q dtype=%q stack=%q\n", b.Size, b.Addr, b.Edge, site.Op, site.Shape, site.DType, strings.Join(stack, " < "))
		}
	}
	return out.String()
}

// TestSites checks that the call site is what encloses the event on its thread, in any
// order of the events in the file.
func TestSites(t *testing.T) {
	events := []string{
		memory("15.500", 0, 0x200, 512, 1512),
		memory("40", 0, 0x200, -512, 1000),
		memory("21.25", 0, 0x400, 1024, 2536),
		memory("45", 0, 0x800, 2048, 4072),
		ran("cpu_op", "aten::mm", "1", "15", "1", `"Input Dims": [[4, 8], [8, 2], []], "Input type": ["float", "float", ""]`),
		ran("cpu_op", "aten::linear", "1", "14", "3", ``),
		ran("python_function", "train.py(10): step", "1", "10", "20", `"Python id": 2`),
		ran("python_function", "torch/nn/modules/module.py(1700): _call_impl", "1", "12", "6", `"CallFrom": "train.py:14"`),
		ran("python_function", "nn.Module: Linear_0", "1", "13", "5", `"CallFrom": "torch/nn/modules/module.py:1750"`),
		ran("python_function", "train.py(1): <module>", "1", "1", "38", `"Python id": 1`),
		ran("user_annotation", "ProfilerStep#3", "1", "5", "30", ``),
	}
	want := `cuda:0 base 1000 peak 4072 allocations 3 frees 1
  512 at 0x200 - op="aten::mm" shape="[4,8], [8,2]" dtype="float, float" stack="nn.Module: Linear_0 :0 < _call_impl torch/nn/modules/module.py:1750 < step train.py:14 < <module> train.py:1"
  1024 at 0x400 end-open op="" shape="" dtype="" stack="step train.py:10 < <module> train.py:1"
  2048 at 0x800 end-open op="" shape="" dtype="" stack=""
`
	for range events {
		events = append(events[1:], events[0])
		c := read(t, trace(events...))
		if got := describe(c); got != want {
			t.Fatalf("got\n%swant\n%s", got, want)
		}
		s := c.Spaces[0]
		if len(s.Marks) != 1 || s.Marks[0].Kind != lifetime.Step || s.Marks[0].Begin != 1e18+5000 || s.Buffers[0].Begin != 1e18+15500 {
			t.Errorf("marks %+v, buffer %+v", s.Marks, s.Buffers[0])
		}
		if end, peak := region.Reserved(s); end != 4096 || peak != 4096 {
			t.Errorf("%d bytes reserved, at most %d", end, peak)
		}
	}
}

// TestBackward checks that allocations of a backward thread are attributed to the
// operator that made the node: the last one with its number in the thread of the first one.
func TestBackward(t *testing.T) {
	on2 := func(event string) string { return strings.Replace(event, `"tid": 1`, `"tid": 2`, 1) }
	c := read(t, trace(on2(memory("55", 0, 0x200, 512, 640)), on2(memory("66", 0, 0x400, 256, 896)), on2(memory("75", 0, 0x800, 128, 1024)),
		memory("33", 0, 0x1000, 64, 64), memory("36", 0, 0x2000, 64, 128),
		ran("cpu_op", "aten::empty", "2", "54", "3", ``),
		ran("cpu_op", "MulBackward0", "2", "52", "8", `"Sequence number": 1, "Fwd thread id": 1`),
		ran("cpu_op", "AddBackward0", "2", "65", "5", `"Sequence number": 0, "Fwd thread id": 1`),
		ran("cpu_op", "aten::zeros", "2", "74", "3", ``),
		ran("cpu_op", "aten::mul", "1", "31", "2", `"Sequence number": 1, "Fwd thread id": 0`),
		ran("cpu_op", "aten::view", "1", "20", "5", `"Sequence number": 1, "Fwd thread id": 0`),
		ran("cpu_op", "aten::add", "1", "30", "5", `"Sequence number": 0, "Fwd thread id": 0`),
		ran("cpu_op", "aten::detach", "3", "25", "5", `"Sequence number": 1, "Fwd thread id": 0`),
		ran("python_function", "model.py(5): forward", "1", "19", "8", ``),
		ran("python_function", "model.py(9): other", "1", "29", "8", ``)))
	want := `cuda:0 base 0 peak 1024 allocations 5 frees 0
  64 at 0x1000 end-open op="aten::mul" shape="" dtype="" stack="other model.py:9"
  64 at 0x2000 end-open op="" shape="" dtype="" stack="other model.py:9"
  512 at 0x200 end-open op="aten::empty" shape="" dtype="" stack="MulBackward0 :0 < other model.py:9"
  256 at 0x400 end-open op="AddBackward0" shape="" dtype="" stack="AddBackward0 :0 < other model.py:9"
  128 at 0x800 end-open op="aten::zeros" shape="" dtype="" stack="aten::zeros :0"
`
	if got := describe(c); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestThreads checks that calls on other threads, and on threads with the same number in
// other processes, do not become the call site.
func TestThreads(t *testing.T) {
	of := func(pid, tid, event string) string {
		event = strings.Replace(event, `"pid": 7`, `"pid": `+pid, 1)
		return strings.Replace(event, `"tid": 1`, `"tid": `+tid, 1)
	}
	var events []string
	for i, who := range [][2]string{{"7", "1"}, {"8", "1"}, {"8", "2"}, {"7", "2"}} {
		events = append(events, of(who[0], who[1], ran("python_function", fmt.Sprintf("f%d.py(1): f%d", i, i), "1", fmt.Sprint(10+i), fmt.Sprint(80-3*i), ``)))
	}
	for i, who := range [][2]string{{"7", "1"}, {"8", "1"}, {"8", "2"}, {"7", "2"}} {
		events = append(events, of(who[0], who[1], memory(fmt.Sprint(40+i), 0, int64(i+1)*4096, 512, 512*int64(1+i/2))))
	}
	text := strings.Replace(trace(events...), `"schemaVersion": 1,`, `"schemaVersion": 1, "distributedInfo": {"rank": 3},`, 1)
	want := `rank 3, pid 7/cuda:0 base 0 peak 1024 allocations 2 frees 0
  512 at 0x1000 end-open op="" shape="" dtype="" stack="f0 f0.py:1"
  512 at 0x4000 end-open op="" shape="" dtype="" stack="f3 f3.py:1"
rank 3, pid 8/cuda:0 base 0 peak 1024 allocations 2 frees 0
  512 at 0x2000 end-open op="" shape="" dtype="" stack="f1 f1.py:1"
  512 at 0x3000 end-open op="" shape="" dtype="" stack="f2 f2.py:1"
`
	if got := describe(read(t, text)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestGroups: process groups have the number of the process in them. A header that is damaged or has no rank has none.
func TestGroups(t *testing.T) {
	const list = `"pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1, 2, 3]}, {"pg_desc": "mesh_tp", "ranks": [1, 3]}, {"pg_desc": "other", "ranks": [0, 2]}]`
	for header, want := range map[string]string{
		`"distributedInfo": {"rank": 3, ` + list + `},`:                                  "[{default_pg 3 4} {mesh_tp 1 2}]",
		`"deviceProperties": [{"id": 0}], "distributedInfo": {` + list + `, "rank": 1},`: "[{default_pg 1 4} {mesh_tp 0 2}]",
		`"distributedInfo": {` + list + `},`:                                             "[]",
		`"distributedInfo": {"rank": 3, "pg_config": "none"},`:                           "[]",
		`"x": {"distributedInfo": {"rank": 3, ` + list + `}},`:                           "[]",
	} {
		text := strings.Replace(trace(memory("1", 0, 4096, 512, 512)), `"schemaVersion": 1,`, `"schemaVersion": 1, `+header, 1)
		if got := fmt.Sprint(read(t, text).Sources[0].Groups); got != want {
			t.Errorf("%s: %s, want %s", header, got, want)
		}
	}
}

// TestPythonNumbers checks that the numbers of Python calls determine the caller, even
// if its recorded time ended before, and that invalid numbers are ignored.
func TestPythonNumbers(t *testing.T) {
	python := func(name, from, duration, numbers string) string {
		return ran("python_function", name+".py(1): "+name, "1", from, duration, numbers)
	}
	for name, c := range map[string]struct {
		inner, outer, want string
	}{
		"recorded":           {`"Python id": 3, "Python parent id": 2`, `"Python id": 2`, "inner inner.py:1 < outer outer.py:1"},
		"from 0":             {`"Python id": 1, "Python parent id": 0`, `"Python id": 0`, "inner inner.py:1 < outer outer.py:1"},
		"its own caller":     {`"Python id": 3, "Python parent id": 3`, `"Python id": 2`, "inner inner.py:1"},
		"a later caller":     {`"Python id": 3, "Python parent id": 4`, `"Python id": 4`, "inner inner.py:1"},
		"nobody's number":    {`"Python id": 3, "Python parent id": 1`, `"Python id": 2`, "inner inner.py:1"},
		"none of the caller": {`"Python id": 3`, `"Python id": 2`, "inner inner.py:1 < decoy decoy.py:1"},
		"too large":          {`"Python id": 4294967296, "Python parent id": 4294967295`, `"Python id": 4294967295`, "inner inner.py:1 < decoy decoy.py:1"},
		"the largest":        {`"Python id": 4294967294, "Python parent id": 4294967293`, `"Python id": 4294967293`, "inner inner.py:1 < outer outer.py:1"},
		"below 0":            {`"Python id": 3, "Python parent id": -1`, `"Python id": -1`, "inner inner.py:1 < decoy decoy.py:1"},
	} {
		got := describe(read(t, trace(memory("15", 0, 4096, 512, 512),
			python("inner", "10", "10", c.inner), python("outer", "0", "5", c.outer), python("decoy", "8", "17", ``))))
		if !strings.Contains(got, fmt.Sprintf("stack=%q", c.want)) {
			t.Errorf("%s: got %swant %s", name, got, c.want)
		}
	}
}

// incomplete returns the number of incomplete records.
func incomplete(c *lifetime.Capture) (n int64) {
	for _, l := range c.Losses {
		if l.Reason == loss.IncompleteRecord {
			n += l.Count
		}
	}
	return n
}

// TestBareMemory reads memory events without some of their arguments.
func TestBareMemory(t *testing.T) {
	event := func(us, args string) string {
		return fmt.Sprintf(`{"ph":"i","name":"[memory]","pid":7,"tid":1,"ts":%s,"args":{%s}}`, us, args)
	}
	c := read(t, trace(
		event("1", `"Device Type":1,"Addr":4096,"Bytes":-512`),
		event("2", `"Device Type":1,"Addr":8192,"Bytes":64`), event("3", `"Device Type":21,"Addr":8192,"Bytes":32`),
		event("4", `"Device Type":1,"Addr":8192`), event(`"now"`, `"Device Type":1,"Bytes":64`),
		ran("cpu_op", "aten::empty", "1", "2", "1", `"Input type": ["float"]`)))
	want := `cuda base 0 peak 512 allocations 1 frees 1
  512 at 0x1000 begin-unseen op="" shape="" dtype="" stack=""
  64 at 0x2000 end-open op="aten::empty" shape="" dtype="" stack="aten::empty :0"
device type 21 base 0 peak 32 allocations 1 frees 0
  32 at 0x2000 end-open op="aten::empty" shape="" dtype="" stack="aten::empty :0"
`
	if got := describe(c); got != want || incomplete(c) != 2 {
		t.Errorf("got\n%swant\n%slosses %v", got, want, c.Losses)
	}
	c = read(t, `[{"ph":"C","name":"GPU memory","pid":1,"ts":1,"args":{"allocated":0}},{"ph":"C","name":"GPU memory","pid":1,"ts":2,"args":{"allocated":1152921504606846976}},
		{"ph":"C","name":"GPU memory","pid":1,"ts":3,"args":{"allocated":1e30}},{"ph":"C","name":"GPU memory","pid":1,"ts":4,"args":{"allocated":-1}},{}]`)
	if len(c.Spaces) != 1 || usageOf(c.Spaces[0]) != "pid 1/GPU memory: 0 at 1000, 1152921504606846976 at 2000" || incomplete(c) != 2 {
		t.Errorf("%d spaces, losses %v: %s", len(c.Spaces), c.Losses, usageOf(c.Spaces[0]))
	}
}

// TestOlderMemory checks that memory from before the recording, which the trace only frees, is called so.
func TestOlderMemory(t *testing.T) {
	c := read(t, trace(memory("10", -1, 64, -8, 0), memory("15", -1, 128, 8, 8), ran("cpu_op", "aten::empty", "1", "14", "2", ``)))
	s := c.Spaces[0]
	var got []string
	for i := range s.Buffers {
		got = append(got, c.PlaceOf(s.Buffers[i].Site).String())
	}
	if want := []string{lifetime.BeforeWindow, "aten::empty"}; !slices.Equal(got, want) {
		t.Errorf("allocated by %q, want %q", got, want)
	}
}

// TestWithoutPython checks that operators and annotations are the stack if Python was not
// recorded.
func TestWithoutPython(t *testing.T) {
	c := read(t, trace(memory("15", -1, 64, 8, 8), ran("cpu_op", "aten::ones", "1", "10", "10", ``), ran("cpu_op", "aten::empty", "1", "14", "2", ``), ran("user_annotation", "load", "1", "5", "50", ``),
		ran("user_annotation", "ProfilerStep#3", "1", "4", "60", ``)))
	want := `cpu base 0 peak 8 allocations 1 frees 0
  8 at 0x40 end-open op="aten::empty" shape="" dtype="" stack="aten::empty :0 < aten::ones :0 < load :0"
`
	if got := describe(c); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestOldTrace reads memory events without addresses. Only the usage above an unknown
// base is recorded, and a loss reports it.
func TestOldTrace(t *testing.T) {
	event := func(us, bytes int) string {
		return fmt.Sprintf(`{"ph":"i","s":"t","name":"[memory]","pid":7,"tid":"7","ts":%d,"args":{"Device Type":1,"Device Id":0,"Bytes":%d}}`, us, bytes)
	}
	c := read(t, `{"traceEvents":[`+event(5, -300)+","+event(3, 100)+","+event(9, 500)+`]}`)
	s := c.Spaces[0]
	if got := describe(c); got != "cuda:0 base 0 peak 500 allocations 2 frees 1\n" || !s.UsageOnly() {
		t.Error(got)
	}
	if len(c.Losses) != 1 || c.Losses[0].Reason != loss.Anonymous || c.Losses[0].Count != 3 {
		t.Errorf("losses %v", c.Losses)
	}
	rows := s.Breakdown(s.Peak(lifetime.Occupied).At)
	if len(rows) != 1 || rows[0].Kind != lifetime.FromUsage || rows[0].Bytes != 500 {
		t.Errorf("rows %+v", rows)
	}
}

// TestCounters checks that memory counters become spaces with a usage, and other counters
// do not.
func TestCounters(t *testing.T) {
	c := read(t, `[{"ph":"C","name":"GPU memory","pid":1,"ts":1,"args":{"allocated":100,"reserved":400}},
		{"ph":"C","name":"GPU Utilization","pid":1,"ts":1,"args":{"GPU Utilization":0.5}},
		{"ph":"C","name":"HBM bandwidth (GB/s)","pid":1,"ts":1,"args":{"value":3}},
		{"ph":"C","name":"Memory (MiB)","pid":2,"ts":2,"args":{"used":1.5}},
		{"ph":"C","name":"GPU memory","pid":1,"ts":3,"args":{"allocated":300,"reserved":400}},{}]`)
	want := "pid 1/GPU memory/allocated base 0 peak 300 allocations 0 frees 0\npid 1/GPU memory/reserved base 0 peak 400 allocations 0 frees 0\n" +
		"pid 2/Memory (MiB)/used base 0 peak 1572864 allocations 0 frees 0\n"
	if got := describe(c); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestObjects checks that objects with a size become buffers.
func TestObjects(t *testing.T) {
	c := read(t, `[{"ph":"N","name":"Tensor","id":"0x10","pid":1,"ts":1,"args":{"size":64}},{"ph":"O","name":"Tensor","id":"0x10","pid":1,"ts":2,"args":{"snapshot":{"size":64}}},
		{"ph":"N","name":"Tensor","id":"0x20","pid":1,"ts":2,"args":{"size":32}},{"ph":"D","name":"Tensor","id":"0x10","pid":1,"ts":3},{"ph":"N","name":"Thread","id":"0x10","pid":1,"ts":4},
		{"ph":"D","name":"Tensor","id":"0x99","pid":1,"ts":3}]`)
	want := "pid 1/objects base 0 peak 96 allocations 2 frees 1\n" +
		"  64 at 0x0 - op=\"Tensor\" shape=\"\" dtype=\"\" stack=\"\"\n  32 at 0x0 end-open op=\"Tensor\" shape=\"\" dtype=\"\" stack=\"\"\n"
	if got := describe(c); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestTimelines compares the peaks in the two forms of export_memory_timeline with the
// peak in the trace of the same run.
func TestTimelines(t *testing.T) {
	peak := func(file string) int64 { return open(t, file).Spaces[0].Peak(lifetime.Occupied).Bytes }
	want := peak(captures + "/cpu_leak.json.gz")
	for _, form := range []string{"/cpu_leak.timeline.raw.json.gz", "/cpu_leak.timeline.json.gz"} {
		if got := peak(captures + form); got != want {
			t.Errorf("%s: peak %d, want %d", form, got, want)
		}
	}
	c := open(t, captures+"/cuprof_leak.timeline.raw.json.gz")
	kinds := map[string]int{}
	for _, b := range c.Spaces[0].Buffers {
		kinds[c.Sites[b.Site].Region]++
	}
	if kinds["parameter"] != 4 || kinds["activation"] != 36 || kinds["gradient"] != 24 || kinds["input"] != 6 || kinds["autograd detail"] != 30 {
		t.Errorf("buffers by category: %v", kinds)
	}
}

// usageOf returns the usage of a space over time.
func usageOf(s *lifetime.Space) string {
	var all []string
	for i := range s.Totals {
		all = append(all, fmt.Sprintf("%d at %d", s.Totals[i].Bytes, s.Totals[i].T))
	}
	return s.ID() + ": " + strings.Join(all, ", ")
}

// TestSumsOfTimeline checks that sums by category become one space for all, and one for
// each category from its first bytes on. Times are in microseconds.
func TestSumsOfTimeline(t *testing.T) {
	c := read(t, `[[10, 20, 30], [[0, 100, 0, 5, 0, 0, 0, 0, 0], [0, 100, 0, 0, 0, 7, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 1]]]`)
	var got []string
	for _, s := range c.Spaces {
		got = append(got, usageOf(s))
	}
	want := []string{
		"timeline: 105 at 10000, 107 at 20000, 1 at 30000",
		"timeline/activation: 7 at 20000, 0 at 30000",
		"timeline/input: 5 at 10000, 0 at 20000, 0 at 30000",
		"timeline/parameter: 100 at 10000, 100 at 20000, 0 at 30000",
		"timeline/unknown: 1 at 30000",
	}
	if !slices.Equal(got, want) || len(c.Losses) != 0 {
		t.Errorf("got\n%s\nwant\n%s\nlosses %v", strings.Join(got, "\n"), strings.Join(want, "\n"), c.Losses)
	}
	c = read(t, `[[10, 20], [[0, 1, 0, 0, 0, 0, 0, 0, 0], [0, 1, 2], [0, 2, 0, 0, 0, 0, 0, 0, 0], [0, 3, 0, 0, 0, 0, 0, 0, 0]]]`)
	if len(c.Losses) != 1 || c.Losses[0].Reason != loss.IncompleteRecord || c.Losses[0].Count != 2 || len(c.Spaces) != 2 || usageOf(c.Spaces[0]) != "timeline: 1 at 10000, 2 at 20000" {
		t.Errorf("rows of another form: %v, %d spaces", c.Losses, len(c.Spaces))
	}
}

// TestRawTimeline checks that rows of the raw form become buffers. Preexisting buffers
// begin before the first row with a time. A buffer that changes its category ends, and another one
// continues it.
// The model separates events at one instant by a nanosecond.
func TestRawTimeline(t *testing.T) {
	c := read(t, `[[-1, 1, 100, 0], [-1, 1, 0, 0], [5000, 2, 64, 3], [6000, 2, 64, 3], [7000, 3, -64, 3], [7000, 3, 64, 4], [8000, 4, 64, 3], [9000, 4, 64, 4],
		[9500, 9, 1, 0], [9550, 3, 5, 0], [9600, 4, 1, 0], [9700, 3, -1, 0], [9800, 2, 8, 8], [9900, 2, 8, 99]]`)
	var got []string
	s := c.Spaces[0]
	for i := range s.Buffers {
		b := &s.Buffers[i]
		got = append(got, fmt.Sprintf("%d of %s from %d to %d %s", b.Size, c.Sites[b.Site].Region, b.Begin, b.End, b.Edge))
	}
	slices.Sort(got)
	want := []string{
		"0 of parameter from 5000 to 9901 end-open", "100 of parameter from 4999 to 9901 end-open", "64 of activation from 7001 to 9000 -",
		"64 of temporary from 5001 to 7000 -", "64 of temporary from 6000 to 8000 -", "8 of unknown from 9800 to 9901 end-open", "8 of unknown from 9900 to 9901 end-open",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	losses := map[loss.Reason]int64{}
	for _, l := range c.Losses {
		losses[l.Reason] += l.Count
	}
	if losses[loss.UnknownAction] != 1 || losses[loss.StateMismatch] != 2 {
		t.Errorf("losses %v", c.Losses)
	}
}

// TestStepsByName checks that without recorded steps, the steps are the ranges that occur
// three times or more, not inside another range, and take the most time.
func TestStepsByName(t *testing.T) {
	events := []string{memory("15", -1, 64, 8, 8)}
	add := func(name string, from, every, length, times int) {
		for i := range times {
			events = append(events, ran("user_annotation", fmt.Sprintf("%s %d", name, i), "1", fmt.Sprint(from+i*every), fmt.Sprint(length), ``))
		}
	}
	add("load", 0, 100, 10, 5)
	add("train", 20, 100, 30, 3) // fewer, but longer
	add("forward", 22, 100, 25, 3)
	add("save", 1000, 1000, 900, 2) // too few
	c := read(t, trace(events...))
	steps := 0
	for _, m := range c.Spaces[0].Marks {
		if isStep := m.Kind == lifetime.Step; isStep != strings.HasPrefix(m.Text, "train ") {
			t.Errorf("%s is %s", m.Text, m.Kind)
		} else if isStep {
			steps++
		}
	}
	if steps != 3 || len(c.Spaces[0].Marks) != 13 {
		t.Errorf("%d steps of %d marks", steps, len(c.Spaces[0].Marks))
	}
	events = events[:1]
	add("next", 0, 10, 10, 4) // each begins where the one before ends
	add("point", 100, 10, 0, 2)
	steps = 0
	for _, m := range read(t, trace(events...)).Spaces[0].Marks {
		if m.Kind == lifetime.Step {
			steps++
		}
		if m.End <= m.Begin {
			t.Errorf("%s ends at %d and begins at %d", m.Text, m.End, m.Begin)
		}
	}
	if steps != 4 {
		t.Errorf("%d steps", steps)
	}
}

// TestMemoryOfHosts checks that all host memory counts as the host's in the table of
// operations, whatever its device type.
func TestMemoryOfHosts(t *testing.T) {
	event := func(us string, kind, bytes int) string {
		return fmt.Sprintf(`{"ph":"i","name":"[memory]","pid":7,"tid":1,"ts":%s,"args":{"Device Type":%d,"Device Id":-1,"Addr":4096,"Bytes":%d}}`, us, kind, bytes)
	}
	c := read(t, trace(event("11", 0, 1), event("12", 2, 20), event("13", 5, 300), event("14", 1, 4000), event("15", 6, 50000),
		ran("cpu_op", "aten::empty", "1", "10", "10", ``)))
	o := c.Operations[slices.IndexFunc(c.Operations, func(o lifetime.Operation) bool { return o.Name == "aten::empty" })]
	if o.Host.Allocated != 321 || o.Device.Allocated != 54000 {
		t.Errorf("%d bytes on the host, %d on devices", o.Host.Allocated, o.Device.Allocated)
	}
}

// TestOnlyOccupied: traces have the sizes that programs requested of the CPU, and of other devices the blocks that caching allocators rounded up.
func TestOnlyOccupied(t *testing.T) {
	event := func(us string, kind int) string {
		return fmt.Sprintf(`{"ph":"i","name":"[memory]","pid":7,"tid":1,"ts":%s,"args":{"Device Type":%d,"Device Id":0,"Addr":4096,"Bytes":512}}`, us, kind)
	}
	c := read(t, trace(event("11", 0), event("12", 1), event("13", 6)))
	var got []string
	for _, s := range c.Spaces {
		got = append(got, fmt.Sprint(s.Device, " ", s.OnlyOccupied))
	}
	if slices.Sort(got); !slices.Equal(got, []string{"cpu:0 false", "cuda:0 true", "hip:0 true"}) {
		t.Error(got)
	}
}

// TestRoundedTimes checks the attribution of events with PyTorch's rounding to 128 ns,
// which newer versions do not have.
func TestRoundedTimes(t *testing.T) {
	text := trace(memory("19.990", -1, 64, 8, 8), ran("cpu_op", "aten::empty", "1", "10", "10", ``), ran("cpu_op", "profiler::_record_function_enter_new", "1", "1", "50", ``))
	for old, want := range map[bool]int64{true: 0, false: 8} {
		text := text
		if !old {
			text = strings.Replace(text, `"schemaVersion": 1,`, `"schemaVersion": 1, "host_name": "a",`, 1)
		}
		for _, o := range read(t, text).Operations {
			if o.Name == "aten::empty" && o.Host.Allocated != want {
				t.Errorf("old %v: %d bytes by %s", old, o.Host.Allocated, o.Name)
			}
			if strings.HasPrefix(o.Name, "profiler::") {
				t.Errorf("%s has a row", o.Name)
			}
		}
	}
}

// TestNothing checks the loss of traces without memory, which names what to switch on.
func TestNothing(t *testing.T) {
	for text, want := range map[string]loss.Reason{
		trace(ran("cpu_op", "aten::mm", "1", "15", "1", ``)):                                                               loss.NoMemoryRecorded,
		`{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[{}]}`:                                    loss.NotOfPyTorch,
		`{"traceEvents":[{"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}},{}]}`:                    loss.NotOfPyTorch,
		`{"traceEvents":[{"ph":"C","name":"GPU Utilization","pid":1,"ts":1,"args":{"GPU Utilization":0.5}}]}`:              loss.NoMemoryRecorded,
		`{"schemaVersion":1,"traceEvents":[{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":5,"args":{"Device Type":0}}]}`: loss.NoMemoryRecorded,
	} {
		c := read(t, text)
		if len(c.Spaces) != 0 || !slices.ContainsFunc(c.Losses, func(l loss.Loss) bool { return l.Reason == want }) {
			t.Errorf("%s: %d spaces, losses %v", text, len(c.Spaces), c.Losses)
		}
	}
}

// TestLaws checks, at every event of every trace, that the allocator's total equals the
// sum that memlane counts.
func TestLaws(t *testing.T) {
	files, _ := filepath.Glob(captures + "/*.json.gz")
	if dir := os.Getenv("MEMLANE_CAPTURES"); dir != "" {
		for _, pattern := range []string{"torch/*.json", "torch/*.json.gz", "public/chrome/*", "labelled/*.trace.json.gz"} {
			more, _ := filepath.Glob(filepath.Join(dir, pattern))
			files = append(files, more...)
		}
	}
	events := 0
	for _, file := range files {
		if strings.HasSuffix(file, ".stats.json") || strings.HasSuffix(file, ".facts.json") {
			continue
		}
		c := open(t, file)
		for _, l := range c.Losses {
			if l.Reason == loss.TotalMismatch || l.Reason == loss.LostFree {
				t.Errorf("%s: %v", file, l)
			}
		}
		for _, s := range c.Spaces {
			if s.Facts&lifetime.Totals != 0 && s.Facts&lifetime.History != 0 {
				events += s.Allocations + s.Frees
			}
		}
	}
	t.Logf("%d files, %d events with totals", len(files), events)
	if events < 500 {
		t.Error("too few events")
	}
}

// TestLargeDevices checks that a device number beyond 16 bits is a loss, and not truncated
// to another device.
func TestLargeDevices(t *testing.T) {
	event := func(kind, id string) string {
		return `{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":1,"args":{"Device Type":` + kind + `,"Device Id":` + id + `,"Addr":4096,"Bytes":512}}`
	}
	c := read(t, trace(event("1", "0"), event("1", "65536"), event("65537", "0"), event("1", "-40000")))
	if len(c.Spaces) != 1 || c.Spaces[0].Allocations != 1 || len(c.Losses) == 0 || c.Losses[0].Reason != loss.IncompleteRecord || c.Losses[0].Count != 3 {
		t.Errorf("%d spaces, %v", len(c.Spaces), c.Losses)
	}
}

// TestPythonCut: PyTorch writes calls of Python last, by their begin. Where a file ends within them, later allocations lack the innermost;
// they have the call site that ran the same operators before, and else only operators.
func TestPythonCut(t *testing.T) {
	op := func(name, us, shape string) string {
		return ran("cpu_op", name, "1", us, "8", fmt.Sprintf(`"Input Dims": [%s], "Input type": ["float"]`, shape))
	}
	python := func(name, us, duration, id, parent string) string {
		return ran("python_function", name, "1", us, duration, fmt.Sprintf(`"Python id": %s, "Python parent id": %s`, id, parent))
	}
	text := trace(
		op("aten::mm", "10", "[4]"), op("aten::mm", "110", "[4]"), op("aten::mm", "130", "[5]"), // after the cut: known, another shape,
		op("aten::add", "50", "[4]"), op("aten::add", "70", "[4]"), op("aten::add", "150", "[4]"), // from two call sites
		memory("12", -1, 4096, 64, 64), memory("52", -1, 8192, 64, 128), memory("72", -1, 12288, 64, 192), memory("112", -1, 16384, 64, 256),
		memory("132", -1, 20480, 64, 320), memory("152", -1, 24576, 64, 384), memory("170", -1, 28672, 64, 448),
		python("a.py(1): <module>", "0", "200", "1", "null"), python("a.py(2): f", "8", "20", "2", "1"), python("a.py(3): g", "48", "12", "3", "1"),
		python("a.py(4): h", "68", "12", "4", "1"), python("a.py(5): print", "90", "2", "5", "1"), python("a.py(2): f", "108", "12", "6", "1"))
	whole := read(t, text)
	if len(whole.Losses) > 0 {
		t.Fatal(whole.Losses)
	}
	cut := read(t, text[:strings.LastIndex(text, ",\n")+1])
	var got []string
	for _, b := range cut.Spaces[0].Buffers {
		var frames []string
		for f := range cut.FramesOf(cut.Sites[b.Site].Stack) {
			frames = append(frames, f.Function)
		}
		got = append(got, strings.Join(frames, " < "))
	}
	want := []string{"f < <module>", "g < <module>", "h < <module>", "f < <module>", "aten::mm", "aten::add", "<module>"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if i := slices.IndexFunc(cut.Losses, func(l loss.Loss) bool { return l.Reason == loss.CallsCut }); i < 0 || cut.Losses[i].Count != 4 {
		t.Errorf("%v", cut.Losses)
	}
}

// TestOptimizerSteps: an annotation of torch.optim is the end of a step, not a step. Ranges that the program numbers are.
func TestOptimizerSteps(t *testing.T) {
	for step, want := range map[string]int{"": 0, "step %d": 4, "ProfilerStep#%d": 4} {
		var events []string
		for i := range 4 {
			at := func(us int) string { return fmt.Sprint(100*i + us) }
			events = append(events, memory(at(10), -1, int64(4096*(i+1)), 64, 64*int64(i+1)),
				ran("user_annotation", "Optimizer.step#Adam.step", "1", at(50), "10", ""),
				ran("user_annotation", "Optimizer.zero_grad#Adam.zero_grad", "1", at(70), "2", ""))
			if step != "" {
				events = append(events, ran("user_annotation", fmt.Sprintf(step, i), "1", at(5), "90", ""))
			}
		}
		steps := 0
		for _, m := range read(t, trace(events...)).Spaces[0].Marks {
			if m.Kind == lifetime.Step {
				steps++
			}
		}
		if steps != want {
			t.Errorf("%q: %d steps, want %d", step, steps, want)
		}
	}
}
