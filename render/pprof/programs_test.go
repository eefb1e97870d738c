package pprof

import (
	"fmt"
	"slices"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// samples formats every sample of a profile.
func samples(t *testing.T, c *lifetime.Capture, o Options) []string {
	t.Helper()
	var got []string
	for _, s := range mustProfile(t, c, o).Sample {
		got = append(got, fmt.Sprintf("%s %v %v %v", frames(s), s.Label, s.NumLabel, s.Value))
	}
	return got
}

// TestProgram: the scopes of a compiled program become stacks; its kinds, shapes and types become labels. A
// site may have buffers of two kinds.
func TestProgram(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f.hlo.pb", Format: "hlo"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Module: "jit_f(5)", Memory: "space0", Axis: lifetime.ProgramOrder, Begin: -1, End: 9, Facts: lifetime.Stacks})
	stack := b.Stack([]lifetime.FrameID{
		b.Frame(lifetime.Frame{Function: "dot", File: "a.py", Line: 7, Kind: lifetime.Scope}), b.Frame(lifetime.Frame{Function: "mlp", Kind: lifetime.Scope}),
	})
	dot := b.Site(lifetime.Site{Op: "mlp/dot", Stack: stack, Shape: "f32[4]{0}", DType: "f32", Instr: "dot.1"})
	bare := b.Site(lifetime.Site{Shape: "(f32[])", Instr: "tuple.1"})
	for _, x := range []lifetime.Buffer{
		{Begin: -1, End: 9, Size: 100, Site: dot, Kind: lifetime.Output, Edge: lifetime.EndOpen},
		{Begin: 2, End: 5, Size: 1000, Site: dot, Kind: lifetime.Temporary},
		{Begin: 3, End: 9, Size: 8, Site: bare, Kind: lifetime.Temporary, Edge: lifetime.EndOpen},
	} {
		b.Interval(s, build.Interval{Buffer: x})
	}
	c := finish(t, b)
	want := []string{
		"dot (a.py:7)@a.py:7 < mlp@:0 < jit_f(5)/space0@:0 map[dtype:[f32] kind:[output] memory_id:[jit_f(5)/space0] shape:[f32[4]{0}]] map[bytes:[100]] [1 100 1 100 0]",
		"dot (a.py:7)@a.py:7 < mlp@:0 < jit_f(5)/space0@:0 map[dtype:[f32] kind:[temporary] memory_id:[jit_f(5)/space0] shape:[f32[4]{0}]] map[bytes:[1000]] [1 1000 1 1000 0]",
		"tuple.1@:0 < jit_f(5)/space0@:0 map[kind:[temporary] memory_id:[jit_f(5)/space0] shape:[(f32[])]] map[bytes:[8]] [1 8 1 8 0]",
	}
	if got := samples(t, c, Options{}); !slices.Equal(got, want) {
		t.Errorf("samples\n%q, want\n%q", got, want)
	}
	line := "space jit_f(5)/space0: 1.08 KiB (1,108 B) in use at its peak, instruction 3 of 9"
	if got := mustProfile(t, c, Options{}).Comments; !slices.Contains(got, line) {
		t.Errorf("comments %q, want %q", got, line)
	}
}

// TestStackBesideHeap: memory outside the heap is a sample with the level of the instant, and the samples sum
// to the peak.
func TestStackBesideHeap(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f.xplane.pb", Format: "xplane"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "tpu:3"})
	temp := b.Site(lifetime.Site{Op: "dot", Region: "temp", Shape: "[64]", DType: "float"})
	b.Report(s, 100, &lifetime.AllocatorEvent{Addr: 1 << 20, Requested: 250, Occupied: 256, Site: temp, Allocated: 1256, Stack: 4096, Peak: 9000})
	b.Report(s, 200, &lifetime.AllocatorEvent{Free: true, Addr: 1 << 20, Requested: -1, Occupied: -1, Allocated: 1000, Stack: 8192, Peak: 9000})
	other := b.Space()
	b.Describe(other, lifetime.SpaceInfo{Device: "tpu:4"})
	b.StackReserved(other, 120, 64)
	c := finish(t, b)
	for _, test := range []struct {
		o    Options
		want []string
	}{
		{Options{}, []string{
			"[before the recording]@:0 < tpu:3@:0 map[device:[tpu:3] memory_id:[tpu:3]] map[] [0 0 0 1000 0]",
			"[stack]@:0 < tpu:3@:0 map[device:[tpu:3] memory_id:[tpu:3]] map[] [0 0 0 8192 0]",
			"dot@:0 < tpu:3@:0 map[device:[tpu:3] dtype:[float] kind:[buffer] memory_id:[tpu:3] region:[temp] shape:[[64]]] map[bytes:[256] lifetime:[100]] [1 256 0 0 0]",
			"[stack]@:0 < tpu:4@:0 map[device:[tpu:4] memory_id:[tpu:4]] map[] [0 0 0 64 0]",
		}},
		{Options{At: Fixed, Time: 150}, []string{
			"[before the recording]@:0 < tpu:3@:0 map[device:[tpu:3] memory_id:[tpu:3]] map[] [0 0 0 1000 0]",
			"[stack]@:0 < tpu:3@:0 map[device:[tpu:3] memory_id:[tpu:3]] map[] [0 0 0 4096 0]",
			"dot@:0 < tpu:3@:0 map[device:[tpu:3] dtype:[float] kind:[buffer] memory_id:[tpu:3] region:[temp] shape:[[64]]] map[bytes:[256] lifetime:[100]] [1 256 1 256 0]",
		}},
	} {
		if got := samples(t, c, test.o); !slices.Equal(got, test.want) {
			t.Errorf("samples\n%q, want\n%q", got, test.want)
		}
	}
	for _, o := range []Options{{}, {At: End}} {
		want := c.Spaces[0].Peak(lifetime.Occupied).Bytes // the stack is highest at the end
		if got := sums(mustProfile(t, c, o), "tpu:3")[inuseSpace]; got != want {
			t.Errorf("%d bytes in use, want %d", got, want)
		}
	}
	if got := sums(mustProfile(t, c, Options{}), "tpu:4"); got != (values{inuseSpace: 64}) {
		t.Errorf("a space of nothing but a stack: %v", got)
	}
}
