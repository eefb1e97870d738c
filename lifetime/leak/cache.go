package leak

import (
	"fmt"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// cache finds sites whose survivors grew in number as those of a leak do, and then
// stopped: caches and pools that are full, replay buffers, data that was loaded.
func cache(p *Pass) []Finding {
	all, last, end := newPlaces(), map[lifetime.Place]moment{}, p.histories.end.work
	for site, h := range p.unexplained() {
		rises := h.rises()
		if until := end - h.lag(); len(h.lifetimes) > 0 { // what is younger may yet be freed
			rises = rises[:sort.Search(len(rises), func(i int) bool { return rises[i].work > until })]
		}
		if moments(rises) < minRises || p.inOneCall(site) {
			continue
		}
		kept := p.survivors(h)
		if len(kept) < minRises {
			continue
		}
		place := p.PlaceOf(site)
		all.at(place).merge(p.Space, site, kept, h)
		if at := rises[len(rises)-1]; at.work >= last[place].work {
			last[place] = at
		}
	}
	return all.conclude(func(place lifetime.Place, f *Finding) bool {
		f.Confidence = 0.5 + 0.5*float64(end-last[place].work)/float64(max(end, 1))
		f.add(figure(FigSurvivors, f.Amount.Count))
		size := units.Bytes(f.Amount.Bytes)
		f.describe(place.String(), fmt.Sprintf("%s buffers (%s) are held; their number rose and then stopped, as in a full cache or pool, so this is not a leak",
			units.Count(f.Amount.Count), size))
		f.Suggestions = []string{fmt.Sprintf("Bound this cache if %s is too much; record longer to be sure.", size)}
		return p.isNotable(f.Amount.Bytes)
	})
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
