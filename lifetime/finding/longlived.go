package finding

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
)

// The thresholds of longLived.
const (
	minPeers   = 20  // freed buffers of a site that show its usual lifetime
	maxOld     = 3   // exceptions per site
	muchOlder  = 10  // age of an exception, in units of the nearlyAll quantile
	nearlyAll  = .99 // quantile of the lifetimes of freed buffers
	partOfLife = 0.3 // minimum age of an exception as a share of the window
)

// longLived finds a few buffers that are alive at the end and much older than nearly all freed buffers of their site
// were, and whose category does not say what keeps them, as of a workspace or a parameter.
func longLived(p *Pass) (findings []Finding) {
	for site, h := range p.unexplained() {
		old := p.muchOlder(h)
		if len(old) == 0 || len(old) > maxOld {
			continue
		}
		f := Finding{}
		f.merge(p.Space, site, old, h)
		if !p.isNotable(f.Amount.Bytes) {
			continue
		}
		began := p.Space.Buffers[old[0]].Begin
		f.add(figure(FigBeganAfter, began-p.Space.Begin))
		f.describe(p.PlaceOf(site).String(), fmt.Sprintf("%d of %s (%s) retained since %s; the others were freed much sooner", len(old),
			units.Plural(h.allocated, "buffer"), units.Bytes(f.Amount.Bytes), p.since(began)))
		f.Suggestions = []string{"Find the reference taken then: an outer variable, a logger, an exception."}
		findings = append(findings, f)
	}
	return findings
}

// muchOlder returns the survivors of a site that nothing known keeps and that are much older than its freed buffers
// were; none if the site freed fewer than minPeers.
func (p *Pass) muchOlder(h *history) (old []int) {
	if len(h.lifetimes) < minPeers {
		return nil
	}
	usual := h.quantile(nearlyAll)
	for _, i := range p.survivors(h) {
		age := p.histories.age(i)
		if !p.isHeld(i) && age >= muchOlder*max(usual, 1) && float64(age) >= partOfLife*float64(p.histories.end.work) {
			old = append(old, i)
		}
	}
	return old
}
