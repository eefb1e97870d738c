package laws

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/lifetime/selection"
)

// instants draws instants of a space's window, with both ends and the peak.
func instants(t *rapid.T, s *lifetime.Space) []int64 {
	at := rapid.SliceOfN(rapid.Int64Range(s.Begin, s.AtEnd()), 1, 5).Draw(t, "at")
	return append(at, s.Begin, s.AtEnd(), s.Peak(lifetime.Occupied).At)
}

// TestBreakdown: the rows sum to the level, and no level is above the peak.
func TestBreakdown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCapture(t, usual)
		for _, s := range c.Spaces {
			peak := s.Peak(lifetime.Occupied)
			for _, at := range instants(t, s) {
				sum := int64(0)
				for _, row := range s.Breakdown(at) {
					sum += row.Bytes
				}
				level := s.LevelAt(at, lifetime.Occupied)
				if level != sum {
					t.Fatalf("%s: level %d at %d, but the rows sum to %d", s.ID(), level, at, sum)
				}
				if level > peak.Bytes || level == peak.Bytes && at < peak.At {
					t.Fatalf("%s: level %d at %d, but the peak is %v", s.ID(), level, at, peak)
				}
			}
			if got := s.LevelAt(peak.At, lifetime.Occupied); got != peak.Bytes {
				t.Fatalf("%s: level %d at the peak %v", s.ID(), got, peak)
			}
		}
	})
}

// TestPools: at each instant, the pools sum to the live buffers, to the reserved bytes and to the holes. A buffer that
// was allocated in the window belongs to the pool of a region that was reserved when it began.
func TestPools(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, s := range anyCapture(t, usual).Spaces {
			for _, at := range instants(t, s) {
				var sum, want region.PoolUse
				for _, u := range region.PoolsAt(s, at) {
					sum.Live, sum.Reserved, sum.Free.Total = sum.Live+u.Live, sum.Reserved+u.Reserved, sum.Free.Total+u.Free.Total
					sum.Free.Largest = max(sum.Free.Largest, u.Free.Largest)
					if u.Free.Total > u.Reserved || u.Free.Largest > u.Free.Total {
						t.Fatalf("%s: %+v at %d", s.ID(), u, at)
					}
				}
				for _, i := range s.LiveAt(at) {
					want.Live += s.Buffers[i].Size
				}
				for _, r := range s.Regions {
					if r.Begin <= at && (at < r.End || r.Edge&lifetime.EndOpen != 0) {
						want.Reserved += r.Size
					}
				}
				want.Free = region.FreeAt(s, at)
				if want.Free.At = 0; sum != want {
					t.Fatalf("%s: the pools sum to %+v at %d, want %+v", s.ID(), sum, at, want)
				}
			}
			pool := region.PoolsOfBuffers(s)
			for i := range s.Buffers {
				if b := &s.Buffers[i]; b.Edge&lifetime.BeginUnseen == 0 && !slices.Contains(poolsOver(s, b), pool(i)) {
					t.Fatalf("%s: buffer %d at %#x belongs to %+v, not to one of %+v", s.ID(), i, b.Addr, pool(i), poolsOver(s, b))
				}
			}
		}
	})
}

// TestMoments: a space with only what is alive at an instant has the same level, reserved memory and pools there.
func TestMoments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, s := range anyCapture(t, usual).Spaces {
			now := region.Moments(s)
			for _, at := range slices.Sorted(slices.Values(instants(t, s))) {
				some := now(at)
				if got, want := some.LevelAt(at, lifetime.Occupied), s.LevelAt(at, lifetime.Occupied); got != want {
					t.Fatalf("%s: level %d at %d, want %d", s.ID(), got, at, want)
				}
				if got, want := region.PoolsAt(some, at), region.PoolsAt(s, at); !slices.Equal(got, want) || region.ReservedAt(some, at) != region.ReservedAt(s, at) {
					t.Fatalf("%s: pools %+v at %d, want %+v", s.ID(), got, at, want)
				}
			}
		}
	})
}

// poolsOver returns the pools of the regions that contain the address of b when it begins.
func poolsOver(s *lifetime.Space, b *lifetime.Buffer) (pools []region.PoolID) {
	for i := range s.Regions {
		r := &s.Regions[i]
		alive := r.Begin <= b.Begin && (b.Begin < r.End || r.Edge&lifetime.EndOpen != 0)
		if alive && r.Addr <= b.Addr && b.Addr-r.Addr < uint64(r.Size) {
			pools = append(pools, region.PoolOf(r))
		}
	}
	if pools == nil {
		pools = append(pools, region.PoolID{NoRegion: true})
	}
	return pools
}

// TestParts: a part of a capture passes Check and has the levels of the whole. A part of a
// part is the same as the part of the whole.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCapture(t, usual)
		edge := rapid.Int64Range(-25, 70)
		x, y := edge.Draw(t, "from"), edge.Draw(t, "to")
		part := selection.Slice(c, x, y)
		if err := part.Check(); err != nil {
			t.Fatal(err)
		}
		for i, s := range part.Spaces {
			whole := c.Spaces[i]
			if whole.UsageOnly() || s.UsageOnly() {
				continue // its levels are only known at its totals; a part may have none of the buffers
			}
			for _, at := range instants(t, s) {
				if got, want := s.LevelAt(at, lifetime.Occupied), whole.LevelAt(at, lifetime.Occupied); got != want {
					t.Fatalf("%s: level %d at %d, the whole has %d", s.ID(), got, at, want)
				}
			}
			if s.Peak(lifetime.Occupied).Bytes > whole.Peak(lifetime.Occupied).Bytes {
				t.Fatalf("%s: the peak of a part is above that of the whole", s.ID())
			}
		}
		v := rapid.Int64Range(min(x, y), max(x, y)).Draw(t, "from again")
		w := rapid.Int64Range(v, max(x, y)).Draw(t, "to again")
		if got, want := spelled(selection.Slice(part, v, w)), spelled(selection.Slice(c, v, w)); x < y && v < w && allCut(c, x, y) && allCut(c, v, w) && got != want {
			t.Fatalf("[%d, %d) of [%d, %d):\n%s\nat once:\n%s", v, w, x, y, got, want)
		}
	})
}

// allCut reports whether every space overlaps [from, to). Slice does not cut the others.
func allCut(c *lifetime.Capture, from, to int64) bool {
	for _, s := range c.Spaces {
		if max(from, s.Begin) >= min(to, s.End) {
			return false
		}
	}
	return true
}

// TestUnion: the level of a compiled program counts no address twice.
func TestUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, s := range anyCapture(t, usual).Spaces {
			if s.Axis != lifetime.ProgramOrder || s.Facts&lifetime.Addresses == 0 {
				continue
			}
			for _, at := range instants(t, s) {
				if union, level := unionAt(s, at), s.LevelAt(at, lifetime.Occupied)-s.Base-s.StackAt(at); level > union {
					t.Fatalf("%s: level %d at %d in %d bytes of addresses", s.ID(), level, at, union)
				}
			}
		}
	})
}

// unionAt returns how many addresses the buffers alive at an instant cover.
func unionAt(s *lifetime.Space, at int64) (bytes int64) {
	live := s.LiveAt(at)
	slices.SortFunc(live, func(i, j int) int { return cmp.Compare(s.Buffers[i].Addr, s.Buffers[j].Addr) })
	end := uint64(0)
	for _, i := range live {
		b := &s.Buffers[i]
		last := b.Addr + uint64(b.Size)
		if last > end {
			bytes += int64(last - max(end, b.Addr))
			end = last
		}
	}
	return bytes
}
