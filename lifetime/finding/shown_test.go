package finding_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// TestGraphWithinFunctions: only a graph retains what a function of PyTorch does not return. The parameter is the number of buffers of each
// call that stay.
func TestGraphWithinFunctions(t *testing.T) {
	for stay, want := range map[int]finding.Cause{1: finding.Collection, 3: finding.LossGraph} {
		p := newProgram(9)
		p.steps = 60
		line := p.b.Frame(frame.Frame{Function: "layer_norm", File: "/site-packages/torch/nn/functional.py", Line: 9, Kind: frame.Framework})
		call := p.b.Frame(frame.Frame{Function: "evaluate", File: "train.py", Line: 7})
		f := only(t, findingsOf(t, p, finding.Settings{}, p.marked(func(int) {
			for k := range 3 {
				if x := p.allocAt(p.b.Site(lifetime.Site{Stack: p.b.Stack([]lifetime.FrameID{line, call})}), 1<<16); k >= stay {
					defer p.free(x)
				}
			}
		})), "leak")
		if f.Cause != want {
			t.Errorf("%d: %s %v", stay, f.Cause, f.Evidence)
		}
	}
}

// TestOlderOnes: live buffers of a leaking line that are older than the recording are named, but not those of other sizes.
func TestOlderOnes(t *testing.T) {
	for older, want := range map[int]string{3: "", 5: " were never freed; 5 older ones (20.0 KiB) are alive, too"} {
		h := newByHand()
		for k := range older + 1 {
			size := int64(4096)
			if k == older {
				size = 8 << 20 // a workspace
			}
			h.b.Live(h.s, build.Block{Addr: uint64(k+1) << 40, Requested: size, Occupied: size, Site: h.site("keep")})
		}
		for range 60 {
			h.step()
			h.free(h.alloc("work", 4096))
			h.alloc("keep", 4096)
		}
		_, found := h.find(t, "leak")
		if len(found) != 1 || strings.Contains(found[0].Description, "older") != (want != "") || !strings.Contains(found[0].Description, want) {
			t.Errorf("%d: %v", older, found)
		}
	}
}

// TestOneStep: what a single step retains does not grow from step to step, as the state that an optimizer makes in its first one.
func TestOneStep(t *testing.T) {
	for steps, want := range map[int]int{1: 0, 2: 1} {
		p := newProgram(9)
		p.steps, p.idle = steps, func(int) bool { return true }
		found := findingsOf(t, p, finding.Settings{}, p.marked(func(int) {
			for range 40 {
				p.free(p.alloc("work", 1<<20))
				p.alloc("moment", 1<<20)
			}
		}))["leak"]
		if len(found) != want {
			t.Errorf("%d steps: %v", steps, found)
		}
	}
}

// TestCacheOfSizes: a site that keeps one buffer for each size of another one is a cache, also while it still grows steadily.
func TestCacheOfSizes(t *testing.T) {
	p := newProgram(9)
	p.steps = 80
	f := only(t, findingsOf(t, p, finding.Settings{}, p.marked(func(step int) {
		again := step%4 == 1 // the size of the step before
		rows := int64(step)
		if again {
			rows--
		}
		p.free(p.alloc("input", (rows+1)<<10))
		if !again {
			p.alloc("mask", (rows+1)<<12)
		}
	})), "leak")
	if f.Cause != finding.UnboundedCache {
		t.Errorf("%s %v", f.Cause, f.Evidence)
	}
}

// TestOccupied: a leak and a buffer that grows have one measure, what they occupy: 4 bytes of each step take a block of 512.
func TestOccupied(t *testing.T) {
	const steps = 60
	h := newByHand()
	var last madeBlock
	for step := range steps {
		h.step()
		h.free(h.alloc("work", 900))
		h.allocPadded("leak", 4, 512)
		h.allocPadded("short", 4, 2<<20)
		next := h.allocPadded("log", int64(100*(step+1)), int64(100*(step+1)+511)/512*512)
		if last.size > 0 {
			h.free(last)
		}
		last = next
	}
	h.free(h.alloc("work", 900))
	c := h.capture(t, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock, Limit: 120<<20 + 30<<10 + 6<<10 + 60*512})
	want := map[string]string{
		"leak": "60 buffers (30.0 KiB) were never freed; it grows 512 B per step until the recording ends; it reaches the capacity of " +
			"120 MiB at about step 120",
		"short": "60 buffers (120 MiB) were never freed; it grows 2.00 MiB per step",
		"log":   "one buffer grew from 512 B to 6.00 KiB; it grows 102 B per step",
	}
	for _, f := range find(t, c, finding.Settings{}) {
		if name := c.FunctionName(f.Place()); want[name] != "" {
			if _, text, _ := strings.Cut(f.Description, ": "); !strings.HasPrefix(text, want[name]) {
				t.Errorf("%s: %s", name, text)
			}
			delete(want, name)
		}
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}
