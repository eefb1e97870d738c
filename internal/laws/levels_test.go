package laws

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/lifetime"
)

// instants draws instants of the window of a space, its edges among them.
func instants(t *rapid.T, s *lifetime.Space) []int64 {
	at := rapid.SliceOfN(rapid.Int64Range(s.Begin, s.AtEnd()), 1, 5).Draw(t, "at")
	return append(at, s.Begin, s.AtEnd(), s.Peak(lifetime.Occupied).At)
}

// TestBreakdown: the rows sum to the level, and no level is above the peak.
func TestBreakdown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCapture(t, tame)
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

// TestParts: a part of a capture is sound and has the levels of the whole; a
// part of a part is the part that both have in common.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCapture(t, tame)
		at := func(instant int64) func(*lifetime.Space) int64 { return func(*lifetime.Space) int64 { return instant } }
		edge := rapid.Int64Range(-25, 70)
		x, y := edge.Draw(t, "from"), edge.Draw(t, "to")
		part := c.Slice(at(x), at(y))
		if err := part.Check(); err != nil {
			t.Fatal(err)
		}
		for i, s := range part.Spaces {
			whole := c.Spaces[i]
			if whole.UsageOnly() {
				continue // its levels are known where it has totals alone
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
		if got, want := spelled(part.Slice(at(v), at(w))), spelled(c.Slice(at(v), at(w))); x < y && v < w && allCut(c, x, y) && allCut(c, v, w) && got != want {
			t.Fatalf("[%d, %d) of [%d, %d):\n%s\nat once:\n%s", v, w, x, y, got, want)
		}
	})
}

// allCut reports whether every space has instants in [from, to): the others are
// left whole.
func allCut(c *lifetime.Capture, from, to int64) bool {
	for _, s := range c.Spaces {
		if max(from, s.Begin) >= min(to, s.End) {
			return false
		}
	}
	return true
}
