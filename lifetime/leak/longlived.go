package leak

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
)

// The thresholds of longLived.
const (
	minPeers   = 20  // freed buffers of a site that show how long one lives
	maxOld     = 3   // buffers that are the exception
	muchOlder  = 10  // times as old as nearly all of the freed ones
	nearlyAll  = .99 // quantile
	partOfLife = 0.3 // of the window, at least
)

// longLived finds a few buffers that are alive at the end and much older than
// nearly all others of their site got.
func longLived(p *Pass) (findings []Finding) {
	for site, h := range p.unexplained() {
		old := p.muchOlder(h)
		if len(old) == 0 || len(old) > maxOld {
			continue
		}
		f := Finding{Confidence: 0.8}
		f.merge(p.Space, site, old, h)
		if !p.isNotable(f.Amount.Bytes) {
			continue
		}
		began := p.Space.Buffers[old[0]].Begin
		f.add(figure(FigBeganAfter, began-p.Space.Begin))
		f.describe(p.PlaceOf(site).String(), fmt.Sprintf("it keeps %d of %s (%s) since %s; it freed the others much sooner", len(old),
			units.Several(h.allocated, "buffer"), units.Bytes(f.Amount.Bytes), p.since(began)))
		f.Suggestions = []string{"Find what took a reference then: an outer variable, a logger, an exception."}
		findings = append(findings, f)
	}
	return findings
}

// muchOlder returns the survivors of a site that are much older than its freed buffers
// got; none where too few were freed.
func (p *Pass) muchOlder(h *history) (old []int) {
	if len(h.lifetimes) < minPeers {
		return nil
	}
	usual := h.quantile(nearlyAll)
	for _, i := range p.survivors(h) {
		age := p.histories.age(i)
		if age >= muchOlder*max(usual, 1) && float64(age) >= partOfLife*float64(p.histories.end.work) {
			old = append(old, i)
		}
	}
	return old
}
