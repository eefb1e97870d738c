package leak

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of delayed.
const (
	minBurst   = 3   // buffers that are freed with no allocation in between
	burstSteps = 3   // iterations that the oldest of them has lived through
	burstShare = 0.5 // of the freed buffers of the site
)

// delayed finds sites whose buffers are not freed one by one, but many at a time and
// long after most of them were allocated: reference cycles, which wait for the
// garbage collector, and lists that are flushed now and then. Either way the
// peak holds what nobody needs.
func delayed(l Look) []Finding {
	if !l.dynamic() {
		return nil
	}
	h := l.history()
	all := newPlaces()
	shares := map[lifetime.Place]float64{}
	for _, site := range h.order {
		hist := h.sites[site]
		if l.told[site] || !l.wants(site) {
			continue
		}
		b := l.bursts(hist)
		if b.share < burstShare || b.n < 2 {
			continue
		}
		p := l.PlaceOf(site)
		all.at(p).merge(l.Space, site, b.largest, hist)
		shares[p] = max(shares[p], b.share)
	}
	var findings []Finding
	for _, p := range all.order {
		f := all.found[p]
		if !l.worthTelling(f.Amount.Bytes) {
			continue
		}
		f.Confidence = shares[p]
		f.addEvidence("share_in_bursts", shares[p])
		f.Description = fmt.Sprintf("what %s allocates is freed in bursts: at most %s buffers at a time, %s, some of them steps old",
			p, units.Count(f.Amount.Count), units.Exact(f.Amount.Bytes))
		f.Suggestions = []string{fmt.Sprintf("If no list is flushed there, %s makes reference cycles, which wait for Python's garbage collector: "+
			"break them (del, weakref), or call gc.collect() more often; a list can be flushed more often too.", p)}
		findings = append(findings, *f)
	}
	return findings
}

// bursts are the frees of a site that come many at a time.
type bursts struct {
	n       int
	share   float64 // of all frees of the site
	largest []int   // the buffers of the one with most bytes
}

// bursts finds them: the frees of one burst lie between two allocations of the
// space.
func (l Look) bursts(h *history) bursts {
	var found bursts
	in := l.inSteps()
	if len(h.lifetimes) == 0 || len(in.begins) < burstSteps ||
		h.quantile(1) < (burstSteps-1)*l.history().end.work/len(in.begins) { // most sites: nothing lives that long
		return found
	}
	inBursts, most := 0, int64(0)
	for from, to := 0, 0; from < len(h.freed); from = to {
		for to = from; to < len(h.freed) && h.freed[to].allocations == h.freed[from].allocations; {
			to++
		}
		if to-from < minBurst || l.age(h.freed[from:to]) < burstSteps {
			continue
		}
		var burst []int
		bytes := int64(0)
		for _, f := range h.freed[from:to] {
			burst = append(burst, int(f.buffer))
			bytes = lifetime.AddSat(bytes, l.Space.Buffers[f.buffer].Size)
		}
		if found.n++; bytes > most {
			most, found.largest = bytes, burst
		}
		inBursts += to - from
	}
	found.share = float64(inBursts) / float64(len(h.freed))
	return found
}

// age returns how many steps the oldest of some buffers has lived through.
func (l Look) age(all []freed) int {
	oldest := all[0].buffer
	for _, f := range all {
		oldest = min(oldest, f.buffer) // buffers stand in order of their beginnings
	}
	b := &l.Space.Buffers[oldest]
	return l.inSteps().at(b.End) - l.inSteps().at(b.Begin)
}
