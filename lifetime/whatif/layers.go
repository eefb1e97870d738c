package whatif

import (
	"fmt"
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime/purpose"
)

// stretch is where one block that repeats runs in a pass: from begin to before end in the forward pass, and after back to done in the
// backward pass, in numbers of events.
type stretch struct{ begin, end, back, done float64 }

// forwards and backwards report whether an event is in the stretch.
func (s stretch) forwards(n float64) bool  { return n >= s.begin && n < s.end }
func (s stretch) backwards(n float64) bool { return n > s.back && n <= s.done }

// long returns the events of both parts.
func (s stretch) long() (forward, backward float64) { return s.end - s.begin, s.done - s.back }

// layers repeats the blocks of the program n times. Blocks after the first are left out, or the second one runs several times: what one
// block hands to the next ends there.
func (m *model) layers(n int) string {
	count := 0
	stretches := make([]stretch, len(m.passes)) // of what is left out, or repeated
	for k := range m.passes {
		units := m.units(k)
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
			return "blocks repeat within others, and which are meant is not known"
		}
		stretches[k] = m.stretch(k, units, max(1, count-n))
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
	sizes := map[int64]int{} // of the parameters of one block
	for _, w := range weights[first : first+period] {
		sizes[w.size]++
	}
	if n < count {
		m.leaveOut(stretches, sizes, count-n)
	} else {
		m.repeat(stretches, sizes, n-count)
	}
	return ""
}

// evenly reports whether the same is made between the begins of all units of pass k but the first, also outside of them.
func (m *model) evenly(k int, units []unit) bool {
	var first []piece
	for j := 1; j < len(units)-1; j++ {
		var pieces []piece
		for _, b := range m.between(units[j][0].begin.n, units[j+1][0].begin.n) {
			if b.pass == int32(k) && b.category != purpose.Workspace {
				pieces = append(pieces, m.pieceOf(&b))
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

// weights returns the parameters in order.
func (m *model) weights() (all []*buffer) {
	for i := range m.buffers {
		if b := &m.buffers[i]; b.category == purpose.ModelParameter && !b.added {
			all = append(all, b)
		}
	}
	return all
}

// stretch returns where n units of pass k run, from the second one.
func (m *model) stretch(k int, units []unit, n int) stretch {
	begins := func(j int) float64 {
		dies := math.Inf(1)
		for _, b := range units[j][:len(units[j])-1] {
			if b.saved {
				dies = min(dies, b.end.n)
			}
		}
		return m.backwardBegins(k, units[j], dies)
	}
	return stretch{units[1][0].begin.n, units[1+n][0].begin.n, begins(n), begins(0)}
}

// ofBlocks returns the parameters, states and temporaries of the optimizer that belong to n blocks with parameters of some sizes. Those of
// equal sizes are alike, so it does not matter which.
func (m *model) ofBlocks(sizes map[int64]int, n int) (found []int) {
	type kind struct {
		category purpose.Category
		step     int // of temporaries
		size     int64
	}
	members, trained := map[kind][]int{}, map[int64]int{}
	all, _ := m.trained()
	for i := range all {
		trained[all[i].size]++
	}
	for i := range m.buffers {
		b := &m.buffers[i]
		k := kind{b.category, 0, b.size}
		switch {
		case sizes[b.size] == 0:
			continue
		case b.phase == purpose.OptimizerPhase && b.category == purpose.TemporaryData:
			k.step = slices.IndexFunc(m.steps, func(s step) bool { return b.begin.n < s.end })
		case b.category != purpose.ModelParameter && b.category != purpose.OptimizerState:
			continue
		}
		members[k] = append(members[k], i)
	}
	for k, all := range members {
		each := 1 // for each parameter
		if k.category != purpose.ModelParameter {
			each = len(all) / max(1, trained[k.size])
		}
		found = append(found, all[len(all)-min(len(all), each*sizes[k.size]*n):]...)
	}
	slices.Sort(found)
	return found
}

// inPasses calls yield for each buffer of a pass, with what is stretched there.
func (m *model) inPasses(stretches []stretch, yield func(i int, s stretch)) {
	for i := range m.buffers {
		if pass := m.buffers[i].pass; pass >= 0 {
			yield(i, stretches[pass])
		}
	}
}

// leaveOut leaves out what n blocks do in stretches. What an earlier event made, and they would have freed, is freed by the block in their place.
func (m *model) leaveOut(stretches []stretch, sizes map[int64]int, n int) {
	gone := map[int]bool{}
	for _, i := range m.ofBlocks(sizes, n) {
		gone[i] = true
	}
	m.inPasses(stretches, func(i int, s stretch) {
		b := &m.buffers[i]
		forward, backward := s.long()
		switch begin, end := b.begin.n, b.end.n; {
		case s.forwards(begin), s.backwards(begin):
			gone[i] = true
		case s.forwards(end):
			m.until(b, at(end+forward))
		case s.backwards(end) && begin < s.begin: // the next block saved it
			m.until(b, at(end-backward))
		case s.backwards(end) && begin > s.end && begin <= s.back && b.phase == purpose.Backward:
			m.until(b, at(end+backward))
		}
	})
	n = -1
	m.drop(func(*buffer) bool { n++; return gone[n] })
}

// repeat runs the block of each stretch n times more: after it in the forward pass, before it in the backward pass.
func (m *model) repeat(stretches []stretch, sizes map[int64]int, n int) {
	var added []buffer
	put := func(b *buffer, r int, begin, end pos) {
		c := *b
		c.begin, c.end, c.added, c.start, c.requestFree = begin, end, true, false, noEvent
		c.begin.c, added = float64(r), append(added, c)
	}
	for _, i := range m.ofBlocks(sizes, 1) {
		b := &m.buffers[i]
		begin := b.begin
		if b.start {
			begin = pos{0, -1, 0, 0}
		}
		for r := 1; r <= n; r++ {
			put(b, r, begin, b.end)
		}
	}
	m.inPasses(stretches, func(i int, s stretch) {
		b := &m.buffers[i]
		forward, backward := s.long()
		// Where an event is in repetition r, of which 0 is the recorded one: if it is of the next block, in the next repetition.
		var inForward, inBackward func(r int, e float64) pos
		inForward = func(r int, e float64) pos {
			switch {
			case r > 0 && e < s.end:
				return pos{s.end + before, float64(r), e - s.begin, 0}
			case r < n && e >= s.end && e < s.end+forward:
				return inForward(r+1, e-forward)
			}
			return at(e)
		}
		inBackward = func(r int, e float64) pos {
			switch {
			case r > 0 && s.backwards(e):
				return pos{s.back + after, float64(n - r), e - s.back, 0}
			case r > 0 && e > s.done && e <= s.done+backward:
				return inBackward(r-1, e-backward)
			}
			return at(e)
		}
		ends := func(r int) pos {
			switch e := b.end.n; {
			case b.end == never:
				return never
			case b.begin.n > s.back && b.phase == purpose.Backward:
				return inBackward(r, e)
			case e <= s.back-backward || e > s.done:
				return inForward(r, e)
			case e > s.back:
				return inBackward(r, e)
			case r < n: // the next block saved it
				return inBackward(r+1, e+backward)
			}
			return b.end
		}
		switch {
		case s.forwards(b.begin.n), s.backwards(b.begin.n):
			for r := 1; r <= n; r++ {
				begin := inForward(r, b.begin.n)
				if s.backwards(b.begin.n) {
					begin = inBackward(r, b.begin.n)
				}
				put(b, 0, begin, ends(r))
			}
			if end := ends(0); end != b.end {
				m.until(b, end)
			}
		case s.backwards(b.end.n) && b.begin.n > s.end && b.begin.n <= s.back && b.phase == purpose.Backward:
			m.until(b, inBackward(n, b.end.n))
		}
	})
	m.buffers, m.moved = append(m.buffers, added...), true
}
