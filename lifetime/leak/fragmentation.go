package leak

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of fragmentation.
const (
	minGap    = 0.3      // minimum free share of the reserved memory
	minPieces = 0.5      // minimum share of the free memory outside the largest hole
	leastGap  = 64 << 20 // minimum free bytes: PyTorch reserves 20 MiB for a buffer of 1 MiB

	// minForced is the share of the reserved memory that was reserved although that much was free. From there on, the
	// holes did harm.
	minForced = 0.1
	// stableShare is the share of the allocations, at the end, during which a stable allocator reserves nothing more.
	stableShare = 1.0 / 3
)

// adviceFragmented is the advice against fragmentation in PyTorch.
const adviceFragmented = "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; bucket batch sizes."

// fragmentation finds reserved memory that is free, but in pieces too small for the requests of the program. A gap
// between reserved and allocated memory that grows and then stays is not a leak: the allocator keeps what it reserved.
func fragmentation(p *Pass) []Finding {
	s := p.Space
	switch {
	case p.fragmented || p.compiled():
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
	f := Finding{Confidence: pieces, Amount: lifetime.Amount{Bytes: holes.Total}, Suggestions: []string{adviceFragmented},
		Evidence: []Evidence{figure(FigReserved, reserved), figure(FigFree, holes.Total), figure(FigLargestHole, holes.Largest), figure(FigFragmentation, pieces)}}
	text := fmt.Sprintf("%s of %s reserved are free at the end; largest hole %s", units.Bytes(holes.Total), units.Bytes(reserved), units.Bytes(holes.Largest))
	if !p.dynamic() { // an end state without a history
		if holes.Total >= p.critical() {
			f.Severity = Warning
		}
		f.describe("", text, "the capture has no history, so it is unknown since when")
		return []Finding{f}
	}
	forced, last := p.forced()
	n := len(s.Buffers)
	after := n - allocatedBefore(s, last)
	f.add(figure(FigForced, forced), figure(FigSinceReserved, after))
	harm, harmed := "", shareOf(forced, reserved) >= minForced
	if harmed {
		harm = fmt.Sprintf("%s were reserved although that much was free", units.Bytes(forced))
	}
	state, stable := "reserved memory is still growing at the end", float64(after) >= stableShare*float64(n)
	if stable {
		state = "reserved memory did not grow during the recording, so this is not a leak"
		if last > 0 {
			state = fmt.Sprintf("reserved memory has been stable since %s, so this is not a leak", p.since(last))
		}
	}
	if harmed && (!stable || holes.Total >= p.critical()) {
		f.Severity = Warning
	}
	f.describe("", text, harm, state)
	return []Finding{f}
}

// forced returns the bytes that were reserved although as much reserved memory was free, and the instant of the last
// reservation, 0 if there was none. Regions for small buffers do not count: large requests cannot use them.
func (p *Pass) forced() (bytes, last int64) {
	s := p.Space
	steps := s.ReservedLevels()
	reserved, next, used := int64(0), 0, s.Base
	take := func(until int64) {
		for ; next < len(steps) && steps[next].At <= until; next++ {
			more := steps[next].Bytes - reserved
			if more >= smallSegment && reserved-used >= more && steps[next].At > s.Begin+1 {
				bytes = units.AddSat(bytes, more)
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

// smallSegment is the minimum size of regions for large buffers in PyTorch. Those for small buffers have 2 MiB.
const smallSegment = 2<<20 + 1

// reportedFragmentation uses the fragmentation that the allocator reported at the peak (XProf profiles).
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
	f.describe("", fmt.Sprintf("at the peak, %.0f %% of the free %s were outside the largest hole, as the allocator reported", 100*at,
		units.Bytes(limit-peak.Bytes)))
	return []Finding{f}
}
