package finding_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
)

// wholeRun ends the descriptions of buffers that are not temporary.
const wholeRun = ", in use for the whole run of the program"

const kib, mib, gib = int64(1) << 10, int64(1) << 20, int64(1) << 30

// plan builds a compiled program of ten instructions.
type plan struct {
	b    *build.Builder
	s    build.SpaceRef
	addr uint64
	next int64 // ID of the next value
}

func newPlan(b *build.Builder, module, memory string) *plan {
	p := &plan{b: b, s: b.Space(), next: 1}
	b.Describe(p.s, lifetime.SpaceInfo{
		Module: module, Memory: memory, Axis: lifetime.ProgramOrder, Begin: -1, End: 10, Facts: lifetime.Addresses | lifetime.Regions,
	})
	return p
}

// whole adds a buffer that lives for the whole program, in a separate allocation.
func (p *plan) whole(kind lifetime.Kind, uses compiled.Uses, op string, size, requested int64) {
	site := p.b.Site(lifetime.Site{Op: op, Shape: "f32[8,128]{1,0}", DType: "f32", Instr: fmt.Sprint("i.", p.next)})
	p.b.Region(p.s, lifetime.Region{Begin: -1, End: 10, Addr: p.addr, Size: size, Edge: lifetime.EndOpen, Uses: uses})
	p.add(lifetime.Buffer{Begin: -1, End: 10, Addr: p.addr, Size: size, Requested: requested, Site: site, Edge: lifetime.EndOpen,
		Kind: kind})
	p.addr += uint64(size)
}

// temp adds a temporary of a layer that is alive from begin to end.
func (p *plan) temp(begin, end int64, layer int, size, requested int64) {
	line := p.b.Frame(frame.Frame{Function: "dot_general", File: "/home/me/net.py", Line: 7, Kind: frame.Scope})
	scope := p.b.Frame(frame.Frame{Function: fmt.Sprint("layer_", layer), Kind: frame.Scope})
	site := p.b.Site(lifetime.Site{
		Op: fmt.Sprintf("layer_%d/dot_general", layer), Shape: "f32[65536,3]{1,0:T(8,128)}", DType: "f32", Instr: fmt.Sprint("fusion.", p.next),
		Stack: p.b.Stack([]lifetime.FrameID{line, scope}),
	})
	p.add(lifetime.Buffer{Begin: begin, End: end, Addr: p.addr, Size: size, Requested: requested, Site: site, Kind: lifetime.Temporary})
	p.addr += uint64(size)
}

func (p *plan) add(buf lifetime.Buffer) {
	id := p.next
	p.b.Interval(p.s, build.Interval{Buffer: buf, ValueID: &id})
	p.b.Value(p.s, lifetime.Value{ID: p.next, Root: p.next, Begin: buf.Begin, End: buf.End, Size: buf.Size, Requested: buf.Requested,
		Site: buf.Site})
	p.next++
}

// findings runs the rules and returns the findings as text.
func findings(t *testing.T, b *build.Builder) (*lifetime.Capture, []string) {
	t.Helper()
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range find(t, c, finding.Settings{}) {
		if f.Confidence <= 0 || f.Description == "" || len(f.Suggestions) == 0 || len(f.Sites) == 0 {
			t.Errorf("incomplete: %+v", f)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s", f.Severity, f.Rule, f.Space.ID(), f.Description))
	}
	return c, got
}

func newCapture() *build.Builder {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f.hlo.pb", Format: "hlo"})
	return b
}

func TestWholeProgram(t *testing.T) {
	b := newCapture()
	p := newPlan(b, "jit_step(5)", "space0")
	p.whole(lifetime.Parameter, compiled.ForParameter, "params['w']", 3*gib, 3*gib)
	p.whole(lifetime.Parameter, compiled.ForParameter|compiled.ForOutput, "state", gib, gib)
	p.whole(lifetime.Output, compiled.ForOutput, "", 100*mib, 100*mib) // less than a twentieth
	p.whole(lifetime.Constant, compiled.ForConstant, "table", 512*mib, 512*mib)
	p.temp(2, 4, 0, gib, gib)
	// Twelve weights of 30 MiB: each is small, but together they are large.
	for i := range 12 {
		p.whole(lifetime.Parameter, compiled.ForParameter, fmt.Sprint("bias_", i), 30*mib, 30*mib)
	}
	small := newPlan(b, "jit_iota(6)", "space0") // less than a tenth of the other's peak
	small.whole(lifetime.Output, compiled.ForOutput, "iota", 64*mib, 64*mib)
	other := newPlan(b, "jit_iota(6)", "space1") // another memory
	other.whole(lifetime.Output, compiled.ForOutput, "iota", 64*mib, 64*mib)
	tiny := newPlan(b, "jit_iota(6)", "space2")
	tiny.whole(lifetime.Output, compiled.ForOutput, "iota", 8*kib, 8*kib)
	c, got := findings(t, b)
	want := []string{
		"warning whole_program jit_step(5)/space0 input params['w'] f32[8,128]{1,0}: 3.00 GiB" + wholeRun,
		"info whole_program jit_step(5)/space0 input state f32[8,128]{1,0}: 1.00 GiB" + wholeRun,
		"info whole_program jit_step(5)/space0 constant table f32[8,128]{1,0}: 512 MiB" + wholeRun,
		"info whole_program jit_step(5)/space0 13 further inputs, outputs and constants (largest: output i.3 f32[8,128]{1,0}): 460 MiB" +
			wholeRun,
		"info whole_program jit_iota(6)/space1 output iota f32[8,128]{1,0}: 64.0 MiB" + wholeRun,
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// Memory that an output already shares cannot be donated, and a program without arguments has nothing to donate.
	all := find(t, c, finding.Settings{})
	for i, donate := range []bool{true, false, false, false, false} {
		if got := strings.Contains(strings.Join(all[i].Suggestions, " "), "donate_argnums"); got != donate {
			t.Errorf("%s: suggests %q", all[i].Description, all[i].Suggestions)
		}
	}
	if n := len(all[3].Sites); n != 13 || all[3].Amount.Count != 13 {
		t.Errorf("the rest has %d sites and %+v", n, all[3].Amount)
	}
	// If a program is examined alone, its own peak counts.
	for _, s := range c.Spaces {
		if s.Module == "jit_iota(6)" && s.Memory == "space0" && len(finding.Find(judge.Of(c), []*lifetime.Space{s}, finding.Settings{})) != 1 {
			t.Error("nothing is found in a small program alone")
		}
	}
}

// TestManyWhole: many large buffers give few findings.
func TestManyWhole(t *testing.T) {
	b := newCapture()
	p := newPlan(b, "jit_step(5)", "space0")
	for i := range 15 {
		p.whole(lifetime.Parameter, compiled.ForParameter, fmt.Sprint("w", i), gib, gib)
	}
	c, got := findings(t, b)
	if of := fmt.Sprint(find(t, c, finding.Settings{})[0].Suggestions); strings.Contains(of, "donate") {
		t.Errorf("no output has the shape of an argument: %s", of)
	}
	if len(got) != 6 || !strings.Contains(got[0], "10 further inputs") { // most bytes first
		t.Errorf("found\n%s", strings.Join(got, "\n"))
	}
}

func TestPadding(t *testing.T) {
	b := newCapture()
	p := newPlan(b, "jit_step(5)", "space0")
	p.whole(lifetime.Parameter, compiled.ForParameter, "exact", 100*mib, 100*mib)
	p.whole(lifetime.Parameter, compiled.ForParameter, "rounded", 100*mib, 96*mib) // 4 MiB, but a small part of it
	p.whole(lifetime.Parameter, compiled.ForParameter, "thin", 3*mib, mib)
	p.whole(lifetime.Parameter, compiled.ForParameter, "tiny", 64*kib, 8*kib) // little of the whole
	for layer := range 3 {
		p.temp(2, 8, layer, 32*mib, 768*kib)
	}
	p.temp(0, 1, 9, 90*mib, 1)                    // not at the peak
	p.temp(3, 7, 4, 50*mib, 50*mib)               // without padding
	vmem := newPlan(b, "jit_step(5)", "space1")   // a small memory
	vmem.temp(1, 2, 0, 200*kib, 100*kib)          // half of it
	smem := newPlan(b, "jit_step(5)", "space2")   // scalars
	smem.whole(lifetime.Constant, 0, "s", 512, 4) //
	_, got := findings(t, b)
	got = slices.DeleteFunc(got, func(s string) bool { return !strings.Contains(s, " padding ") })
	want := []string{
		"warning padding jit_step(5)/space0 " +
			"3 buffers dot_general (net.py:7) f32[65536,3]{1,0:T(8,128)}: 93.8 MiB of 96.0 MiB are padding at the peak",
		"info padding jit_step(5)/space0 " +
			"input thin f32[8,128]{1,0}: 2.00 MiB of 3.00 MiB are padding at the peak; 4.05 MiB more in 2 other buffers",
		"info padding jit_step(5)/space1 " +
			"buffer dot_general (net.py:7) f32[65536,3]{1,0:T(8,128)}: 100 KiB of 200 KiB are padding at the peak",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestTooLargeNames: buffers without scope and operation are named after their instruction, and the advice also applies to a
// program on several devices.
func TestTooLargeNames(t *testing.T) {
	b := newCapture()
	p := newPlan(b, "big", "")
	p.whole(lifetime.Temporary, 0, "", 3*gib, 3*gib)
	p.whole(lifetime.Temporary, 0, "", 2*gib, 2*gib)
	p.whole(lifetime.Parameter, 0, "weights", 1*gib, 1*gib)
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	f := find(t, c, finding.Settings{Limit: gib})[0]
	if want := "larger than device: it is larger than the memory, so freeing does not help; " +
		"largest: i.1 f32[8,128]{1,0} 3.00 GiB"; f.Rule != "oom" || !strings.HasSuffix(f.Description, want) {
		t.Errorf("%s: %s", f.Rule, f.Description)
	}
	if want := "Compute i.1 f32[8,128] in blocks and keep only a reduction: it alone is 3.00 GiB. " +
		"Or shard it over at least 6 times as many devices."; f.Suggestions[0] != want {
		t.Errorf("suggests %q, want %q", f.Suggestions[0], want)
	}
}

// TestSpreadPadding: padding that is small in every buffer is one finding.
func TestSpreadPadding(t *testing.T) {
	b := newCapture()
	p := newPlan(b, "jit_step(5)", "space0")
	for i := range 300 {
		p.whole(lifetime.Constant, compiled.ForConstant, fmt.Sprint("c", i), 8*kib, 4*kib)
	}
	_, got := findings(t, b)
	want := "warning padding jit_step(5)/space0 300 buffers (largest padding: constant c0 f32[8,128]{1,0}): " +
		"1.17 MiB of 2.34 MiB are padding at the peak"
	if len(got) != 2 || got[0] != want && got[1] != want {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// TestRulesBySpace: the rules about leaks apply to runs, other rules apply to compiled programs.
func TestRulesBySpace(t *testing.T) {
	for _, axis := range []lifetime.Axis{lifetime.Time, lifetime.ProgramOrder} {
		b := newCapture()
		s := b.Space()
		b.Describe(s, lifetime.SpaceInfo{Device: "x", Axis: axis})
		site, scratch := b.Site(lifetime.Site{Op: "Relu", Shape: "[64,256]"}), b.Site(lifetime.Site{Op: "Mul"})
		for i := range int64(60) {
			b.Alloc(s, 10*i, build.Block{Addr: uint64(i+1) << 20, Requested: 65000, Occupied: 65536, Site: site})
			b.Alloc(s, 10*i+1, build.Block{Addr: 1 << 40, Requested: 4096, Occupied: 4096, Site: scratch})
			b.Free(s, 10*i+2, build.Block{Addr: 1 << 40, Requested: 4096, Occupied: 4096})
		}
		_, got := findings(t, b)
		if axis == lifetime.Time && (len(got) != 1 || !strings.HasPrefix(got[0], "warning leak x Relu: 60 buffers (3.75 MiB) were never freed")) {
			t.Errorf("what ran: %q", got)
		}
		for _, f := range got {
			if axis == lifetime.ProgramOrder && strings.Contains(f, " leak ") {
				t.Errorf("what was compiled: %q", got)
			}
		}
	}
}

// TestDamagedProgram: a program may be empty or have the largest possible sizes.
func TestDamagedProgram(t *testing.T) {
	b := newCapture()
	p := newPlan(b, "m", "space0")
	p.b.Interval(p.s, build.Interval{Buffer: lifetime.Buffer{Begin: -1, End: 10, Size: 1<<63 - 1, Edge: lifetime.EndOpen,
		Kind: lifetime.Output}})
	p.b.Interval(p.s, build.Interval{Buffer: lifetime.Buffer{Begin: -1, End: 10, Requested: 1<<63 - 1, Edge: lifetime.EndOpen,
		Kind: lifetime.Output}})
	newPlan(b, "empty", "space0")
	if _, got := findings(t, b); len(got) == 0 {
		t.Error("nothing is found")
	}
}
