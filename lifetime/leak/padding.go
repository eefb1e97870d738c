package leak

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Thresholds of padding.
const (
	// minPadding is the share of a buffer that must be padding. Nobody changes a program
	// for the rounded end of a large array.
	minPadding = 0.1
	// minWaste is the share of the peak from which on padding counts, and
	// largeWaste the number of bytes that counts in any program.
	minWaste   = 0.01
	largeWaste = 1 << 20
	// warnWaste is the share of the peak that makes large padding a warning.
	warnWaste = 0.1
)

// padding finds the buffers that waste the most memory at the peak because
// their layout rounds dimensions up: a TPU keeps arrays in tiles of 8 x 128
// elements and more, so that f32[65536,3] takes 43 times its size.
//
// A group of buffers gets a finding when minPadding of it is padding, and this padding
// is largeWaste, or more than a small buffer and minWaste of the peak. If no group gets
// one, all of them together may.
func padding(p *Pass) (findings []Finding) {
	s, peak := p.Space, p.highest().Bytes
	groups := groupBuffers(p.Capture, s, s.LiveAt(p.highest().At), newWaste(s).of)
	large := func(g *group) bool {
		return shareOf(g.bytes, g.amount.Bytes) >= minPadding &&
			(g.bytes >= largeWaste || g.bytes >= smallBytes && shareOf(g.bytes, peak) >= minWaste)
	}
	own, rest := pick(groups, large)
	for i := range own {
		more := ""
		if i == len(own)-1 && rest.bytes > 0 {
			more = fmt.Sprintf("%s more in %s", units.Bytes(rest.bytes), units.Several(rest.amount.Count, "other buffer"))
		}
		findings = append(findings, own[i].padded(peak, own[i].String(), more))
	}
	if len(own) == 0 && large(&rest) {
		findings = append(findings, rest.padded(peak, fmt.Sprintf("%s, the worst the %s", units.Several(rest.amount.Count, "buffer"), rest.alone()), ""))
	}
	return findings
}

// padded returns the finding of buffers that are padded.
func (g *group) padded(peak int64, name, more string) Finding {
	share := shareOf(g.bytes, peak)
	f := Finding{Confidence: 1, Sites: distinct(g.sites), Amount: g.amount, // the compiler says so
		Evidence:    []Evidence{figure(FigWasted, g.bytes), figure(FigPeakBytes, peak), figure(FigShareOfPeak, share)},
		Suggestions: []string{"Make the innermost dimension a multiple of 128 and the next one of 8."}}
	if g.bytes >= largeWaste && share >= warnWaste {
		f.Severity = Warning
	}
	f.describe(name, fmt.Sprintf("%s of %s are padding at the peak", units.Bytes(g.bytes), units.Bytes(g.amount.Bytes)), more)
	return f
}

// waste knows how much of a buffer is padding.
type waste struct {
	s      *lifetime.Space
	values map[int64]*lifetime.Value
}

func newWaste(s *lifetime.Space) waste {
	w := waste{s, map[int64]*lifetime.Value{}}
	for i := range s.Values {
		w.values[s.Values[i].ID] = &s.Values[i]
	}
	return w
}

// of returns the padding of a buffer. An allocation that several values take
// turns in is larger than the value that stands for it; only what the layout
// adds to that value is padding.
func (w waste) of(i int) int64 {
	b := &w.s.Buffers[i]
	if w.s.ValueIDs != nil {
		if v := w.values[w.s.ValueIDs[i]]; v != nil {
			return min(v.Size, b.Size) - v.Requested
		}
	}
	return b.Size - b.Requested
}
