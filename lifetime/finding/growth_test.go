package finding_test

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
)

// retains says what a program retains: sizes before its loop, in its first step, and in each step.
type retains struct {
	before, first []int64
	step          func(i int) []int64
	stacks, twice bool // it has stacks; it runs twice
}

// capture returns 80 steps of a program that retains all by one line.
func (k *retains) capture(t *testing.T) *judge.Capture {
	t.Helper()
	b := build.New(build.Everything)
	b.Source(lifetime.Source{Format: "torch-snapshot", Producer: "PyTorch 2.8"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock | lifetime.History})
	now, next := int64(0), uint64(1)<<40
	site := func(line int) lifetime.SiteID {
		if !k.stacks {
			return b.Site(lifetime.Site{})
		}
		return b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{b.Frame(frame.Frame{Function: "f", File: "/x/train.py", Line: line, Kind: frame.User})})})
	}
	alloc := func(sizes []int64, line int) {
		for _, size := range sizes {
			now, next = now+1, next+1<<30
			b.Alloc(s, now, build.Block{Addr: next, Requested: size, Occupied: size, Site: site(line)})
		}
	}
	runs := 1
	if k.twice {
		runs = 2
	}
	for range runs {
		alloc(k.before, 5)
		for i := range 80 {
			begin := now
			for range 8 {
				block := build.Block{Addr: 1 << 20, Requested: 3000, Occupied: 3072, Site: site(9)}
				b.Alloc(s, now+1, block)
				now += 2
				b.Free(s, now, block)
			}
			if i == 0 {
				alloc(k.first, 5)
			}
			alloc(k.step(i), 5)
			now++
			b.Mark(s, lifetime.Mark{Begin: begin, End: now, Kind: lifetime.Step, Text: "step"})
		}
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return judge.New(c, finding.Settings{})
}

// TestGrowth: what a program makes once, before its loop or in its first step, is no growth, and keeps its category. What each step retains is
// counted whole, whatever its sizes are.
func TestGrowth(t *testing.T) {
	weights, workspace := []int64{50176, 448, 448, 512, 100352, 1024}, []int64{8519680}
	second := func(i int) []int64 { return []int64{26880}[:(i+1)%2] }
	varied := func(i int) []int64 { return []int64{20000 + 1536*int64(i*37%80)} }
	longer := func(i int) []int64 { return []int64{4096 * int64(i+1)} }
	for _, c := range []struct {
		what string
		retains
		count, bytes int64
	}{
		{"weights and a workspace, no stacks", retains{weights, workspace, second, false, false}, 40, 40 * 26880},
		{"weights and a workspace at the same line", retains{weights, workspace, second, true, false}, 40, 40 * 26880},
		{"all sizes differ", retains{nil, workspace, varied, true, false}, 80, 80*20000 + 1536*79*80/2},
		{"each is longer", retains{nil, nil, longer, true, false}, 80, 4096 * 80 * 81 / 2},
		{"the first is the largest", retains{nil, nil, func(i int) []int64 { return longer(79 - i) }, true, false}, 80, 4096 * 80 * 81 / 2},
		{"two a step", retains{weights, nil, func(i int) []int64 { return []int64{7168, 8192} }, true, false}, 160, 80 * (7168 + 8192)},
		{"run twice", retains{nil, workspace, second, true, true}, 80, 80 * 26880},
	} {
		j := c.capture(t)
		found := j.Findings()
		if len(found) == 0 || !found[0].IsLeak() {
			t.Errorf("%s: %v", c.what, found)
			continue
		}
		f, steps := &found[0], int64(80)
		if c.twice {
			steps = 160
		}
		if f.Amount.Count != c.count || f.Amount.Bytes != c.bytes || f.BytesPerStep != float64(c.bytes)/float64(steps) {
			t.Errorf("%s: %d buffers, %d B, %.0f B a step, want %d, %d, %.0f", c.what, f.Amount.Count, f.Amount.Bytes, f.BytesPerStep,
				c.count, c.bytes, float64(c.bytes)/float64(steps))
		}
		leaked := int64(0)
		for i := range f.Space.Buffers {
			if j.Purpose(f.Space.PurposeOf(i)).Name() == "leaked" {
				leaked++
			}
		}
		if leaked != c.count {
			t.Errorf("%s: %d buffers are marked as leaked, want %d", c.what, leaked, c.count)
		}
	}
}
