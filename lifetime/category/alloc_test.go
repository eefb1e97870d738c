package category_test

import (
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/purpose"
)

// TestAllocations: more steps of the same program take memory for their buffers, and hardly any allocations.
func TestAllocations(t *testing.T) {
	for _, name := range []string{"a07", "m01", "n07"} {
		c, err := open(meaning+"/"+name+".pickle.zst", formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		allocations := func(times int) float64 {
			s := repeated(c.Spaces[0], times)
			return testing.AllocsPerRun(1, func() {
				tables := c.Tables
				tables.Purposes = make([]purpose.Purpose, 1)
				category.NewJudge(&tables).Add(s)
			})
		}
		more := float64(2 * len(c.Spaces[0].Buffers))
		if per := (allocations(4) - allocations(2)) / more; per > 0.25 {
			t.Errorf("%s: %.3f allocations for each buffer", name, per)
		}
	}
}

// repeated returns a space in which the history of s runs several times.
func repeated(s *lifetime.Space, times int) *lifetime.Space {
	all := &lifetime.Space{SpaceInfo: s.SpaceInfo}
	length := s.End - s.Begin
	for n := range int64(times) {
		for i, b := range s.Buffers {
			b.Begin, b.End = b.Begin+n*length, b.End+n*length
			all.Buffers = append(all.Buffers, b)
			if s.FreeSites != nil {
				all.FreeSites = append(all.FreeSites, s.FreeSites[i])
			}
		}
		for _, m := range s.Marks {
			m.Begin, m.End = m.Begin+n*length, m.End+n*length
			all.Marks = append(all.Marks, m)
		}
	}
	all.End = s.Begin + int64(times)*length
	return all
}
