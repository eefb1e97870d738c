package finding

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// minUse is the share of the occupied bytes of a buffer below which it counts as inefficient.
const minUse = 0.5

// inefficient finds the sites whose buffers at the peak are mostly rounding: a scalar takes 512 bytes, and some
// allocator settings round up far more.
func inefficient(p *Pass) []Finding {
	s, peak, all := p.Space, p.highest(), newPlaces()
	for _, i := range s.LiveAt(peak.At) {
		b := &s.Buffers[i]
		if b.Edge&lifetime.SizeInferred == 0 && float64(b.Requested) < minUse*float64(b.Size) && p.selected(b.Site) {
			f := all.at(p.PlaceOf(b.Site))
			f.Sites = append(f.Sites, b.Site)
			f.Amount.Add(amountOf(b))
		}
	}
	return all.conclude(func(place lifetime.Place, f *Finding) bool {
		waste := f.Amount.Bytes - f.Amount.Requested
		share := shareOf(waste, peak.Bytes)
		if share >= warnWaste {
			f.Severity = Warning
		}
		f.Sites = distinct(f.Sites)
		f.add(figure(FigWasted, waste), figure(FigShareOfPeak, share))
		f.describe(place.String(),
			fmt.Sprintf("%s occupy %s at the peak, but only %s were requested", units.Plural(f.Amount.Count, "buffer"),
				units.Bytes(f.Amount.Bytes), units.Bytes(f.Amount.Requested)))
		f.Suggestions = p.advice("Pack the small tensors into one, or unset roundup_power2_divisions.",
			"Pack the small arrays into one.")
		return waste >= largeWaste && p.isNotable(waste)
	})
}
