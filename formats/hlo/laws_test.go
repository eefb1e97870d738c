package hlo_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

// checkLaws checks the properties of every space of a compiled program.
func checkLaws(t testing.TB, c *lifetime.Capture) {
	t.Helper()
	for _, s := range c.Spaces {
		if s.Axis != lifetime.ProgramOrder || s.Begin != -1 || s.End != int64(len(s.Marks)) {
			t.Errorf("%s: [%d, %d) with %d marks", s.ID(), s.Begin, s.End, len(s.Marks))
		}
		checkRegions(t, s)
		checkValues(t, s)
		checkOverlap(t, s)
	}
}

// checkRegions: regions are stacked without gaps, in order of their index.
func checkRegions(t testing.TB, s *lifetime.Space) {
	t.Helper()
	next := uint64(0)
	for i := range s.Regions {
		r := &s.Regions[i]
		if r.Addr < next || i > 0 && r.Index < s.Regions[i-1].Index {
			t.Errorf("%s: allocation %d is out of order", s.ID(), r.Index)
		}
		next = r.Addr + uint64(r.Size)
	}
}

// checkValues: the root of a value has a buffer, unless the value is not in the heap. Values with positions lie
// in their buffer.
func checkValues(t testing.TB, s *lifetime.Space) {
	t.Helper()
	buffers := map[int64]bool{}
	for _, id := range s.ValueIDs {
		buffers[id] = true
	}
	for i := range s.Values {
		v := &s.Values[i]
		if v.Root != v.ID && !buffers[v.Root] {
			t.Errorf("%s: value %d lies in value %d, which has no buffer", s.ID(), v.ID, v.Root)
		}
		if v.End >= v.Begin && (v.Begin < 0 || v.End >= s.End) {
			t.Errorf("%s: value %d lives in [%d, %d]", s.ID(), v.ID, v.Begin, v.End)
		}
	}
}

// checkOverlap: no two buffers share a byte at one position, unless the file itself assigned both values to the
// same bytes of one allocation, or one of them to bytes outside its allocation.
func checkOverlap(t testing.TB, s *lifetime.Space) {
	t.Helper()
	values := map[int64]*lifetime.Value{}
	for i := range s.Values {
		values[s.Values[i].ID] = &s.Values[i]
	}
	regions := map[int64]*lifetime.Region{}
	for i := range s.Regions {
		if r := &s.Regions[i]; regions[r.Index] == nil || regions[r.Index].Size < r.Size {
			regions[r.Index] = r
		}
	}
	outside := func(i int) bool {
		v, b := values[s.ValueIDs[i]], &s.Buffers[i]
		if b.Begin < 0 {
			return false
		}
		return v == nil || b.Size > regions[v.Allocation].Size-v.Offset || b.Addr != regions[v.Allocation].Addr+uint64(v.Offset)
	}
	explained := func(i, k int) bool {
		if outside(i) || outside(k) {
			return true
		}
		x, y := values[s.ValueIDs[i]], values[s.ValueIDs[k]]
		return x != nil && y != nil && x.Allocation == y.Allocation && s.Buffers[i].Begin >= 0 && s.Buffers[k].Begin >= 0
	}
	order := make([]int, len(s.Buffers))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(s.Buffers[x].Addr, s.Buffers[y].Addr) })
	for k, i := range order {
		b := &s.Buffers[i]
		for _, j := range order[k+1:] {
			other := &s.Buffers[j]
			if other.Addr >= b.Addr+uint64(b.Size) {
				break
			}
			if other.Size > 0 && b.Begin < other.End && other.Begin < b.End && !explained(i, j) {
				t.Errorf("%s: buffers %d and %d share bytes at one position", s.ID(), i, j)
			}
		}
	}
}

// TestNoOverlap: in compiler output, not even values of one allocation share bytes at one position.
func TestNoOverlap(t *testing.T) {
	for _, file := range programs(t) {
		c, err := readProgram(t, contentOf(t, file))
		if err != nil {
			t.Fatal(file, err)
		}
		if len(c.Losses) > 0 {
			t.Errorf("%s: %v", file, c.Losses)
		}
		for _, s := range c.Spaces {
			for i := range s.Buffers {
				for j := range s.Buffers[:i] {
					x, y := &s.Buffers[i], &s.Buffers[j]
					if x.Begin < y.End && y.Begin < x.End && x.Addr < y.Addr+uint64(y.Size) && y.Addr < x.Addr+uint64(x.Size) {
						t.Errorf("%s: %s: buffers %d and %d share bytes at one position", file, s.ID(), j, i)
					}
				}
			}
		}
	}
}
