package leak

import (
	"fmt"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of grown.
const (
	// minGrowths is how often the floor of the bytes of a site must rise, and
	// minFactor how many times as high it must get.
	minGrowths = 6
	minFactor  = 1.5
	// maxEarlier is how high a site may have been before its growth began, as a
	// share of where it ends: a cache that is dropped and grows again has a
	// rhythm, no leak.
	maxEarlier = 0.2
	// minLarger is the share of the freed buffers that a larger one replaced.
	minLarger = 0.9
	// maxAlike is the share of the other sites whose buffers may grow in proportion:
	// where many do, the program works on more and more, as with longer sequences.
	maxAlike = 0.4
	// minThird is the share of the growth that each third of the time must have,
	// at least: what grows slower and slower comes to an end.
	minThird = 0.15
)

// grown finds sites that replace their buffer by a larger one, again and again:
//
//	hist = torch.cat([hist, x])
//
// No buffer lives long, so nothing piles up; but what the site holds at the
// least, the floor of its live bytes, keeps rising as the floor of their number
// does in a leak, and each buffer that goes has made room for a larger one.
// Lengths that vary, or rise from step to step, leave nothing between two steps:
// their floor is level.
func grown(l Look) []Finding {
	if !l.dynamic() {
		return nil
	}
	h := l.history()
	all := newPlaces()
	sites := l.growingSites()
	if len(sites) == 0 {
		return nil
	}
	alike := l.newAlike(len(sites))
	for _, site := range sites {
		hist := h.sites[site]
		if alike.othersGrow(site) && !alike.joinsPieces(hist) {
			continue
		}
		var kept []int
		for _, i := range hist.open {
			if l.Space.Buffers[i].Edge&lifetime.Pending == 0 {
				kept = append(kept, i)
			}
		}
		if len(kept) > 0 {
			all.at(l.PlaceOf(site)).merge(l.Space, site, kept, hist)
		}
	}
	var findings []Finding
	for _, p := range all.order {
		f := all.found[p]
		oldest := &l.Space.Buffers[h.sites[f.Sites[0]].buffers[0]]
		first, last := oldest.Requested, l.Space.Buffers[f.Kept[0]].Requested
		n := f.evidence("freed")
		f.Severity = Warning
		f.Confidence = n / (n + 4)
		f.addEvidence("first_bytes", float64(first))
		f.addEvidence("last_bytes", float64(last))
		f.Description = fmt.Sprintf("%s allocates a larger buffer each time and frees the one before: from %s to %s in %s allocations%s, and it goes on",
			p, units.Bytes(first), units.Exact(last), units.Count(int64(f.evidence("allocated"))), l.perStep(f))
		l.goOn(f, oldest.Begin)
		f.say("cause", p.String())
		f.say("likely_cause", "grown by concatenation")
		f.Suggestions = []string{fmt.Sprintf("Do not grow a tensor in %s with torch.cat in every step: keep only the last entries, collect on the CPU, "+
			"or allocate the full size once and write into it. Each copy also costs time, and leaves a hole that the next one is too large for.", p)}
		findings = append(findings, *f)
	}
	return findings
}

// growingSites returns the sites whose buffers are each larger than the one before.
func (l Look) growingSites() (sites []lifetime.SiteID) {
	h := l.history()
	for _, site := range h.order {
		hist := h.sites[site]
		if len(hist.lifetimes) < minGrowths || l.told[site] || !l.wants(site) || !h.growsBySize(l.Space, hist) {
			continue
		}
		if least, _ := l.verdict(hist); least > 0 || l.inOneCall(site) { // it grows in number
			continue
		}
		sites = append(sites, site)
	}
	return sites
}

// growth is a rise of the floor of a site's bytes.
type growth struct {
	at   moment
	from int64 // the floor before it
	to   int64
}

// growths returns the rises of the floor of the live bytes, in order.
func (h *history) growths() []growth {
	if len(h.levels) == 0 {
		return nil
	}
	var all []growth
	floor := h.levels[len(h.levels)-1].bytes
	for i := len(h.levels) - 2; i >= 0; i-- {
		if bytes := h.levels[i].bytes; bytes < floor {
			all = append(all, growth{h.levels[i+1].at(), bytes, floor})
			floor = bytes
		}
	}
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// growsBySize applies the thresholds of grown to a site.
func (h *histories) growsBySize(s *lifetime.Space, site *history) bool {
	all := site.growths()
	until := h.end.work - site.lag()
	n := 0
	var rises []moment
	for _, g := range all {
		if g.at.work <= until {
			n++
		}
		rises = append(rises, g.at)
	}
	if n < minGrowths || !h.keepsRising(rises, site.lag(), minGrowths) {
		return false
	}
	first, last := all[0], all[n-1]
	gain := last.to - first.from
	if float64(last.to) < minFactor*float64(max(first.to, 1)) {
		return false
	}
	// Where the growth was after each third of the time.
	low := first.from
	for third := 1; third <= 3; third++ {
		high := first.from
		for _, g := range all[:n] {
			if g.at.work <= first.at.work+(last.at.work-first.at.work)*third/3 {
				high = g.to
			}
		}
		if float64(high-low) < minThird*float64(gain) {
			return false
		}
		low = high
	}
	for _, level := range site.levels {
		if int(level.allocations) >= first.at.allocations {
			break
		}
		if float64(level.bytes) > maxEarlier*float64(last.to) {
			return false
		}
	}
	return largerSuccessors(s, site) >= minLarger
}

// largerSuccessors returns the share of the freed buffers of a site that a
// larger one of the site replaced: the last that was allocated before the free.
func largerSuccessors(s *lifetime.Space, h *history) float64 {
	freed, larger := 0, 0
	for k, i := range h.buffers {
		b := &s.Buffers[i]
		if b.Edge&lifetime.EndOpen != 0 {
			continue
		}
		freed++
		later := h.buffers[k+1:]
		if n := sort.Search(len(later), func(j int) bool { return s.Buffers[later[j]].Begin > b.End }); n > 0 && s.Buffers[later[n-1]].Requested > b.Requested {
			larger++
		}
	}
	if freed == 0 {
		return 0
	}
	return float64(larger) / float64(freed)
}
