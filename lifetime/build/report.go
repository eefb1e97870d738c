package build

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

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
