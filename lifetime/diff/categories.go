package diff

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
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
	at := map[string]int{}
	change := func(name string) *CategoryChange {
		if _, ok := at[name]; !ok {
			at[name], all = len(all), append(all, CategoryChange{Name: name})
		}
		return &all[at[name]]
	}
	for _, c := range p.Before.Categories {
		change(c.Name).Before = c.Bytes
	}
	for _, c := range p.After.Categories {
		change(c.Name).After = c.Bytes
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
