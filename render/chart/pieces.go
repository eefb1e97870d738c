package chart

import (
	"math"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/render/plot"
)

// pieces returns the legend row of the free memory at the peak and its largest piece; none if they are not known.
func (u *usage) pieces() []plot.Row {
	name, look, free, largest := "reserved but free", freeLook, int64(0), int64(0)
	s := u.s
	if len(s.Regions) > 0 && len(s.Buffers) > 0 && s.Axis != lifetime.ProgramOrder && s.Facts&lifetime.Addresses != 0 {
		holes := region.FreeAt(s, u.peak.At)
		free, largest = holes.Total, holes.Largest
	} else if share, ok := reported(s, u.peak.At); ok && s.Limit > u.peak.Bytes {
		name, look, free = "free", u.free(), s.Limit-u.peak.Bytes
		largest = int64(math.Round((1 - share) * float64(free)))
	}
	if free <= 0 {
		return nil
	}
	return []plot.Row{{Look: look, Name: name, Below: units.Bytes(free) + ", largest " + units.Bytes(largest)}}
}

// reported returns the share of the free bytes outside the largest piece that the allocator reported last before the instant t, or at it.
func reported(s *lifetime.Space, t int64) (share float64, ok bool) {
	for _, total := range s.Totals {
		if v := float64(total.Fragmentation); total.T <= t && total.HasFragmentation && v >= 0 && v <= 1 {
			share, ok = v, true
		}
	}
	return share, ok
}
