package replay

import (
	"math"

	"github.com/memlane/memlane/internal/units"
)

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
