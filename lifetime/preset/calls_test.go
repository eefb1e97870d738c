package preset_test

import (
	"math"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/preset"
	"github.com/memlane/memlane/lifetime/selection"
)

// twoSteps returns a space with two steps. "keep" retains 100 bytes per step, "pass" frees its buffers, and the second step
// frees the buffer of "set up".
func twoSteps(marks bool) (*build.Builder, build.SpaceRef) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f"})
	s := b.Space()
	site := func(name string) lifetime.SiteID {
		return b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{b.Frame(frame.Frame{Function: name, Kind: frame.User})})})
	}
	b.Reserve(s, 1, lifetime.Region{Addr: 0, Size: 4096})
	b.Alloc(s, 10, build.Block{Addr: 1000, Requested: 1000, Occupied: 1000, Site: site("set up")})
	for step := range int64(2) {
		t := 100 + 100*step
		if marks {
			b.Mark(s, lifetime.Mark{Begin: t, End: t + 90, Kind: lifetime.Step, Text: "step"})
		}
		b.Alloc(s, t+10, build.Block{Addr: uint64(2000 + 100*step), Requested: 100, Occupied: 100, Site: site("keep")})
		b.Alloc(s, t+20, build.Block{Addr: 3000, Requested: 300, Occupied: 300, Site: site("pass")})
		b.Free(s, t+30, build.Block{Addr: 3000, Requested: 300, Occupied: 300})
		if step == 1 {
			b.Free(s, t+40, build.Block{Addr: 1000, Requested: 1000, Occupied: 1000})
		}
	}
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock})
	return b, s
}

func finish(t *testing.T, b *build.Builder) *lifetime.Capture {
	t.Helper()
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}

type callWords struct {
	function                                        string
	before, after, peak, allocated, freed, reserved int64
}

func wordsOf(c *lifetime.Capture) (all []callWords) {
	for _, call := range preset.CallsOf(c) {
		all = append(all, callWords{c.FunctionName(call.Site), call.Before, call.After, call.Peak, call.Allocated, call.Freed, call.Reserved})
	}
	return all
}

func compareCalls(t *testing.T, got, want []callWords) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d calls, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("call %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

// TestCallsOfSteps: one call for each function in each step.
func TestCallsOfSteps(t *testing.T) {
	b, _ := twoSteps(true)
	compareCalls(t, wordsOf(finish(t, b)), []callWords{
		{"keep", 1000, 1100, 1100, 100, 0, 4096},
		{"pass", 1000, 1000, 1300, 300, 300, 4096},
		{"keep", 1100, 1200, 1200, 100, 0, 4096},
		{"pass", 1100, 1100, 1400, 300, 300, 4096},
		{"set up", 1100, 100, 1100, 0, 1000, 4096},
	})
}

// TestCallsOfAllocations: without steps, each allocation is a call.
func TestCallsOfAllocations(t *testing.T) {
	b, _ := twoSteps(false)
	c := finish(t, b)
	compareCalls(t, wordsOf(c), []callWords{
		{"set up", 0, 0, 1000, 1000, 1000, 4096},
		{"keep", 1000, 1100, 1100, 100, 0, 4096},
		{"pass", 1100, 1100, 1400, 300, 300, 4096},
		{"keep", 1100, 1200, 1200, 100, 0, 4096},
		{"pass", 1200, 1200, 1500, 300, 300, 4096},
	})
}

// TestCallsAround: a step includes its begin and excludes its end.
func TestCallsAround(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f"})
	s := b.Space()
	for _, step := range [][2]int64{{100, 190}, {200, 290}} {
		b.Mark(s, lifetime.Mark{Begin: step[0], End: step[1], Kind: lifetime.Step})
	}
	op := func(name string) lifetime.SiteID { return b.Site(lifetime.Site{Op: name}) }
	b.Alloc(s, 100, build.Block{Addr: 1 << 20, Requested: 5, Occupied: 5, Site: op("first")})
	b.Reserve(s, 190, lifetime.Region{Addr: 0, Size: 4096})
	b.Alloc(s, 290, build.Block{Addr: 2 << 20, Requested: 7, Occupied: 7, Site: op("last")})
	b.Alloc(s, 300, build.Block{Addr: 3 << 20, Requested: 9, Occupied: 9, Site: op("later")})
	b.Describe(s, lifetime.SpaceInfo{Facts: lifetime.Clock})
	c := finish(t, b)
	compareCalls(t, wordsOf(c), []callWords{{"first", 0, 5, 5, 5, 0, 4096}})
	if call := preset.CallsOf(c)[0]; call.Begin != 100e-9 || call.End != 190e-9 || math.Abs(call.Seconds-90e-9) > 1e-15 {
		t.Errorf("from %v to %v, %v seconds", call.Begin, call.End, call.Seconds)
	}
}

// TestSecondsOfCalls: the duration of an allocation is the lifetime of its buffer; without a clock, events count as seconds.
func TestSecondsOfCalls(t *testing.T) {
	for axis, second := range map[lifetime.Axis]float64{lifetime.Time: 1e9, lifetime.Event: 1} {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "f"})
		s := b.Space()
		b.Alloc(s, 100, build.Block{Addr: 1 << 20, Requested: 5, Occupied: 5})
		b.Free(s, 130, build.Block{Addr: 1 << 20, Requested: 5, Occupied: 5})
		b.Describe(s, lifetime.SpaceInfo{Axis: axis, Facts: lifetime.Clock})
		if call := preset.CallsOf(finish(t, b))[0]; call.Begin != 100/second || call.End != 100/second || math.Abs(call.Seconds*second-30) > 1e-9 {
			t.Errorf("%v: from %v to %v, %v seconds", axis, call.Begin, call.End, call.Seconds)
		}
	}
}

// TestOnly: a part of a capture has the calls and samples of its spaces.
func TestOnly(t *testing.T) {
	b, first := twoSteps(false)
	second := b.Space()
	b.Describe(second, lifetime.SpaceInfo{Device: "cuda:1", Facts: lifetime.Clock})
	b.FunctionCall(first, lifetime.Call{Allocated: 1})
	b.FunctionCall(second, lifetime.Call{Allocated: 2})
	b.Sample(second, lifetime.Sample{DeviceUsed: 3})
	part, err := (&selection.Selection{Space: "cuda:1"}).Of(finish(t, b))
	if err != nil {
		t.Fatal(err)
	}
	if len(part.Spaces) != 1 || len(part.Calls) != 1 || part.Calls[0].Allocated != 2 || part.Calls[0].Space != 0 ||
		len(part.Samples) != 1 || part.Samples[0].Space != 0 {
		t.Errorf("%+v %+v", part.Calls, part.Samples)
	}
}
