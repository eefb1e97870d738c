package answer

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// CategoriesTell reports whether colours by category say more about the peak of a space than colours by call site: the
// categories of at least half of its bytes are known, and none has nine tenths of them. Pictures and the page are by
// category then, unless the user chooses other colours.
func CategoriesTell(t *lifetime.Tables, s *lifetime.Space) bool {
	all, known, most := int64(0), int64(0), int64(0)
	bytes := map[string]int64{}
	for _, i := range s.LiveAt(s.Peak(lifetime.Occupied).At) {
		b := &s.Buffers[i]
		all = units.AddSat(all, b.Size)
		switch name := t.Category(&s.SpaceInfo, b.Kind, b.Site, s.PurposeOf(i)); name {
		case "", lifetime.UnknownCategory.String(), lifetime.Plain.String():
		default:
			known = units.AddSat(known, b.Size)
			bytes[name] = units.AddSat(bytes[name], b.Size)
			most = max(most, bytes[name])
		}
	}
	return all > 0 && known >= all/2 && most < all/10*9
}
