package finding

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
)

// The thresholds of fragmentation.
const (
	minGap    = 0.3      // minimum free share of the reserved memory
	minPieces = 0.5      // minimum share of the free memory outside the largest hole
	leastGap  = 64 << 20 // minimum free bytes: PyTorch reserves 20 MiB for a buffer of 1 MiB

	// minForced is the share of the reserved memory that was reserved although that much was free. From there on, the
	// holes did harm.
	minForced = 0.1
	// minWasted is the minimum share of the highest reserved memory that the program did not use at its peak.
	minWasted = 0.1
	// maxInstants is the number of reservations at which the rule looks for the worst fragmentation, if the end has
	// none.
	maxInstants = 16
	// stableShare is the share of the allocations, at the end, during which a stable allocator reserves nothing more.
	stableShare = 1.0 / 3
)

// fragmentation finds reserved memory that is free, but in pieces too small for the requests of the program. A gap
// between reserved and allocated memory that grows and then stays is not a leak: the allocator keeps what it reserved.
// Regions without a buffer, which it gives back before it fails, count only if more was reserved because of the pieces.
func fragmentation(p *Pass) []Finding {
	s := p.Space
	switch {
	case p.fragmented || p.compiled():
		return nil
	case len(s.Regions) == 0 || s.Facts&lifetime.Addresses == 0:
		return p.reportedFragmentation()
	}
	end := gapAt(s, s.AtEnd())
	end.reserved, _ = region.Reserved(s)
	pieces := gap{end.at, end.reserved, region.PiecesAt(s, end.at)}
	if !p.dynamic() { // an end state without a history
		if !pieces.large() {
			return nil
		}
		f, text := end.finding("at the end")
		if end.holes.Total >= p.critical() {
			f.Severity = Warning
		}
		p.replayed(&f, s.AtEnd())
		f.describe("", text, "the capture has no history, so it is unknown since when")
		return []Finding{f}
	}
	forced, instants, last := p.forced()
	worst, when := worstGap(s, instants), "at the end"
	if harmful := worst.large() && shareOf(forced, worst.reserved) >= minForced; harmful &&
		(!end.large() || 2*end.used() < worst.used()) {
		when = "at " + p.since(worst.at) // the program freed its buffers since then
	} else if worst = end; !end.large() || !pieces.large() && shareOf(forced, end.reserved) < minForced {
		return nil
	}
	f, text := worst.finding(when)
	reserved, holes := worst.reserved, worst.holes
	n := len(s.Buffers)
	after := n - allocatedBefore(s, last)
	f.add(figure(FigForced, forced), figure(FigSinceReserved, after))
	harm, harmed := "", shareOf(forced, reserved) >= minForced
	if harmed {
		harm = fmt.Sprintf("%s were reserved as no free piece was enough", units.Bytes(forced))
	}
	state, stable := "reserved memory is still growing at the end", float64(after) >= stableShare*float64(n)
	if stable {
		state = "reserved memory did not grow during the recording, so this is not a leak"
		if last > 0 {
			state = fmt.Sprintf("reserved memory has been stable since %s, so this is not a leak", p.since(last))
		}
	}
	if harmed && (!stable || holes.Total >= p.critical()) && p.wasted() >= minWasted {
		f.Severity = Warning
	}
	parts := append(p.replayed(&f, s.AtEnd()), harm)
	f.describe("", text, slices.Insert(parts, min(1, len(parts)), state)...)
	return []Finding{f}
}

// wasted returns by how much the highest reserved memory exceeds the highest memory in use, as a share: what was free
// at other instants costs nothing.
func (p *Pass) wasted() float64 {
	_, reserved := region.Reserved(p.Space)
	return shareOf(reserved-p.highest().Bytes, reserved)
}

// gap is the reserved but free memory at an instant.
type gap struct {
	at, reserved int64
	holes        region.Holes
}

// gapAt returns the gap at an instant, with what the regions hold.
func gapAt(s *lifetime.Space, at int64) gap {
	return gap{at, region.ReservedAt(s, at), region.FreeAt(s, at)}
}

// worstGap returns the gap with most free bytes just before one of several reservations.
func worstGap(s *lifetime.Space, reservations []lifetime.Level) (worst gap) {
	slices.SortStableFunc(reservations, func(x, y lifetime.Level) int { return cmp.Compare(y.Bytes, x.Bytes) })
	for _, r := range reservations[:min(len(reservations), maxInstants)] {
		if g := gapAt(s, r.At-1); g.large() && g.holes.Total > worst.holes.Total {
			worst = g
		}
	}
	return worst
}

func (g *gap) used() int64 { return g.reserved - g.holes.Total }

// large applies the thresholds of fragmentation.
func (g *gap) large() bool {
	pieces, ok := g.holes.Fragmentation()
	return ok && g.holes.Total >= leastGap && shareOf(g.holes.Total, g.reserved) >= minGap && pieces >= minPieces
}

// finding returns the finding of a gap and the beginning of its text.
func (g *gap) finding(when string) (Finding, string) {
	pieces, _ := g.holes.Fragmentation()
	are := "are free"
	if when != "at the end" {
		are = "were free"
	}
	return Finding{Amount: lifetime.Amount{Bytes: g.holes.Total}, Suggestions: []string{adviceFragmented},
			Evidence: []Evidence{figure(FigReserved, g.reserved), figure(FigFree, g.holes.Total),
				figure(FigLargestHole, g.holes.Largest), figure(FigFragmentation, pieces)}},
		fmt.Sprintf("%s of %s reserved %s %s; largest hole %s", units.Bytes(g.holes.Total), units.Bytes(g.reserved),
			are, when, units.Bytes(g.holes.Largest))
}

// forced returns the bytes that were reserved although as much reserved memory was free, these reservations, and the
// instant of the last reservation of all, 0 if there was none. Regions for small buffers do not count: large requests
// cannot use them. The same free bytes may be too small for many requests; in one piece they would have met no more
// than their own size.
func (p *Pass) forced() (bytes int64, reservations []lifetime.Level, last int64) {
	s := p.Space
	steps := region.Levels(s)
	reserved, next, used, free := int64(0), 0, s.Base, int64(0)
	take := func(until int64) {
		for ; next < len(steps) && steps[next].At <= until; next++ {
			more := steps[next].Bytes - reserved
			if more >= smallSegment && reserved-used >= more && steps[next].At > s.Begin+1 {
				bytes = units.AddSat(bytes, more)
				free = max(free, reserved-used)
				reservations = append(reservations, lifetime.Level{At: steps[next].At, Bytes: more})
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
	return min(bytes, free), reservations, last
}

// smallSegment is the minimum size of regions for large buffers in PyTorch. Those for small buffers have 2 MiB.
const smallSegment = 2<<20 + 1

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
