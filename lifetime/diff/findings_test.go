package diff_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
)

// leaky is an operation that keeps a buffer in every step, called at a line of function step.
type leaky struct {
	op    string
	line  int
	bytes int64
	freed bool // mended: the program frees it in the same step
}

// leakyCapture returns a training program of some steps with leaks.
func leakyCapture(t *testing.T, format string, steps int, all ...leaky) *judge.Capture {
	t.Helper()
	b := build.New(build.Everything)
	b.Source(lifetime.Source{Format: format})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock | lifetime.History})
	site := func(op, function string, line int) lifetime.SiteID {
		return b.Site(lifetime.Site{Op: op, Stack: b.Stack([]lifetime.FrameID{b.Frame(frame.Frame{Function: function, File: "/x/train.py", Line: line, Kind: frame.User})})})
	}
	now, next := int64(0), uint64(1)<<40
	for i := range int64(steps) {
		begin := now
		for range 8 {
			now++
			block := build.Block{Addr: 1 << 20, Requested: 1 << 20, Occupied: 1 << 20, Site: site("aten::relu", "forward", 3)}
			b.Alloc(s, now, block)
			now++
			b.Free(s, now, block)
		}
		for _, l := range all {
			now++
			next += 1 << 30
			block := build.Block{Addr: next, Requested: l.bytes, Occupied: l.bytes, Site: site(l.op, "step", l.line)}
			b.Alloc(s, now, block)
			if l.freed {
				now++
				b.Free(s, now, block)
			}
		}
		now++
		b.Mark(s, lifetime.Mark{Begin: begin, End: now, Kind: lifetime.Step, Text: "step " + string(rune('a'+i%26))})
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return judge.Of(c)
}

// TestLeaksByOperation: a leak is the same if its call site and its operation are, where both are known. One that was small and has grown
// counts as new.
func TestLeaksByOperation(t *testing.T) {
	const trace, snapshot = "chrome-trace", "torch-snapshot"
	type side struct {
		format string
		steps  int
		all    []leaky
	}
	loss, kept := leaky{op: "aten::mean", line: 12, bytes: 4}, leaky{op: "aten::addmm", line: 12, bytes: 1 << 19}
	of := func(steps int, all ...leaky) side { return side{trace, steps, all} }
	for _, c := range []struct {
		what          string
		before, after side
		leaks         int
		verdict       string
	}{
		{"another operation", of(60, loss), of(60, kept), 1, "leak in step (train.py:12) fixed; new leak in step (train.py:12)"},
		{"one more operation", of(60, kept), of(60, leaky{op: "aten::relu", line: 12, bytes: 1 << 18}, kept), 1, "leak in step (train.py:12) grew"},
		{"the same", of(60, kept), of(60, kept), 0, "step (train.py:12) still leaks"},
		{"moved code", of(60, kept, leaky{op: "aten::relu", line: 13, bytes: 1 << 18}), of(60, leaky{op: "aten::addmm", line: 22, bytes: 1 << 19}, leaky{op: "aten::relu", line: 23, bytes: 1 << 18}), 0, "step (train.py:22) still leaks; step (train.py:23) still leaks"},
		{"it has grown", of(60, leaky{op: "aten::addmm", line: 12, bytes: 4}), of(60, kept), 1, "leak in step (train.py:12) grew"},
		{"it is recorded longer", of(60, leaky{op: "aten::addmm", line: 12, bytes: 500}), of(90, leaky{op: "aten::addmm", line: 12, bytes: 500}), 0, "step (train.py:12) still leaks"},
		{"a format without operations", side{snapshot, 60, []leaky{{op: "", line: 12, bytes: 1 << 19}}}, of(60, kept), 0, "step (train.py:12) still leaks"},
		{"a format with other names", side{snapshot, 60, []leaky{{op: "addmm", line: 12, bytes: 1 << 19}}}, of(60, kept), 0, "step (train.py:12) still leaks"},
	} {
		d := diff.Compare(judge.Of(leakyCapture(t, c.before.format, c.before.steps, c.before.all...).Capture), judge.Of(leakyCapture(t, c.after.format, c.after.steps, c.after.all...).Capture))
		parts := slices.DeleteFunc(strings.Split(d.Verdict(), "; "), func(part string) bool { return !strings.Contains(part, "leak") })
		if got := strings.Join(parts, "; "); got != c.verdict || d.Leaks(finding.Warning) != c.leaks {
			t.Errorf("%s: %q with %d new leaks, want %q with %d", c.what, d.Verdict(), d.Leaks(finding.Warning), c.verdict, c.leaks)
		}
	}
}

// TestMendedLeaks mends some of the leaks of a function and moves all of its lines: what was mended is fixed, what was not still leaks, and each
// is in one list.
func TestMendedLeaks(t *testing.T) {
	sizes := []int64{1 << 19, 1 << 18, 1 << 17}
	for mended := range 1 << len(sizes) {
		for _, moved := range []int{0, 1, 10} {
			var before, after []leaky
			var fixed, still []int
			for i, size := range sizes {
				line := 12 + i
				before = append(before, leaky{line: line, bytes: size})
				after = append(after, leaky{line: line + moved, bytes: size, freed: mended>>i&1 > 0})
				if mended>>i&1 > 0 {
					fixed = append(fixed, line)
				} else {
					still = append(still, line+moved)
				}
			}
			was, is := leakyCapture(t, "torch-snapshot", 60, before...), leakyCapture(t, "torch-snapshot", 60, after...)
			d := diff.Compare(was, is)
			lines := func(changes []diff.Change) (all []int) {
				for _, c := range changes {
					f, of := c.After, is
					if f == nil {
						f, of = c.Before, was
					}
					if f.IsLeak() {
						all = append(all, of.PlaceOf(f.Place()).Frame.Line)
					}
				}
				return all
			}
			if !slices.Equal(lines(d.Fixed), fixed) || !slices.Equal(lines(d.Still), still) || len(lines(d.New)) > 0 {
				t.Errorf("mended %03b, moved by %d: fixed %v, still %v, new %v", mended, moved, lines(d.Fixed), lines(d.Still), lines(d.New))
			}
		}
	}
}
