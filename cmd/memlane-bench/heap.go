package main

import (
	"math/bits"
	"math/rand/v2"
)

// Block sizes are smallest << 0 to smallest << (classes-1): 512 B to 64 MiB, as from a caching allocator.
const (
	smallest = 512
	classes  = 18
	steady   = 2000    // blocks alive at once, about
	slab     = 2 << 20 // smallest segment
	heapBase = 0x7f00_0000_0000
)

// block is memory allocated by a program.
type block struct {
	addr, size int64
	site       int // call site of the allocation
	serial     int // number of the allocation
}

// segment is memory that the allocator reserved from the device, divided into slots of one size.
type segment struct{ addr, size, slot int64 }

// heap is a caching allocator and a program that allocates and frees at random. It computes the truth about an input independently of
// memlane's readers.
type heap struct {
	rnd   *rand.Rand
	sites int
	level int // blocks alive at once, about

	live     []block
	free     [classes][]int64
	segments []segment
	next     int64

	truth
	inUse, reserved int64
}

// truth contains the figures that a reader must find in an input.
type truth struct {
	allocations, frees int
	peak               int64 // bytes
}

// newHeap returns the heap of a program with about steps allocations and frees.
func newHeap(seed uint64, steps, sites int) *heap {
	return &heap{rnd: rand.New(rand.NewPCG(seed, 1)), sites: sites, level: max(1, min(steady, steps/20)), next: heapBase}
}

// step is an allocation or a free.
type step struct {
	block
	freed bool
	grown bool // the allocation needed a new segment
}

// step frees or allocates a block at random. Once level blocks are alive, both are equally likely, so no site leaks.
func (h *heap) step() step {
	if n := len(h.live); h.rnd.IntN(2*h.level) < n {
		i := h.rnd.IntN(n)
		b := h.live[i]
		h.live[i] = h.live[n-1]
		h.live = h.live[:n-1]
		class := bits.TrailingZeros64(uint64(b.size / smallest))
		h.free[class] = append(h.free[class], b.addr)
		h.inUse -= b.size
		h.frees++
		return step{block: b, freed: true}
	}
	class := h.rnd.IntN(classes)
	grown := len(h.free[class]) == 0
	if grown {
		h.grow(class)
	}
	last := len(h.free[class]) - 1
	b := block{h.free[class][last], smallest << class, h.rnd.IntN(h.sites), h.allocations}
	h.free[class] = h.free[class][:last]
	h.live = append(h.live, b)
	h.inUse += b.size
	h.allocations++
	h.peak = max(h.peak, h.inUse)
	return step{block: b, grown: grown}
}

// grow reserves a segment and divides it into blocks of a class.
func (h *heap) grow(class int) {
	slot := int64(smallest) << class
	s := segment{h.next, max(slab, slot), slot}
	h.segments = append(h.segments, s)
	h.next += s.size
	h.reserved += s.size
	for at := s.addr + s.size - s.slot; at >= s.addr; at -= s.slot {
		h.free[class] = append(h.free[class], at)
	}
}
