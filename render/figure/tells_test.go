package figure_test

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/figure"
)

// TestCrowded checks the share of the time that half of the events need.
func TestCrowded(t *testing.T) {
	space := func(n int, at func(i int) int64) *lifetime.Space {
		s := &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{End: 1_000_000}}
		for i := range n {
			s.Buffers = append(s.Buffers, lifetime.Buffer{Begin: at(i), End: at(i) + 1, Size: 8})
		}
		s.SortEnds(nil)
		return s
	}
	even := func(i int) int64 { return 1 + int64(i)*1900 }
	for _, c := range []struct {
		name string
		s    *lifetime.Space
		want bool
	}{
		{"even", space(500, even), false},
		{"late", space(500, func(i int) int64 { return 970_000 + int64(i)*50 }), true},
		{"half of it late", space(500, func(i int) int64 {
			if i < 230 {
				return even(i)
			}
			return 970_000 + int64(i)*50
		}), true},
		{"a third late", space(500, func(i int) int64 {
			if i < 340 {
				return even(i)
			}
			return 970_000 + int64(i)*50
		}), false},
		{"few events", space(30, func(i int) int64 { return 970_000 + int64(i)*50 }), false},
	} {
		if got := figure.Crowded(c.s); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	s := space(500, func(i int) int64 { return 970_000 + int64(i)*50 })
	if s.Axis = lifetime.Event; figure.Crowded(s) {
		t.Error("an axis of events is crowded")
	}
}
