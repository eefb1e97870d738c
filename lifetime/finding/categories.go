package finding

import (
	"cmp"
	"maps"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// CategoryBytes is the memory of one category.
type CategoryBytes struct {
	Name  string
	Bytes int64 // occupied
	How   purpose.How
}

// CategoriesOf sums up the rows of a breakdown by category, in order of names. Memory of no category is "unknown". It
// returns nil if no buffer has a category.
func CategoriesOf(t *lifetime.Tables, s *lifetime.SpaceInfo, rows []lifetime.Row) []CategoryBytes {
	sums, known := map[string]*CategoryBytes{}, false
	for _, r := range rows {
		name := t.Category(s, r.Kind, r.Site, r.Purpose)
		known = known || name != "" && r.Kind.OfBuffers()
		name = cmp.Or(name, purpose.UnknownCategory.String())
		if sums[name] == nil {
			sums[name] = &CategoryBytes{Name: name, How: purpose.Recorded}
		}
		sums[name].Bytes = units.AddSat(sums[name].Bytes, r.Bytes)
		sums[name].How = min(sums[name].How, t.Purpose(r.Purpose).HowNamed())
	}
	if !known {
		return nil
	}
	var all []CategoryBytes
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, *sums[name])
	}
	return all
}
