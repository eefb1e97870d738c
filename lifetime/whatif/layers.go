package whatif

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// forwards and backwards report whether an event is in the stretch.
func (s stretch) forwards(event int) bool       { return event >= s.begin && event < s.until }
func (s stretch) backwards(event int) bool      { return event > s.back && event <= s.done }
func (s stretch) long() (forward, backward int) { return s.until - s.begin, s.done - s.back }

// layers repeats the blocks of the program n times. Blocks after the first are left out, or the second one runs several times: what one
// block hands to the next ends there.
func (m *model) layers(n int) string {
	count := 0
	stretches := make([]stretch, len(m.passes)) // of what is left out, or repeated
	for k := range m.passes {
		units, _ := m.blocks(k)
		switch {
		case len(units) == 0:
			continue
		case count != 0 && len(units) != count:
			return "the passes have different numbers of blocks"
		}
		count = len(units)
		if count < 3 || n < 2 {
			return fmt.Sprintf("the program has %d blocks: it takes three to see where one begins and ends, and two stay", count)
		}
		if !m.evenly(k, units) {
			return "blocks repeat within or beside others, and which are meant is not known"
		}
		each := m.stretches(k, units)
		of, last := &stretches[k], each[max(1, count-n)]
		*of = each[1]
		of.until, of.back = last.until, last.back
	}
	weights := m.weights()
	first, period := blocksOf(weights, count)
	switch {
	case count == 0:
		return "no block of the program repeats"
	case period == 0:
		return "which parameters belong to the blocks that repeat is not known"
	case n == count:
		return fmt.Sprintf("the program has %d blocks", n)
	}
	sizes := numbersOf(weights[first : first+period]) // of the parameters of one block
	if n < count {
		m.leaveOut(stretches, sizes, count-n)
	} else {
		m.repeatBlocks(stretches, sizes, n-count)
	}
	return ""
}

// evenly reports whether the same is made between the begins of all units of pass k but the first, also outside of them.
func (m *model) evenly(k int, units []unit) bool {
	var first []program.Piece
	for j := 1; j < len(units)-1; j++ {
		var pieces []program.Piece
		for _, b := range m.between(units[j].first().begin.event, units[j+1].first().begin.event) {
			if b.pass == int32(k) && b.category != purpose.Workspace {
				pieces = append(pieces, m.pieceOf(b))
			}
		}
		if j == 1 {
			first = pieces
		} else if !slices.Equal(pieces, first) {
			return false
		}
	}
	return true
}

// ofBlocks returns the parameters, states and temporaries of the optimizer that belong to n blocks with parameters of some sizes. Those of
// equal sizes are alike, so it does not matter which.
func (m *model) ofBlocks(sizes map[int64]int, n int) (found []*buffer) {
	type kind struct {
		category purpose.Category
		round    int // of temporaries
		size     int64
	}
	all, _ := m.trained()
	members, trained := map[kind][]*buffer{}, numbersOf(all)
	for _, b := range m.buffers {
		k := kind{b.category, 0, b.size}
		switch {
		case sizes[b.size] == 0:
			continue
		case b.phase == purpose.OptimizerPhase && b.category == purpose.TemporaryData:
			k.round = slices.IndexFunc(m.rounds, func(r round) bool { return b.begin.event < r.end })
		case b.category != purpose.ModelParameter && b.category != purpose.OptimizerState:
			continue
		}
		members[k] = append(members[k], b)
	}
	for k, all := range members {
		each := 1 // for each parameter
		if k.category != purpose.ModelParameter {
			each = len(all) / max(1, trained[k.size])
		}
		found = append(found, all[len(all)-min(len(all), each*sizes[k.size]*n):]...)
	}
	slices.SortFunc(found, func(x, y *buffer) int { return cmp.Or(x.begin.compare(y.begin), cmp.Compare(x.like, y.like)) })
	return found
}

// leaveOut leaves out what n blocks do in stretches. What an earlier event made, and they would have freed, is freed by the block in their place.
func (m *model) leaveOut(stretches []stretch, sizes map[int64]int, n int) {
	gone := map[*buffer]bool{}
	for _, b := range m.ofBlocks(sizes, n) {
		gone[b] = true
	}
	for _, b := range m.buffers {
		if b.pass < 0 {
			continue
		}
		s := stretches[b.pass]
		forward, backward := s.long()
		switch begin, end := b.begin.event, b.end.event; {
		case s.forwards(begin), s.backwards(begin):
			gone[b] = true
		case s.forwards(end):
			m.until(b, at(end+forward))
		case s.backwards(end) && begin < s.begin: // the next block saved it
			m.until(b, at(end-backward))
		case s.isHandedDown(b):
			m.until(b, at(end+backward))
		}
	}
	m.drop(func(b *buffer) bool { return gone[b] })
}

// isHandedDown reports whether a buffer is what the stretch gets in the backward pass from the block after it.
func (s stretch) isHandedDown(b *buffer) bool {
	return s.backwards(b.end.event) && b.begin.event > s.until && b.begin.event <= s.back && b.phase == purpose.Backward
}

// repeatBlocks runs the block of each stretch n times more: after it in the forward pass, before it in the backward pass.
func (m *model) repeatBlocks(stretches []stretch, sizes map[int64]int, n int) {
	recorded := m.buffers
	for _, b := range m.ofBlocks(sizes, 1) {
		begin := b.begin
		if b.isOlder() {
			begin = before.at(0)
		}
		for times := 1; times <= n; times++ {
			m.repeat(b, begin.in(times, begin.inner), b.end)
		}
	}
	for _, b := range recorded {
		if b.pass < 0 {
			continue
		}
		s := repetition{stretches[b.pass], n}
		switch isForward := s.forwards(b.begin.event); {
		case isForward, s.backwards(b.begin.event):
			for times := 1; times <= n; times++ {
				begin := s.inBackward(times, b.begin.event)
				if isForward {
					begin = s.inForward(times, b.begin.event)
				}
				m.repeat(b, begin, s.end(b, times))
			}
			if end := s.end(b, 0); end != b.end {
				m.until(b, end)
			}
		case s.isHandedDown(b):
			m.until(b, s.inBackward(n, b.end.event))
		}
	}
}

// repetition is a stretch whose block runs n times more: repetition 0 is the recorded one.
type repetition struct {
	stretch
	n int
}

// inForward returns where an event of the forward pass is in a repetition: if it is of the next block, in the next repetition.
func (s repetition) inForward(times, event int) moment {
	forward, _ := s.long()
	switch {
	case times > 0 && event < s.until:
		return before.at(s.until).in(times, event-s.begin)
	case times < s.n && event >= s.until && event < s.until+forward:
		return s.inForward(times+1, event-forward)
	}
	return at(event)
}

// inBackward is inForward of the backward pass.
func (s repetition) inBackward(times, event int) moment {
	_, backward := s.long()
	switch {
	case times > 0 && s.backwards(event):
		return after.at(s.back).in(s.n-times, event-s.back)
	case times > 0 && event > s.done && event <= s.done+backward:
		return s.inBackward(times-1, event-backward)
	}
	return at(event)
}

// end returns where a buffer of a block ends in a repetition.
func (s repetition) end(b *buffer, times int) moment {
	_, backward := s.long()
	switch event := b.end.event; {
	case !b.isFreed():
		return never
	case b.begin.event > s.back && b.phase == purpose.Backward:
		return s.inBackward(times, event)
	case event <= s.back-backward || event > s.done:
		return s.inForward(times, event)
	case event > s.back:
		return s.inBackward(times, event)
	case times < s.n: // the next block saved it
		return s.inBackward(times+1, event+backward)
	}
	return b.end
}
