package selection

import "github.com/memlane/memlane/lifetime"

// Slice returns the capture as if it had been recorded from one instant to another, [from, to) on the axis of each
// space. Buffers that begin earlier become BeginUnseen, buffers that end later become EndOpen, and buffers that lie
// outside are dropped. Base and the levels in the window do not change.
//
// Spaces that do not overlap [from, to), and compiled programs, stay as they are.
// Calls and samples are cut too, operations and runs are not.
func Slice(c *lifetime.Capture, from, to int64) *lifetime.Capture {
	part := *c
	part.Spaces = nil
	for _, s := range c.Spaces {
		lo, hi := max(from, s.Begin), min(to, s.End)
		if s.Axis == lifetime.ProgramOrder || lo >= hi || lo == s.Begin && hi == s.End {
			part.Spaces = append(part.Spaces, s)
			continue
		}
		part.Spaces = append(part.Spaces, slice(s, lo, hi))
	}
	part.Calls = kept(c.Calls, func(call *lifetime.Call) bool {
		s := part.Spaces[call.Space]
		return call.End >= float64(s.Begin)/1e9 && call.Begin < float64(s.End)/1e9
	})
	part.Samples = kept(c.Samples, func(sample *lifetime.Sample) bool {
		s := part.Spaces[sample.Space]
		return s.Begin <= sample.T && sample.T < s.End
	})
	return &part
}

// kept returns a copy of the elements of all for which keep returns true. keep may change an element of the copy.
func kept[T any](all []T, keep func(*T) bool) (some []T) {
	for _, v := range all {
		if keep(&v) {
			some = append(some, v)
		}
	}
	return some
}

func slice(s *lifetime.Space, from, to int64) *lifetime.Space {
	part := with(s, func(_ int, b lifetime.Buffer) (lifetime.Buffer, bool) {
		if b.Begin >= to || b.Edge&lifetime.EndOpen == 0 && b.End <= from {
			return b, false
		}
		b.Begin, b.End, b.Edge = cutSides(b.Begin, b.End, b.Edge, from, to, s.End)
		return b, true
	})
	part.Begin, part.End = from, to
	part.Stack = nil
	part.Regions = kept(s.Regions, func(r *lifetime.Region) bool {
		keep := r.Begin < to && (r.End > from || r.Edge&lifetime.EndOpen != 0)
		r.Begin, r.End, r.Edge = cutSides(r.Begin, r.End, r.Edge, from, to, s.End)
		return keep
	})
	part.Totals = kept(s.Totals, func(t *lifetime.Total) bool { return from <= t.T && t.T < to })
	part.Marks = kept(s.Marks, func(m *lifetime.Mark) bool { return m.Begin < to && max(m.End, m.Begin+1) > from })
	for i, l := range s.Stack {
		switch {
		case i == 0 || l.At <= from: // the last one of these holds at from
			part.Stack = []lifetime.Level{{At: from, Bytes: l.Bytes}}
		case l.At < to:
			part.Stack = append(part.Stack, l)
		}
	}
	return part
}

func only(c *lifetime.Capture, selected func(*lifetime.Space) bool) *lifetime.Capture {
	part := *c
	part.Spaces = nil
	index := map[int]int{} // new index by old index
	for i, s := range c.Spaces {
		if selected(s) {
			index[i] = len(part.Spaces)
			part.Spaces = append(part.Spaces, s)
		}
	}
	renumber := func(space *int) (ok bool) {
		*space, ok = index[*space]
		return ok
	}
	part.Calls = kept(c.Calls, func(call *lifetime.Call) bool { return renumber(&call.Space) })
	part.Samples = kept(c.Samples, func(sample *lifetime.Sample) bool { return renumber(&sample.Space) })
	return &part
}

// filter returns the capture with the selected buffers. Its levels count these buffers
// only: spaces with buffers lose Base, Stack and Totals.
func filter(c *lifetime.Capture, selected func(s *lifetime.Space, i int, b *lifetime.Buffer) bool) *lifetime.Capture {
	part := *c
	part.Spaces = nil
	for _, s := range c.Spaces {
		if s.UsageOnly() {
			part.Spaces = append(part.Spaces, s)
			continue
		}
		filtered := with(s, func(i int, b lifetime.Buffer) (lifetime.Buffer, bool) { return b, selected(s, i, &b) })
		filtered.Base, filtered.Stack, filtered.Totals, filtered.Facts = 0, nil, nil, filtered.Facts&^lifetime.Totals
		part.Spaces = append(part.Spaces, filtered)
	}
	return &part
}

// with returns a copy of the space with the buffers that take returns with ok. take may
// change a buffer, but not the order of buffers.
func with(s *lifetime.Space, take func(i int, b lifetime.Buffer) (lifetime.Buffer, bool)) *lifetime.Space {
	part := *s
	part.Buffers, part.FreeSites, part.BufNotes, part.Holders, part.ValueIDs, part.FreeRequests, part.Purposes,
		part.EndOrder = nil, nil, nil, nil, nil, nil, nil, nil
	part.Allocations, part.Frees = 0, 0
	ended := []uint32{}
	for i, whole := range s.Buffers {
		b, ok := take(i, whole)
		if !ok {
			continue
		}
		if (whole.Edge|b.Edge)&(lifetime.BeginUnseen|lifetime.SiteFromFree) == 0 {
			part.Allocations++
		}
		if (whole.Edge|b.Edge)&(lifetime.EndOpen|lifetime.EndInferred) == 0 {
			part.Frees++
		}
		if b.Edge&lifetime.EndOpen == 0 {
			ended = append(ended, uint32(len(part.Buffers)))
		}
		part.Buffers = append(part.Buffers, b)
		if s.FreeSites != nil {
			site := s.FreeSites[i]
			if b.Edge&lifetime.EndOpen != 0 {
				site = 0
			}
			part.FreeSites = append(part.FreeSites, site)
		}
		if s.BufNotes != nil {
			part.BufNotes = append(part.BufNotes, s.BufNotes[i])
		}
		if s.Holders != nil {
			part.Holders = append(part.Holders, s.Holders[i])
		}
		if s.ValueIDs != nil {
			part.ValueIDs = append(part.ValueIDs, s.ValueIDs[i])
		}
		if s.FreeRequests != nil {
			t := s.FreeRequests[i]
			if t == whole.End {
				t = b.End
			}
			part.FreeRequests = append(part.FreeRequests, min(max(t, b.Begin), b.End))
		}
		if s.Purposes != nil {
			part.Purposes = append(part.Purposes, s.Purposes[i])
		}
	}
	part.SortEnds(ended)
	return &part
}

// cutSides cuts an interval to the window [from, to) of a longer window that ended at end.
func cutSides(begin, stop int64, edge lifetime.Edge, from, to, end int64) (int64, int64, lifetime.Edge) {
	if begin < from {
		begin = from
		edge |= lifetime.BeginUnseen
	}
	if edge&lifetime.EndOpen != 0 || stop > to {
		stop = to
		edge = edge&^lifetime.EndInferred | lifetime.EndOpen
		if to < end {
			edge &^= lifetime.Pending
		}
	}
	return begin, stop, edge
}
