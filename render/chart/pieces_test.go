package chart

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/canvas"
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

// TestLegendLooks: no two rows of a legend have the same look.
func TestLegendLooks(t *testing.T) {
	c := run(t, "one", 30<<20, 50<<20, 20<<20, 40<<20, 10<<20)
	for _, limit := range []int64{0, 200 << 20, 80 << 30} {
		for _, base := range []int64{0, 5 << 20} {
			s := *c.Spaces[0]
			s.Limit, s.Base = limit, base
			u, err := newUsage(c, &s, Options{}.withDefaults(420, 240))
			if err != nil {
				t.Fatal(err)
			}
			u.ceiling = u.Ceiling(u.most())
			names := map[canvas.Look]string{}
			for _, row := range u.legend() {
				if other, ok := names[row.Look]; ok {
					t.Errorf("capacity %d, base %d: %s looks like %s", limit, base, row.Name, other)
				}
				names[row.Look] = row.Name
			}
			if len(names) < 3 {
				t.Errorf("rows %v", names)
			}
		}
	}
}

// TestFragmentationStrip: what the allocator reports over time has a curve of its own, at every height that has room for it.
func TestFragmentationStrip(t *testing.T) {
	c := run(t, "one", 30<<20, 50<<20, 20<<20, 40<<20, 10<<20)
	s := c.Spaces[0]
	middle, nan := s.Begin+(s.End-s.Begin)/2, float32(math.NaN())
	report := func(at int64, share float32) lifetime.Total {
		return lifetime.Total{T: at, Fragmentation: share, HasFragmentation: true}
	}
	drawn := func(height int, totals ...lifetime.Total) string {
		t.Helper()
		s.Totals = totals
		var w bytes.Buffer
		if err := Usage(&w, judge.Of(c), s, Options{Height: height}); err != nil {
			t.Fatal(err)
		}
		return w.String()
	}
	const heading = ">reported fragmentation: "
	for _, totals := range [][]lifetime.Total{nil, {report(s.Begin, 0), report(middle, 0)}, {report(s.Begin, nan), report(middle, 7)}, {{T: middle, Fragmentation: .5}}} {
		if strings.Contains(drawn(0, totals...), heading) {
			t.Errorf("%+v is drawn", totals)
		}
	}
	some := []lifetime.Total{report(s.Begin, .25), report(middle, .75), report(middle+1, nan)}
	for _, height := range []int{0, 420, 302} {
		page := drawn(height, some...)
		if !strings.Contains(page, heading) || !strings.Contains(page, "maximum 75.0 %<") {
			t.Errorf("height %d: no strip", height)
		}
		inside(t, page)
	}
	if strings.Contains(drawn(301, some...), heading) {
		t.Error("a strip where the plot has no room")
	}
	u, err := newUsage(c, s, Options{}.withDefaults(420, 240))
	if err != nil {
		t.Fatal(err)
	}
	if n := u.holes.Columns; u.holes.at[0] != wholeShare/4 || u.holes.highest() != wholeShare/4*3 || u.holes.at[n-1] != 0 {
		t.Errorf("begins at %d, reaches %d, ends at %d", u.holes.at[0], u.holes.highest(), u.holes.at[n-1])
	}
}
