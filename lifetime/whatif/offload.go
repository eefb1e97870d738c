package whatif

import (
	"slices"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// smallWeight is the size up to which weights do not count: biases and scales are not used in products.
const smallWeight = 64 << 10

// offload keeps what autograd saves in passes that train on the host. Each buffer comes back for the operation that uses it, and so do weights.
func (m *model) offload() string {
	ends, isContribution := map[*buffer]moment{}, m.contributions()
	for k := range m.passes {
		p := &m.passes[k]
		if !p.trains() && !p.cut {
			continue
		}
		of, uses, copied := m.ofPass(k), m.lastUses(k, nil), int64(0)
		back := &back{m: m, p: p, nodes: m.backward(k), dead: m.deaths(k), unpacked: m.unpacked(k)}
		recomputes := slices.ContainsFunc(of, func(b *buffer) bool { return b.part == purpose.Recomputation })
		first, last := noEvent, -1 // what trains saves
		for _, b := range of {
			if b.saved && b.size > smallest {
				first, last = min(first, b.begin.event), b.begin.event
			}
		}
		for _, b := range of {
			switch {
			case b.saved || b.dropped && b.begin.event > first && b.begin.event < last: // else an evaluation made it
				if b.saved && (!p.cut || b.end.event < p.end) { // else its backward pass did not come
					back.bring(b)
				}
				ends[b] = uses[b]
			case b.size > smallWeight && (m.does(b, program.OpProduct) && (b.category == purpose.Gradient || isContribution(b) && !b.added && !recomputes) ||
				m.op(b) == "" && b.category == purpose.Gradient):
				back.bringWeight(b)
			default:
				continue
			}
			copied += 2 * b.size
		}
		m.copied = max(m.copied, copied)
	}
	if len(ends) == 0 {
		return "no backward pass was recorded that uses what the forward pass saved"
	}
	m.untilAll(ends)
	return ""
}

// back is a backward pass to which buffers come back from the host.
type back struct {
	m        *model
	p        *pass
	nodes    []*buffer // what it makes
	dead     []int     // see deaths
	unpacked func(end moment) moment
}

func (a *back) add(b *buffer, begin, end moment, category purpose.Category) {
	if begin.compare(end) < 0 {
		again := a.m.add(b, begin, end, b.size)
		again.phase, again.category = purpose.Backward, category
	}
}

// bring brings back what autograd saved, once for the node that frees it, and once for those before.
func (a *back) bring(b *buffer) {
	begin := nodeOf(a.nodes, a.dead, a.p.backward, b.end.event)
	if own := a.ownNode(b); own > begin {
		a.add(b, comesBack.at(begin).by(b.begin.event), a.unpacked(at(own)), b.category)
		begin = own
	}
	a.add(b, comesBack.at(begin).by(b.begin.event), a.unpacked(b.end), b.category)
}

// bringWeight brings back the weight of gradient b.
func (a *back) bringWeight(b *buffer) {
	then := at(consumed(a.dead, b.begin.event, a.p.end))
	end := a.unpacked(then)
	if end == then {
		end.rank = released
	}
	first := firstFrom(a.nodes, b.begin.event)
	for _, next := range a.nodes[first:min(first+nearby, len(a.nodes))] {
		if a.m.op(next) != a.m.op(b) { // of the next node, or a sum
			end = end.earlier(before.at(next.begin.event))
			break
		}
	}
	a.add(b, weightComesBack.at(nodeOf(a.nodes, a.dead, a.p.backward, b.begin.event+1)).by(b.begin.event), end, purpose.TemporaryData)
}

// ownNode returns the first allocation of the node that frees a buffer, if other nodes use it, too: of the operation that made it, which saves its result,
// or, where operators are not recorded, after the gradient of a bias, which is the last that a node makes. It is -1 if none is known.
func (a *back) ownNode(b *buffer) int {
	i := firstFrom(a.nodes, b.end.event) - 1
	switch {
	case i < 0:
		return -1
	case a.m.does(b, program.OpSavesOwn):
		return a.nodes[i].begin.event
	}
	own := -1
	for ; i > 0 && a.m.op(b) == "" && a.nodes[i].begin.event > b.end.event-nearby && !a.m.isBiasOfMatrix(a.nodes, i); i-- {
		if !a.m.isSum(a.nodes, i) {
			own = a.nodes[i].begin.event
		}
	}
	if i <= 0 || !a.m.isBiasOfMatrix(a.nodes, i) {
		return -1
	}
	return own
}

// nodeOf returns the first allocation of a backward pass after the previous end of what was saved: that of the node that runs at an event. All that a
// node saved ends at once; more is of a graph that is released without a backward pass.
func nodeOf(backward []*buffer, dead []int, begin, event int) int {
	const together = 6 // buffers that a node saves, at most
	since := begin
	j, _ := slices.BinarySearch(dead, event)
	first := j // of what the node saved
	for first > 0 && dead[first-1] == event-1-(j-first) {
		first--
	}
	if j-first < together {
		j = first
	}
	if j > 0 {
		since = dead[j-1] + 1
	}
	i := firstFrom(backward, since)
	if i < len(backward) && backward[i].begin.event < event {
		return backward[i].begin.event
	}
	return event
}

// firstFrom returns which buffer, in order, is the first that begins at an event or later.
func firstFrom(all []*buffer, event int) int {
	i, _ := slices.BinarySearchFunc(all, event, func(b *buffer, event int) int { return b.begin.event - event })
	return i
}

// noGrad runs forward passes alone: all, or those over which no backward pass runs. The range goes to a program whose variables hold results until
// their functions return.
func (m *model) noGrad(v string) string {
	freed := m.clone()
	refused := m.runForward(v == "", true)
	if refused == "" {
		freed.runForward(v == "", false)
		m.leaveOpen(freed)
	}
	return refused
}

// runForward is noGrad if variables hold results, or do not.
func (m *model) runForward(all, holds bool) string {
	ends := map[*buffer]moment{}
	var letsGo map[int32]bool
	if holds {
		letsGo = m.lettingGo()
	}
	for k := range m.passes {
		uses := m.lastUses(k, letsGo)
		for _, b := range m.ofPass(k) {
			if use, isUsed := uses[b]; isUsed && (b.dropped && (all || !m.passes[k].trains()) || all && b.saved) {
				ends[b] = b.end.earlier(use)
			}
		}
	}
	switch {
	case len(ends) == 0 && all:
		return "nothing is saved for a backward pass"
	case len(ends) == 0:
		return "a backward pass runs over all that forward passes keep"
	}
	m.untilAll(ends)
	for b := range ends {
		b.saved = false
	}
	if all {
		m.drop(func(b *buffer) bool {
			return b.phase == purpose.Backward || b.phase == purpose.OptimizerPhase || b.category == purpose.Gradient ||
				b.category == purpose.OptimizerState
		})
	}
	return ""
}
