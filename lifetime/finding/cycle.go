package finding

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/holder"
)

// referenceCycle finds the buffers that only objects keep which refer to each other, as the recorder saw: they wait for
// the garbage collector. There is one finding for the cycles of the same classes.
func referenceCycle(p *Pass) (findings []Finding) {
	cycles := map[string]map[lifetime.SiteID][]int{} // by classes
	for i := range p.Space.Holders {
		b, h := &p.Space.Buffers[i], p.HolderOf(p.Space, i)
		if h == nil || h.Kind != holder.ByCycle || b.Edge&lifetime.EndOpen == 0 || p.explained[b.Site] || !p.selected(b.Site) {
			continue
		}
		by := holder.FoldIndexes(h.Path)
		if cycles[by] == nil {
			cycles[by] = map[lifetime.SiteID][]int{}
		}
		cycles[by][b.Site] = append(cycles[by][b.Site], i)
	}
	for _, by := range slices.Sorted(maps.Keys(cycles)) {
		sites := cycles[by]
		f, bytes := Finding{}, map[lifetime.SiteID]int64{}
		for site, buffers := range sites {
			f.Sites, f.Kept = append(f.Sites, site), append(f.Kept, buffers...)
			for _, i := range buffers {
				f.Amount.Add(amountOf(&p.Space.Buffers[i]))
				bytes[site] = units.AddSat(bytes[site], p.Space.Buffers[i].Size)
			}
		}
		if !p.isNotable(f.Amount.Bytes) {
			continue
		}
		slices.Sort(f.Kept)
		slices.SortFunc(f.Sites, func(x, y lifetime.SiteID) int { return cmp.Or(cmp.Compare(bytes[y], bytes[x]), cmp.Compare(x, y)) })
		f.describe(p.PlaceOf(f.Sites[0]).String(),
			fmt.Sprintf("the reference cycle %s holds %s (%s) until the garbage collector runs", by,
				units.Plural(f.Amount.Count, "buffer"), units.Bytes(f.Amount.Bytes)))
		f.Suggestions = []string{"Break the cycle with del or weakref, or call gc.collect()."}
		findings = append(findings, f)
	}
	return findings
}
