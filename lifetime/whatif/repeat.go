package whatif

import "slices"

// Of periods that are equal, the first keptFirst remain and the last one: then the blocks of the allocator mostly lie the same after each.
const keptFirst = 6

// gap is where periods were left out: the period after it.
type gap struct{ begin, end float64 }

// shorten returns the program without most of the steps, or passes, that it repeats: each needs what the one before it needs, and makes the
// same calls of the allocator. ok is false if there are not enough of them.
func (m *model) shorten() (short *model, ok bool) {
	out := m.repeated(m.stepBegins())
	if len(out) == 0 {
		out = m.repeated(m.passBegins())
	}
	if len(out) == 0 {
		return nil, false
	}
	short = &model{
		t: m.t, s: m.s, h: m.h, calls: m.calls, places: m.places, closure: m.closure, gaps: make([]gap, 0, len(out)),
	}
	// A place in what is left out becomes the same place of the period after it.
	before := make([]float64, len(out)+1) // events that are left out before each
	for i, o := range out {
		before[i+1] = before[i] + o.to - o.from
	}
	moved := func(n float64) float64 {
		if n < 0 {
			return n
		}
		i, _ := out.find(n)
		return n - before[i]
	}
	isOut := func(n float64) bool {
		_, in := out.find(n)
		return in
	}
	for _, o := range out {
		short.gaps = append(short.gaps, gap{o.to, o.to + o.period})
	}
	passes, steps := make([]int32, len(m.passes)), make([]int32, len(m.steps)) // as they are numbered now
	for i, p := range m.passes {
		if !isOut(p.begin) {
			short.passes = append(short.passes, p)
		}
		passes[i] = int32(len(short.passes) - 1)
	}
	for i, s := range m.steps {
		if !isOut(s.begin) {
			short.steps = append(short.steps, s)
		}
		steps[i] = int32(len(short.steps) - 1)
	}
	for i := range short.passes {
		short.passes[i].step = steps[short.passes[i].step]
	}
	short.movePasses(moved)
	for i := range m.buffers {
		b := m.buffers[i]
		if isOut(b.begin.n) {
			continue
		}
		b.begin.n, b.end.n, b.requestFree = moved(b.begin.n), moved(b.end.n), moved(b.requestFree)
		if b.pass >= 0 {
			b.pass = passes[b.pass]
		}
		if b.step >= 0 {
			b.step = steps[b.step]
		}
		short.buffers = append(short.buffers, b)
	}
	for _, o := range m.others {
		o.at.n = moved(o.at.n)
		short.others = append(short.others, o)
	}
	short.n, short.sorted = m.n-int(before[len(out)]), len(short.buffers)
	short.axis = make([]float64, short.n)
	for i := range short.axis {
		short.axis[i] = float64(i)
	}
	return short, true
}

// stepBegins returns where whole steps begin, and where the last one ends.
func (m *model) stepBegins() (all []float64) {
	for _, s := range m.steps {
		all = append(all, s.begin)
		if s.open {
			return all
		}
	}
	return append(all, float64(m.n))
}

// passBegins returns where passes begin, and where the last one ends.
func (m *model) passBegins() (all []float64) {
	for _, p := range m.passes {
		all = append(all, p.begin)
	}
	if last := m.last(); last != nil {
		all = append(all, last.end)
	}
	return all
}

// span is periods that are left out: from event from to event to, which does not count.
type span struct {
	from, to float64
	period   float64 // events of each
}

// spans are in order, and further apart than a period.
type spans []span

// find returns the first span that ends after event n, and whether n is in it.
func (all spans) find(n float64) (i int, in bool) {
	i, _ = slices.BinarySearchFunc(all, n, func(o span, n float64) int {
		if o.to <= n {
			return -1
		}
		return 1
	})
	return i, i < len(all) && all[i].from <= n
}

// repeated returns what to leave out of periods that begin at events.
func (m *model) repeated(begins []float64) (out spans) {
	const least = keptFirst + 2
	if len(begins) < least+1 {
		return nil
	}
	first := 0 // of those that are equal
	for k := 1; k < len(begins); k++ {
		if k+1 < len(begins) && m.isRepeated(begins[k-1:k+2], begins[min(k+2, len(begins)-1)]) {
			continue
		}
		if last := k - 1; last-first+1 >= least && begins[last+1] > begins[last] { // periods first to last are equal
			out = append(out, span{
				from: begins[first+keptFirst], to: begins[last], period: begins[last+1] - begins[last],
			})
		}
		first = k
	}
	differ := make([]bool, len(out))
	for i := range m.buffers { // what is older than a period before them, and ends in them, ends at another place in each
		b := &m.buffers[i]
		for _, n := range [...]float64{b.end.n, b.requestFree} {
			if k, in := out.find(n); in && b.begin.n < out[k].from-out[k].period {
				differ[k] = true
			}
		}
	}
	for _, o := range m.others { // in them, or in the period before or after them
		k, _ := out.find(o.at.n)
		if k < len(out) && o.at.n >= out[k].from-out[k].period {
			differ[k] = true
		}
		if k > 0 && o.at.n < out[k-1].to+out[k-1].period {
			differ[k-1] = true
		}
	}
	equal := out[:0]
	for k, o := range out {
		if !differ[k] {
			equal = append(equal, o)
		}
	}
	return equal
}

// isRepeated reports whether the second of two periods makes what the first one makes, in the same order, and frees it by the end of the period
// after it. of has their begins, and the end of the second one.
func (m *model) isRepeated(of []float64, end float64) bool {
	x, y := m.between(of[0], of[1]), m.between(of[1], of[2])
	shift := of[1] - of[0]
	if len(x) != len(y) || of[2]-of[1] != shift {
		return false
	}
	isMoved := func(from, to pos) bool { return from == to && from == never || from.n+shift == to.n && to.n <= end }
	for i := range x {
		b, c := &x[i], &y[i]
		same := b.place == c.place && b.size == c.size && b.category == c.category && b.phase == c.phase && b.part == c.part &&
			b.saved == c.saved && b.dropped == c.dropped && (b.pass < 0) == (c.pass < 0) && b.end != never
		if !same || !isMoved(b.begin, c.begin) || !isMoved(b.end, c.end) || !isMoved(at(b.requestFree), at(c.requestFree)) {
			return false
		}
	}
	return true
}
