package diff

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// CategoryChange is the change of one category of memory at the peak.
type CategoryChange struct {
	Name          string
	Before, After int64 // bytes
}

// Delta returns the change in bytes.
func (c *CategoryChange) Delta() int64 { return units.AddSat(c.After, -c.Before) }

// Categories returns the categories of a pair, largest change first; none unless they are known on both sides.
func (p *Pair) Categories() (all []CategoryChange) {
	if p.Before == nil || p.After == nil || len(p.Before.Categories) == 0 || len(p.After.Categories) == 0 {
		return nil
	}
	for name, bytes := range p.Before.Categories {
		all = append(all, CategoryChange{name, bytes, p.After.Categories[name]})
	}
	for name, bytes := range p.After.Categories {
		if _, ok := p.Before.Categories[name]; !ok {
			all = append(all, CategoryChange{name, 0, bytes})
		}
	}
	size := func(c CategoryChange) int64 { return max(c.Delta(), -c.Delta()) }
	slices.SortFunc(all, func(x, y CategoryChange) int {
		return cmp.Or(cmp.Compare(size(y), size(x)), cmp.Compare(y.After, x.After), cmp.Compare(x.Name, y.Name))
	})
	return all
}

// notable returns the categories whose change is at least a hundredth of the higher peak, the first few.
func (p *Pair) notable() (all []CategoryChange) {
	for _, c := range p.Categories() {
		if d := c.Delta(); max(d, -d) >= max(p.Before.Peak, p.After.Peak)/100 && d != 0 && len(all) < maxNamed {
			all = append(all, c)
		}
	}
	return all
}

// categoriesOf returns the bytes of each category at an instant; nil if no buffer has one. Memory of no category is "unknown".
func categoriesOf(t *lifetime.Tables, s *lifetime.Space, at int64) map[string]int64 {
	sums, known := map[string]int64{}, false
	for _, r := range s.Breakdown(at) {
		name := t.Category(&s.SpaceInfo, r.Kind, r.Site, r.Purpose)
		known = known || name != "" && r.Kind.OfBuffers()
		name = cmp.Or(name, lifetime.UnknownCategory.String())
		sums[name] = units.AddSat(sums[name], r.Bytes)
	}
	if !known {
		return nil
	}
	return sums
}
