package leak

import (
	"fmt"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// notable is the share of the peak from which on the rules that find no fault
// speak of a site.
const notable = 0.01

// worthTelling reports whether bytes are notable.
func (l Look) worthTelling(bytes int64) bool { return shareOf(bytes, l.highest().Bytes) >= notable }

// plateau finds sites whose survivors piled up as those of a leak do, and then
// stopped: caches and pools that are full, replay buffers, data that was loaded.
func plateau(l Look) []Finding {
	if !l.dynamic() {
		return nil
	}
	h := l.history()
	all := newPlaces()
	last := map[lifetime.Place]moment{}
	for _, site := range h.order {
		hist := h.sites[site]
		if l.told[site] || !l.wants(site) {
			continue
		}
		rises := hist.rises()
		if until := h.end.work - hist.lag(); len(hist.lifetimes) > 0 { // what is younger may yet be freed
			rises = rises[:sort.Search(len(rises), func(i int) bool { return rises[i].work > until })]
		}
		if moments(rises) < minRises || l.inOneCall(site) {
			continue
		}
		kept := l.survivors(hist)
		if len(kept) < minRises {
			continue
		}
		p := l.PlaceOf(site)
		all.at(p).merge(l.Space, site, kept, hist)
		if at := rises[len(rises)-1]; at.work >= last[p].work {
			last[p] = at
		}
	}
	var findings []Finding
	for _, p := range all.order {
		f := all.found[p]
		if !l.worthTelling(f.Amount.Bytes) {
			continue
		}
		f.Confidence = 0.5 + 0.5*float64(h.end.work-last[p].work)/float64(max(h.end.work, 1))
		f.addEvidence("survivors", float64(f.Amount.Count))
		f.Description = fmt.Sprintf("%s holds %s in %s buffers; their number rose and then stopped, as that of a cache or pool does that is full: no leak",
			p, units.Exact(f.Amount.Bytes), units.Count(f.Amount.Count))
		f.Suggestions = []string{fmt.Sprintf("If %s is too much, bound what %s keeps; a longer capture shows whether it stays as it is.",
			units.Bytes(f.Amount.Bytes), p)}
		findings = append(findings, *f)
	}
	return findings
}

// moments returns at how many moments of work the rises happened.
func moments(rises []moment) int {
	n := 0
	for i := range rises {
		if i == 0 || rises[i].work != rises[i-1].work {
			n++
		}
	}
	return n
}

// The thresholds of longLived.
const (
	minPeers   = 20  // freed buffers of a site that tell how long one lives
	maxOld     = 3   // buffers that are the exception
	muchOlder  = 10  // times as old as nearly all of the freed ones
	nearlyAll  = .99 // quantile
	partOfLife = 0.3 // of the window, at least
)

// longLived finds a few buffers that are alive at the end and much older than
// nearly all others of their site got.
func longLived(l Look) []Finding {
	if !l.dynamic() {
		return nil
	}
	h := l.history()
	var findings []Finding
	for _, site := range h.order {
		hist := h.sites[site]
		if l.told[site] || !l.wants(site) || len(hist.lifetimes) < minPeers {
			continue
		}
		usual := hist.quantile(nearlyAll)
		kept := l.survivors(hist)
		f := Finding{}
		var old []int
		for _, i := range kept {
			age := h.end.work - h.born(i)
			if age >= muchOlder*max(usual, 1) && float64(age) >= partOfLife*float64(h.end.work) {
				old = append(old, i)
			}
		}
		if len(old) == 0 || len(old) > maxOld {
			continue
		}
		f.merge(l.Space, site, old, hist)
		if !l.worthTelling(f.Amount.Bytes) {
			continue
		}
		p := l.PlaceOf(site)
		f.Confidence = 0.8
		f.addEvidence("began_after", float64(l.Space.Buffers[old[0]].Begin-l.Space.Begin))
		f.Description = fmt.Sprintf("%s of the %s that %s allocated lives since %s, though the others there were freed soon: %s",
			units.Count(f.Amount.Count), units.Count(int64(hist.allocated)), p, l.since(l.Space.Buffers[old[0]].Begin), units.Exact(f.Amount.Bytes))
		f.Suggestions = []string{fmt.Sprintf("Look what took a reference to a result of %s then and never let go: a variable of an outer scope, a logger, an exception.", p)}
		findings = append(findings, f)
	}
	return findings
}

// The thresholds of imbalance.
const (
	// maxSetup is the share of the work that counts as setting up where steps are
	// not known.
	maxSetup = 0.1
	// fewAllocations are too few to tell a set-up from what follows.
	fewAllocations = 50
)

// imbalance counts what was allocated after the set-up and never freed, and that no
// rule so far has explained: one finding for the space.
func imbalance(l Look) []Finding {
	if !l.dynamic() {
		return nil
	}
	h, in := l.history(), l.inSteps()
	f := Finding{Confidence: 1}
	most := lifetime.Amount{}
	for _, site := range h.order {
		hist := h.sites[site]
		if l.told[site] || !l.wants(site) {
			continue
		}
		var unfreed []int
		kept := l.survivors(hist)
		for _, i := range kept {
			setUp := float64(h.born(i)) <= maxSetup*float64(h.end.work)
			if len(in.begins) > 1 {
				setUp = l.Space.Buffers[i].Begin < in.begins[1]
			}
			if !setUp && h.end.work-h.born(i) > hist.lag() {
				unfreed = append(unfreed, i)
			}
		}
		if len(unfreed) == 0 {
			continue
		}
		before := f.Amount
		f.merge(l.Space, site, unfreed, hist)
		if bytes := f.Amount.Bytes - before.Bytes; bytes > most.Bytes { // it names the finding
			most.Bytes = bytes
			f.Sites[0], f.Sites[len(f.Sites)-1] = site, f.Sites[0]
		}
	}
	if h.end.allocations < fewAllocations || f.Amount.Count == 0 || !l.worthTelling(f.Amount.Bytes) {
		return nil
	}
	s := l.Space
	f.Evidence = []Evidence{{Name: "allocations", Value: float64(s.Allocations)}, {Name: "frees", Value: float64(s.Frees)}}
	f.Description = fmt.Sprintf("%s allocations and %s frees; what began after the set-up and was not freed, %s of %s, has not the pattern of a leak; most of it is of %s",
		units.Count(int64(s.Allocations)), units.Count(int64(s.Frees)), times(int(f.Amount.Count), "buffer"), units.Exact(f.Amount.Bytes), l.PlaceOf(f.Sites[0]))
	f.Suggestions = []string{"Record a longer window: what was allocated once stays as it is, a slow leak goes on."}
	return []Finding{f}
}
