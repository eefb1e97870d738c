package lifetime

// Slice returns the capture as if it had been recorded from one instant to
// another, [from, to) on the axis of each space: what is older than from is older
// than the window, what ends later is alive at its end. Spaces that the instants
// leave nothing of, and compiled programs, which have no time, are as they are.
//
// Buffers that lived only outside are gone, so Base and the levels inside stay
// what they were. Of the calls, operations and runs, calls alone are cut.
func (c *Capture) Slice(from, to func(s *Space) int64) *Capture {
	part := *c
	part.Spaces = nil
	part.Calls, part.Samples = nil, nil
	for _, s := range c.Spaces {
		lo, hi := max(from(s), s.Begin), min(to(s), s.End)
		if s.Axis == ProgramOrder || lo >= hi || lo == s.Begin && hi == s.End {
			part.Spaces = append(part.Spaces, s)
			continue
		}
		part.Spaces = append(part.Spaces, s.slice(lo, hi))
	}
	for _, call := range c.Calls {
		s := part.Spaces[call.Space]
		if call.End >= float64(s.Begin)/1e9 && call.Begin < float64(s.End)/1e9 {
			part.Calls = append(part.Calls, call)
		}
	}
	for _, sample := range c.Samples {
		if s := part.Spaces[sample.Space]; s.Begin <= sample.T && sample.T < s.End {
			part.Samples = append(part.Samples, sample)
		}
	}
	return &part
}

func (s *Space) slice(from, to int64) *Space {
	part := s.with(func(b Buffer) (Buffer, bool) {
		if b.Begin >= to || b.Edge&EndOpen == 0 && b.End <= from {
			return b, false
		}
		b.Begin, b.End, b.Edge = cutSides(b.Begin, b.End, b.Edge, from, to, s.End)
		return b, true
	})
	part.Begin, part.End = from, to
	part.Regions, part.Totals, part.Marks, part.Stack = nil, nil, nil, nil
	for _, r := range s.Regions {
		if r.Begin < to && (r.End > from || r.Edge&EndOpen != 0) {
			r.Begin, r.End, r.Edge = cutSides(r.Begin, r.End, r.Edge, from, to, s.End)
			part.Regions = append(part.Regions, r)
		}
	}
	for _, t := range s.Totals {
		if from <= t.T && t.T < to {
			part.Totals = append(part.Totals, t)
		}
	}
	for _, m := range s.Marks {
		if m.Begin < to && max(m.End, m.Begin+1) > from {
			part.Marks = append(part.Marks, m)
		}
	}
	for i, l := range s.Stack {
		switch {
		case i == 0 || l.At <= from: // the last one holds from the beginning, the first one always did
			part.Stack = []Level{{from, l.Bytes}}
		case l.At < to:
			part.Stack = append(part.Stack, l)
		}
	}
	return part
}

// Only returns the capture with the spaces that are asked for, and with their
// calls and samples.
func (c *Capture) Only(asked func(*Space) bool) *Capture {
	part := *c
	part.Spaces, part.Calls, part.Samples = nil, nil, nil
	at := map[int]int{} // new index by the old one
	for i, s := range c.Spaces {
		if asked(s) {
			at[i] = len(part.Spaces)
			part.Spaces = append(part.Spaces, s)
		}
	}
	for _, call := range c.Calls {
		if i, ok := at[call.Space]; ok {
			call.Space = i
			part.Calls = append(part.Calls, call)
		}
	}
	for _, sample := range c.Samples {
		if i, ok := at[sample.Space]; ok {
			sample.Space = i
			part.Samples = append(part.Samples, sample)
		}
	}
	return &part
}

// Filter returns the capture with the buffers alone that are asked for. Levels are
// theirs: what was never seen one by one, what lies beside the heap and what the
// producer said of all buffers together are left out, where there are buffers.
func (c *Capture) Filter(asked func(s *Space, b *Buffer) bool) *Capture {
	part := *c
	part.Spaces = nil
	for _, s := range c.Spaces {
		if s.UsageOnly() {
			part.Spaces = append(part.Spaces, s)
			continue
		}
		own := s.with(func(b Buffer) (Buffer, bool) { return b, asked(s, &b) })
		own.Base, own.Stack, own.Totals, own.Facts = 0, nil, nil, own.Facts&^Totals
		part.Spaces = append(part.Spaces, own)
	}
	return &part
}

// with returns a copy of the space with the buffers that take keeps, as it changes
// them. It does not change their order.
func (s *Space) with(take func(b Buffer) (Buffer, bool)) *Space {
	part := *s
	part.Buffers, part.FreeSites, part.BufNotes, part.ValueIDs, part.EndOrder = nil, nil, nil, nil, nil
	part.Allocations, part.Frees = 0, 0
	ended := []uint32{}
	for i, whole := range s.Buffers {
		b, ok := take(whole)
		if !ok {
			continue
		}
		if (whole.Edge|b.Edge)&(BeginUnseen|SiteFromFree) == 0 {
			part.Allocations++
		}
		if (whole.Edge|b.Edge)&(EndOpen|EndInferred) == 0 {
			part.Frees++
		}
		if b.Edge&EndOpen == 0 {
			ended = append(ended, uint32(len(part.Buffers)))
		}
		part.Buffers = append(part.Buffers, b)
		if s.FreeSites != nil {
			site := s.FreeSites[i]
			if b.Edge&EndOpen != 0 {
				site = 0
			}
			part.FreeSites = append(part.FreeSites, site)
		}
		if s.BufNotes != nil {
			part.BufNotes = append(part.BufNotes, s.BufNotes[i])
		}
		if s.ValueIDs != nil {
			part.ValueIDs = append(part.ValueIDs, s.ValueIDs[i])
		}
	}
	part.SortEnds(ended)
	return &part
}

// cutSides cuts what reaches beyond a window, which was part of one that ended at
// end.
func cutSides(begin, stop int64, edge Edge, from, to, end int64) (int64, int64, Edge) {
	if begin < from {
		begin = from
		edge |= BeginUnseen
	}
	if edge&EndOpen != 0 || stop > to {
		stop = to
		edge = edge&^EndInferred | EndOpen
		if to < end {
			edge &^= Pending
		}
	}
	return begin, stop, edge
}
