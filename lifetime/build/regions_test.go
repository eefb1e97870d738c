package build

import (
	"math"
	"testing"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
)

// TestRegions has reserved ranges that split and join.
func TestRegions(t *testing.T) {
	const M = 1 << 20
	for _, c := range []struct {
		name      string
		facts     []fact
		want      string // as regionText writes them
		end, peak int64  // reserved
		losses    string
	}{
		{"reserve and release", []fact{reserve(10, M, M), release(20, M, M)}, "10-20 0x100000+1048576 -", 0, M, ""},
		{"reserved at the end", []fact{reserve(10, M, M)}, "10-11 0x100000+1048576 end-open", M, M, ""},
		{"three maps end as one segment", []fact{endState, reserve(10, M, M), reserve(20, 2*M, M), reserve(30, 3*M, M), liveRegion(M, 3*M, "expandable")},
			`10-31 0x100000+1048576 end-open expandable
			 20-31 0x200000+1048576 end-open expandable
			 30-31 0x300000+1048576 end-open expandable`, 3 * M, 3 * M, ""},
		{"one unmap over two maps", []fact{reserve(10, M, M), reserve(20, 2*M, M), release(30, M, 2*M)},
			`10-30 0x100000+1048576 -
			 20-30 0x200000+1048576 -`, 0, 2 * M, ""},
		{"unmap of the middle", []fact{reserve(10, M, 3*M), release(20, 2*M, M), release(30, M, 3*M)},
			`10-30 0x100000+1048576 -
			 10-20 0x200000+1048576 -
			 10-30 0x300000+1048576 -
			 20-30 0x200000+1048576 begin-unseen`, 0, 3 * M, ""},
		{"unmap of the low part", []fact{reserve(10, M, 2*M), release(20, M, M)},
			`10-20 0x100000+1048576 -
			 10-21 0x200000+1048576 end-open`, M, 2 * M, ""},
		{"unmap of the high part", []fact{reserve(10, M, 2*M), release(20, 2*M, M)},
			`10-21 0x100000+1048576 end-open
			 10-20 0x200000+1048576 -`, M, 2 * M, ""},
		{"unmap over the parts of two", []fact{reserve(10, M, 2*M), reserve(20, 3*M, 2*M), release(30, 2*M, 2*M)},
			`10-31 0x100000+1048576 end-open
			 10-30 0x200000+1048576 -
			 20-30 0x300000+1048576 -
			 20-31 0x400000+1048576 end-open`, 2 * M, 4 * M, ""},
		{"release never reserved", []fact{reserve(10, 5*M, M), release(20, M, M)},
			`9-20 0x100000+1048576 begin-unseen
			 10-21 0x500000+1048576 end-open`, M, 2 * M, ""},
		{"release over a gap", []fact{reserve(10, 2*M, M), release(20, M, 3*M)},
			`9-20 0x100000+1048576 begin-unseen
			 9-20 0x300000+1048576 begin-unseen
			 10-20 0x200000+1048576 -`, 0, 3 * M, ""},
		{"released twice: the second was reserved in between", []fact{reserve(10, M, M), release(20, M, M), release(30, M, M)},
			`10-20 0x100000+1048576 -
			 20-30 0x100000+1048576 begin-unseen`, 0, M, ""},
		{"reserved twice: a release was lost", []fact{reserve(10, M, 2*M), reserve(20, 2*M, M)},
			`10-21 0x100000+1048576 end-open
			 10-20 0x200000+1048576 end-inferred
			 20-21 0x200000+1048576 end-open`, 2 * M, 2 * M, "lost-free 1 1048576"},
		{"end state has more", []fact{endState, reserve(10, 5*M, M), liveRegion(M, M, "small"), liveRegion(5*M, M, "large")},
			`9-11 0x100000+1048576 begin-unseen+end-open small
			 10-11 0x500000+1048576 end-open large`, 2 * M, 2 * M, ""},
		{"end state has more, where one was released", []fact{endState, reserve(10, M, M), release(20, M, M), liveRegion(M, M, "small")},
			`10-20 0x100000+1048576 -
			 20-21 0x100000+1048576 begin-unseen+end-open small`, M, M, ""},
		{"end state has less", []fact{endState, reserve(10, M, 3*M), reserve(20, 5*M, M), liveRegion(2*M, M, "large")},
			`10-21 0x100000+1048576 end-inferred
			 10-21 0x200000+1048576 end-open large
			 10-21 0x300000+1048576 end-inferred
			 20-21 0x500000+1048576 end-inferred`, M, 4 * M, "lost-free 3 3145728"},
		{"an incomplete end state releases nothing", []fact{reserve(10, M, M), reserve(20, 3*M, M), liveRegion(3*M, M, "large")},
			`10-21 0x100000+1048576 end-open
			 20-21 0x300000+1048576 end-open large`, 2 * M, 2 * M, ""},
		{"history cut: the end state adds nothing", []fact{endState, cut, reserve(10, M, M), liveRegion(M, M, "small"), liveRegion(3*M, M, "large")},
			"10-11 0x100000+1048576 end-open small", M, M, ""},
		{"nothing reserved, nothing released", []fact{reserve(10, M, 4096), reserve(11, M+100, 0), release(12, M+200, 0), release(13, 9*M, -5), liveRegion(M+300, -1, "bad")},
			"10-14 0x100000+4096 end-open", 4096, 4096, "odd-size 2 0"},
		{"at the top of the addresses", []fact{reserve(10, math.MaxUint64-10, math.MaxInt64)},
			"10-11 0xfffffffffffffff5+10 end-open", 10, 10, "overflow 1 0"},
		{"huge", []fact{reserve(10, 0, math.MaxInt64), reserve(20, 1<<63, math.MaxInt64)},
			`10-21 0x0+9223372036854775807 end-open
			 20-21 0x8000000000000000+9223372036854775807 end-open`, math.MaxInt64, math.MaxInt64, "overflow 1 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			capture, s := made(t, c.facts...)
			if got, want := regionText(s), lines(c.want); got != want {
				t.Errorf("regions\n%swant\n%s", got, want)
			}
			if end, peak := region.Reserved(s); end != c.end || peak != c.peak {
				t.Errorf("reserved %d at the end, peak %d, want %d and %d", end, peak, c.end, c.peak)
			}
			if got, want := lossText(capture), lines(c.losses); got != want {
				t.Errorf("losses\n%swant\n%s", got, want)
			}
		})
	}
}

// TestFree: the free bytes of reserved memory and its largest hole.
func TestFree(t *testing.T) {
	const M = 1 << 20
	for _, c := range []struct {
		name           string
		facts          []fact
		total, largest int64
		share          float64
		ok             bool
	}{
		{"no regions", []fact{alloc(10, M, 512, "")}, 0, 0, 0, false},
		{"full", []fact{reserve(10, M, M), alloc(20, M, M, "")}, 0, 0, 0, false},
		{"empty", []fact{reserve(10, M, M)}, M, M, 0, true},
		{"freed and pending blocks", []fact{reserve(10, M, M), alloc(20, M, M/2, ""), free(21, M, M/2, ""), alloc(22, M+M/2, M/2, ""), freeRequested(23, M+M/2, M/2, "")}, M / 2, M / 2, 0, true},
		{"a block in the middle", []fact{reserve(10, M, 4*M), alloc(20, 2*M, M, "")}, 3 * M, 2 * M, 1.0 / 3, true},
		{"segments that touch are two holes", []fact{endState, reserve(10, M, M), reserve(20, 2*M, M), liveRegion(M, M, "large"), liveRegion(2*M, M, "large")}, 2 * M, M, 0.5, true},
		{"expandable ones are one", []fact{endState, reserve(10, M, M), reserve(20, 2*M, M), reserve(30, 3*M, M), liveRegion(M, 3*M, lifetime.Expandable)}, 3 * M, 3 * M, 0, true},
		{"expandable next to another kind", []fact{endState, reserve(10, M, M), reserve(20, 2*M, M), liveRegion(M, M, lifetime.Expandable), liveRegion(2*M, M, "large")}, 2 * M, M, 0.5, true},
		{"expandable ones with a block over the seam", []fact{endState, reserve(10, M, M), reserve(20, 2*M, 2*M), alloc(30, M+M/2, M, ""), live(M+M/2, M, M, ""), liveRegion(M, 3*M, lifetime.Expandable)},
			2 * M, M + M/2, 0.25, true},
		{"a released segment does not count", []fact{reserve(10, M, M), reserve(20, 3*M, M), release(30, M, M)}, M, M, 0, true},
		{"saturates", []fact{reserve(10, 0, math.MaxInt64), reserve(20, 1<<63, math.MaxInt64), reserve(30, 1<<62, 1<<61)}, math.MaxInt64, math.MaxInt64, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, s := made(t, c.facts...)
			free := region.FreeAt(s, s.AtEnd())
			share, ok := free.Fragmentation()
			if free.Total != c.total || free.Largest != c.largest || math.Abs(share-c.share) > 1e-9 || ok != c.ok {
				t.Errorf("free %d, largest %d, fragmentation %v %v; want %d, %d, %v %v", free.Total, free.Largest, share, ok, c.total, c.largest, c.share, c.ok)
			}
		})
	}
	// A buffer without bytes does not cut a hole in two.
	_, s := made(t, reserve(10, M, M))
	s.Buffers = []lifetime.Buffer{{Begin: s.Begin, End: s.End, Addr: M + 512, Edge: lifetime.EndOpen}}
	if free := region.FreeAt(s, s.AtEnd()); free.Largest != M {
		t.Errorf("largest hole %d, want %d", free.Largest, M)
	}
}

// TestRegionSites: a region gets the site of the end state if the history has none.
func TestRegionSites(t *testing.T) {
	b := New(Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	known, other := b.Site(lifetime.Site{Op: "known"}), b.Site(lifetime.Site{Op: "other"})
	b.Reserve(s, 1, lifetime.Region{Addr: 0x1000, Size: 0x1000, Site: known})
	b.Reserve(s, 2, lifetime.Region{Addr: 0x2000, Size: 0x1000})
	for _, addr := range []uint64{0x1000, 0x2000} {
		b.LiveRegion(s, lifetime.Region{Addr: addr, Size: 0x1000, Site: other})
	}
	b.Describe(s, lifetime.SpaceInfo{Facts: lifetime.EndState})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Spaces[0].Regions; len(r) != 2 || r[0].Site != known || r[1].Site != other {
		t.Errorf("%+v", r)
	}
}

// TestLargestHole: of holes with the same size, the first one is the largest.
func TestLargestHole(t *testing.T) {
	_, s := made(t, reserve(1, 0x1000, 100), reserve(2, 0x2000, 100), reserve(3, 0x3000, 50))
	if have := region.FreeAt(s, s.AtEnd()); have != (region.Holes{Total: 250, Largest: 100, At: 0x1000}) {
		t.Errorf("%+v", have)
	}
}

// TestAddSat: sums saturate.
func TestAddSat(t *testing.T) {
	const least, most = math.MinInt64, math.MaxInt64
	for _, c := range [][3]int64{{1, 2, 3}, {most, 1, most}, {most, most, most}, {least, -1, least}, {least, least, least}, {least, most, -1}, {0, least, least}} {
		if have := units.AddSat(c[0], c[1]); have != c[2] {
			t.Errorf("%d + %d = %d", c[0], c[1], have)
		}
	}
}
