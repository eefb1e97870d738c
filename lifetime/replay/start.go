package replay

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
)

// start is the state at the start of a recording: it was undone from the end state.
type start struct {
	*History
	live     []int32  // requests, by address
	segments []int32  // by address
	limits   []uint64 // of each of live: where its block ends at the latest
	reused   []uint64 // of each of live: where the first later allocation behind it begins; 0 = none
}

// startOf finds what is known about the blocks that were in use at the start.
func startOf(h *History) *start {
	s := &start{History: h, live: slices.Clone(h.startRequests), segments: slices.Clone(h.startSegments)}
	slices.SortStableFunc(s.live, func(x, y int32) int { return cmp.Compare(h.requests[x].addr, h.requests[y].addr) })
	s.live = slices.CompactFunc(s.live, func(x, y int32) bool { return h.requests[x].addr == h.requests[y].addr })
	slices.SortStableFunc(s.segments, func(x, y int32) int { return cmp.Compare(h.segments[x].addr, h.segments[y].addr) })
	end := uint64(0)
	s.segments = slices.DeleteFunc(s.segments, func(i int32) bool { // damaged captures have segments that overlap or are too large
		bad := h.segments[i].addr < end || h.segments[i].end() <= h.segments[i].addr || h.segments[i].size > maxSize
		end = max(end, h.segments[i].end())
		return bad
	})
	s.limits, s.reused = make([]uint64, len(s.live)), make([]uint64, len(s.live))
	for _, i := range s.segments {
		from, to := s.within(&h.segments[i])
		for k := from; k < to; k++ {
			s.limits[k] = h.segments[i].end()
			if k+1 < to {
				s.limits[k] = h.requests[s.live[k+1]].addr
			}
		}
	}
	s.findReused()
	return s
}

// within returns the range of live that lies in a segment.
func (s *start) within(in *segment) (from, to int) { return s.search(in.addr), s.search(in.end()) }

// search returns the index of the first of live at or above an address.
func (s *start) search(addr uint64) int {
	i, _ := slices.BinarySearchFunc(s.live, addr, func(i int32, addr uint64) int { return cmp.Compare(s.requests[i].addr, addr) })
	return i
}

// findReused fills reused: what lies between a block and its limit is free, and the first
// allocation there takes the front of it.
func (s *start) findReused() {
	ended := make([]bool, len(s.live))
	for _, e := range s.events {
		if e.op != opAlloc && e.op != opFree {
			continue
		}
		addr := s.requests[e.of].addr
		i := s.search(addr+1) - 1
		switch {
		case i < 0 || ended[i]:
		case e.op == opFree:
			ended[i] = addr == s.requests[s.live[i]].addr
		case addr < s.limits[i] && s.reused[i] == 0:
			s.reused[i] = addr
		}
	}
}

func (s *segment) end() uint64 { return s.addr + uint64(s.size) }

// size returns the bytes of the block of live request k. The recording has them for those
// that are alive at its end. Others may be larger than the request, because a small rest of
// a block is not split off. known is false if its size cannot be told.
func (s *start) size(a *allocator, in *segment, k int) (size int64, known bool) {
	r := &s.requests[s.live[k]]
	room := int64(s.limits[k] - r.addr)
	if r.occupied > 0 {
		return min(r.occupied, room), true
	}
	size = min(a.size(r.requested), room)
	rest := int64(0) // at most
	switch {
	case in.small || in.expandable:
	case size >= a.MaxSplit:
		rest = a.NonSplit
	default:
		rest = smallSize
	}
	if free := room - size; free <= rest {
		return room, true // nothing so small is ever split off
	}
	if at := s.reused[k]; at != 0 {
		if unsplit := int64(at-r.addr) - size; unsplit >= 0 && unsplit <= rest {
			return size + unsplit, true
		}
	}
	return size, rest == 0
}

// seed gives an allocator the state at the start: segments, blocks in use and the free blocks between them. blockOf
// gets the block of each request. seed returns the number of blocks whose size is not known.
func (s *start) seed(a *allocator, blockOf []int32) (unknown int) {
	ranges := map[int32]int32{} // last block of an expandable segment, by group
	for _, i := range s.segments {
		in := &s.History.segments[i]
		g := a.group(in.pool, in.stream, in.small)
		var rest int32
		if in.expandable {
			rest = a.seedPages(ranges, g, in)
		} else {
			rest = a.newSegment(g, in.addr, in.size)
		}
		from, to := s.within(in)
		for k := from; k < to; k++ {
			size, known := s.size(a, in, k)
			if !known {
				unknown++
			}
			rest = a.seedBlock(rest, &s.requests[s.live[k]], s.live[k], size, blockOf)
		}
		if rest != 0 {
			a.put(rest)
		}
	}
	a.peakLive = a.live
	return unknown
}

// seedBlock puts a block of the free range rest to use, and returns what is left of the range; 0 = nothing.
func (a *allocator) seedBlock(rest int32, r *request, number int32, size int64, blockOf []int32) int32 {
	if rest == 0 {
		return 0
	}
	if skip := int64(r.addr - a.blocks[rest].addr); skip > 0 {
		free := rest
		rest = a.split(free, skip)
		a.put(free)
	}
	i := rest
	if rest = 0; size < a.blocks[i].size {
		rest = a.split(i, size)
	}
	b := &a.blocks[i]
	b.used, b.owner = true, number+1
	a.live = units.AddSat(a.live, b.size)
	blockOf[number] = i
	return rest
}

// seedPages maps a part of an expandable segment and returns its block. The segment begins
// where its first mapped page does: nothing tells whether it begins earlier.
func (a *allocator) seedPages(ranges map[int32]int32, g int32, in *segment) int32 {
	last, ok := ranges[g]
	if !ok || in.addr-a.blocks[last].base >= boundlessRange {
		last = a.add(block{addr: in.addr, size: boundlessRange, group: g, expandable: true, base: in.addr})
		a.segments++
	} else {
		a.take(last)
	}
	i := last
	if skip := int64(in.addr - a.blocks[i].addr); skip > 0 {
		i = a.split(last, skip)
		a.put(last)
	}
	ranges[g] = a.split(i, in.size)
	a.put(ranges[g])
	a.blocks[i].mapped = true
	a.grow(in.size)
	return i
}
