package finding

import (
	"fmt"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// cache finds sites whose survivors grew in number like those of a leak and then stopped: full caches and pools,
// replay buffers, loaded data. What still grew in the last third of the recording did not stop.
func cache(p *Pass) []Finding {
	all, last, end := newPlaces(), map[lifetime.Place]int{}, p.histories.end.work
	for site, h := range p.unexplained() {
		rises := p.rises(h)
		if until := end - h.lag(); len(h.lifetimes) > 0 { // younger buffers may still be freed
			rises = rises[:sort.Search(len(rises), func(i int) bool { return rises[i].work > until })]
		}
		if moments(rises) < minRises || p.inOneCall(site) {
			continue
		}
		kept := p.survivors(h)
		if len(kept) < minRises || p.inOneStep(kept) && p.stepsOf(kept)[0] >= 0 && p.freesAtOnce(h, len(kept)) {
			continue // few, or one value that replaced that of another step: see replaces
		}
		if p.haveRole(kept) {
			p.explained[site] = true
			continue
		}
		place := p.PlaceOf(site)
		all.at(place).merge(p.Space, site, kept, h)
		last[place] = max(last[place], rises[len(rises)-1].work)
	}
	return all.conclude(func(place lifetime.Place, f *Finding) bool {
		f.basedOn = inGeneral
		f.add(figure(FigSurvivors, f.Amount.Count))
		size := units.Bytes(f.Amount.Bytes)
		f.describe(place.String(),
			fmt.Sprintf("%s buffers (%s) are retained; their number grew and then stopped, as in a full cache or pool, "+
				"so this is not a leak", units.Count(f.Amount.Count), size))
		f.Suggestions = []string{fmt.Sprintf("Limit this cache if %s is too much; record longer to be sure.", size)}
		old, _ := p.outlived(place, f.Sites)
		return len(old) == 0 && p.isNotable(f.Amount.Bytes) && float64(end-last[place]) >= maxSilentShare*float64(end)
	})
}

// roles are the categories of buffers that a program needs, so that retaining them is no cache.
var roles = []purpose.Category{purpose.ModelParameter, purpose.ModelBuffer, purpose.Gradient, purpose.OptimizerState,
	purpose.Activation, purpose.Workspace, purpose.Bucket}

// isHeld reports whether the category of a buffer says what keeps it. A graph keeps an activation, so something refers to the graph.
func (p *Pass) isHeld(buffer int) bool {
	is := p.Purpose(p.Space.PurposeOf(buffer)).Category
	return is != purpose.Activation && slices.Contains(roles, is)
}

// haveRole reports whether at least half of the bytes of some buffers have a role.
func (p *Pass) haveRole(buffers []int) bool {
	bytes, all := int64(0), int64(0)
	for _, i := range buffers {
		size := p.Space.Buffers[i].Size
		all = units.AddSat(all, size)
		if purpose := p.Space.PurposeOf(i); purpose != 0 && slices.Contains(roles, p.Purposes[purpose].Category) {
			bytes = units.AddSat(bytes, size)
		}
	}
	return all > 0 && 2*bytes >= all
}

// moments returns the number of distinct moments, by work, among rises.
func moments(rises []moment) int {
	return len(slices.CompactFunc(slices.Clone(rises), func(x, y moment) bool { return x.work == y.work }))
}
