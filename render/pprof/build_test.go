package pprof

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// one returns a capture of one space with one buffer per site.
func one(t *testing.T, desc lifetime.SpaceInfo, sites func(*build.Builder) []lifetime.SiteID) *lifetime.Capture {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "one.json", Format: "chrometrace"})
	s := b.Space()
	b.Describe(s, desc)
	for i, site := range sites(b) {
		b.Alloc(s, int64(i)*1000, build.Block{Addr: uint64(i+1) << 20, Requested: 1000, Occupied: 1024, Site: site})
	}
	return finish(t, b)
}

// frames formats the stack of a sample, leaf first.
func frames(s *profile.Sample) string {
	var parts []string
	for _, l := range s.Location {
		f := l.Line[0].Function
		parts = append(parts, fmt.Sprintf("%s@%s:%d", f.Name, f.Filename, l.Line[0].Line))
	}
	return strings.Join(parts, " < ")
}

func TestFrames(t *testing.T) {
	c := one(t, lifetime.SpaceInfo{Device: "cuda:0"}, func(b *build.Builder) []lifetime.SiteID {
		stack := func(frames ...lifetime.Frame) lifetime.StackID {
			var ids []lifetime.FrameID
			for _, f := range frames {
				ids = append(ids, b.Frame(f))
			}
			return b.Stack(ids)
		}
		module := lifetime.Frame{Function: "<module>", File: "train.py", Line: 9}
		return []lifetime.SiteID{
			0,
			b.Site(lifetime.Site{Op: "fusion.7"}),
			b.Site(lifetime.Site{Op: "aten::empty", Stack: stack(lifetime.Frame{Function: "forward", File: "net.py"}, module)}),
			b.Site(lifetime.Site{Stack: stack(lifetime.Frame{File: "libtorch.so"}, lifetime.Frame{}, module)}),
			b.Site(lifetime.Site{Stack: stack(lifetime.Frame{Function: "bad\xff\xfe\x1b[31m", File: "a\nb"})}),
		}
	})
	p := mustProfile(t, c, Options{})
	want := []string{
		"[no stack recorded]@:0 < cuda:0@:0",
		"fusion.7@:0 < cuda:0@:0",
		"forward@net.py:0 < <module> (train.py:9)@train.py:9 < cuda:0@:0",
		"libtorch.so@libtorch.so:0 < <module> (train.py:9)@train.py:9 < cuda:0@:0",
		"bad\ufffd\ufffd\ufffd[31m@a\ufffdb:0 < cuda:0@:0",
	}
	var got []string
	for _, s := range p.Sample {
		got = append(got, frames(s))
	}
	if !slices.Equal(got, want) {
		t.Errorf("stacks\n%q, want\n%q", got, want)
	}
	if op := p.Sample[2].Label["op"]; len(op) != 1 || op[0] != "aten::empty" || p.Sample[1].Label["op"] != nil {
		t.Errorf("labels %v and %v: the operation belongs where the stack does not name it", p.Sample[1].Label, p.Sample[2].Label)
	}
	for _, f := range p.Function {
		if f.SystemName != "" || !utf8.ValidString(f.Name) {
			t.Errorf("function %q has the system name %q", f.Name, f.SystemName)
		}
	}
}

func TestLabels(t *testing.T) {
	two := func(b *build.Builder) []lifetime.SiteID {
		return []lifetime.SiteID{b.Site(lifetime.Site{Op: "a"}), b.Site(lifetime.Site{Op: "b"})}
	}
	c := one(t, lifetime.SpaceInfo{Host: "h\x00st", Device: "cuda:0"}, two)
	s := c.Spaces[0]
	s.Base = 4096
	p := mustProfile(t, c, Options{Marks: leaking(s, 2)})
	want := []string{
		"[before the recording]@:0 < h\ufffdst/cuda:0@:0 map[device:[cuda:0] memory_id:[h\ufffdst/cuda:0]] map[] [0 0 0 4096 0]",
		"a@:0 < h\ufffdst/cuda:0@:0 map[device:[cuda:0] kind:[buffer] memory_id:[h\ufffdst/cuda:0]] map[bytes:[1024] lifetime:[1001]] [1 1024 1 1024 0]",
		"b@:0 < h\ufffdst/cuda:0@:0 map[device:[cuda:0] kind:[buffer] leak:[leak:warning] memory_id:[h\ufffdst/cuda:0]] map[bytes:[1024] lifetime:[1]] [1 1024 1 1024 0]",
	}
	for i, s := range p.Sample {
		if got := fmt.Sprintf("%s %v %v %v", frames(s), s.Label, s.NumLabel, s.Value); got != want[i] {
			t.Errorf("sample %d:\n%q, want\n%q", i, got, want[i])
		}
	}
	unnamed := mustProfile(t, one(t, lifetime.SpaceInfo{Axis: lifetime.Event}, two), Options{}).Sample[0]
	if got := fmt.Sprint(unnamed.Label, unnamed.NumLabel); got != "map[kind:[buffer]] map[bytes:[1024]]" {
		t.Errorf("labels of an unnamed space without clock: %s", got)
	}
}

// TestSampleOrder: samples are ordered by site and size, in whatever order the buffers came.
func TestSampleOrder(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f", Format: "torchsnap"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0"})
	first, second := b.Site(lifetime.Site{Op: "a"}), b.Site(lifetime.Site{Op: "b"})
	for i, site := range []lifetime.SiteID{second, first, second, first} {
		b.Alloc(s, int64(i), build.Block{Addr: uint64(i+1) << 20, Requested: 1, Occupied: int64(4096 - 512*i), Site: site})
	}
	var got []string
	for _, s := range mustProfile(t, finish(t, b), Options{}).Sample {
		got = append(got, fmt.Sprint(frames(s), s.NumLabel["bytes"]))
	}
	if want := []string{"a@:0 < cuda:0@:0[2560]", "a@:0 < cuda:0@:0[3584]", "b@:0 < cuda:0@:0[3072]", "b@:0 < cuda:0@:0[4096]"}; !slices.Equal(got, want) {
		t.Errorf("samples %q, want %q", got, want)
	}
}

// TestSharedID: the label file distinguishes spaces with one name, and is absent otherwise.
func TestSharedID(t *testing.T) {
	var captures []*lifetime.Capture
	for _, file := range []string{"rank0.pickle", "rank1.pickle"} {
		c := one(t, lifetime.SpaceInfo{Device: "cuda:0"}, func(b *build.Builder) []lifetime.SiteID {
			return []lifetime.SiteID{0, b.Site(lifetime.Site{Op: file})}
		})
		c.Sources[0].File = file
		captures = append(captures, c)
	}
	p, err := Profile(captures, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"rank0.pickle", "rank1.pickle"} {
		if got := p.Sample[2*i].Label["file"]; !slices.Equal(got, []string{want}) {
			t.Errorf("sample %d: file %q, want %q", 2*i, got, want)
		}
		if got, want := frames(p.Sample[2*i+1]), fmt.Sprintf("%s@:0 < rank %d/cuda:0@:0", want, i); got != want {
			t.Errorf("sample %d: stack %s, want %s", 2*i+1, got, want)
		}
		if got := p.Sample[2*i].Label["rank"]; !slices.Equal(got, []string{strconv.Itoa(i)}) {
			t.Errorf("sample %d: rank %q", 2*i, got)
		}
	}
	if len(p.Location) != 5 {
		t.Errorf("%d locations, want the captures to share that of unknown stacks", len(p.Location))
	}
	if file := mustProfile(t, captures[0], Options{}).Sample[0].Label["file"]; file != nil {
		t.Errorf("one space alone has the label file %q", file)
	}
}

func TestComments(t *testing.T) {
	c := one(t, lifetime.SpaceInfo{Device: "cuda:0"}, func(*build.Builder) []lifetime.SiteID { return make([]lifetime.SiteID, 4) })
	c.Sources[0].Producer = "Kineto\x07"
	c.Losses = []loss.Loss{{Reason: loss.RingOverflow, Count: 3}, {Reason: loss.BeforeWindow, Count: 9}}
	s := c.Spaces[0]
	file := "file one.json: format chrometrace, producer Kineto\ufffd"
	loss := "loss " + c.Losses[0].String()
	lines := "functions are named with their line, so that every call site has a row"
	for _, test := range []struct {
		o    Options
		want string
	}{
		{Options{}, "space cuda:0: 4.00 KiB (4,096 B) in use at its peak, 3.00 µs into a recording of 3.00 µs"},
		{Options{At: End}, "space cuda:0: 4.00 KiB (4,096 B) in use at the end of its recording of 3.00 µs"},
		{Options{At: Fixed, Time: 1500}, "space cuda:0: 2.00 KiB (2,048 B) in use 1.50 µs into a recording of 3.00 µs"},
	} {
		test.o.Comments = []string{"leaks: none"}
		want := []string{file, test.want, lines, loss, "leaks: none"}
		if got := mustProfile(t, c, test.o).Comments; !slices.Equal(got, want) {
			t.Errorf("comments\n%q, want\n%q", got, want)
		}
	}
	both := *c
	both.Spaces = []*lifetime.Space{s, s}
	space := "space cuda:0: 4.00 KiB (4,096 B) in use at its peak, 3.00 µs into a recording of 3.00 µs"
	sum := "totals add up different memories, each at its own instant; the outermost frame of a stack is its memory"
	if got, want := mustProfile(t, &both, Options{}).Comments, []string{file, space, space, sum, lines, loss}; !slices.Equal(got, want) {
		t.Errorf("comments on two spaces\n%q, want\n%q", got, want)
	}
	outside := part{capture: c, space: s, at: 9}
	if got, want := (&builder{}).describe(outside, 0), "outside its recording [-1, 3001)"; !strings.Contains(got, want) {
		t.Errorf("comment %q, want %q in it", got, want)
	}
}

func TestTimes(t *testing.T) {
	const day = 1_700_000_000_000_000_000 // 2023-11-14 in ns
	for _, test := range []struct {
		windows        [][2]int64
		axis           lifetime.Axis
		time, duration int64
	}{
		{[][2]int64{{day, day + 5000}}, lifetime.Time, day, 5000},
		{[][2]int64{{100, 700}}, lifetime.Time, 0, 600},
		{[][2]int64{{day + 10, day + 20}, {day, day + 5}, {0, 50}}, lifetime.Time, day, 50},
		{[][2]int64{{day, day + 5000}}, lifetime.Event, 0, 0},
		{[][2]int64{{math.MinInt64, math.MaxInt64}}, lifetime.Time, 0, math.MaxInt64},
	} {
		var parts []part
		for _, w := range test.windows {
			parts = append(parts, part{space: &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{Axis: test.axis, Begin: w[0], End: w[1]}}})
		}
		var p profile.Profile
		setTimes(&p, parts)
		if p.TimeNanos != test.time || p.DurationNanos != test.duration {
			t.Errorf("%v: time %d, duration %d; want %d, %d", test.windows, p.TimeNanos, p.DurationNanos, test.time, test.duration)
		}
	}
}
