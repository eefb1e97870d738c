package main

import "math/rand/v2"

// Blocks have sizes of smallest << 0 up to smallest << (classes-1): 512 B to
// 64 MiB, as a caching allocator hands them out.
const (
	smallest = 512
	classes  = 18
	steady   = 2000    // blocks alive at once, about
	slab     = 2 << 20 // what the allocator takes from the device at least
	heapBase = 0x7f00_0000_0000
)

// block is memory that a program holds.
type block struct {
	addr, size int64
	site       int // who allocated it
	serial     int // which allocation it was
}

// segment is memory that the allocator took from the device: slots of one size.
type segment struct{ addr, size, slot int64 }

// heap is an allocator under a program that allocates and frees at random, with
// places used again as a caching allocator does. It is where the truth about an
// input comes from: the readers of memlane have no part in it.
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

// truth is what a reader must find in an input.
type truth struct {
	allocations, frees int
	peak               int64 // bytes
}

// newHeap returns the heap of a program of about steps allocations and frees.
func newHeap(seed uint64, steps, sites int) *heap {
	return &heap{rnd: rand.New(rand.NewPCG(seed, 1)), sites: sites, level: max(1, min(steady, steps/20)), next: heapBase}
}

// step is one thing that the program does.
type step struct {
	block
	freed bool
	grown bool // the allocator took its last segment for it
}

// step frees or allocates a block, at random, the one as often as the other once
// as many are alive as are to be: so no site leaks.
func (h *heap) step() step {
	if n := len(h.live); h.rnd.IntN(2*h.level) < n {
		i := h.rnd.IntN(n)
		b := h.live[i]
		h.live[i] = h.live[n-1]
		h.live = h.live[:n-1]
		class := classOf(b.size)
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

// grow takes a segment from the device and cuts it into blocks of a class.
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

func classOf(size int64) int {
	class := 0
	for ; size > smallest; size /= 2 {
		class++
	}
	return class
}
