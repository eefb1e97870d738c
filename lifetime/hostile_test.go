package lifetime

import (
	"math"
	"testing"
)

// lost returns how often a reason was met.
func lost(c *Capture, r Reason) int64 {
	for _, l := range c.Losses {
		if l.Reason == r {
			return l.Count
		}
	}
	return 0
}

func finished(t *testing.T, b *Builder) *Capture {
	t.Helper()
	b.Source(Source{})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	return c
}

// TestMaxSpaces: spaces beyond the most are counted and take nothing, also when the
// reader starts over.
func TestMaxSpaces(t *testing.T) {
	for _, peakAndEnd := range []bool{false, true} {
		b := NewBuilder()
		if peakAndEnd {
			b.KeepPeakAndEnd()
		}
		for round := range 2 {
			var refs []SpaceRef
			for i := range MaxSpaces + 7 {
				ref := b.Space()
				refs = append(refs, ref)
				b.ReportsInOrder(ref)
				b.Report(ref, int64(i), &Report{Addr: 1, Occupied: 512, Requested: 512, Allocated: 512, Stack: -1})
				b.Describe(ref, Space{Facts: Clock})
			}
			if len(b.spaces) > 2*MaxSpaces+1 {
				t.Errorf("%d logs", len(b.spaces))
			}
			if b.Unsure(refs[0]) || b.Unsure(refs[len(refs)-1]) {
				t.Error("unsure")
			}
			if round == 0 {
				for _, ref := range refs {
					b.Forget(ref)
				}
			}
		}
		c := finished(t, b)
		if len(c.Spaces) != MaxSpaces || lost(c, TooManySpaces) != 7 {
			t.Errorf("%d spaces, %v", len(c.Spaces), c.Losses)
		}
	}
}

// TestOverflow: sums end at the highest int64, and it is said.
func TestOverflow(t *testing.T) {
	const huge = math.MaxInt64/2 + 5
	for name, fill := range map[string]func(b *Builder, s SpaceRef, size int64){
		"events": func(b *Builder, s SpaceRef, size int64) {
			b.Alloc(s, 1, 0x100, size, size, 0)
			b.Alloc(s, 2, 1<<63, size, size, 0)
		},
		"blocks": func(b *Builder, s SpaceRef, size int64) {
			b.Live(s, LiveBlock{Addr: 0x100, Requested: size, Occupied: size})
			b.Live(s, LiveBlock{Addr: 1 << 63, Requested: size, Occupied: size})
		},
		"regions": func(b *Builder, s SpaceRef, size int64) {
			b.LiveRegion(s, Region{Addr: 0x100, Size: size})
			b.LiveRegion(s, Region{Addr: 1 << 63, Size: size})
		},
		"deltas": func(b *Builder, s SpaceRef, size int64) {
			b.Delta(s, 1, -size)
			b.Delta(s, 2, -size)
			b.Delta(s, 3, math.MinInt64)
		},
	} {
		for size, want := range map[int64]int64{huge: 1, 1 << 40: 0} {
			b := NewBuilder()
			s := b.Space()
			b.Describe(s, Space{Facts: Clock | EndState})
			if name == "deltas" && want == 0 {
				continue
			}
			fill(b, s, size)
			c := finished(t, b)
			if lost(c, Overflow) != want {
				t.Errorf("%s of %d: %v", name, size, c.Losses)
			}
			if peak := c.Spaces[0].Peak(Occupied).Bytes; peak < 0 {
				t.Errorf("%s of %d: peak %d", name, size, peak)
			}
		}
	}
}
