package figure

import (
	"math/bits"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/render/blocks"
)

// CategoriesTell reports whether colours by category say more about the peak of a space than colours by call site: the
// categories of at least half of its bytes are known, not only what leaks, and none has nine tenths of them. Pictures and the page are by
// category then, unless the user chooses other colours.
func CategoriesTell(t *lifetime.Tables, s *lifetime.Space) bool {
	all, known, most := int64(0), int64(0), int64(0)
	bytes := map[string]int64{}
	for _, i := range s.LiveAt(s.Peak(lifetime.Occupied).At) {
		b := &s.Buffers[i]
		all = units.AddSat(all, b.Size)
		if name := t.Category(&s.SpaceInfo, b.Kind, b.Site, s.PurposeOf(i)); blocks.NamesCategory(name) {
			known = units.AddSat(known, b.Size)
			bytes[name] = units.AddSat(bytes[name], b.Size)
			most = max(most, bytes[name])
		}
	}
	return all > 0 && known >= all/2 && known > bytes[purpose.Leaked.String()] && most < all/10*9
}

// SizesTell reports whether pictures are by size because neither categories nor call sites, layers, operations or shapes tell.
func SizesTell(c *lifetime.Capture, s *lifetime.Space) bool {
	return colorOf(c, s, nil) == blocks.BySize
}

// Crowded reports whether an axis of time says little: half of the allocations and frees of a space take place in a
// twentieth of its window or less, because the program set up for long or failed within an instant. Pictures are by
// event then.
func Crowded(s *lifetime.Space) bool {
	length := uint64(s.End) - uint64(s.Begin)
	events := 2 * len(s.Buffers)
	parts := min(uint64(events)/4, 200)
	if s.Axis != lifetime.Time || length == 0 || parts < 20 {
		return false
	}
	counts, all := make([]int, parts), 0
	for change := range s.Changes() {
		if change.T > s.Begin {
			hi, lo := bits.Mul64(uint64(change.T)-uint64(s.Begin), parts)
			part, _ := bits.Div64(hi, lo, length)
			counts[min(part, parts-1)]++
			all++
		}
	}
	slices.Sort(counts)
	fullest := 0
	for _, n := range counts[parts-parts/20:] {
		fullest += n
	}
	return all > 0 && fullest >= all/2
}
