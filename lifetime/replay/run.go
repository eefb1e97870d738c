package replay

import "cmp"

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

// run replays the requests.
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
