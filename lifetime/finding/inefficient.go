package finding

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// minUse is the share of the occupied bytes of a buffer below which it counts as inefficient.
const minUse = 0.5

// inefficient finds the sites whose buffers at the peak are mostly rounding: a scalar takes 512 bytes, and some
// allocator settings round up far more. It also finds the copies of weights that autocast keeps.
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
	return append(p.autocastCopies(), all.conclude(func(place lifetime.Place, f *Finding) bool {
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
	})...)
}

// autocastCopies finds the 16-bit copies of weights at the peak that autocast kept until its context ended. Where gradients are enabled, the
// graph may hold them as well: no cache then saves nothing.
func (p *Pass) autocastCopies() []Finding {
	f, copies, at := Finding{}, []int(nil), p.highest()
	f.Suggestions = []string{"Call model.bfloat16(), or use torch.autocast(..., cache_enabled=False)."}
	for i := range p.Space.Buffers {
		b, is := &p.Space.Buffers[i], p.Purpose(p.Space.PurposeOf(i))
		live := b.Begin <= at.At && b.End > at.At
		switch {
		case is.Part == purpose.AutocastCopy:
			if copies = append(copies, i); live {
				f.Amount.Add(amountOf(b))
			}
		case live && is.Category == purpose.Activation:
			f.Suggestions = []string{"Call model.bfloat16(): gradients and states then have 16 bits, too."}
		}
	}
	saved := p.savedWithout(copies)
	if p.Function != nil || saved < largeWaste || !p.isNotable(saved) {
		return nil
	}
	f.add(figure(FigSaved, saved), figure(FigShareOfPeak, shareOf(f.Amount.Bytes, at.Bytes)))
	f.describe("", fmt.Sprintf("16-bit copies of the weights (autocast's cache) hold %s at the peak", units.Bytes(f.Amount.Bytes)),
		fmt.Sprintf("without them the peak is %s lower", units.Bytes(saved)))
	return []Finding{f}
}
