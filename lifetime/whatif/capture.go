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
	purposeOf := m.purposesIn(c)
	for i, from := range m.buffers {
		b := m.s.Buffers[from.like]
		b.Site, b.Begin, b.End, b.Edge = lifetime.SiteID(from.site), int64(from.begin.event), int64(from.end.event), b.Edge&lifetime.SiteFromFree
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
		space.Purposes = append(space.Purposes, purposeOf(from))
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

// purposesIn returns what buffers are for in a capture. What is added for another purpose than the buffer that it is like gets a purpose there.
func (m *model) purposesIn(c *lifetime.Capture) func(b *buffer) lifetime.PurposeID {
	c.Purposes = slices.Clone(m.t.Purposes)
	numbers := map[purpose.Purpose]lifetime.PurposeID{}
	return func(b *buffer) lifetime.PurposeID {
		like := m.s.PurposeOf(int(b.like))
		if !b.added || like == 0 || m.t.Purpose(like).Category == b.category {
			return like
		}
		of := purpose.Purpose{Category: b.category, Phase: b.phase, Part: b.part, How: purpose.Inferred, PhaseHow: purpose.Inferred}
		if numbers[of] == 0 {
			numbers[of], c.Purposes = lifetime.PurposeID(len(c.Purposes)), append(c.Purposes, of)
		}
		return numbers[of]
	}
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
