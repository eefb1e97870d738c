package leak

import (
	"fmt"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of growingBuffer.
const (
	minGrowths = 6   // minimum number of rises of the floor of the bytes of a site
	minFactor  = 1.5 // minimum ratio of the last floor to the first
	minLarger  = 0.9 // minimum share of the freed buffers that a larger one replaced
	// maxEarlier is the maximum level before the growth as a share of the last floor: a cache that is dropped and grows
	// again does not leak.
	maxEarlier = 0.2
	// maxProportional is the maximum share of other sites whose buffers grow in proportion. With more, the program
	// processes more and more data, such as longer sequences.
	maxProportional = 0.4
	// minThird is the minimum share of the growth in each third of the time: growth that slows down ends.
	minThird = 0.15
)

// growingBuffer finds sites that replace their buffer by a larger one again and again:
//
//	hist = torch.cat([hist, x])
//
// No buffer lives long, so their number is stable. But the floor of the live bytes of the site keeps rising, like the floor
// of the number in a leak, and a larger buffer replaces each freed one. Sequences whose lengths vary or grow leave nothing
// between two steps: their floor is level.
func growingBuffer(p *Pass) []Finding {
	sites := p.growingSites()
	if len(sites) == 0 {
		return nil
	}
	all, compare := newPlaces(), p.newComparison(len(sites))
	for _, site := range sites {
		h := p.histories.sites[site]
		if compare.othersGrow(site) && !compare.joinsPieces(h) {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(h.open), func(i int) bool { return p.Space.Buffers[i].Edge&lifetime.Pending != 0 })
		if len(kept) > 0 {
			all.at(p.PlaceOf(site)).merge(p.Space, site, kept, h)
		}
	}
	return all.conclude(func(place lifetime.Place, f *Finding) bool {
		oldest := &p.Space.Buffers[p.histories.sites[f.Sites[0]].buffers[0]]
		first, last := oldest.Requested, p.Space.Buffers[f.Kept[0]].Requested
		n := f.Value(FigFreed)
		f.Severity = Warning
		f.Confidence = n / (n + 4)
		f.add(figure(FigFirstBytes, first), figure(FigLastBytes, last))
		grew := fmt.Sprintf("one buffer grew from %s to %s", units.Bytes(first), units.Bytes(last))
		f.describe(place.String(), grew, p.outlook(f, oldest.Begin)...)
		f.blame(Concatenation, place)
		return true
	})
}

// growingSites returns the sites whose buffers are each larger than the previous one.
func (p *Pass) growingSites() (sites []lifetime.SiteID) {
	for site, h := range p.unexplained() {
		if len(h.lifetimes) < minGrowths || !p.histories.growsBySize(p.Space, h) {
			continue
		}
		if least, _ := p.verdict(h); least == 0 && !p.inOneCall(site) { // otherwise it grows in number
			sites = append(sites, site)
		}
	}
	return sites
}

// growth is a rise of the floor of the bytes of a site.
type growth struct {
	at       moment
	from, to int64
}

// growths returns the rises of the floor of the live bytes, in order.
func (h *history) growths() (all []growth) {
	if len(h.levels) == 0 {
		return nil
	}
	floor := h.levels[len(h.levels)-1].bytes
	for i := len(h.levels) - 2; i >= 0; i-- {
		if bytes := h.levels[i].bytes; bytes < floor {
			all = append(all, growth{h.levels[i+1].at(), bytes, floor})
			floor = bytes
		}
	}
	slices.Reverse(all)
	return all
}

// growsBySize applies the thresholds of growingBuffer to a site.
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
	return float64(last.to) >= minFactor*float64(max(first.to, 1)) && inEachThird(all[:n]) &&
		!site.wasAbove(maxEarlier*float64(last.to), first.at) && largerSuccessors(s, site) >= minLarger
}

// inEachThird reports whether each third of the time has at least minThird of the growth.
func inEachThird(all []growth) bool {
	first, last := all[0], all[len(all)-1]
	low := first.from
	for third := 1; third <= 3; third++ {
		high := first.from
		for _, g := range all {
			if g.at.work <= first.at.work+(last.at.work-first.at.work)*third/3 {
				high = g.to
			}
		}
		if float64(high-low) < minThird*float64(last.to-first.from) {
			return false
		}
		low = high
	}
	return true
}

// wasAbove reports whether the level of a site exceeded some bytes before a moment.
func (h *history) wasAbove(bytes float64, before moment) bool {
	n := sort.Search(len(h.levels), func(i int) bool { return int(h.levels[i].allocations) >= before.allocations })
	return slices.ContainsFunc(h.levels[:n], func(l level) bool { return float64(l.bytes) > bytes })
}

// largerSuccessors returns the share of the freed buffers of a site that a larger one replaced. The replacement is the last
// buffer of the site that was allocated before the free.
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
	return shareOf(int64(larger), int64(freed))
}
