package build

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// FunctionCall records a call of a function in a space. Calls keep their order.
func (b *Builder) FunctionCall(space SpaceRef, call lifetime.Call) {
	call.Space = int(space)
	b.capture.Calls = append(b.capture.Calls, call)
}

// Sample records a measurement of the device of a space. Samples keep their order.
func (b *Builder) Sample(space SpaceRef, s lifetime.Sample) {
	s.Space = int(space)
	b.capture.Samples = append(b.capture.Samples, s)
}

// settleCalls replaces the SpaceRef of calls and samples by the final index of the space. made has the spaces by
// SpaceRef. Calls and samples of spaces that were left out (nil) are dropped.
func (b *Builder) settleCalls(made []*lifetime.Space) {
	if len(b.capture.Calls)+len(b.capture.Samples) == 0 {
		return
	}
	final := make(map[*lifetime.Space]int, len(b.capture.Spaces))
	for i, s := range b.capture.Spaces {
		final[s] = i
	}
	calls := b.capture.Calls[:0]
	for _, call := range b.capture.Calls {
		if i, ok := final[made[call.Space]]; ok {
			call.Space = i
			calls = append(calls, call)
		}
	}
	samples := b.capture.Samples[:0]
	for _, s := range b.capture.Samples {
		if i, ok := final[made[s.Space]]; ok {
			s.Space = i
			samples = append(samples, s)
		}
	}
	b.capture.Calls, b.capture.Samples = calls, samples
}

// Report records the report of an allocator at t, in nanoseconds: an allocation or a
// free, and the totals after it. A free without a size gets the size of its allocation
// or, if that is not known, the change of the total.
func (b *Builder) Report(space SpaceRef, t int64, r *lifetime.AllocatorEvent) {
	log := b.spaces[space]
	if b.Keeps(Reports) {
		log.space.Reports.Add(*r)
		return
	}
	if r.Available >= 0 {
		log.limit = max(log.limit, units.AddSat(units.AddSat(max(r.Allocated, 0), max(r.Stack, 0)), r.Available))
	}
	log.lifetimePeak = max(log.lifetimePeak, r.Peak)
	e := event{op: opAlloc, t: t, addr: r.Addr, size: max(r.Requested, 0), occupied: r.Occupied, site: r.Site}
	if r.Free {
		e.op = opFree
		e.site = 0 // it is the site of the free, not of the allocation
		if e.occupied < 0 && log.reported > 0 {
			e.occupied = log.lastAllocated - r.Allocated
		}
	}
	if e.occupied <= 0 {
		e.occupied = 0
		if r.Requested > 0 && r.Occupied < 0 {
			e.occupied = r.Requested
		}
	}
	log.add(e)
	if r.Stack >= 0 && (r.Stack != log.lastStack || log.reported == 0) {
		b.StackReserved(space, t, r.Stack)
		log.lastStack = r.Stack
	}
	if r.Allocated >= 0 {
		b.Total(space, lifetime.Total{T: t, Bytes: r.Allocated, Measure: lifetime.Occupied, Fragmentation: float32(r.Fragmentation), HasFragmentation: r.HasFragmentation})
		if r.Reserved > 0 && r.Reserved != log.lastReserved {
			b.Total(space, lifetime.Total{T: t, Bytes: r.Reserved, Measure: lifetime.Reserved})
			log.lastReserved = r.Reserved
		}
		log.reported++
		log.lastAllocated = r.Allocated
	}
}
