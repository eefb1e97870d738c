package whatif

import (
	"cmp"
	"maps"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/purpose"
)

// forwards returns the begins of forward passes that follow another phase.
func (m *model) forwards() (all []int) {
	last := purpose.UnknownPhase
	for _, b := range m.buffers {
		if b.isOlder() || b.added || b.phase == purpose.UnknownPhase {
			continue
		}
		if b.phase == purpose.Forward && last != purpose.Forward {
			all = append(all, b.begin.event)
		}
		last = b.phase
	}
	return all
}

// held calls yield for results of a pass that a line of the program holds into the next pass, but not longer, with the begin of that one
// and the line.
func (m *model) held(yield func(b *buffer, next int, line lifetime.SiteID)) {
	if m.s.FreeSites == nil {
		return
	}
	starts := m.forwards()
	for _, b := range m.buffers {
		switch b.category {
		case purpose.UnknownCategory, purpose.Activation, purpose.TemporaryData:
		default:
			continue
		}
		isOfPass := b.isOlder() || b.phase == purpose.Forward || b.phase == purpose.Backward
		if !isOfPass || !b.isFreed() || m.s.Buffers[b.like].Edge&lifetime.EndInferred != 0 {
			continue
		}
		k, _ := slices.BinarySearch(starts, b.begin.event+1)
		if k == len(starts) || b.end.event <= starts[k] || k+1 < len(starts) && b.end.event > starts[k+1] {
			continue
		}
		site := cmp.Or(m.s.FreeSites[b.like], m.s.Buffers[b.like].Site)
		if p := m.t.PlaceOf(site); p.Frame.Kind == frame.User && p.Frame.File != "" && p.Node == "" {
			yield(b, starts[k], site)
		}
	}
}

// longestHeld returns the line that holds most bytes of a pass into the next one; 0 if none does.
func (m *model) longestHeld() (line string, site lifetime.SiteID) {
	bytes := map[lifetime.SiteID]int64{}
	m.held(func(b *buffer, _ int, line lifetime.SiteID) { bytes[line] += b.size })
	for _, of := range slices.Sorted(maps.Keys(bytes)) {
		if site == 0 || bytes[of] > bytes[site] {
			site = of
		}
	}
	f := m.t.PlaceOf(site).Frame
	return lineOf(f.File, f.Line), site
}

// freeEarly ends results of a pass that a line holds into the next pass before that begins.
func (m *model) freeEarly(name string) string {
	any := false
	m.held(func(b *buffer, next int, line lifetime.SiteID) {
		if f := m.t.PlaceOf(line).Frame; f.Function == name || lineOf(f.File, f.Line) == name {
			m.until(b, frees.at(next).by(b.begin.event))
			any = true
		}
	})
	if !any {
		return "this line holds no result of a pass into the next one"
	}
	return ""
}

func (m *model) dropSite(name string) string {
	found := false
	m.drop(func(b *buffer) bool {
		is := slices.ContainsFunc(m.paths.Sites[b.site].Calls, func(i int32) bool {
			c := &m.paths.Calls[i]
			return c.Function == name || lineOf(c.File, c.Line) == name
		})
		found = found || is
		return is
	})
	if !found {
		return "no stack has this line or function"
	}
	return ""
}
