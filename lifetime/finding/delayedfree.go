package finding

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of delayedFree.
const (
	minBurst   = 3   // buffers freed with no allocation in between
	burstSteps = 3   // minimum age, in steps, of the oldest buffer of a burst
	burstShare = 0.5 // share of the frees of a site that are in bursts
)

// delayedFree finds sites that free many buffers at once, long after most of them were allocated: reference cycles,
// which wait for the garbage collector, and lists that are flushed from time to time. Both raise the peak.
func delayedFree(p *Pass) []Finding {
	all, shares := newPlaces(), map[lifetime.Place]float64{}
	for site, h := range p.unexplained() {
		b := p.bursts(h)
		if b.share < burstShare || b.n < 2 {
			continue
		}
		place := p.PlaceOf(site)
		all.at(place).merge(p.Space, site, b.largest, h)
		shares[place] = max(shares[place], b.share)
	}
	return all.conclude(func(place lifetime.Place, f *Finding) bool {
		f.add(figure(FigShareInBursts, shares[place]))
		f.describe(place.String(),
			fmt.Sprintf("up to %s (%s) are freed at once, the oldest after %d steps or more; they are freed late, not leaked",
				units.Plural(f.Amount.Count, "buffer"), units.Bytes(f.Amount.Bytes), burstSteps))
		f.Suggestions = []string{"Break reference cycles with del or weakref; flush lists more often."}
		return p.isNotable(f.Amount.Bytes)
	})
}

// bursts describes the frees of a site that come many at a time.
type bursts struct {
	n       int
	share   float64 // of all frees of the site
	largest []int   // buffers of the burst with most bytes
}

// bursts finds the bursts of a site. No allocation of the space lies between the frees of one burst.
func (p *Pass) bursts(h *history) (found bursts) {
	steps := len(p.steps.Begins)
	if len(h.lifetimes) == 0 || steps < burstSteps || h.quantile(1) < (burstSteps-1)*p.histories.end.work/steps {
		return found // fast path: in most sites nothing lives that long
	}
	inBursts, most := 0, int64(0)
	for from, to := 0, 0; from < len(h.freed); from = to {
		for to = from; to < len(h.freed) && h.freed[to].allocations == h.freed[from].allocations; {
			to++
		}
		if to-from < minBurst || p.livedThrough(h.freed[from:to]) < burstSteps {
			continue
		}
		found.n++
		inBursts += to - from
		if burst, bytes := p.buffersOf(h.freed[from:to]); bytes > most {
			most, found.largest = bytes, burst
		}
	}
	found.share = float64(inBursts) / float64(len(h.freed))
	return found
}

// buffersOf returns the indices of freed buffers and their occupied bytes.
func (p *Pass) buffersOf(all []freed) (buffers []int, bytes int64) {
	for _, f := range all {
		buffers = append(buffers, int(f.buffer))
		bytes = units.AddSat(bytes, p.Space.Buffers[f.buffer].Size)
	}
	return buffers, bytes
}

// livedThrough returns the age of the oldest of several buffers, in steps.
func (p *Pass) livedThrough(all []freed) int {
	oldest := all[0].buffer
	for _, f := range all {
		oldest = min(oldest, f.buffer) // buffers are in order of allocation
	}
	b := &p.Space.Buffers[oldest]
	return p.steps.At(b.End) - p.steps.At(b.Begin)
}
