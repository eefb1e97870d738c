package replay

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Outcome is what a program would have needed under some settings. Sizes are bytes.
type Outcome struct {
	Settings     Settings
	PeakReserved int64 // what was cached at the start counts if it is there when the program takes its first segment
	PeakLive     int64 // torch.cuda.max_memory_allocated
	Live         int64 // at the end, or when a request fails: with what blocks have more than was requested
	Retries      int   // cudaMalloc failed, and all cached segments were released
	Segments     int   // at the end; expandable segments count as one, however many ranges are mapped

	Repeats bool // its blocks lay the same at both events of all pairs of History.Repeats

	OOM      bool
	OOMEvent int // number of the event that did not fit; -1 = none

	// Exact means that the recording determines the result. Otherwise it depends on what was not recorded: the state at
	// the start, the order of addresses that the driver chooses, or when other streams were done with a block.
	Exact bool

	// The peak of the reserved bytes is in this range. It has a width if the recording begins in the middle: what these
	// settings would have cached before is not known. math.MaxInt64 means that nothing bounds it.
	Low, High int64
}

// runner replays a program under other settings.
type runner struct {
	*allocator
	h      *History
	device *simulated
	at     []int32 // block of each request; 0 = none
	failed int     // number of the event that did not fit
	seeded int64   // reserved bytes at the start
}

// Run replays the requests of the program under other settings, on a device.
func (h *History) Run(s Settings, d Device) Outcome {
	if h.FromStart() {
		o := h.run(s, d, false, asRecorded)
		o.Low, o.High = o.PeakReserved, o.PeakReserved
		return o
	}
	return h.fromMiddle(s, d)
}

// RunBoth is Run, but Exact only if other addresses of segments give the same result, or if the recording has it.
func (h *History) RunBoth(s Settings, d Device) Outcome {
	o := h.Run(s, d)
	switch {
	case s == h.Settings && d.Fraction == 0 && (d.Capacity == 0 || d.Capacity >= h.peakReserved) &&
		o.PeakReserved == cmp.Or(h.grownPeak, h.peakReserved):
		o.Exact, o.Low, o.High = true, o.PeakReserved, o.PeakReserved
	case o.Exact:
		other := h.run(s, d, true, asRecorded)
		o.Exact = other.PeakReserved == o.PeakReserved && other.OOMEvent == o.OOMEvent
	}
	return o
}

func (h *History) newRunner(s Settings, d Device, descending bool) *runner {
	r := &runner{h: h, at: make([]int32, len(h.requests)), failed: -1}
	if !descending && s == h.Settings { // others take segments of other sizes
		r.device = newSimulated(d, h.addresses)
	} else {
		r.device = newSimulated(d, nil)
	}
	r.device.descending = descending
	r.allocator = newAllocator(s, r.device, d.limit(&s))
	return r
}

func (h *History) run(s Settings, d Device, descending bool, from origin) Outcome {
	r := h.newRunner(s, d, descending)
	ok := r.begin(from)
	repeats, watched := true, h.Repeats
	var first uint64         // layout at the first event of the next pair
	compare := func(i int) { // before event i
		switch {
		case len(watched) == 0:
		case i == watched[0][0]:
			first = r.fingerprint()
		case i == watched[0][1]:
			repeats, watched = repeats && first == r.fingerprint(), watched[1:]
		}
	}
	for i := 0; ok && i < len(h.events) && r.work <= maxWork; i++ {
		compare(i)
		ok = r.event(h.events[i], i == len(h.events)-1)
	}
	if ok {
		compare(len(h.events))
	}
	return Outcome{
		Settings: s, PeakReserved: cmp.Or(r.peakReserved, r.seeded), PeakLive: r.peakLive, Live: r.live, Retries: r.retries,
		Segments: r.segments, Repeats: repeats, OOM: !ok, OOMEvent: r.failed,
		Exact: h.FromStart() && !h.unclear && !h.differs && r.early == 0 && r.work <= maxWork && (len(h.pools) == 0 || r.releases == 0),
	}
}

func (r *runner) allocate(of int32) bool {
	i, ok := r.malloc(&r.h.requests[of], of+1)
	r.at[of] = i
	if !ok {
		r.failed = int(r.h.requests[of].number)
	}
	return ok
}

// event takes the next event of the recording. It reports whether the program goes on.
func (r *runner) event(e event, last bool) bool {
	switch e.op {
	case opAlloc:
		return r.allocate(e.of)
	case opRequest:
		if i := r.at[e.of]; i != 0 {
			r.request(i, e.of+1)
		}
	case opFree:
		if i := r.at[e.of]; i != 0 {
			r.free(i, e.of+1)
		}
	case opEmpty:
		r.releaseAll()
	case opFull:
		if !r.allocate(e.of) {
			return false
		}
		if !last { // the program went on without it
			r.free(r.at[e.of], e.of+1)
		}
	}
	return true
}

// origin is how a replay makes the state at the start of a recording. If the recording begins in the middle, it is not
// known what other settings would have made of the requests before it.
type origin uint8

const (
	asRecorded origin = iota // segments and blocks lie as recorded: the settings change at the start
	compact                  // the blocks are allocated in order of address, without gaps: nothing was cached
)

// fromMiddle replays a recording that begins in the middle from both origins.
func (h *History) fromMiddle(s Settings, d Device) Outcome {
	o, other := h.run(s, d, false, asRecorded), h.run(s, d, false, compact)
	low, high := min(o.PeakReserved, other.PeakReserved), max(o.PeakReserved, other.PeakReserved)
	repeats := o.Repeats && other.Repeats
	if other.OOM && !o.OOM && s != h.Settings {
		o = other // if it may fail, it does not fit
	}
	reserved, cached := h.startBytes()
	high = units.AddSat(high, int64((h.inflation(&s)-1)*float64(reserved)))
	if float64(cached) > tight*float64(reserved) {
		low, high = max(o.PeakLive, int64(lower*float64(low))), int64(upper*float64(high))
		if s.MaxSplit < h.Settings.MaxSplit && s.MaxSplit <= h.largest {
			high = math.MaxInt64 // blocks that nothing could reuse may have been cached before
		}
	}
	if limit := d.most(&s); limit > 0 {
		high = min(high, limit)
		if limit < h.peakReserved || o.Retries > 0 || s.Collect > 0 { // what was cached was released, but not known when
			low = min(low, o.PeakLive)
		}
		if limit < reserved {
			high = limit
		}
	}
	o.Low, o.High, o.Exact, o.Repeats = min(low, o.PeakReserved), max(high, o.PeakReserved), false, repeats
	return o
}

// If more than tight of the reserved bytes were cached at the start, the ranges are wider
// by these factors: of recordings that were cut in the middle, 4 % of the peaks were
// outside of what both origins give, and by less than this.
const (
	tight = 0.05
	lower = 0.9
	upper = 1.05
)

// startBytes returns the bytes that were reserved when the first segment of the recording
// was taken, and those that no block used. What was released before does not matter.
func (h *History) startBytes() (reserved, cached int64) {
	used := int64(0)
	size := func(of int32) int64 { return max(h.requests[of].occupied, h.requests[of].requested) }
	for _, i := range h.startSegments {
		reserved = units.AddSat(reserved, h.segments[i].size)
	}
	for _, i := range h.startRequests {
		used = units.AddSat(used, size(i))
	}
	least := int64(math.MaxInt64) // cached at any time so far
	for _, e := range h.events {
		switch e.op {
		case opSegment:
			return reserved, max(min(least, reserved-used), 0)
		case opRelease:
			reserved -= h.segments[e.of].size
		case opAlloc:
			used = units.AddSat(used, size(e.of))
		case opFree:
			used -= size(e.of)
		}
		least = min(least, reserved-used)
	}
	return reserved, max(least, 0)
}

// inflation returns by how much settings round up a large request at most, compared with the recorded settings.
func (h *History) inflation(s *Settings) float64 {
	most := 1.0
	if s.Roundup == h.Settings.Roundup {
		return most
	}
	for i := range h.requests {
		if n := h.requests[i].requested; n > smallSize {
			most = max(most, float64(s.size(n))/float64(h.Settings.size(n)))
		}
	}
	return most
}

// begin makes the state at the start. It reports whether it fits the device.
func (r *runner) begin(from origin) bool {
	if r.h.FromStart() {
		return true
	}
	s := startOf(r.h)
	if from == asRecorded {
		return r.seedAll(s)
	}
	for _, of := range s.live {
		if !r.allocate(of) {
			return false
		}
	}
	return true
}

// seedAll puts all blocks where they were recorded. What is too much for the device cannot have been cached.
func (r *runner) seedAll(s *start) bool {
	for _, i := range s.segments {
		in := &r.h.segments[i]
		r.device.free -= in.size
		r.device.next = max(r.device.next, in.end())
		r.device.taken[in.key()] = true
	}
	s.seed(r.allocator, r.at)
	if r.device.free < 0 || r.limit > 0 && r.reserved > r.limit {
		r.releaseAll()
	}
	r.seeded, r.peakReserved = r.reserved, 0 // what is cached counts from the first segment that is taken
	return r.device.free >= 0
}

// Trace is how a program would have used memory over time under some settings. Its instants are those of the recording.
type Trace struct {
	Outcome
	Reserved, Live []lifetime.Level // after each change
	PeakAt         int64            // when PeakReserved was reached first
	Segments       []Segment        // at PeakAt
}

// Segment is a segment at one instant, or the mapped parts of an expandable one.
type Segment struct {
	Small, Expandable bool
	Blocks            []Block // by address
}

// Size returns the bytes of a segment.
func (s *Segment) Size() (sum int64) {
	for _, b := range s.Blocks {
		sum = units.AddSat(sum, b.Size)
	}
	return sum
}

// Used returns the bytes of a segment that are in use.
func (s *Segment) Used() (sum int64) {
	for _, b := range s.Blocks {
		if b.Used {
			sum = units.AddSat(sum, b.Size)
		}
	}
	return sum
}

// Block is a part of a segment: in use or free.
type Block struct {
	Size int64
	Used bool
}

// Trace is Run, but keeps what happens on the way. A recording that begins in the middle starts as recorded.
func (h *History) Trace(s Settings, d Device) *Trace {
	t := &Trace{Outcome: h.RunBoth(s, d), PeakAt: h.begin}
	peak, last := int64(-1), 0
	visit := func(r *runner, done int, at int64) bool {
		t.Reserved, t.Live = appendLevel(t.Reserved, at, r.reserved), appendLevel(t.Live, at, r.live)
		if r.peakReserved > 0 && r.reserved > peak { // what is cached at the start is not a peak
			peak, t.PeakAt, last = r.reserved, at, done
		}
		return true
	}
	h.walk(s, d, visit)
	h.walk(s, d, func(r *runner, done int, _ int64) bool {
		if done == last {
			t.Segments = r.layout()
		}
		return done < last
	})
	return t
}

// appendLevel adds a level if it differs from the last one. Of several at one instant only the last is a state.
func appendLevel(all []lifetime.Level, at, bytes int64) []lifetime.Level {
	n := len(all)
	switch {
	case n > 0 && all[n-1].Bytes == bytes:
		return all
	case n > 0 && all[n-1].At == at:
		all[n-1].Bytes = bytes
		return all
	}
	return append(all, lifetime.Level{At: at, Bytes: bytes})
}

// walk replays the recording and calls visit at its start and after each event, with the
// number of events so far, until it returns false.
func (h *History) walk(s Settings, d Device, visit func(r *runner, done int, at int64) bool) {
	r := h.newRunner(s, d, false)
	at := h.begin
	if !r.begin(asRecorded) || !visit(r, 0, at) {
		return
	}
	for i, e := range h.events {
		if e.op == opAlloc || e.op == opFull {
			at = h.requests[e.of].begin
		} else if e.op == opFree {
			at = max(at, h.requests[e.of].end)
		}
		if !r.event(e, true) || !visit(r, i+1, at) || r.work > maxWork {
			return
		}
		if e.op == opFull { // the program went on without it
			r.free(r.at[e.of], e.of+1)
		}
	}
}

// layout returns the segments, those for small blocks first, then by address.
func (a *allocator) layout() (all []Segment) {
	var first []int32
	for i := range a.blocks {
		if b := &a.blocks[i]; b.size > 0 && b.prev == 0 {
			first = append(first, int32(i))
		}
	}
	slices.SortFunc(first, func(x, y int32) int {
		small := func(i int32) int {
			if a.small(a.blocks[i].group) {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(small(x), small(y)), cmp.Compare(a.blocks[x].addr, a.blocks[y].addr))
	})
	for _, i := range first {
		s := Segment{Small: a.small(a.blocks[i].group), Expandable: a.blocks[i].expandable}
		for ; i != 0; i = a.blocks[i].next {
			if b := &a.blocks[i]; b.mapped {
				s.Blocks = append(s.Blocks, Block{b.size, b.used})
			}
		}
		if s.Blocks != nil {
			all = append(all, s)
		}
	}
	return all
}

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
