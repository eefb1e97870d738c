package leak

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Thresholds of padding.
const (
	// minPadding is the share of a buffer that must be padding: the end of a
	// large array that is rounded up is not worth a change of the program.
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
// A group of buffers is worth a finding when minPadding of it is padding, and
// that is largeWaste, or more than a small buffer and minWaste of the peak. Where
// no group is, all of them together may be.
func padding(l Look) []Finding {
	s := l.Space
	if s.Axis != lifetime.ProgramOrder {
		return nil
	}
	peak := l.highest()
	padded := newWaste(s)
	groups := groupBuffers(l.Capture, s, s.LiveAt(peak.At), padded.of)
	large := func(g *group) bool {
		return shareOf(g.bytes, g.amount.Bytes) >= minPadding &&
			(g.bytes >= largeWaste || g.bytes >= smallBytes && shareOf(g.bytes, peak.Bytes) >= minWaste)
	}
	own, rest := pick(groups, large)
	var findings []Finding
	for i := range own {
		g := &own[i]
		f := g.wasted(peak.Bytes)
		f.Description = fmt.Sprintf("%s of the %s of %s are padding at the peak", units.Exact(g.bytes), units.Bytes(g.amount.Bytes), g)
		if i == len(own)-1 && rest.bytes > 0 {
			f.Description += fmt.Sprintf("; %s more in %s other buffers", units.Bytes(rest.bytes), units.Count(rest.amount.Count))
		}
		findings = append(findings, f)
	}
	if len(own) == 0 && large(&rest) {
		f := rest.wasted(peak.Bytes)
		f.Description = fmt.Sprintf("%s of the %s of %s buffers, the worst the %s, are padding at the peak", units.Exact(rest.bytes),
			units.Bytes(rest.amount.Bytes), units.Count(rest.amount.Count), &group{groupKey: rest.groupKey})
		findings = append(findings, f)
	}
	return findings
}

// wasted is the finding of buffers that are padded.
func (g *group) wasted(peak int64) Finding {
	share := shareOf(g.bytes, peak)
	f := Finding{
		Confidence: 1, // the compiler says so
		Sites:      distinct(g.sites), Amount: g.amount,
		Evidence: []Evidence{{Name: "wasted_bytes", Value: float64(g.bytes)}, {Name: "peak_bytes", Value: float64(peak)}, {Name: "share_of_peak", Value: share}},
		Suggestions: []string{"Layouts round the last dimensions in memory up to whole tiles: make the innermost one a multiple of 128 " +
			"and the next one a multiple of 8 (16 for two-byte types), merge small dimensions, or put a long one last."},
	}
	if g.bytes >= largeWaste && share >= warnWaste {
		f.Severity = Warning
	}
	return f
}

// waste tells how much of a buffer is padding.
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
