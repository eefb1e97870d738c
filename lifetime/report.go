package lifetime

import "iter"

// Report is what an allocator says when it allocates or frees: what it did, and
// the state that it was in afterwards. Bytes that it does not tell are -1.
type Report struct {
	Free      bool
	Addr      uint64
	Requested int64
	Occupied  int64
	Site      SiteID

	Allocated     int64   // occupied bytes in use
	Stack         int64   // bytes set aside beside the heap
	Available     int64   // bytes that may still be allocated
	Reserved      int64   // bytes taken from the device; 0 = not told
	Peak          int64   // highest Allocated since the program began
	Fragmentation float64 // as Total.Fragmentation; HasFragmentation tells whether there is one

	HasFragmentation bool

	// What only a producer's own replay needs, and only kept reports have.
	RawTime int64 // the producer's own time, in picoseconds
	Step    int32 // index of the step that it belongs to; -1 = none
}

// Reports are the reports on one space in the order of the file.
type Reports struct{ list chunked[Report] }

// Len returns how many there are.
func (r *Reports) Len() int { return r.list.n }

// At returns one of them.
func (r *Reports) At(i int) *Report { return r.list.at(i) }

// All yields all of them.
func (r *Reports) All() iter.Seq[*Report] { return r.list.all() }

// Run is one execution of a compiled program on a device.
type Run struct {
	Name       string // "jit_f(5)"
	Plane      string // the producer's name of the device: "TPU:0"
	ID         int64  // its number on that device
	Begin, End int64  // the producer's own times, in picoseconds
}

// Run records an execution of a compiled program; it is kept with reports.
func (b *Builder) Run(r Run) {
	if b.keepReports {
		b.capture.Runs = append(b.capture.Runs, r)
	}
}

// KeepReports asks for the reports of allocators as they stand in the file, in
// place of the buffers that follow from them: what a replay by other rules than
// ours needs. It must be called before the first fact.
func (b *Builder) KeepReports() { b.keepReports = true }

// KeepsReports reports whether KeepReports was called: readers then find out
// what only Report has.
func (b *Builder) KeepsReports() bool { return b.keepReports }

// Report records what an allocator said at t, in nanoseconds: an allocation or
// a free, and the totals after it. A free whose size is not told has that of
// its allocation; where that is not known either, the totals tell.
func (b *Builder) Report(space SpaceRef, t int64, r *Report) {
	log := b.spaces[space]
	if b.keepReports {
		log.desc.Reports.list.add(*r)
		return
	}
	if r.Available >= 0 {
		log.limit = max(log.limit, AddSat(AddSat(max(r.Allocated, 0), max(r.Stack, 0)), r.Available))
	}
	log.lifetimePeak = max(log.lifetimePeak, r.Peak)
	e := event{op: opAlloc, t: t, addr: r.Addr, size: max(r.Requested, 0), occupied: r.Occupied, site: r.Site}
	if r.Free {
		e.op = opFree
		e.site = 0 // the operation that freed it did not allocate it
		if e.occupied < 0 && log.reported > 0 {
			e.occupied = log.lastAllocated - r.Allocated
		}
	}
	if e.occupied <= 0 {
		e.occupied = knownZero
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
		b.Total(space, Total{T: t, Bytes: r.Allocated, Measure: Occupied, Fragmentation: float32(r.Fragmentation), HasFragmentation: r.HasFragmentation})
		if r.Reserved > 0 && r.Reserved != log.lastReserved {
			b.Total(space, Total{T: t, Bytes: r.Reserved, Measure: Reserved})
			log.lastReserved = r.Reserved
		}
		log.reported++
		log.lastAllocated = r.Allocated
	}
}

// knownZero is the occupied size of a buffer that is known to have none, where
// 0 means that it is to be inferred.
const knownZero = -1
