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
	// stableShare is the share of the allocations, the last ones, since which nothing
	// more was reserved where reserved memory is stable.
	stableShare = 1.0 / 3
)

// adviceFragmented is what to do about memory in pieces in PyTorch.
const adviceFragmented = "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; bucket batch sizes."

// fragmentation finds reserved memory that is free, but in pieces that are too
// small for what the program requests. A gap between reserved and allocated memory
// that grows and then stays is not a leak: the allocator keeps what it had to reserve.
func fragmentation(p *Pass) []Finding {
	s := p.Space
	switch {
	case p.fragmented:
		return nil
	case len(s.Regions) == 0 || s.Facts&lifetime.Addresses == 0:
		return p.reportedFragmentation()
	}
	reserved, _ := s.Reserved()
	holes := s.FreeAt(s.AtEnd())
	pieces, ok := holes.Fragmentation()
	if !ok || holes.Total < leastGap || shareOf(holes.Total, reserved) < minGap || pieces < minPieces {
		return nil
	}
	forced, last := p.forced()
	n := len(s.Buffers)
	after := n - allocatedBefore(s, last)
	f := Finding{Confidence: pieces, Amount: lifetime.Amount{Bytes: holes.Total}, Suggestions: []string{adviceFragmented},
		Evidence: []Evidence{figure(FigReserved, reserved), figure(FigFree, holes.Total), figure(FigLargestHole, holes.Largest), figure(FigFragmentation, pieces),
			figure(FigForced, forced), figure(FigSinceReserved, after)}}
	harm, harmed := "", shareOf(forced, reserved) >= minForced
	if harmed {
		harm = fmt.Sprintf("%s were reserved although as much was free", units.Bytes(forced))
	}
	rest, rests := "reserved memory still grows at the end", float64(after) >= stableShare*float64(n)
	if rests {
		rest = fmt.Sprintf("reserved memory has been stable since %s, so this is not a leak", p.since(last))
	}
	if harmed && (!rests || holes.Total >= p.critical()) {
		f.Severity = Warning
	}
	f.describe("", fmt.Sprintf("%s of %s reserved are free at the end, in pieces of at most %s", units.Bytes(holes.Total), units.Bytes(reserved),
		units.Bytes(holes.Largest)), harm, rest)
	return []Finding{f}
}

// forced sums the regions that were reserved while the reserved memory had as
// much free, and returns when the last one was reserved. Small buffers live in
// regions of their own, so those do not count.
func (p *Pass) forced() (bytes, last int64) {
	s := p.Space
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
	for _, level := range p.usage() {
		take(level.At - 1)
		used = level.Bytes
		take(level.At)
	}
	return bytes, last
}

// smallSegment is the size from which on a region of PyTorch's allocator is not
// one for small buffers, which are 2 MiB.
const smallSegment = 2<<20 + 1

// reportedFragmentation reads the allocator's own figure at the peak, as XProf
// profiles have it.
func (p *Pass) reportedFragmentation() []Finding {
	peak, highest, limit := p.highest(), float32(0), p.limit()
	at := float32(0)
	for _, t := range p.Space.Totals {
		if t.HasFragmentation {
			highest = max(highest, t.Fragmentation)
			if t.T <= peak.At {
				at = t.Fragmentation
			}
		}
	}
	if !(at >= minPieces) || limit == 0 || float64(peak.Bytes) < (1-minGap)*float64(limit) { // NaN: nothing is free
		return nil
	}
	f := Finding{Confidence: float64(at), Amount: lifetime.Amount{Bytes: limit - peak.Bytes},
		Evidence: []Evidence{figure(FigFragmentation, float64(at)), figure(FigMaxFragmentation, float64(highest)), figure(FigPeak, peak.Bytes),
			figure(FigLimit, limit)},
		Suggestions: []string{"Use few sizes, or set TF_GPU_ALLOCATOR=cuda_malloc_async."}}
	f.describe("", fmt.Sprintf("%.0f %% of the %s free at the peak lie outside the largest free block, as the allocator reports", 100*at,
		units.Bytes(limit-peak.Bytes)))
	return []Finding{f}
}
