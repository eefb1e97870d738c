package finding_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// TestBurstsAtLimits: at least two bursts of three buffers with half of the frees of a function, the oldest three steps old.
func TestBurstsAtLimits(t *testing.T) {
	for name, c := range map[string]struct {
		steps, every int // the retained buffers are freed every so many steps
		soon         int // buffers per step that are freed at once
		want         string
	}{
		"three":            {21, 3, 0, "3 of 30720, share 1"},
		"two":              {20, 2, 0, ""},
		"five":             {21, 5, 0, "5 of 51200, share 1"},
		"once":             {21, 15, 0, ""},
		"twice":            {21, 10, 0, "10 of 102400, share 1"},
		"half of them":     {21, 5, 1, "5 of 51200, share 0.5"},
		"a third of them":  {21, 5, 2, ""},
		"nothing is freed": {21, 100, 0, ""},
	} {
		h := newByHand()
		var left []madeBlock
		for step := range c.steps {
			h.step()
			h.free(h.alloc("work", 1<<12)) // between the frees of two steps
			if step > 0 && step%c.every == 0 {
				for _, x := range left {
					h.free(x)
				}
				left = nil
			}
			left = append(left, h.alloc("cycle", 10<<10))
			for range min(c.soon, step) {
				h.free(h.alloc("cycle", 10<<10))
			}
		}
		_, found := h.find(t, "delayed_free")
		var got string
		for _, f := range found {
			share := evidence(f, "share_in_bursts").(float64)
			got += fmt.Sprintf("%d of %d, share %.2g", f.Amount.Count, f.Amount.Bytes, share)
			if f.Confidence != 1 { // it was recorded
				t.Errorf("%s: confidence %v", name, f.Confidence)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestLateAdvice: the text has the age of the oldest buffer, and the advice depends on who frees. A value that the next one replaces is not
// freed late. The parameters are the steps between two frees, the places that free, and whether all buffers are of one step.
func TestLateAdvice(t *testing.T) {
	for name, c := range map[string]struct {
		every, places int
		oneStep       bool
		age, advice   string // "" = no finding
	}{
		"garbage":            {7, 4, false, "after 7 steps;", "Break reference cycles with del or weakref, or call gc.collect() more often."},
		"a list":             {7, 1, false, "after 7 steps;", "Freed by flush0 (sim.py:1): flush lists, break cycles."},
		"not known":          {7, 0, false, "after 7 steps;", "Break reference cycles with del or weakref; flush lists more often."},
		"a value":            {7, 1, true, "", ""},
		"a value, not known": {7, 0, true, "", ""},
	} {
		p := newProgram(5)
		p.steps = 60
		var left []*tensor
		all := findingsOf(t, p, finding.Settings{}, p.marked(func(step int) {
			old := left
			if c.oneStep && step%c.every == 0 {
				left = []*tensor{p.alloc("kept", 1<<20), p.alloc("kept", 1<<19), p.alloc("kept", 1<<20), p.alloc("kept", 1<<19)}
			}
			if step%c.every == 0 {
				by := ""
				if c.places > 0 {
					by = fmt.Sprint("flush", step/c.every%c.places)
				}
				p.freeIn(by, old...)
				if !c.oneStep {
					left = nil
				}
			}
			if !c.oneStep {
				left = append(left, p.alloc("kept", 1<<20))
			}
		}))
		found := all["delayed_free"]
		if c.age == "" {
			if len(found)+len(all["cache"])+len(all["leak"]) > 0 {
				t.Errorf("%s: %v", name, all)
			}
			continue
		}
		if len(found) != 1 || !strings.Contains(found[0].Description, c.age) || found[0].Suggestions[0] != c.advice {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// TestFrameworks: advice names only what the framework has.
func TestFrameworks(t *testing.T) {
	for producer, want := range map[string]string{"PyTorch": ", no_grad.", "XProf profiler on GPU": "shorter sequences."} {
		p := newProgram(3)
		p.b = build.New(build.Everything)
		p.b.Source(lifetime.Source{File: "simulated", Producer: producer})
		p.s = p.b.Space()
		p.steps = 60
		f := only(t, findingsOf(t, p, finding.Settings{}, p.marked(func(step int) {
			if step == 40 {
				p.free(p.alloc("evaluate", 200<<20))
			}
		})), "spike")
		if !strings.HasSuffix(f.Suggestions[0], want) {
			t.Errorf("%s: %s", producer, f.Suggestions[0])
		}
	}
}

// TestStoredGradients: where zero_grad frees gradients, memlane does not advise to call it.
func TestStoredGradients(t *testing.T) {
	for _, clears := range []bool{false, true} {
		p := newProgram(9)
		p.steps = 60
		f := only(t, findingsOf(t, p, finding.Settings{}, p.marked(func(int) {
			p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: "MulBackward0", Kind: frame.Node})}
			p.alloc("kept", 1<<20)
			freed := p.alloc("freed", 1<<20)
			p.frames = nil
			if clears {
				zero := p.b.Frame(frame.Frame{Function: "zero_grad", File: "/site-packages/torch/optim/optimizer.py", Kind: frame.Framework})
				p.t++
				p.b.Free(p.s, p.t, build.Block{Addr: freed.addr, Requested: freed.size, Occupied: freed.size,
					Site: p.b.Site(lifetime.Site{Stack: p.b.Stack([]lifetime.FrameID{zero})})})
				delete(p.live, freed.addr)
				return
			}
			p.free(freed)
		})), "leak")
		if is := f.Suggestions[0] == finding.Gradients.Advice(); f.Cause != finding.Gradients || is == clears {
			t.Errorf("%v: %s, %s", clears, f.Cause, f.Suggestions[0])
		}
	}
}

// TestGrowingByHand: a larger buffer replaces the previous one in every step, and similar patterns without a leak.
func TestGrowingByHand(t *testing.T) {
	for name, c := range map[string]struct {
		size  func(step int) int64
		grows bool
	}{
		"each step":          {func(step int) int64 { return int64(1+step) << 10 }, true},
		"every third step":   {func(step int) int64 { return int64(1+step/3) << 10 }, false}, // the other steps replace it by one of equal size
		"lengths that vary":  {func(step int) int64 { return int64(1+step*37%60) << 10 }, false},
		"it stays as it is":  {func(step int) int64 { return 40 << 10 }, false},
		"it stops half way":  {func(step int) int64 { return int64(1+min(step, 30)) << 10 }, false},
		"it begins half way": {func(step int) int64 { return int64(1+max(step-30, 0)) << 10 }, false},
		"it falls back":      {func(step int) int64 { return int64(1+step%30) << 10 }, false},
		"it hardly grows":    {func(step int) int64 { return 1<<20 + int64(step)<<9 }, false},
		"most of it at last": {func(step int) int64 { return int64(1+step*step) << 8 }, false},
	} {
		h := newByHand()
		old := h.alloc("hist", 1<<9)
		for step := range 60 {
			h.step()
			next := h.alloc("hist", c.size(step))
			h.free(old)
			old = next
			h.free(h.alloc("work", 1<<12))
		}
		_, found := h.find(t, "growing_buffer")
		if len(found) > 0 != c.grows {
			t.Errorf("%s: %d findings", name, len(found))
			continue
		}
		if !c.grows {
			continue
		}
		f, last := found[0], c.size(59)
		if f.Severity != finding.Warning || f.Basis != (finding.Basis{Rule: "growing_buffer", Evidence: "any"}) || evidence(f,
			"first_bytes") != float64(1<<9) || evidence(f, "last_bytes") != float64(last) ||
			f.Amount.Count != 1 || f.Amount.Bytes != last || f.BytesPerStep != float64(last)/60 {
			t.Errorf("%s: %s %v %v, %v bytes a step, %v", name, f.Severity, f.Confidence, f.Amount, f.BytesPerStep, f.Evidence)
		}
	}
}
