package replay

import (
	"iter"
	"math"

	"github.com/memlane/memlane/lifetime"
)

// CallKind is the kind of a Call.
type CallKind uint8

// Kinds of calls.
const (
	Allocate    CallKind = iota
	RequestFree          // the program freed a request, other streams may still use it
	Free
	Fail  // a request that failed
	Empty // torch.cuda.empty_cache(); it has no request
)

// Call is what a program asks of the allocator. Request is an index of the buffers of the space; failed requests come after them.
type Call struct {
	Kind    CallKind
	Request int
}

// Calls yields what the recorded program asked of the allocator, in order. What was allocated before the recording is not in it.
func (h *History) Calls() iter.Seq[Call] {
	kinds := map[op]CallKind{opAlloc: Allocate, opRequest: RequestFree, opFree: Free, opFull: Fail, opEmpty: Empty}
	return func(yield func(Call) bool) {
		for _, e := range h.events {
			if kind, ok := kinds[e.op]; ok && !yield(Call{kind, int(e.of)}) {
				return
			}
		}
	}
}

// StartRequests returns the buffers that were in use at the start of the recording.
func (h *History) StartRequests() []int32 { return h.startRequests }

// SizeOf returns the requested bytes of a request.
func (h *History) SizeOf(request int) int64 { return h.requests[request].requested }

// Request is a request of a program that was changed.
type Request struct {
	Like  int   // a request of the recording, which has its stream and pool
	Size  int64 // requested bytes
	Start bool  // it is Like itself, which was in use at the start of the recording
}

// Rewrite returns a program that makes other requests, in another order. What was cached at the start of the recording stays. Instants of
// the result are indexes of calls.
func (h *History) Rewrite(requests []Request, calls []Call) *History {
	ops := [...]op{Allocate: opAlloc, RequestFree: opRequest, Free: opFree, Fail: opFull, Empty: opEmpty}
	w := &History{
		Settings: h.Settings, requests: make([]request, len(requests)), segments: h.segments, events: make([]event, len(calls)),
		startSegments: h.startSegments, pools: h.pools, poolsUnknown: h.poolsUnknown, capacity: h.capacity, unclear: h.unclear, differs: h.differs,
	}
	for i, r := range requests {
		like := h.requests[r.Like]
		w.requests[i] = request{requested: r.Size, stream: like.stream, pool: like.pool, number: -1}
		w.largest = max(w.largest, r.Size)
		if r.Start {
			w.requests[i].addr = like.addr
			if r.Size == like.requested {
				w.requests[i].occupied = like.occupied
			}
			w.startRequests = append(w.startRequests, int32(i))
		}
	}
	for i, c := range calls {
		w.events[i] = event{ops[c.Kind], int32(c.Request)}
		switch r := &w.requests[min(c.Request, len(requests)-1)]; c.Kind {
		case Allocate, Fail:
			r.begin, r.number, w.allocations = int64(i), int32(i), w.allocations+1
		case Free:
			r.end = int64(i)
		}
	}
	return w
}

// Placement is where a block lies.
type Placement struct {
	Addr uint64
	Size int64 // 0: it was never placed
}

// Held is memory of the device that an allocator holds from the call Begin (-1: from the start) up to the call End, math.MaxInt if it
// does not return it.
type Held struct {
	Addr              uint64
	Size              int64
	Begin, End        int
	Small, Expandable bool
	Request           int // that it was taken for; -1 at the start
	Start             int // index of the segment at the start; -1 = none
}

// Layout is where a program's blocks lie under some settings.
type Layout struct {
	Outcome
	Blocks         []Placement // by request
	Held           []Held      // in order of Begin
	Reserved, Live []int64     // after each call
}

// surveyed is a device that remembers what was taken.
type surveyed struct {
	*simulated
	l    *Layout
	open map[uint64]int
	call int
	of   int
}

func (m *surveyed) took(addr uint64, size int64, expandable bool) {
	m.open[addr] = len(m.l.Held)
	m.l.Held = append(m.l.Held, Held{Addr: addr, Size: size, Begin: m.call, End: math.MaxInt, Expandable: expandable, Request: m.of, Start: -1})
}

func (m *surveyed) alloc(size int64) (addr uint64, ok bool) {
	if addr, ok = m.simulated.alloc(size); ok {
		m.took(addr, size, false)
	}
	return addr, ok
}

func (m *surveyed) release(addr uint64, size int64) {
	m.simulated.release(addr, size)
	m.gave(addr, size)
}

func (m *surveyed) mapRange(addr uint64, size int64) bool {
	ok := m.simulated.mapRange(addr, size)
	if ok {
		m.took(addr, size, true)
	}
	return ok
}

func (m *surveyed) unmapRange(addr uint64, size int64) {
	m.simulated.unmapRange(addr, size)
	m.gave(addr, size)
}

// gave ends what lies in a range, which may have been taken in parts.
func (m *surveyed) gave(addr uint64, size int64) {
	for end := addr + uint64(size); addr < end; {
		i, ok := m.open[addr]
		if !ok {
			return
		}
		delete(m.open, addr)
		m.l.Held[i].End = m.call
		addr += uint64(max(m.l.Held[i].Size, 1))
	}
}

// Layout replays a program and returns where its blocks lie. A recording that begins in the middle starts as recorded.
func (h *History) Layout(s Settings, d Device) *Layout {
	l := &Layout{Outcome: h.Run(s, d), Blocks: make([]Placement, len(h.requests))}
	r := h.newRunner(s, d, false)
	m := &surveyed{simulated: r.device, l: l, open: map[uint64]int{}, call: -1, of: -1}
	r.memory = m
	if !r.begin(asRecorded) {
		return l
	}
	for _, i := range h.startSegments {
		in := &h.segments[i]
		m.took(in.addr, in.size, in.expandable)
		last := &l.Held[len(l.Held)-1]
		last.Small, last.Start = in.small, int(i)
	}
	place := func(of int32) {
		if b := &r.blocks[r.at[of]]; r.at[of] != 0 {
			l.Blocks[of] = Placement{b.addr, b.size}
		}
	}
	for _, of := range h.startRequests {
		place(of)
	}
	for i, e := range h.events {
		m.call, m.of = i, int(e.of)
		held := len(l.Held)
		ok := r.event(e, i == len(h.events)-1)
		if e.op == opAlloc || e.op == opFull {
			place(e.of)
			for k := held; k < len(l.Held); k++ {
				l.Held[k].Small = r.size(h.requests[e.of].requested) <= smallSize
			}
		}
		l.Reserved, l.Live = append(l.Reserved, r.reserved), append(l.Live, r.live)
		if !ok || r.work > maxWork {
			break
		}
	}
	return l
}

// Range is the peak of the reserved bytes, as a range: it depends on which addresses the driver chooses.
func (h *History) Range(s Settings, d Device) Outcome {
	o := h.Run(s, d)
	if h.FromStart() {
		other := h.run(s, d, true, asRecorded)
		o.Low, o.High = min(o.Low, other.PeakReserved), max(o.High, other.PeakReserved)
		o.Exact = o.Exact && o.Low == o.High
	}
	return o
}

// Region returns what was held as a region of a space whose recording ends at end, with positions as instants.
func (h *History) Region(held *Held, at func(call int) int64, end int64) lifetime.Region {
	r := lifetime.Region{Begin: at(held.Begin), End: end, Addr: held.Addr, Size: held.Size, Small: held.Small, Kind: "large"}
	switch {
	case held.Expandable:
		r.Kind = lifetime.Expandable
	case held.Small:
		r.Kind = "small"
	}
	if held.End < math.MaxInt {
		r.End = at(held.End)
	} else {
		r.Edge |= lifetime.EndOpen
	}
	if held.Begin < 0 {
		r.Edge |= lifetime.BeginUnseen
	}
	private := int32(0)
	switch {
	case held.Start >= 0:
		r.Stream, private = int64(h.segments[held.Start].stream), h.segments[held.Start].pool
	case held.Request >= 0:
		r.Stream, private = int64(h.requests[held.Request].stream), h.requests[held.Request].pool
	}
	for name, pool := range h.pools {
		if pool == private {
			r.Pool = name
		}
	}
	return r
}
