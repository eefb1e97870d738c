package lifetime

import (
	"fmt"
	"math"

	"github.com/memlane/memlane/internal/units"
)

// Check verifies the invariants of every capture, of any format. It returns the first violation, which is always a bug
// in memlane: errors of a capture are losses. Tests and fuzzing call it after every read.
//
//  1. Begin < End, inside the window.
//  2. Outside of compiled programs, no two live buffers have the same address. Check
//     does not verify that ranges are disjoint: that depends on the capture.
//  3. Buffers, regions, totals and marks are in order of Begin. EndOrder has every
//     buffer once. No two recorded events of a space have the same time.
//  4. The rows of the breakdown at the peak sum to the peak.
//  5. IDs are indexes into their tables. A stack comes after its caller.
//  6. Times of calls are finite.
func (c *Capture) Check() error {
	for _, s := range c.Spaces {
		if err := c.checkSpace(s); err != nil {
			return fmt.Errorf("space %s: %w", s.ID(), err)
		}
	}
	for i, stack := range c.Stacks {
		switch {
		case int(stack.Frame) >= len(c.Frames):
			return fmt.Errorf("stack %d: frame %d of %d", i, stack.Frame, len(c.Frames))
		case i > 0 && int(stack.Caller) >= i:
			return fmt.Errorf("stack %d: caller %d", i, stack.Caller)
		}
	}
	for i, site := range c.Sites {
		if stack := max(site.Stack, site.Source); int(stack) >= len(c.Stacks) {
			return fmt.Errorf("site %d: stack %d of %d", i, stack, len(c.Stacks))
		}
	}
	return c.checkCalls()
}

func (c *Capture) checkCalls() error {
	for i := range c.Calls {
		call := &c.Calls[i]
		switch {
		case call.Space < 0 || call.Space >= len(c.Spaces):
			return fmt.Errorf("call %d: space %d of %d", i, call.Space, len(c.Spaces))
		case int(call.Site) >= len(c.Sites):
			return fmt.Errorf("call %d: site %d of %d", i, call.Site, len(c.Sites))
		}
		for _, seconds := range []float64{call.Begin, call.End, call.Seconds} {
			if math.IsNaN(seconds) || math.IsInf(seconds, 0) {
				return fmt.Errorf("call %d: %v seconds", i, seconds)
			}
		}
	}
	for i := range c.Samples {
		if s := &c.Samples[i]; s.Space < 0 || s.Space >= len(c.Spaces) {
			return fmt.Errorf("sample %d: space %d of %d", i, s.Space, len(c.Spaces))
		}
	}
	return nil
}

func (c *Capture) checkSpace(s *Space) error {
	if s.Source < 0 || s.Source >= len(c.Sources) {
		return fmt.Errorf("source %d of %d", s.Source, len(c.Sources))
	}
	for i := range s.Buffers {
		b := &s.Buffers[i]
		switch {
		case b.Begin >= b.End:
			return fmt.Errorf("buffer %d: begins at %d, ends at %d", i, b.Begin, b.End)
		case b.Begin < s.Begin || b.End > s.End:
			return fmt.Errorf("buffer %d: [%d, %d) outside the recording [%d, %d)", i, b.Begin, b.End, s.Begin, s.End)
		case b.Size < 0 || b.Requested < 0:
			return fmt.Errorf("buffer %d: negative size", i)
		case int(b.Site) >= len(c.Sites):
			return fmt.Errorf("buffer %d: site %d of %d", i, b.Site, len(c.Sites))
		case i > 0 && b.Begin < s.Buffers[i-1].Begin:
			return fmt.Errorf("buffer %d begins before buffer %d", i, i-1)
		case i > 0 && b.Begin == s.Buffers[i-1].Begin && (b.Edge|s.Buffers[i-1].Edge)&BeginUnseen == 0 && s.Axis != ProgramOrder:
			return fmt.Errorf("buffers %d and %d begin at the same instant", i-1, i)
		}
	}
	if err := s.checkEnds(); err != nil {
		return err
	}
	if err := c.checkColumns(s); err != nil {
		return err
	}
	if s.Axis != ProgramOrder && s.Facts&Addresses != 0 {
		if err := s.checkAddresses(); err != nil {
			return err
		}
	}
	peak := s.Peak(Occupied)
	sum := int64(0)
	for _, row := range s.Breakdown(peak.At) {
		sum = units.AddSat(sum, row.Bytes)
	}
	if sum != peak.Bytes {
		return fmt.Errorf("peak %d at %d, but its rows sum to %d", peak.Bytes, peak.At, sum)
	}
	return nil
}

// checkEnds verifies that EndOrder has every buffer once, in order.
func (s *Space) checkEnds() error {
	if len(s.EndOrder) != len(s.Buffers) {
		return fmt.Errorf("%d ends for %d buffers", len(s.EndOrder), len(s.Buffers))
	}
	seen := make([]bool, len(s.Buffers))
	last := &Buffer{End: math.MinInt64}
	for k, i := range s.EndOrder {
		if int(i) >= len(s.Buffers) || seen[i] {
			return fmt.Errorf("end %d is buffer %d, which does not exist or is listed twice", k, i)
		}
		seen[i] = true
		b := &s.Buffers[i]
		if open, before := b.Edge&EndOpen != 0, last.Edge&EndOpen != 0; before && !open || before == open && b.End < last.End {
			return fmt.Errorf("end %d, of buffer %d, comes after a later one", k, i)
		}
		last = b
	}
	return nil
}

// checkColumns verifies the optional columns, values, regions, marks and totals.
func (c *Capture) checkColumns(s *Space) error {
	for _, n := range []int{len(s.FreeSites), len(s.BufNotes), len(s.Holders), len(s.ValueIDs), len(s.Purposes), len(s.FreeRequests)} {
		if n != 0 && n != len(s.Buffers) {
			return fmt.Errorf("a column of %d for %d buffers", n, len(s.Buffers))
		}
	}
	for i, site := range s.FreeSites {
		if int(site) >= len(c.Sites) {
			return fmt.Errorf("buffer %d: freed by site %d of %d", i, site, len(c.Sites))
		}
	}
	for i, t := range s.FreeRequests {
		if b := &s.Buffers[i]; t < b.Begin || t > b.End {
			return fmt.Errorf("buffer %d: its free was requested at %d, it lives from %d to %d", i, t, b.Begin, b.End)
		}
	}
	for i, note := range s.BufNotes {
		if int(note) >= len(c.Notes) {
			return fmt.Errorf("buffer %d: note %d of %d", i, note, len(c.Notes))
		}
	}
	for i, holder := range s.Holders {
		if int(holder) >= len(c.Holders) {
			return fmt.Errorf("buffer %d: holder %d of %d", i, holder, len(c.Holders))
		}
	}
	for i := range s.Values {
		v := &s.Values[i]
		switch {
		case int(v.Site) >= len(c.Sites):
			return fmt.Errorf("value %d: site %d of %d", v.ID, v.Site, len(c.Sites))
		case v.Size < 0 || v.Requested < 0:
			return fmt.Errorf("value %d: negative size", v.ID)
		}
	}
	for i, l := range s.Stack {
		if l.Bytes < 0 || i > 0 && l.At < s.Stack[i-1].At {
			return fmt.Errorf("stack level %d: %d bytes at %d", i, l.Bytes, l.At)
		}
	}
	for i := range s.Regions {
		r := &s.Regions[i]
		switch {
		case r.Begin >= r.End || r.Begin < s.Begin || r.End > s.End || r.Size < 0:
			return fmt.Errorf("region %d: [%d, %d) of %d bytes", i, r.Begin, r.End, r.Size)
		case int(r.Site) >= len(c.Sites):
			return fmt.Errorf("region %d: site %d of %d", i, r.Site, len(c.Sites))
		case i > 0 && r.Begin < s.Regions[i-1].Begin:
			return fmt.Errorf("region %d begins before region %d", i, i-1)
		}
	}
	for i := range s.Marks {
		m := &s.Marks[i]
		switch {
		case m.Begin > m.End:
			return fmt.Errorf("mark %d: [%d, %d)", i, m.Begin, m.End)
		case int(m.Site) >= len(c.Sites):
			return fmt.Errorf("mark %d: site %d of %d", i, m.Site, len(c.Sites))
		case i > 0 && m.Begin < s.Marks[i-1].Begin:
			return fmt.Errorf("mark %d begins before mark %d", i, i-1)
		}
	}
	for i := 1; i < len(s.Totals); i++ {
		if s.Totals[i].T < s.Totals[i-1].T {
			return fmt.Errorf("total %d comes after a later one", i)
		}
	}
	return nil
}

func (s *Space) checkAddresses() error {
	live := map[uint64]int{}
	for c := range s.Changes() {
		b := &s.Buffers[c.Buffer]
		if !c.Begin {
			delete(live, b.Addr)
			continue
		}
		if other, ok := live[b.Addr]; ok {
			return fmt.Errorf("buffers %d and %d are both alive at address %#x and time %d", other, c.Buffer, b.Addr, b.Begin)
		}
		live[b.Addr] = c.Buffer
	}
	return nil
}
