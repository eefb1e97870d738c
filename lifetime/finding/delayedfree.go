package finding

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of delayedFree.
const (
	minBurst   = 3   // buffers freed with no allocation in between
	burstSteps = 3   // minimum age, in steps, of the oldest buffer of a burst
	burstShare = 0.5 // share of the frees of a site that are in bursts
)

// delayedFree finds sites that free many buffers at once, long after most of them were allocated: reference cycles, which wait for the garbage collector,
// and lists that are flushed from time to time. Both raise the peak. A value of several buffers that another one replaces does not: see replaces.
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
			fmt.Sprintf("up to %s (%s) are freed at once, the oldest after %s; they are freed late, not leaked",
				units.Plural(f.Amount.Count, "buffer"), units.Bytes(f.Amount.Bytes),
				units.Plural(int64(p.livedThrough(f.Kept)), "step")))
		f.Suggestions = []string{p.earlier(f)}
		return p.isNotable(f.Amount.Bytes)
	})
}

// earlier returns the advice for a finding. The garbage collector runs at various places; at one place, it may be the collector or not.
func (p *Pass) earlier(f *Finding) string {
	const cycles = "Break reference cycles with del or weakref"
	switch at := p.freedAt(f.Sites); {
	case len(at) >= collections:
		return cycles + ", or call gc.collect() more often."
	case len(at) > 0:
		f.add(textFigure(FigFreedBy, at[0].String()))
		return fmt.Sprintf("Freed by %s: flush lists, break cycles.", at[0])
	}
	return cycles + "; flush lists more often."
}

func (p *Pass) freedAt(sites []lifetime.SiteID) []lifetime.Place {
	times := map[lifetime.Place]int{}
	if p.Space.FreeSites != nil {
		for _, site := range sites {
			for _, f := range p.histories.sites[site].freed {
				if at := p.Space.FreeSites[f.buffer]; at != 0 {
					times[p.PlaceOf(at)]++
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(times), func(x, y lifetime.Place) int {
		return cmp.Or(cmp.Compare(times[y], times[x]), cmp.Compare(x.String(), y.String()))
	})
}

// bursts describes the frees of a site that come many at a time.
type bursts struct {
	n       int
	share   float64 // of all frees of the site
	largest []int   // buffers of the burst with most bytes
}

func (p *Pass) bursts(h *history) (found bursts) {
	steps := len(p.steps.Begins)
	if len(h.lifetimes) == 0 || steps < burstSteps || h.quantile(1) < (burstSteps-1)*p.histories.end.work/steps {
		return found // fast path: in most sites nothing lives that long
	}
	inBursts, most := 0, int64(0)
	for frees := range p.histories.together(h) {
		if len(frees) < minBurst {
			continue
		}
		burst, bytes := p.buffersOf(frees)
		if p.livedThrough(burst) < burstSteps || p.replaces(h, burst) {
			continue
		}
		found.n++
		inBursts += len(frees)
		if bytes > most {
			most, found.largest = bytes, burst
		}
	}
	found.share = float64(inBursts) / float64(len(h.freed))
	return found
}

func (p *Pass) buffersOf(all []freed) (buffers []int, bytes int64) {
	for _, f := range all {
		buffers = append(buffers, int(f.buffer))
		bytes = units.AddSat(bytes, p.Space.Buffers[f.buffer].Size)
	}
	return buffers, bytes
}

// livedThrough returns the age of the oldest of several buffers when it was freed, in steps.
func (p *Pass) livedThrough(buffers []int) (steps int) {
	for _, i := range buffers {
		b := &p.Space.Buffers[i]
		steps = max(steps, p.steps.At(b.End)-p.steps.At(b.Begin))
	}
	return steps
}

// replaces reports whether the buffers of a burst are one value, and the site allocated another one of as many buffers
// in the step that freed it:
//
//	best = {name: w.clone() for name, w in weights.items()}
//
// There is one such value at any time, so none is freed late.
func (p *Pass) replaces(h *history, burst []int) bool {
	if len(p.stepsOf(burst)) > 1 {
		return false
	}
	end := p.Space.Buffers[burst[0]].End
	at, more := p.steps.At(end), 0
	for k := sort.Search(len(h.buffers), func(k int) bool { return p.Space.Buffers[h.buffers[k]].Begin >= end }) - 1; k >= 0; k-- {
		if p.steps.At(p.Space.Buffers[h.buffers[k]].Begin) != at {
			break
		}
		more++
	}
	return more >= len(burst)
}

func (p *Pass) freesAtOnce(h *history, n int) bool {
	for frees := range p.histories.together(h) {
		if len(frees) < n {
			return false
		}
	}
	return len(h.freed) > 0
}

// together yields the frees of a site in groups, with no allocation of the space within a group but bystanders'.
func (all *histories) together(h *history) iter.Seq[[]freed] {
	return func(yield func([]freed) bool) {
		for from, to := 0, 0; from < len(h.freed); from = to {
			for to = from; to < len(h.freed) && all.between(int(h.freed[from].allocations), int(h.freed[to].allocations)) == 0; {
				to++
			}
			if !yield(h.freed[from:to]) {
				return
			}
		}
	}
}
