package lifetime

import (
	"cmp"
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime/internal/spans"
)

// NoRegion stands for the region of a buffer that lies in none.
const NoRegion = -1

// BufferRegions returns for each buffer the index of the region in which it begins, or
// NoRegion. A buffer has the stream and the pool of its region: PyTorch's allocator
// divides a segment among buffers of one stream and pool only. A buffer that is older
// than the window is found at its end, because the region may be known only from there.
// It takes O((b + r) log r) for b buffers and r regions.
func (s *Space) BufferRegions() []int32 {
	of := make([]int32, len(s.Buffers))
	reserved := regionCursor{s: s, ends: s.regionEnds()}
	for c := range s.Changes() {
		b := &s.Buffers[c.Buffer]
		switch {
		case c.Begin:
			reserved.next(c.T)
			of[c.Buffer] = reserved.at(b.Addr)
		case b.Edge&BeginUnseen != 0:
			reserved.next(c.T - 1)
			of[c.Buffer] = reserved.at(b.Addr)
		}
	}
	reserved.next(s.AtEnd())
	for i := range s.Buffers {
		if b := &s.Buffers[i]; b.Edge&(BeginUnseen|EndOpen) == BeginUnseen|EndOpen {
			of[i] = reserved.at(b.Addr)
		}
	}
	return of
}

// regionEnds returns the indexes of the regions that ended in the window, in order of End.
func (s *Space) regionEnds() []int32 {
	var ends []int32
	for i := range s.Regions {
		if s.Regions[i].Edge&EndOpen == 0 {
			ends = append(ends, int32(i))
		}
	}
	slices.SortStableFunc(ends, func(x, y int32) int { return cmp.Compare(s.Regions[x].End, s.Regions[y].End) })
	return ends
}

// regionCursor has the regions of an instant. It only moves forward.
type regionCursor struct {
	s     *Space
	begun int     // regions that began so far
	ends  []int32 // of regions that end later
	open  spans.Map[int32]
}

// next advances to t.
func (c *regionCursor) next(t int64) {
	for {
		begin, end := int64(math.MaxInt64), int64(math.MaxInt64)
		if c.begun < len(c.s.Regions) {
			begin = c.s.Regions[c.begun].Begin
		}
		if len(c.ends) > 0 {
			end = c.s.Regions[c.ends[0]].End
		}
		if min(begin, end) > t {
			return
		}
		if end <= begin {
			c.remove(c.ends[0])
			c.ends = c.ends[1:]
			continue
		}
		r := &c.s.Regions[c.begun]
		c.open.Set(r.Addr, spans.End(r.Addr, r.Size), int32(c.begun))
		c.begun++
	}
}

// remove ends a region. Where another one replaced it, that one stays.
func (c *regionCursor) remove(i int32) {
	r := &c.s.Regions[i]
	for _, part := range c.open.Cut(r.Addr, spans.End(r.Addr, r.Size)) {
		if part.Val != i {
			c.open.Set(part.Lo, part.Hi, part.Val)
		}
	}
}

// at returns the region at an address, or NoRegion.
func (c *regionCursor) at(addr uint64) int32 {
	for sp := range c.open.Overlapping(addr, spans.End(addr, 1)) {
		return sp.Val
	}
	return NoRegion
}
