package finding

import (
	"fmt"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
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
// were, and whose category does not say what keeps them, as of a workspace or a parameter. Those that are older than the recording may be
// many: what a leak retained before the ring buffer overflowed.
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
	if p.histories.older == 0 {
		return findings
	}
	lines, order := p.linesOf()
	for _, place := range order {
		old, all := p.outlived(place, lines[place].sites)
		if len(old) == 0 {
			continue
		}
		f := Finding{}
		f.merge(p.Space, p.Space.Buffers[old[0]].Site, old, all)
		if !p.isNotable(f.Amount.Bytes) {
			continue
		}
		f.describe(place.String(), fmt.Sprintf("%s (%s) are older than the recording; the others were freed much sooner",
			units.Plural(f.Amount.Count, "buffer"), units.Bytes(f.Amount.Bytes)))
		f.Suggestions = []string{"Record from the beginning, with a larger max_entries: a leak may have retained them."}
		findings = append(findings, f)
	}
	return findings
}

// outlived returns the live buffers of a place that are older than the recording, and the history of its sites, if the recording is much
// longer than these buffers live; none if nothing or something else tells that.
func (p *Pass) outlived(place lifetime.Place, sites []lifetime.SiteID) ([]int, *history) {
	old := slices.DeleteFunc(slices.Clone(p.olderAlive(place)), p.isHeld)
	if place == (lifetime.Place{}) || len(old) < minRises || p.freesOlder(sites) {
		return nil, nil
	}
	all := p.merged(sites)
	if len(all.lifetimes) < minPeers || p.histories.end.work < muchOlder*max(all.quantile(nearlyAll), 1) {
		return nil, nil
	}
	return old, all
}

// freesOlder reports whether some sites still freed buffers that are older than the recording after the part of it in which nearly all others
// are freed: then they live as long.
func (p *Pass) freesOlder(sites []lifetime.SiteID) bool {
	for _, site := range sites {
		for _, i := range p.olderOf(site) {
			b := &p.Space.Buffers[i]
			at := allocatedBefore(p.Space, b.End)
			if b.Edge&lifetime.EndOpen == 0 && at < len(p.Space.Buffers) && muchOlder*int(p.histories.borns[at]) > p.histories.end.work {
				return true
			}
		}
	}
	return false
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
