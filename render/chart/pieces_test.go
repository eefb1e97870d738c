package chart

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

// TestPieces checks the free bytes at the peak and their largest piece: from the recorded regions, and as the allocator reports it.
func TestPieces(t *testing.T) {
	s := &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{End: 100, Facts: lifetime.Addresses | lifetime.History | lifetime.Regions}}
	s.Buffers = []lifetime.Buffer{{Begin: 10, End: 100, Addr: 1000, Size: 500, Edge: lifetime.EndOpen}, {Begin: 10, End: 50, Addr: 2000, Size: 300}}
	s.Regions = []lifetime.Region{{Begin: 0, End: 100, Addr: 1000, Size: 2000, Edge: lifetime.EndOpen}}
	s.SortEnds(nil)
	want := func(name, below string) {
		t.Helper()
		u := usage{s: s}
		u.peak, u.ceiling = s.Peak(lifetime.Occupied), 4096
		rows := u.pieces()
		if len(rows) != 1 || rows[0].Name != name || rows[0].Below != below || strings.Contains(below, "%") {
			t.Errorf("%+v, want %q, %q", rows, name, below)
		}
	}
	want("reserved but free", "1.17 KiB, largest 700 B") // 500 bytes between the buffers, 700 above
	s.Regions, s.Limit = nil, 1800
	s.Totals = []lifetime.Total{{T: 5, Fragmentation: .5, HasFragmentation: true}, {T: 10, Fragmentation: .25, HasFragmentation: true}, {T: 60, Fragmentation: .9, HasFragmentation: true}}
	want("free", "1000 B, largest 750 B")
	s.Totals = nil
	if rows := (&usage{s: s}).pieces(); rows != nil {
		t.Errorf("%+v without regions and reports", rows)
	}
}
