package finding

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
)

// Thresholds of padding.
const (
	minPadding = 0.1     // minimum share of a buffer: less is not worth a change of the program
	minWaste   = 0.01    // minimum share of the peak
	largeWaste = 1 << 20 // bytes that count whatever their share of the peak is
	warnWaste  = 0.1     // share of the peak from which large padding is a warning
)

// padding finds the buffers with the most padding at the peak. Their layout rounds dimensions up: a TPU stores arrays
// in tiles of at least 8 x 128 elements, so that f32[65536,3] takes 43 times its size.
//
// A group gets a finding if at least minPadding of it is padding and the padding is at least largeWaste, or at least
// smallBytes and minWaste of the peak. If no group qualifies, all of them together may.
func padding(p *Pass) (findings []Finding) {
	s, peak := p.Space, p.highest().Bytes
	groups := groupBuffers(p.Capture, s, s.LiveAt(p.highest().At), p.paddingOf)
	large := func(g *group) bool {
		return shareOf(g.bytes, g.amount.Bytes) >= minPadding &&
			(g.bytes >= largeWaste || g.bytes >= smallBytes && shareOf(g.bytes, peak) >= minWaste)
	}
	own, rest := pick(groups, large)
	for i := range own {
		more := ""
		if i == len(own)-1 && rest.bytes > 0 {
			more = fmt.Sprintf("%s more in %s", units.Bytes(rest.bytes), units.Plural(rest.amount.Count, "other buffer"))
		}
		findings = append(findings, own[i].padded(peak, own[i].String(), more))
	}
	if len(own) == 0 && large(&rest) {
		findings = append(findings, rest.padded(peak, fmt.Sprintf("%s (largest padding: %s)", units.Plural(rest.amount.Count, "buffer"),
			rest.alone()), ""))
	}
	return findings
}

func (g *group) padded(peak int64, name, more string) Finding {
	share := shareOf(g.bytes, peak)
	f := Finding{Sites: distinct(g.sites), Amount: g.amount,
		Evidence:    []Evidence{figure(FigWasted, g.bytes), figure(FigPeakBytes, peak), figure(FigShareOfPeak, share)},
		Suggestions: []string{"Make the innermost dimension a multiple of 128 and the next one of 8."}}
	if g.bytes >= largeWaste && share >= warnWaste {
		f.Severity = Warning
	}
	f.describe(name, fmt.Sprintf("%s of %s are padding at the peak", units.Bytes(g.bytes), units.Bytes(g.amount.Bytes)), more)
	return f
}

// paddingOf returns the padding of a buffer in bytes.
func (p *Pass) paddingOf(i int) int64 { return p.Space.Buffers[i].Size - p.Space.Buffers[i].Requested }
