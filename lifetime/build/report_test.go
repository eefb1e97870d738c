package build

import (
	"fmt"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

// TestReport: buffers and totals from reports with known and unknown sizes.
func TestReport(t *testing.T) {
	const unknown = -1
	of := func(free bool, addr uint64, requested, occupied, allocated int64) lifetime.AllocatorEvent {
		return lifetime.AllocatorEvent{Free: free, Addr: addr, Requested: requested, Occupied: occupied, Allocated: allocated, Stack: unknown, Available: unknown, Peak: unknown}
	}
	for _, c := range []struct {
		name    string
		reports []lifetime.AllocatorEvent
		want    string // sizes of the buffers, oldest first
	}{
		{"occupied", []lifetime.AllocatorEvent{of(false, 1, 50, 64, 64)}, "[64]"},
		{"occupied is not recorded: requested", []lifetime.AllocatorEvent{of(false, 1, 50, unknown, 50)}, "[50]"},
		{"both unknown", []lifetime.AllocatorEvent{of(false, 1, unknown, unknown, unknown)}, "[0]"},
		{"nothing", []lifetime.AllocatorEvent{of(false, 1, 0, unknown, 0)}, "[0]"},
		{"nothing is occupied", []lifetime.AllocatorEvent{of(false, 1, 50, 0, 0)}, "[0]"},
		{"a free with its size from the totals", []lifetime.AllocatorEvent{of(false, 1, 50, 50, 200), of(true, 2, unknown, unknown, 130)}, "[70 50]"},
		{"a free of size 0", []lifetime.AllocatorEvent{of(false, 1, 50, 50, 200), of(true, 2, unknown, 0, 130)}, "[0 50]"},
		{"a free that no total is before", []lifetime.AllocatorEvent{of(true, 2, 30, unknown, 130)}, "[30]"},
	} {
		b := New(Everything)
		b.Source(lifetime.Source{})
		s := b.Space()
		for i := range c.reports {
			b.Report(s, int64(i), &c.reports[i])
		}
		b.Describe(s, lifetime.SpaceInfo{Facts: lifetime.Clock})
		made, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		var sizes []int64
		for _, buf := range made.Spaces[0].Buffers {
			sizes = append(sizes, buf.Size)
		}
		if have := fmt.Sprint(sizes); have != c.want {
			t.Errorf("%s: %s, want %s", c.name, have, c.want)
		}
	}
}

// TestReportedTotals: the limit is the used and the available bytes. 0 is a valid total,
// but means "not known" for reserved bytes.
func TestReportedTotals(t *testing.T) {
	b := New(Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	for i, r := range []lifetime.AllocatorEvent{{Addr: 1, Allocated: 100, Reserved: 500}, {Addr: 1, Free: true}} {
		r.Stack, r.Peak = -1, -1
		b.Report(s, int64(i), &r)
	}
	b.Describe(s, lifetime.SpaceInfo{Facts: lifetime.Clock})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if have := fmt.Sprint(c.Spaces[0].Totals); have != fmt.Sprint([]lifetime.Total{{T: 0, Bytes: 100, Measure: lifetime.Occupied}, {T: 0, Bytes: 500, Measure: lifetime.Reserved}, {T: 1, Measure: lifetime.Occupied}}) || c.Spaces[0].Limit != 100 {
		t.Errorf("%s, limit %d", have, c.Spaces[0].Limit)
	}
}

// TestDeltas: deltas count as allocations and frees without a site.
func TestDeltas(t *testing.T) {
	b := New(Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	for i, bytes := range []int64{5, 7, -5, -7, -9} {
		b.Delta(s, int64(i), bytes)
	}
	b.Describe(s, lifetime.SpaceInfo{Facts: lifetime.Clock})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Spaces[0]; s.Allocations != 2 || s.Frees != 3 || s.Facts&lifetime.History != 0 || lossText(c) != "anonymous 5 0\n" || s.Peak(lifetime.Occupied).Bytes != 21 {
		t.Errorf("%d and %d, %s, peak %v", s.Allocations, s.Frees, lossText(c), s.Peak(lifetime.Occupied))
	}
}
