package leak

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of fragmentation.
const (
	// minGap is the share of the reserved memory that must be free, and minPieces
	// the share of that outside the largest hole.
	minGap    = 0.3
	minPieces = 0.5
	// leastGap keeps the rounding of segments out: PyTorch reserves 20 MiB where
	// a buffer needs one.
	leastGap = 64 << 20
	// minForced is the share of the reserved memory that the allocator took from
	// the device although it had as much free: then the holes did harm.
	minForced = 0.1
	// stableShare is the last part of the work in which nothing more is reserved
	// where the gap has come to rest.
	stableShare = 1.0 / 3
)

// fragmentation finds reserved memory that is free, but in pieces that are too
// small for what the program asks for. That the gap between reserved and
// allocated memory grows and then stays is no leak: the allocator keeps what it
// had to reserve.
func fragmentation(l Look) []Finding {
	s := l.Space
	switch {
	case l.Function != nil || l.inPieces || !l.dynamic():
		return nil
	case len(s.Regions) == 0 || s.Facts&lifetime.Addresses == 0:
		return l.toldFragmentation()
	}
	reserved, _ := s.Reserved()
	holes := s.FreeAt(s.AtEnd())
	pieces, ok := holes.Fragmentation()
	if !ok || holes.Total < leastGap || shareOf(holes.Total, reserved) < minGap || pieces < minPieces {
		return nil
	}
	forced, last := l.forced()
	f := Finding{Severity: Info, Confidence: pieces, Amount: lifetime.Amount{Bytes: holes.Total}}
	f.Evidence = []Evidence{{Name: "reserved", Value: float64(reserved)}, {Name: "free_in_reserved", Value: float64(holes.Total)},
		{Name: "largest_hole", Value: float64(holes.Largest)}, {Name: "fragmentation", Value: pieces}, {Name: "forced_bytes", Value: float64(forced)}}
	f.Description = fmt.Sprintf("%s of the %s reserved are free at the end, in pieces of at most %s", units.Exact(holes.Total), units.Bytes(reserved),
		units.Bytes(holes.Largest))
	harm := shareOf(forced, reserved) >= minForced
	if harm {
		f.Description += fmt.Sprintf("; %s were reserved while as much was free, but not in one piece", units.Bytes(forced))
	}
	n := len(s.Buffers)
	after := n - allocatedBefore(s, last)
	f.addEvidence("allocations_since_last_reservation", float64(after))
	rests := float64(after) >= stableShare*float64(n)
	if harm && (!rests || holes.Total >= l.critical()) {
		f.Severity = Warning
	}
	if rests {
		f.Description += fmt.Sprintf("; nothing more is reserved since %s: it has come to rest, and is no leak", l.since(last))
	} else {
		f.Description += "; it still grows at the end of the window"
	}
	f.Suggestions = []string{"Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or let max_split_size_mb keep large blocks whole.",
		"Keep sizes to a few: pad or bucket batches; allocate what lives long first."}
	return []Finding{f}
}

// forced sums the regions that were reserved while the reserved memory had as
// much free, and returns when the last one was reserved. Small buffers live in
// regions of their own, so those do not count.
func (l Look) forced() (bytes, last int64) {
	s := l.Space
	steps := s.ReservedLevels()
	reserved, next, used := int64(0), 0, s.Base
	take := func(until int64) {
		for ; next < len(steps) && steps[next].At <= until; next++ {
			more := steps[next].Bytes - reserved
			if more >= smallSegment && reserved-used >= more && steps[next].At > s.Begin+1 {
				bytes = lifetime.AddSat(bytes, more)
			}
			if more > 0 && steps[next].At > s.Begin+1 {
				last = steps[next].At
			}
			reserved = steps[next].Bytes
		}
	}
	for _, level := range l.usage() {
		take(level.At - 1)
		used = level.Bytes
		take(level.At)
	}
	return bytes, last
}

// smallSegment is the size from which on a region of PyTorch's allocator is not
// one for small buffers, which are 2 MiB.
const smallSegment = 2<<20 + 1

// toldFragmentation reads the allocator's own figure at the peak, as XProf
// profiles have it.
func (l Look) toldFragmentation() []Finding {
	peak, highest := l.highest(), float32(0)
	at := float32(0)
	for _, t := range l.Space.Totals {
		if t.HasFragmentation {
			highest = max(highest, t.Fragmentation)
			if t.T <= peak.At {
				at = t.Fragmentation
			}
		}
	}
	if !(at >= minPieces) || l.limit() == 0 || float64(peak.Bytes) < (1-minGap)*float64(l.limit()) { // NaN: nothing is free
		return nil
	}
	return []Finding{{Severity: Info, Confidence: float64(at), Amount: lifetime.Amount{Bytes: l.limit() - peak.Bytes},
		Evidence: []Evidence{{Name: "fragmentation", Value: float64(at)}, {Name: "fragmentation_max", Value: float64(highest)},
			{Name: "peak", Value: float64(peak.Bytes)}, {Name: "limit", Value: float64(l.limit())}},
		Description: fmt.Sprintf("at the peak %.0f %% of the %s free bytes lie outside the largest free block, as the allocator says", 100*at,
			units.Bytes(l.limit()-peak.Bytes)),
		Suggestions: []string{"Keep sizes to a few and allocate what lives long first; TF_GPU_ALLOCATOR=cuda_malloc_async leaves holes to the driver."}}}
}
