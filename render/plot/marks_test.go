package plot

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
)

// TestCapacity: without a recorded limit the capacity is what was reserved and free at the last failed allocation. It is not
// known if either is not.
func TestCapacity(t *testing.T) {
	reserved := []lifetime.Total{{T: 0, Measure: lifetime.Reserved, Bytes: 70}, {T: 8, Measure: lifetime.Reserved, Bytes: 10}}
	for _, c := range []struct {
		name   string
		limit  int64
		totals []lifetime.Total
		free   []int64
		want   int64
	}{
		{"a limit", 100, reserved, []int64{5}, 100},
		{"a failure", 0, reserved, []int64{5}, 75},
		{"two failures", 0, reserved, []int64{5, 6}, 76},
		{"nothing reserved", 0, nil, []int64{5}, 0},
		{"free not known", 0, reserved, []int64{-1}, 0},
		{"no failure", 0, reserved, nil, 0},
	} {
		s := &lifetime.Space{}
		s.Limit, s.Totals = c.limit, c.totals
		for i, free := range c.free {
			s.Marks = append(s.Marks, lifetime.Mark{Kind: lifetime.OOM, Begin: int64(3 + i), End: int64(3 + i), Free: failure.BytesOf(free)})
		}
		if bytes, text := Capacity(s); bytes != c.want || (text == "") != (bytes == 0) {
			t.Errorf("%s: %d bytes, %q; want %d", c.name, bytes, text, c.want)
		}
	}
}

// TestOwnLimit: a request that failed although the device had the bytes draws the line of what the program may have, not one that it fits below.
func TestOwnLimit(t *testing.T) {
	s := &lifetime.Space{}
	s.Totals = []lifetime.Total{{T: 0, Measure: lifetime.Reserved, Bytes: 400 << 20}}
	s.Marks = []lifetime.Mark{{Kind: lifetime.OOM, Begin: 3, End: 3, Requested: 56 << 20, Free: failure.BytesOf(800 << 20)}}
	if bytes, text := Capacity(s); bytes != 400<<20 || text != "own limit: at least 400 MiB" {
		t.Errorf("%d bytes, %q", bytes, text)
	}
}

// TestRelative: where only changes of the usage were recorded, the axis has no zero and nothing is called a peak.
func TestRelative(t *testing.T) {
	s := &lifetime.Space{Totals: []lifetime.Total{{T: 1, Bytes: 512, Measure: lifetime.Occupied}}}
	if Relative(s) || Relative(nil) || PeakWord(s) != "peak " {
		t.Error("totals of the producer are levels")
	}
	if s.Allocations = 1; !Relative(s) || PeakWord(s) != "rose by " {
		t.Error("changes are no levels")
	}
}
