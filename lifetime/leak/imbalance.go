package leak

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
)

// The thresholds of imbalance.
const (
	// maxSetup is the share of the work that counts as setting up where steps are
	// not known.
	maxSetup = 0.1
	// fewAllocations is the number of allocations below which a set-up cannot be
	// distinguished from what follows.
	fewAllocations = 50
)

// imbalance counts what was allocated after the set-up and never freed, and that no
// rule so far has explained: one finding for the space. The site with most bytes of it
// names the finding.
func imbalance(p *Pass) []Finding {
	f, most := Finding{Confidence: 1}, int64(0)
	for site, h := range p.unexplained() {
		unfreed := p.unfreed(h)
		if len(unfreed) == 0 {
			continue
		}
		before := f.Amount.Bytes
		f.merge(p.Space, site, unfreed, h)
		if bytes := f.Amount.Bytes - before; bytes > most {
			most = bytes
			f.Sites[0], f.Sites[len(f.Sites)-1] = site, f.Sites[0]
		}
	}
	if p.histories.end.allocations < fewAllocations || f.Amount.Count == 0 || !p.isNotable(f.Amount.Bytes) {
		return nil
	}
	s := p.Space
	f.Evidence = []Evidence{figure(FigAllocations, s.Allocations), figure(FigFrees, s.Frees)}
	f.describe(p.PlaceOf(f.Sites[0]).String(), fmt.Sprintf("still alive: %s (%s) from after the set-up, most of it from here; its number does not grow like a leak",
		units.Several(f.Amount.Count, "buffer"), units.Bytes(f.Amount.Bytes)),
		fmt.Sprintf("%s, %s in all", units.Several(int64(s.Allocations), "allocation"), units.Several(int64(s.Frees), "free")))
	f.Suggestions = []string{"Record longer: a slow leak goes on, a single allocation does not."}
	return []Finding{f}
}

// unfreed returns the survivors of a site that began after the set-up and are too old
// to be freed in time.
func (p *Pass) unfreed(h *history) (all []int) {
	for _, i := range p.survivors(h) {
		age, end := p.histories.age(i), p.histories.end.work
		setUp := float64(end-age) <= maxSetup*float64(end)
		if len(p.steps.begins) > 1 {
			setUp = p.Space.Buffers[i].Begin < p.steps.begins[1]
		}
		if !setUp && age > h.lag() {
			all = append(all, i)
		}
	}
	return all
}
