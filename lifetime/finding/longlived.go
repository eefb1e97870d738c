package finding

import (
	"cmp"
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
	minEqual   = 8   // freed buffers of its size from which half of that age is enough
	nearlyAll  = .99 // quantile of the lifetimes of freed buffers
	partOfLife = 0.3 // minimum age of an exception as a share of the window
	minPasses  = 3   // forward passes with results of one size
	sureOfRole = .75 // confidence of a category that rules out an input
)

// longLived finds what nothing seems to need any more: a few buffers that are alive at the end and much older than nearly all freed buffers of their site
// were, such as what the first call of a function returned, and results of earlier passes. Their category does not say what keeps them, as of a workspace
// or a parameter. Those that are older than the recording may be many: what a leak retained before the ring buffer overflowed.
func longLived(p *Pass) (findings []Finding) {
	add := func(site lifetime.SiteID, old []int, h *history, basedOn, text, advice string) {
		f := Finding{Suggestions: []string{advice}, Held: p.heldOf(old), basedOn: basedOn}
		if f.merge(p.Space, site, old, h); !p.isNotable(f.Amount.Bytes) {
			return
		}
		began, saved := p.Space.Buffers[old[0]].Begin, p.savedWithout(old)
		f.add(figure(FigBeganAfter, began-p.Space.Begin), figure(FigSaved, saved))
		lower := fmt.Sprintf("without %s the peak is %s lower", map[bool]string{true: "it", false: "them"}[len(old) == 1], units.Bytes(saved))
		f.describe(p.PlaceOf(site).String(), fmt.Sprintf(text, units.Plural(f.Amount.Count, "buffer"), units.Bytes(f.Amount.Bytes)), lower)
		findings = append(findings, f)
	}
	for site, h := range p.unexplained() {
		if old := p.muchOlder(h); len(old) > 0 && len(old) <= maxOld {
			add(site, old, h, "", fmt.Sprintf("%%s (%%s) of %d retained since %s; the others were freed much sooner", h.allocated,
				p.since(p.Space.Buffers[old[0]].Begin)), "Find the reference taken then: an outer variable, a logger, an exception.")
		}
	}
	if p.histories.older == 0 {
		return findings
	}
	if old, result := p.staleResults(); len(old) > 0 {
		add(result, old, p.histories.sites[result], inGeneral, "the result of an earlier pass is still held: %s (%s) of its size, older than the recording",
			"Delete it when its pass is over (del out), or reuse its variable.")
	}
	lines, order := p.linesOf()
	for _, place := range order {
		if old, all := p.outlived(place, lines[place].sites); len(old) > 0 {
			add(p.Space.Buffers[old[0]].Site, old, all, "", "%s (%s) older than the recording; the others were freed much sooner",
				"Record from the beginning, with a larger max_entries: a leak may have retained them.")
		}
	}
	return findings
}

// savedWithout returns by how many bytes the peak would be lower without some buffers.
func (p *Pass) savedWithout(buffers []int) int64 {
	var changes []lifetime.Level
	for _, i := range buffers {
		b := &p.Space.Buffers[i]
		changes = append(changes, lifetime.Level{At: b.Begin, Bytes: b.Size}, lifetime.Level{At: b.End, Bytes: -b.Size})
	}
	slices.SortFunc(changes, func(x, y lifetime.Level) int { return cmp.Compare(x.At, y.At) })
	peak, held, next := int64(0), int64(0), 0
	for _, level := range p.usage() {
		for ; next < len(changes) && changes[next].At <= level.At; next++ {
			held += changes[next].Bytes
		}
		peak = max(peak, level.Bytes-held)
	}
	return p.highest().Bytes - peak
}

// staleResults returns a few buffers that are older than the recording and as large as the results of its forward passes, and the site of these: each was
// freed within the next pass. Nothing before the result in a pass has that size, so it is not that of its input, which is another buffer.
func (p *Pass) staleResults() (old []int, result lifetime.SiteID) {
	passes, buffers, size := p.program.Passes(p.Space), p.Space.Buffers, int64(0)
	if len(passes) < minPasses {
		return nil, 0
	}
	for k, pass := range passes {
		at := pass[1]
		for ; at > pass[0] && at+1 < len(buffers) && buffers[at].End <= buffers[at+1].Begin; at-- { // a workspace
		}
		is := &buffers[at]
		if k == 0 {
			size, result = is.Requested, is.Site
		}
		if is.Requested != size || is.Site != result || k+2 < len(passes) && is.End > buffers[passes[k+2][0]].Begin ||
			slices.ContainsFunc(buffers[pass[0]:at], func(b lifetime.Buffer) bool { return b.Requested == size }) {
			return nil, 0
		}
	}
	input := false
	for i := range buffers[:p.histories.older] {
		switch b := &buffers[i]; {
		case b.End <= buffers[passes[len(passes)-1][1]].Begin:
		case b.Requested == size && !p.isHeld(i):
			old = append(old, i)
		default:
			input = input || !p.isHeld(i) || p.Purpose(p.Space.PurposeOf(i)).Confidence < sureOfRole
		}
	}
	if len(old) > maxOld || !input {
		return nil, 0
	}
	return old, result
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
	if p.older == nil {
		p.older = map[lifetime.SiteID]bool{}
		for i := range p.Space.Buffers {
			b := &p.Space.Buffers[i]
			if b.Edge&(lifetime.BeginUnseen|lifetime.EndOpen) == lifetime.BeginUnseen {
				at := allocatedBefore(p.Space, b.End)
				p.older[b.Site] = p.older[b.Site] || at < len(p.Space.Buffers) && muchOlder*int(p.histories.borns[at]) > p.histories.end.work
			}
		}
	}
	return slices.ContainsFunc(sites, func(site lifetime.SiteID) bool { return p.older[site] })
}

// muchOlder returns the survivors of a site that nothing known keeps and that are much older than its freed buffers were; none if the site freed few.
func (p *Pass) muchOlder(h *history) (old []int) {
	usual, sizes := max(h.quantile(nearlyAll), 1), map[int64]int{}
	for _, f := range h.freed[:min(len(h.open), 1)*len(h.freed)] {
		sizes[p.Space.Buffers[f.buffer].Requested]++
	}
	for _, i := range p.survivors(h) {
		age, equal := p.histories.age(i), sizes[p.Space.Buffers[i].Requested] >= minEqual
		if (equal && 2*age >= muchOlder*usual || len(h.freed) >= minPeers && age >= muchOlder*usual) && !p.isHeld(i) &&
			float64(age) >= partOfLife*float64(p.histories.end.work) {
			old = append(old, i)
		}
	}
	return old
}
