package build

import (
	"math"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// lost returns the count of a reason.
func lost(c *lifetime.Tables, r loss.Reason) int64 {
	for _, l := range c.Losses {
		if l.Reason == r {
			return l.Count
		}
	}
	return 0
}

func finished(t *testing.T, b *Builder) *lifetime.Capture {
	t.Helper()
	b.Source(lifetime.Source{})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	return c
}

// TestMaxSpaces: spaces beyond MaxSpaces are counted and take no memory, also after
// StartOver.
func TestMaxSpaces(t *testing.T) {
	for _, keep := range []Keep{Everything, PeakAndEnd} {
		b := New(keep)
		for round := range 2 {
			var refs []SpaceRef
			for i := range MaxSpaces + 7 {
				ref := b.Space()
				refs = append(refs, ref)
				b.ReportsInOrder(ref)
				b.Report(ref, int64(i), &lifetime.AllocatorEvent{Addr: 1, Occupied: 512, Requested: 512, Allocated: 512, Stack: -1})
				b.Describe(ref, lifetime.SpaceInfo{Facts: lifetime.Clock})
			}
			if len(b.spaces) > 2*MaxSpaces+1 {
				t.Errorf("%d logs", len(b.spaces))
			}
			if b.StartOver(refs...) {
				t.Error("it should be sure")
			}
			if round == 0 {
				for _, ref := range refs {
					b.Forget(ref)
				}
			}
		}
		b.Source(lifetime.Source{})
		o, err := b.FinishOutline()
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Spaces) != MaxSpaces || lost(&o.Tables, loss.TooManySpaces) != 7 {
			t.Errorf("%d spaces, %v", len(o.Spaces), o.Losses)
		}
	}
}

// TestOverflow: sums saturate at the highest int64 and count as a loss.
func TestOverflow(t *testing.T) {
	const huge = math.MaxInt64/2 + 5
	for name, fill := range map[string]func(b *Builder, s SpaceRef, size int64){
		"events": func(b *Builder, s SpaceRef, size int64) {
			b.Alloc(s, 1, Block{Addr: 0x100, Requested: size, Occupied: size})
			b.Alloc(s, 2, Block{Addr: 1 << 63, Requested: size, Occupied: size})
		},
		"blocks": func(b *Builder, s SpaceRef, size int64) {
			b.Live(s, Block{Addr: 0x100, Requested: size, Occupied: size})
			b.Live(s, Block{Addr: 1 << 63, Requested: size, Occupied: size})
		},
		"regions": func(b *Builder, s SpaceRef, size int64) {
			b.LiveRegion(s, lifetime.Region{Addr: 0x100, Size: size})
			b.LiveRegion(s, lifetime.Region{Addr: 1 << 63, Size: size})
		},
		"deltas": func(b *Builder, s SpaceRef, size int64) {
			b.Delta(s, 1, -size)
			b.Delta(s, 2, -size)
			b.Delta(s, 3, math.MinInt64)
		},
	} {
		for size, want := range map[int64]int64{huge: 1, 1 << 40: 0} {
			b := New(Everything)
			s := b.Space()
			b.Describe(s, lifetime.SpaceInfo{Facts: lifetime.Clock | lifetime.EndState})
			if name == "deltas" && want == 0 {
				continue
			}
			fill(b, s, size)
			c := finished(t, b)
			if lost(&c.Tables, loss.Overflow) != want {
				t.Errorf("%s of %d: %v", name, size, c.Losses)
			}
			if peak := c.Spaces[0].Peak(lifetime.Occupied).Bytes; peak < 0 {
				t.Errorf("%s of %d: peak %d", name, size, peak)
			}
		}
	}
}
