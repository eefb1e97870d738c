package replay

import (
	"iter"
	"sync"
)

// CallKind is the kind of a Call.
type CallKind = op

// Kinds of calls.
const (
	Allocate    = opAlloc
	RequestFree = opRequest // the program freed a request, other streams may still use it
	Free        = opFree
	Fail        = opFull  // a request that failed
	Empty       = opEmpty // torch.cuda.empty_cache(); it has no request
)

// Call is what a program asks of the allocator. Request is an index of the buffers of the space; failed requests come
// after them.
type Call struct {
	Kind    CallKind
	Request int
}

// Calls yields what the recorded program asked of the allocator, in order. What was allocated before the recording is
// not in it.
func (h *History) Calls() iter.Seq[Call] {
	return func(yield func(Call) bool) {
		for _, e := range h.events {
			if e.op != opSegment && e.op != opRelease && !yield(Call{e.op, int(e.of)}) {
				return
			}
		}
	}
}

// SizeOf returns the requested bytes of a request.
func (h *History) SizeOf(request int) int64 { return h.requests[request].requested }

// BlockSizeOf returns the bytes of the block that a request needs.
func (h *History) BlockSizeOf(request int) int64 {
	return h.Settings.size(h.requests[request].requested)
}

// Request is a request of a program that was changed.
type Request struct {
	Like  int   // a request of the recording, which has its stream and pool
	Size  int64 // requested bytes
	Start bool  // it is Like itself, which was in use at the start of the recording
}

// Rewrite returns a program that makes other requests, in another order. What was cached at the start of the recording
// stays. Instants of the result are indexes of calls.
func (h *History) Rewrite(requests []Request, calls []Call) *History {
	w := &History{
		Settings: h.Settings, requests: make([]request, len(requests)), segments: h.segments, events: make([]event, len(calls)),
		startSegments: h.startSegments, addresses: h.addresses, pools: h.pools, poolsUnknown: h.poolsUnknown,
		capacity: h.capacity, unclear: h.unclear, differs: h.differs,
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
		w.events[i] = event{c.Kind, int32(c.Request)}
		switch r := &w.requests[min(c.Request, len(requests)-1)]; c.Kind {
		case Allocate, Fail:
			r.begin, r.number, w.allocations = int64(i), int32(i), w.allocations+1
		case Free:
			r.end = int64(i)
		}
	}
	return w
}

// Place is where a replay puts a request; the zero Place if it finds no memory.
type Place struct {
	Addr uint64
	Size int64 // of its block, in bytes
}

// Places returns where the requests of the program lie, as Run replays them without a limit.
func (h *History) Places() []Place {
	all := make([]Place, len(h.requests))
	place := func(r *runner, of int32) {
		if i := r.at[of]; i != 0 {
			all[of] = Place{r.blocks[i].addr, r.blocks[i].size}
		}
	}
	h.walk(h.Settings, Device{}, func(r *runner, done int, _ int64) bool {
		switch {
		case done == 0:
			for _, of := range h.startRequests {
				place(r, of)
			}
		case h.events[done-1].op == opAlloc || h.events[done-1].op == opFull:
			place(r, h.events[done-1].of)
		}
		return true
	})
	return all
}

// Range is the peak of the reserved bytes, as a range: it depends on which addresses the driver chooses.
func (h *History) Range(s Settings, d Device) Outcome {
	if !h.FromStart() {
		return h.Run(s, d)
	}
	var o, other Outcome
	var both sync.WaitGroup
	both.Go(func() { other = h.run(s, d, true, asRecorded) })
	o = h.Run(s, d)
	both.Wait()
	o.Low, o.High = min(o.Low, other.PeakReserved), max(o.High, other.PeakReserved)
	o.Exact, o.Repeats = o.Exact && o.Low == o.High, o.Repeats && other.Repeats
	return o
}
