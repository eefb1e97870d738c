package whatif

import (
	"cmp"
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime/purpose"
)

// likes are equal buffers, such as what a variable holds, one after the other.
type likes struct {
	site int32
	size int64
}

// accumulator runs passes several times.
type accumulator struct {
	m      *model
	passes int
	drops  map[likes]int      // events from when the same is made again until a variable drops what it holds; it may be before
	held   map[*buffer]moment // when the next pass drops what a variable holds
	last   map[*buffer]moment // when the next round drops what its last pass before made
}

// accumulate runs passes several times. Only the first pass keeps what no later one does. Where the recording does not tell, the range goes to where all do.
func (m *model) accumulate(n int) string {
	a := accumulator{m: m, passes: n, drops: map[likes]int{}, held: map[*buffer]moment{}, last: map[*buffer]moment{}}
	perRound := make([]int, len(m.rounds))
	for _, p := range m.passes {
		if !p.cut && p.trains() {
			perRound[p.round]++
		}
	}
	a.readDrops()
	whole := -1 // the last round with one pass
	for k := range m.rounds {
		pass := slices.IndexFunc(m.passes, func(p pass) bool { return int(p.round) == k && p.trains() && !p.cut })
		if pass >= 0 && perRound[k] == 1 {
			whole = k
			a.round(k, &m.passes[pass])
		}
	}
	if whole < 0 {
		return "no step with one forward and one backward pass was recorded"
	}
	isCut := false
	for k := range m.passes {
		if m.passes[k].cut {
			isCut = true
			m.accumulateCut(k, whole)
		}
	}
	for b := range a.last {
		delete(a.held, b) // it stays
	}
	m.untilAll(a.held)
	m.moved = true
	if isCut {
		m.doubt(offCut)
	}
	if m.closure { // what it calls between the passes may free more before the backward pass
		m.doubt(offClosure)
	}
	return ""
}

// ofVariables are the categories of what a variable holds until it has the next one.
var ofVariables = map[purpose.Category]bool{
	purpose.Input: true, purpose.Activation: true, purpose.TemporaryData: true, purpose.UnknownCategory: true,
}

// round runs the pass of round k again. What a variable holds into the next round, it holds into the next pass. In the last round it does as in
// those before.
func (a *accumulator) round(k int, p *pass) {
	m, r, of := a.m, a.m.rounds[k], a.m.ofRound(k)
	dead := m.deathsOfRound(k)
	anchor, tail := p.backward, -1 // the last ends before the optimizer, and before the end of the round
	for _, b := range of {
		if b.category == purpose.Gradient || !b.isFreed() {
			continue
		}
		if b.end.event < r.end {
			tail = max(tail, b.end.event)
		}
		if b.end.event < r.optimizer {
			anchor = max(anchor, b.end.event)
		}
	}
	if tail < 0 {
		tail = r.optimizer
	}
	a.hold(k, anchor)
	for n := 1; n < a.passes; n++ {
		for _, b := range of {
			if b.category == purpose.Workspace && b.end.event > r.end { // libraries keep it
				continue
			}
			again := m.repeat(b, repeats.at(anchor).in(n, b.begin.event), b.end)
			switch {
			case b.category == purpose.Gradient:
				again.category = purpose.TemporaryData
				again.end = repeats.at(anchor).in(n, consumed(dead, b.begin.event, r.optimizer))
				again.end.innerRank = released
			case b.isFreed() && b.end.event <= max(anchor, tail):
				again.end = repeats.at(anchor).in(n, b.end.event)
			case n+1 < a.passes:
				if end, isHeld := a.held[b]; isHeld {
					again.end = end.in(n+1, end.inner)
				}
			default:
				again.end = cmp.Or(a.last[b], b.end)
			}
		}
	}
}

// again calls yield with what variables hold that round k made, at most until the next round ends, and what that makes like it; nil = nothing.
func (a *accumulator) again(k int, yield func(b, then *buffer)) {
	r, until, next := a.m.rounds[k], noEvent, map[likes][]*buffer{}
	if k+1 < len(a.m.rounds) {
		until = a.m.rounds[k+1].end
		for _, b := range a.m.ofRound(k + 1) {
			next[likes{b.site, b.size}] = append(next[likes{b.site, b.size}], b)
		}
	}
	for _, b := range a.m.ofRound(k) {
		var then *buffer
		if all := next[likes{b.site, b.size}]; len(all) > 0 {
			then, next[likes{b.site, b.size}] = all[0], all[1:]
		}
		if ofVariables[b.category] && b.end.event >= r.end && (!b.isFreed() || b.end.event < until) {
			yield(b, then)
		}
	}
}

// readDrops finds how long variables hold in the next round what one made, where the same is made again.
func (a *accumulator) readDrops() {
	kept := map[likes]int{} // beside the same of the next round
	for k := range a.m.rounds {
		a.again(k, func(b, then *buffer) {
			switch like := (likes{b.site, b.size}); {
			case then == nil:
			case !b.isFreed():
				kept[like]++
			default:
				a.drops[like] = b.end.event - then.begin.event
			}
		})
	}
	for like, n := range kept {
		if _, isKnown := a.drops[like]; !isKnown && n == 1 { // the first pass may keep it, or all
			a.drops[like] = 1
			a.m.widen(0, int64(min(float64(len(a.m.rounds)*(a.passes-1))*float64(like.size), math.MaxInt64/2)))
		}
	}
}

// hold finds how long variables hold in the next pass what round k made: as in the next round. What that does not free is kept.
func (a *accumulator) hold(k, anchor int) {
	a.again(k, func(b, then *buffer) {
		drop, isKnown := a.drops[likes{b.site, b.size}]
		if isKnown {
			a.held[b] = repeats.at(anchor).in(1, b.begin.event+drop)
		}
		if isKnown && then != nil && !b.isFreed() {
			a.last[b] = released.at(then.begin.event + drop)
		}
	})
}

// accumulateCut adds the gradients that passes before pass k made in its round, which is cut off: those of a whole round. Its own are added to
// them.
func (m *model) accumulateCut(k, whole int) {
	p, dead := m.passes[k], m.deaths(k)
	for _, g := range m.ofRound(whole) {
		if g.category == purpose.Gradient {
			m.repeat(g, before.at(p.begin).by(g.begin.event), released.at(p.end))
		}
	}
	for _, g := range m.during(k) {
		if g.category == purpose.Gradient {
			m.until(g, released.at(consumed(dead, g.begin.event, p.end)))
		}
	}
}
