package whatif

import "slices"

// Of steps that are equal, the first keptFirst remain and the last one: then the blocks of the allocator mostly lie the same after each.
const keptFirst = 6

// gap is where equal steps were left out: the step after it.
type gap struct{ begin, end int }

// shorten returns the program without most of the steps that it repeats; nil if there are not enough of them.
func (m *model) shorten() *model {
	begins, calls, first := m.stepBegins(), m.order(), 0
	var gaps []gap
	left := make([]int, m.n+1) // by event: how many are left out around it
	for k := 1; k < len(begins); k++ {
		if k+1 < len(begins) && m.isRepeated(calls, begins[k-1:k+2]) {
			continue
		}
		// The steps from first to k-1 are equal.
		from, to := begins[min(first+keptFirst, k-1)], begins[k-1]
		for event := from; event < to; event++ {
			left[event] = to - from
		}
		if first = k; from < to {
			gaps = append(gaps, gap{to, begins[k]})
		}
	}
	if gaps == nil {
		return nil
	}
	short := m.clone()
	short.gaps = gaps
	for _, b := range short.buffers {
		if !b.isOlder() && b.isFreed() && left[b.begin.event] == 0 { // freed in what is left out: in the next step that remains instead
			if b.end.event += left[b.end.event]; b.requestFree != noEvent {
				b.requestFree += left[b.requestFree]
			}
		}
	}
	isOut := func(event int) bool { return event >= 0 && left[event] > 0 }
	short.drop(func(b *buffer) bool { return isOut(b.begin.event) })
	short.leaveOutPasses(isOut)
	short.settle()
	return short
}

// leaveOutPasses leaves out passes and rounds that begin at some events.
func (m *model) leaveOutPasses(isOut func(event int) bool) {
	rounds, passes := make([]int, len(m.rounds)), make([]int32, len(m.passes)) // as they are numbered now
	for i, n := 0, 0; i < len(rounds); i++ {
		if rounds[i] = n; !isOut(m.rounds[i].begin) {
			n++
		}
	}
	for i, n := 0, int32(0); i < len(passes); i++ {
		m.passes[i].round = rounds[m.passes[i].round]
		if passes[i] = n; !isOut(m.passes[i].begin) {
			n++
		}
	}
	m.rounds = slices.DeleteFunc(m.rounds, func(r round) bool { return isOut(r.begin) })
	m.passes = slices.DeleteFunc(m.passes, func(p pass) bool { return isOut(p.begin) })
	for _, b := range m.buffers {
		if b.pass >= 0 {
			b.pass = passes[b.pass]
		}
	}
}

// stepBegins returns where whole steps begin, and where the last one ends.
func (m *model) stepBegins() (all []int) {
	for k, r := range m.rounds {
		if k == 0 || r.step != m.rounds[k-1].step {
			all = append(all, r.begin)
		}
	}
	if k := len(m.rounds) - 1; k >= 0 && !m.rounds[k].open {
		all = append(all, m.n)
	}
	return all
}

// isRepeated reports whether the second of two steps makes the calls of the first one for buffers that are equal, and freed by the end of the step after
// their own. of has where they begin, and the end.
func (m *model) isRepeated(calls []item, of []int) bool {
	period := of[1] - of[0]
	if of[2]-of[1] != period {
		return false
	}
	for event := of[0]; event < of[1]; event++ {
		x, y := calls[event], calls[event+period]
		if x.kind != y.kind || x.kind == isOther {
			return false
		}
		moved, b := *m.buffers[x.index], m.buffers[y.index]
		moved.begin.event, moved.end.event, moved.like = moved.begin.event+period, moved.end.event+period, b.like
		if moved.requestFree != noEvent {
			moved.requestFree += period
		}
		if moved.pass >= 0 && b.pass >= 0 {
			moved.pass = b.pass
		}
		if moved != *b || x.kind == isAllocation && b.end.event >= of[2]+period {
			return false
		}
	}
	return true
}
