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
	part := *s
	part.Begin, part.End = from, to
	part.Buffers, part.Regions, part.Totals, part.Marks, part.Stack = nil, nil, nil, nil, nil
	part.FreeSites, part.BufNotes, part.byEnd = nil, nil, nil
	part.Allocations, part.Frees = 0, 0
	var ended []uint32
	for i, b := range s.Buffers {
		if b.Begin >= to || b.Edge&EndOpen == 0 && b.End <= from {
			continue
		}
		recorded := b.Edge&(BeginUnseen|SiteFromFree) == 0
		freed := b.Edge&(EndOpen|EndInferred) == 0
		b.Begin, b.End, b.Edge = cutSides(b.Begin, b.End, b.Edge, from, to, s.End)
		if recorded && b.Edge&BeginUnseen == 0 {
			part.Allocations++
		}
		if freed && b.Edge&EndOpen == 0 {
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
	}
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
	for _, l := range s.Stack {
		switch {
		case l.At <= from: // the last one holds from the beginning
			part.Stack = []Level{{from, l.Bytes}}
		case l.At < to:
			part.Stack = append(part.Stack, l)
		}
	}
	part.sortEnds(ended)
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
