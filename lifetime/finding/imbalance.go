package finding

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
)

// The thresholds of imbalance.
const (
	maxWarmup = 0.1 // share of the work that counts as warm-up if steps are unknown
	minWindow = 50  // allocations; with fewer, warm-up and steady state look the same
)

// imbalance sums up the buffers that were allocated after warm-up, never freed, and explained by no earlier rule. It
// returns at most one finding for the space, named after the site with most of these bytes.
func imbalance(p *Pass) []Finding {
	f, most := Finding{}, int64(0)
	for site, h := range p.unexplained() {
		unfreed := p.unfreed(h)
		if len(unfreed) == 0 || p.haveRole(unfreed) || p.inOneCall(site) { // a forward pass needs what it saves
			continue
		}
		before := f.Amount.Bytes
		f.merge(p.Space, site, unfreed, h)
		if bytes := f.Amount.Bytes - before; bytes > most {
			most = bytes
			f.Sites[0], f.Sites[len(f.Sites)-1] = site, f.Sites[0]
		}
	}
	if p.histories.end.allocations < minWindow || f.Amount.Count == 0 || !p.isNotable(f.Amount.Bytes) {
		return nil
	}
	s := p.Space
	f.Evidence = []Evidence{figure(FigAllocations, s.Allocations), figure(FigFrees, s.Frees)}
	f.describe(p.PlaceOf(f.Sites[0]).String(),
		fmt.Sprintf("%s (%s) allocated after warm-up and never freed, most bytes by this call site",
			units.Plural(f.Amount.Count, "buffer"), units.Bytes(f.Amount.Bytes)), p.howItGrows(p.histories.sites[f.Sites[0]]),
		fmt.Sprintf("%s and %s in total", units.Plural(int64(s.Allocations), "allocation"), units.Plural(int64(s.Frees), "free")))
	f.Suggestions = []string{"Record longer: a slow leak continues, a single allocation does not."}
	return []Finding{f}
}

// howItGrows says whether the number of live buffers of a site grows, which is no leak as far as the rule leak can
// judge; "" if it grows in another way than a leak does.
func (p *Pass) howItGrows(h *history) string {
	rises, end := p.rises(h), p.histories.end.work
	if n := len(p.steps.Begins); n > 0 && n < minRises {
		return "" // it cannot have grown as often as in a leak
	}
	if moments(rises) < minRises {
		return "the number does not grow as in a leak"
	}
	first, last := rises[0], rises[len(rises)-1]
	switch _, pause := p.histories.pauses(rises); {
	case end-last.work > maxSilence*pause.work:
		return "the number does not grow as in a leak"
	case float64(last.work-first.work) >= minSpan*float64(end-h.lag()):
		return ""
	}
	p.growsLate = true
	if n := len(p.steps.Begins); n > 0 {
		began := p.steps.At(p.Space.Buffers[p.histories.older+max(first.allocations-1, 0)].Begin)
		return fmt.Sprintf("the number began to grow %s before the end of the recording, too few to judge",
			units.Plural(int64(n-max(began, 0)), "step"))
	}
	return "the number began to grow shortly before the end of the recording, too late to judge"
}

// unfreed returns the survivors of a site that were allocated after warm-up and are overdue.
func (p *Pass) unfreed(h *history) (all []int) {
	for _, i := range p.survivors(h) {
		age, end := p.histories.age(i), p.histories.end.work
		warmup := float64(end-age) <= maxWarmup*float64(end)
		if len(p.steps.Begins) > 1 {
			warmup = p.Space.Buffers[i].Begin < p.steps.Begins[1]
		}
		if !warmup && age > h.lag() {
			all = append(all, i)
		}
	}
	return all
}
