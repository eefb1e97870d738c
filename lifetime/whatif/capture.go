package whatif

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/replay"
)

// Capture returns the program of a scenario as a capture: hypothetical, with the addresses that the allocator would choose. Its axis is the
// number of the event, because changes have no times. refused says why there is none.
func (e *Engine) Capture(s Scenario) (c *lifetime.Capture, refused string) {
	m, r := e.whole(s)
	if r.Refused != "" {
		return nil, r.Refused
	}
	h, calls := m.program()
	places := h.Places()
	space := &lifetime.Space{SpaceInfo: m.s.SpaceInfo}
	space.Axis, space.Begin, space.End = lifetime.Event, -1, int64(max(len(calls), 1))
	space.Facts = m.s.Facts&lifetime.Stacks | lifetime.History | lifetime.EndState | lifetime.Addresses
	space.LifetimePeak, space.Allocations, space.Frees = 0, 0, 0
	rest := m.others
	fail := func(until int64) { // requests that failed up to an event, as if they had found memory
		for ; len(rest) > 0 && int64(rest[0].at.event) <= until; rest = rest[1:] {
			if o := rest[0]; o.kind == replay.Fail {
				at := int64(o.at.event)
				place := places[calls[at].Request]
				b := lifetime.Buffer{Addr: place.Addr, Begin: at, End: at + 1, Size: place.Size, Requested: o.failed.size, Site: lifetime.SiteID(o.failed.site)}
				space.Buffers, space.Purposes = append(space.Buffers, b), append(space.Purposes, 0)
			}
		}
	}
	c = &lifetime.Capture{Tables: *m.t, Spaces: []*lifetime.Space{space}}
	c.Purposes = slices.Clone(m.t.Purposes)
	numbers := map[purpose.Purpose]lifetime.PurposeID{} // of what is added
	for i, from := range m.buffers {
		b := m.s.Buffers[from.like]
		is := m.s.PurposeOf(int(from.like))
		if b.Site = lifetime.SiteID(from.site); from.added && is > 0 && m.t.Purpose(is).Category != from.category { // it is like another one
			of := purpose.Purpose{Category: from.category, Phase: from.phase, Part: from.part, How: purpose.Inferred, PhaseHow: purpose.Inferred}
			if is = numbers[of]; is == 0 {
				is = lifetime.PurposeID(len(c.Purposes))
				numbers[of], c.Purposes = is, append(c.Purposes, of)
			}
		}
		b.Begin, b.End, b.Edge = int64(from.begin.event), int64(from.end.event), b.Edge&lifetime.SiteFromFree
		b.Addr, b.Size, b.Requested = places[i].Addr, places[i].Size, from.size
		if from.begin.event < 0 {
			b.Begin, b.Edge = space.Begin, b.Edge|lifetime.BeginUnseen
		} else {
			space.Allocations++
		}
		if !from.isFreed() {
			b.End, b.Edge = space.End, b.Edge|lifetime.EndOpen
		} else {
			space.Frees++
		}
		if b.Size == 0 || b.End <= b.Begin { // it found no memory, or was freed before the recording
			continue
		}
		fail(b.Begin)
		space.Buffers = append(space.Buffers, b)
		space.Purposes = append(space.Purposes, is)
	}
	fail(space.End)
	space.SortEnds(nil)
	c.Sources, c.Losses = slices.Clone(m.t.Sources), nil
	if len(s) > 0 {
		from := &c.Sources[space.Source]
		from.File, from.Producer = from.File+" if "+s.String(), strings.TrimSpace(from.Producer+" if "+s.String()+" (not recorded)")
	}
	return c, ""
}

// Texts returns the edits of a scenario; not nil.
func (s Scenario) Texts() []string {
	all := []string{}
	for _, e := range s {
		all = append(all, e.String())
	}
	return all
}

// String returns the edits of a scenario as Parse reads them.
func (s Scenario) String() string { return strings.Join(s.Texts(), ",") }
