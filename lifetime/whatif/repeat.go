package whatif

import "sort"

// Of periods that are equal, the first keptFirst remain and the last one: then the blocks of the allocator mostly lie the same after each.
const keptFirst = 6

// gap is where periods were left out: the period after it.
type gap struct{ begin, end int }

// shorten returns the program without most of the steps that it repeats: each needs what the one before it needs, and makes the same calls of the
// allocator. ok is false if there are not enough of them.
func (m *model) shorten() (short *model, ok bool) {
	out := m.repeated(m.stepBegins())
	if len(out) == 0 {
		return nil, false
	}
	return m.without(out), true
}

// without returns the program without some periods. A place in what is left out becomes the same place of the period after it.
func (m *model) without(out spans) *model {
	short := &model{t: m.t, s: m.s, h: m.h, paths: m.paths, closure: m.closure, gaps: make([]gap, 0, len(out))}
	before := make([]int, len(out)+1) // events that are left out before each
	for i, o := range out {
		before[i+1] = before[i] + o.to - o.from
		short.gaps = append(short.gaps, gap{o.to, o.to + o.period})
	}
	moved := func(event int) int {
		if event < 0 || event == noEvent {
			return event
		}
		i, _ := out.find(event)
		return event - before[i]
	}
	passes, rounds := make([]int32, len(m.passes)), make([]int, len(m.rounds)) // as they are numbered now
	for i, p := range m.passes {
		if _, isOut := out.find(p.begin); !isOut {
			short.passes = append(short.passes, p)
		}
		passes[i] = int32(len(short.passes) - 1)
	}
	for i, r := range m.rounds {
		if _, isOut := out.find(r.begin); !isOut {
			short.rounds = append(short.rounds, r)
		}
		rounds[i] = len(short.rounds) - 1
	}
	for i := range short.passes {
		short.passes[i].round = rounds[short.passes[i].round]
	}
	short.movePasses(moved)
	for _, from := range m.buffers {
		if _, isOut := out.find(from.begin.event); isOut {
			continue
		}
		b := *from
		b.begin.event, b.end.event, b.requestFree = moved(b.begin.event), moved(b.end.event), moved(b.requestFree)
		if b.pass >= 0 {
			b.pass = passes[b.pass]
		}
		short.buffers = append(short.buffers, &b)
	}
	for _, o := range m.others {
		o.at.event = moved(o.at.event)
		short.others = append(short.others, o)
	}
	short.n, short.sorted = m.n-before[len(out)], len(short.buffers)
	for event := range short.n {
		short.axis = append(short.axis, event)
	}
	return short
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

// span is periods that are left out: from event from to event to, which does not count.
type span struct {
	from, to int
	period   int // events of each
}

// spans are in order, and further apart than a period.
type spans []span

// find returns the first span that ends after an event, and whether it is in it.
func (all spans) find(event int) (i int, in bool) {
	i = sort.Search(len(all), func(i int) bool { return all[i].to > event })
	return i, i < len(all) && all[i].from <= event
}

// repeated returns what to leave out of periods that begin at events.
func (m *model) repeated(begins []int) (out spans) {
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
	for _, b := range m.buffers { // what is older than a period before them, and ends in them, ends at another place in each
		for _, event := range [...]int{b.end.event, b.requestFree} {
			if k, in := out.find(event); in && b.begin.event < out[k].from-out[k].period {
				differ[k] = true
			}
		}
	}
	for _, o := range m.others { // in them, or in the period before or after them
		k, _ := out.find(o.at.event)
		if k < len(out) && o.at.event >= out[k].from-out[k].period {
			differ[k] = true
		}
		if k > 0 && o.at.event < out[k-1].to+out[k-1].period {
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
func (m *model) isRepeated(of []int, end int) bool {
	x, y := m.between(of[0], of[1]), m.between(of[1], of[2])
	shift := of[1] - of[0]
	if len(x) != len(y) || of[2]-of[1] != shift {
		return false
	}
	isMoved := func(from, to int) bool { return from == to && from == noEvent || from+shift == to && to <= end }
	for i, b := range x {
		c := y[i]
		same := b.site == c.site && b.size == c.size && b.category == c.category && b.phase == c.phase && b.part == c.part &&
			b.saved == c.saved && b.dropped == c.dropped && (b.pass < 0) == (c.pass < 0) && b.isFreed()
		if !same || !isMoved(b.begin.event, c.begin.event) || !isMoved(b.end.event, c.end.event) || !isMoved(b.requestFree, c.requestFree) {
			return false
		}
	}
	return true
}
