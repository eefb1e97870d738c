package replay

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
)

type request struct {
	addr         uint64
	requested    int64
	occupied     int64 // bytes of its block; 0 = not recorded
	stream, pool int32
	number       int32 // of its event in the recording; -1 = its event was not recorded
	begin, end   int64 // instants
}

type op uint8

const (
	opAlloc   op = iota // of a request
	opRequest           // the program freed a request, other streams may still use it
	opFree              // of a request
	opSegment           // a segment was taken from the device
	opRelease           // a segment was returned
	opFull              // a request failed
	opEmpty             // torch.cuda.empty_cache()
)

// event is one event of the allocator. of is an index of History.requests or segments.
type event struct {
	op op
	of int32
}

// segment is memory of the device: a segment, or a mapped part of an expandable one.
type segment struct {
	addr         uint64
	size         int64
	stream, pool int32
	small        bool
	expandable   bool
}

func (s *segment) key() key { return key{size: s.size, addr: s.addr} }

// History is what a space records of the allocator, in order.
type History struct {
	Settings Settings // of the recording
	Repeats  [][2]int // pairs of events, in order and apart, at which replays compare how the blocks lie; see Outcome

	requests []request
	segments []segment
	events   []event

	// The state at the start of the recording: indexes of requests and segments.
	startRequests []int32
	startSegments []int32

	addresses map[int64][]uint64 // of segments that were taken, by size and in order; see addressesOf

	pools        map[string]int32 // private pools
	poolsUnknown bool             // the pool of a segment was not recorded
	allocations  int              // recorded ones
	capacity     int64            // bytes that the allocator could reserve at least, known from the last OOM; 0 = not known
	peakReserved int64            // recorded
	grownPeak    int64            // the same since the first segment was taken; 0 = none was
	unclear      bool             // segments were released, maybe by empty_cache, maybe to make room
	largest      int64            // request or segment in bytes
	begin        int64            // instant
	differs      bool             // Verify found events that the rules do not predict
}

// Capacity returns the bytes that the allocator could reserve when an allocation failed: a
// recorded OOM has the free bytes of the device. 0 means that no OOM tells.
func (h *History) Capacity() int64 { return h.capacity }

// PeakReserved returns the recorded peak of the reserved bytes.
func (h *History) PeakReserved() int64 { return h.peakReserved }

// FromStart reports whether the recording begins before the first allocation.
func (h *History) FromStart() bool { return len(h.startRequests)+len(h.startSegments) == 0 }

// Of returns the history of a space, whose source recorded these settings. It returns nil
// if the space has no history of PyTorch's allocator with its segments.
func Of(s *lifetime.Space, recorded []lifetime.Setting) *History {
	if !Recorded(s) {
		return nil
	}
	h := &historian{
		space: s, History: History{pools: map[string]int32{}, events: make([]event, 0, 2*len(s.Buffers)+2*len(s.Regions))},
	}
	h.read()
	h.Settings = h.settings(recorded)
	h.markEmptyCache()
	h.addresses = h.addressesOf()
	return &h.History
}

// Recorded reports whether a space has what a History needs: the history of PyTorch's caching allocator, with its
// segments.
func Recorded(s *lifetime.Space) bool {
	const needed = lifetime.History | lifetime.Regions | lifetime.Addresses
	kinds := []string{"small", "large", lifetime.Expandable}
	return s.Facts&needed == needed && s.Axis != lifetime.ProgramOrder && s.Memory == "" && len(s.Buffers) < math.MaxInt32/4 &&
		slices.ContainsFunc(s.Regions, func(r lifetime.Region) bool { return slices.Contains(kinds, r.Kind) })
}

type historian struct {
	History
	space    *lifetime.Space
	number   int32 // events so far
	reserved int64
}

// rare is an event other than the begin or the end of a buffer.
type rare struct {
	t    int64
	op   op
	of   int32 // index of a region, buffer or mark
	size int64 // of a range of adjacent regions
}

// read merges all events of the space in order of time.
func (h *historian) read() {
	s := h.space
	h.requests, h.begin = make([]request, len(s.Buffers)), s.Begin
	others := h.rares()
	regions := region.OfBuffers(s)
	for i := range s.Buffers {
		b := &s.Buffers[i]
		r := request{addr: b.Addr, requested: b.Requested, number: -1, begin: b.Begin, end: b.End}
		h.largest = max(h.largest, b.Requested)
		if b.Edge&lifetime.SizeInferred == 0 {
			r.occupied = b.Size
		}
		if regions[i] != region.None {
			region := &s.Regions[regions[i]]
			r.stream, r.pool = int32(region.Stream), h.pool(region)
		}
		h.requests[i] = r
	}
	for c := range s.Changes() {
		for len(others) > 0 && others[0].t < c.T {
			h.take(&others[0])
			others = others[1:]
		}
		h.change(c)
	}
	for i := range others {
		h.take(&others[i])
	}
}

// rares returns the events other than changes in order of time. A region may have been
// split since it was reserved, and a release may have covered several.
func (h *historian) rares() (all []rare) {
	s := h.space
	for i := range s.Regions {
		r := &s.Regions[i]
		all = append(all, rare{r.Begin, opSegment, int32(i), r.Size})
		if r.Edge&(lifetime.EndOpen|lifetime.EndInferred) == 0 {
			all = append(all, rare{r.End, opRelease, int32(i), r.Size})
		}
	}
	for i, t := range s.FreeRequests {
		if b := &s.Buffers[i]; t < b.End {
			all = append(all, rare{t, opRequest, int32(i), 0})
		}
	}
	for i := range s.Marks {
		if m := &s.Marks[i]; m.Kind == lifetime.OOM || m.Kind == lifetime.Snapshot {
			all = append(all, rare{m.Begin, opFull, int32(i), 0})
		}
	}
	addr := func(r *rare) uint64 {
		if r.op == opSegment || r.op == opRelease {
			return s.Regions[r.of].Addr
		}
		return 0
	}
	slices.SortStableFunc(all, func(x, y rare) int {
		return cmp.Or(cmp.Compare(x.t, y.t), cmp.Compare(x.op, y.op), cmp.Compare(addr(&x), addr(&y)))
	})
	joined := all[:0]
	for _, r := range all {
		if n := len(joined) - 1; n >= 0 && (r.op == opSegment || r.op == opRelease) && joined[n].op == r.op &&
			joined[n].t == r.t && r.t > s.Begin && addr(&joined[n])+uint64(joined[n].size) == addr(&r) {
			joined[n].size += r.size
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

func (h *historian) add(op op, of int32) {
	h.events = append(h.events, event{op, of})
}

func (h *historian) change(c lifetime.Change) {
	b, r := &h.space.Buffers[c.Buffer], &h.requests[c.Buffer]
	buffer := int32(c.Buffer)
	switch {
	case !c.Begin:
		h.add(opFree, buffer)
		h.number++
		if h.space.FreeRequests == nil || h.space.FreeRequests[buffer] == b.End {
			h.number++ // of the request
		}
		return
	case b.Edge&lifetime.BeginUnseen == 0:
		r.number = h.number
		h.number++
		h.allocations++
	}
	if b.Begin == h.space.Begin {
		h.startRequests = append(h.startRequests, buffer)
		return
	}
	h.add(opAlloc, buffer)
}

func (h *historian) take(r *rare) {
	switch r.op {
	case opSegment, opRelease:
		h.segment(r)
	case opRequest:
		h.add(opRequest, r.of)
		h.number++
	case opFull:
		m := &h.space.Marks[r.of]
		if m.Kind == lifetime.OOM {
			h.add(opFull, int32(len(h.requests)))
			h.requests = append(h.requests, request{requested: m.Requested, stream: int32(m.Stream), number: h.number,
				begin: m.Begin, end: m.Begin})
			if m.Free.Known() {
				h.capacity = h.reserved // a limit of the program itself, if the device had room
				if free, usual := m.Free.Or(0), Default(); free < usual.segment(usual.size(m.Requested)) {
					h.capacity = units.AddSat(free, h.reserved)
				}
			}
		}
		h.number++
	}
}

func (h *historian) segment(e *rare) {
	r := &h.space.Regions[e.of]
	s := segment{addr: r.Addr, size: e.size, stream: int32(r.Stream), pool: h.pool(r), small: r.Small,
		expandable: r.Kind == lifetime.Expandable}
	h.poolsUnknown = h.poolsUnknown || r.Edge&lifetime.PoolUnknown != 0
	index := int32(len(h.segments))
	h.segments = append(h.segments, s)
	if !s.expandable {
		h.largest = max(h.largest, s.size)
	}
	if e.op == opRelease {
		h.reserved -= s.size
	} else {
		h.reserved += s.size
		h.peakReserved = max(h.peakReserved, h.reserved)
	}
	if r.Begin == h.space.Begin && e.op == opSegment {
		h.startSegments = append(h.startSegments, index)
		return
	}
	if e.op == opSegment {
		h.grownPeak = max(h.grownPeak, h.reserved)
	}
	h.number++
	h.add(e.op, index)
}

// addressesOf returns where the driver put the segments that the program took, by their size and in order. Left out are
// expandable ones, and addresses where segments of several sizes lay: which one a replay would find free cannot be
// told.
func (h *History) addressesOf() map[int64][]uint64 {
	ranges := slices.Clone(h.segments)
	slices.SortFunc(ranges, func(x, y segment) int { return cmp.Or(cmp.Compare(x.addr, y.addr), cmp.Compare(x.size, y.size)) })
	ranges = slices.CompactFunc(ranges, func(x, y segment) bool { return x.addr == y.addr && x.size == y.size })
	shared := map[key]bool{}
	for i, last := 1, 0; i < len(ranges); i++ {
		if ranges[i].addr < ranges[last].end() {
			shared[ranges[last].key()], shared[ranges[i].key()] = true, true
		}
		if ranges[i].end() >= ranges[last].end() {
			last = i
		}
	}
	all := map[int64][]uint64{}
	for _, e := range h.events {
		if e.op != opSegment {
			continue
		}
		if s := &h.segments[e.of]; !s.expandable && !shared[s.key()] && s.end() > s.addr && s.size <= maxSize {
			// damaged captures have others
			all[s.size] = append(all[s.size], s.addr)
		}
	}
	return all
}

// pool returns the number of a region's private pool; 0 = the default pool.
func (h *historian) pool(r *lifetime.Region) int32 {
	if r.Pool == "" {
		return 0
	}
	pool, ok := h.pools[r.Pool]
	if !ok {
		pool = int32(len(h.pools)) + 1
		h.pools[r.Pool] = pool
	}
	return pool
}

// markEmptyCache finds calls of torch.cuda.empty_cache(), which are not recorded: segments were released, and the
// program did not need memory. If it took a segment next, the allocator may have released them to make room, but only
// if there was no room: if the segment would have fitted below the recorded peak, it was empty_cache.
func (h *historian) markEmptyCache() {
	var marked []event
	reserved := int64(0)
	for _, i := range h.startSegments {
		reserved += h.segments[i].size
	}
	for i := 0; i < len(h.events); {
		e := h.events[i]
		if e.op != opRelease {
			if e.op == opSegment {
				reserved += h.segments[e.of].size
			}
			if marked != nil {
				marked = append(marked, e)
			}
			i++
			continue
		}
		end, before := i, reserved
		for end < len(h.events) && h.events[end].op == opRelease {
			reserved -= h.segments[h.events[end].of].size
			end++
		}
		if marked == nil {
			marked = append(make([]event, 0, len(h.events)+16), h.events[:i]...)
		}
		if !h.needed(end, before) {
			marked = append(marked, event{op: opEmpty})
		}
		marked = append(marked, h.events[i:end]...)
		i = end
	}
	if marked != nil {
		h.events = marked
	}
}

// needed reports whether event i may be why segments were released, with so many bytes reserved before.
func (h *historian) needed(i int, reserved int64) bool {
	if i == len(h.events) {
		return false
	}
	switch e := h.events[i]; e.op {
	case opSegment:
		if h.Settings.Collect > 0 {
			return true // the garbage collector releases segments before the device is full
		}
		wanted := reserved + h.segments[e.of].size
		if h.capacity > 0 {
			return wanted > h.capacity
		}
		h.unclear = h.unclear || wanted > h.peakReserved
		return wanted > h.peakReserved
	case opFull:
		return true
	}
	return false
}

// Apart returns the same program with some buffers in a private pool of their own, as
// torch.cuda.use_mem_pool puts them (https://docs.pytorch.org/docs/stable/notes/cuda.html).
// buffers are indexes of Space.Buffers.
func (h *History) Apart(buffers []int) *History {
	other := *h
	other.requests = slices.Clone(h.requests)
	other.pools = maps.Clone(h.pools)
	const name = "apart" // no pool of a snapshot has a name like this
	pool := int32(len(h.pools)) + 1
	other.pools[name] = pool
	for _, i := range buffers {
		if r := &other.requests[i]; r.pool == 0 {
			r.pool = pool
		}
	}
	return &other
}

// OnePool returns the program with one private pool instead of several; nil if it has no several.
func (h *History) OnePool() *History {
	if len(h.pools) < 2 {
		return nil
	}
	other := *h
	other.requests = slices.Clone(h.requests)
	for i := range other.requests {
		other.requests[i].pool = min(other.requests[i].pool, 1)
	}
	return &other
}

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

// seedBlock puts a block of the free range rest to use, and returns the rest of the range, 0 if all of it is used.
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
