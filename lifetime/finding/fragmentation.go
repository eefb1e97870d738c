package finding

import (
	"fmt"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
)

// The thresholds of fragmentation.
const (
	minGap    = 0.3      // minimum free share of the reserved memory if no replay shows that another way needs less
	minPieces = 0.5      // minimum share of the free memory outside the largest hole
	minGain   = 0.1      // minimum share of the reserved memory that is free, or that another way saves
	leastGap  = 64 << 20 // minimum free bytes: PyTorch reserves 20 MiB for a buffer of 1 MiB

	// stableShare is the share of the allocations, at the end, during which a stable allocator reserves nothing more.
	stableShare = 1.0 / 3
)

// fragmentation finds reserved memory that is free, but in pieces, when the program needs most: what is free at other instants
// costs nothing. Only a replay proves that it is too much: it is a warning if another way of allocating needs less, and reserved
// memory still grows. A gap between reserved and allocated memory that grows and then stays is not a leak: the allocator keeps
// what it reserved. Regions without a buffer, which it gives back before it fails, count only if a replay shows a gain.
func fragmentation(p *Pass) []Finding {
	s := p.Space
	switch {
	case p.fragmented || p.compiled():
		return nil
	case len(s.Regions) == 0 || s.Facts&lifetime.Addresses == 0:
		return p.reportedFragmentation()
	}
	at, grown, when := s.AtEnd(), int64(0), "are free at the end"
	if p.dynamic() {
		at, grown = p.fullest()
		when = "were free at " + p.since(at) + ", when most was in use"
	}
	reserved, holes := region.ReservedAt(s, at), region.FreeAt(s, at)
	if !inPieces(holes, reserved, minGain) {
		return nil
	}
	pieces, _ := holes.Fragmentation()
	f := Finding{Amount: lifetime.Amount{Bytes: holes.Total}, Suggestions: []string{adviceFragmented},
		Evidence: []Evidence{figure(FigReserved, reserved), figure(FigFree, holes.Total),
			figure(FigLargestHole, holes.Largest), figure(FigFragmentation, pieces)}}
	replayed := p.replayed(&f, at, false)
	if shareOf(replayed.gain, reserved) < minGain && !inPieces(region.PiecesAt(s, at), reserved, minGap) {
		return nil
	}
	state := p.grewLately(&f, grown, replayed, reserved)
	parts := slices.Insert(replayed.parts, min(1, len(replayed.parts)), state)
	f.describe("", fmt.Sprintf("%s of %s reserved %s; largest hole %s", units.Bytes(holes.Total), units.Bytes(reserved), when,
		units.Bytes(holes.Largest)), parts...)
	return []Finding{f}
}

// grewLately says whether reserved memory still grows, where grown is the instant at which it last did. It makes the finding a warning if
// another way of allocating needs much less for sure, and reserved memory still grows or that is critical.
func (p *Pass) grewLately(f *Finding, grown int64, r replayed, reserved int64) string {
	if !p.dynamic() {
		return "without a history it is unknown how much was free when memory was short"
	}
	n := len(p.Space.Buffers)
	after := n - allocatedBefore(p.Space, grown)
	stable := float64(after) >= stableShare*float64(n)
	f.add(figure(FigSinceReserved, after))
	if shareOf(r.gain, reserved) >= minGain && r.exact && r.gain >= leastGap && (!stable || r.gain >= p.critical()) {
		f.Severity = Warning
	}
	switch {
	case stable && grown == 0:
		return "reserved memory did not grow during the recording, so this is not a leak"
	case stable:
		return fmt.Sprintf("reserved memory has been stable since %s, so this is not a leak", p.since(grown))
	}
	return "reserved memory is still growing at the end"
}

// inPieces reports whether a share of the reserved memory is free, most of it outside the largest hole.
func inPieces(holes region.Holes, reserved int64, share float64) bool {
	pieces, ok := holes.Fragmentation()
	return ok && holes.Total >= leastGap && shareOf(holes.Total, reserved) >= share && pieces >= minPieces
}

// fullest returns the instant at which most memory was in use, of those at which nearly as much was reserved as ever, and when the
// reserved memory last grew, 0 if it did not. Where less was reserved, another way would not save minGain.
func (p *Pass) fullest() (at, grown int64) {
	s := p.Space
	steps := region.Levels(s)
	_, most := region.Reserved(s)
	at = s.AtEnd()
	reserved, used := int64(0), int64(-1)
	for _, level := range p.usage() {
		for ; len(steps) > 0 && steps[0].At <= level.At; steps = steps[1:] {
			if steps[0].Bytes > reserved && steps[0].At > s.Begin+1 {
				grown = steps[0].At
			}
			reserved = steps[0].Bytes
		}
		if level.Bytes > used && float64(reserved) >= (1-minGain)*float64(most) {
			at, used = level.At, level.Bytes
		}
	}
	return at, grown
}

// reportedFragmentation uses the fragmentation that the allocator reported at the peak (XProf profiles).
func (p *Pass) reportedFragmentation() []Finding {
	peak, highest, limit := p.highest(), float32(0), p.limit()
	atPeak := float32(0)
	for _, t := range p.Space.Totals {
		if t.HasFragmentation {
			highest = max(highest, t.Fragmentation)
			if t.T <= peak.At {
				atPeak = t.Fragmentation
			}
		}
	}
	if !(atPeak >= minPieces) || limit == 0 || float64(peak.Bytes) < (1-minGap)*float64(limit) { // NaN: nothing is free
		return nil
	}
	f := Finding{Amount: lifetime.Amount{Bytes: limit - peak.Bytes},
		Evidence: []Evidence{figure(FigFragmentation, float64(atPeak)), figure(FigMaxFragmentation, float64(highest)),
			figure(FigPeak, peak.Bytes), figure(FigLimit, limit)},
		Suggestions: []string{"Use few sizes, or set TF_GPU_ALLOCATOR=cuda_malloc_async."}}
	f.describe("",
		fmt.Sprintf("at the peak, %.0f %% of the free %s were outside the largest hole, as the allocator reported", 100*atPeak,
			units.Bytes(limit-peak.Bytes)))
	return []Finding{f}
}
