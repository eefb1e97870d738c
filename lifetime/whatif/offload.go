package whatif

import (
	"slices"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// smallWeight is the size up to which weights do not count: biases and scales are not used in products.
const smallWeight = 64 << 10

// offload keeps what autograd saves on the host. Each buffer comes back for the operation that uses it, and so do weights.
func (m *model) offload() string {
	ends := map[*buffer]moment{}
	bring := func(b *buffer, begin, end moment, category purpose.Category) {
		if begin.compare(end) < 0 {
			again := m.add(b, begin, end, b.size)
			again.phase, again.category = purpose.Backward, category
		}
	}
	isContribution := m.contributions()
	for k := range m.passes {
		p := &m.passes[k]
		if !p.trains() && !p.cut {
			continue
		}
		uses, unpacked, dead, nodes := m.lastUses(k, nil), m.unpacked(k), m.deaths(k), m.backward(k)
		recomputes, copied := slices.ContainsFunc(m.ofPass(k), func(b *buffer) bool { return b.part == purpose.Recomputation }), int64(0)
		for _, b := range m.ofPass(k) {
			switch {
			case b.saved || b.dropped && p.trains():
				if b.saved && (!p.cut || b.end.event < p.end) { // else its backward pass did not come
					begin, end := nodeOf(nodes, dead, p.backward, b.end.event), unpacked(b.end)
					if i := firstFrom(nodes, b.end.event) - 1; i >= 0 && m.does(b, program.OpSavesOwn) && nodes[i].begin.event > begin {
						own := nodes[i].begin.event // of the node of the operation that made it; others that save it run before
						bring(b, comesBack.at(begin).by(b.begin.event), unpacked(at(own)), b.category)
						begin = own
					}
					bring(b, comesBack.at(begin).by(b.begin.event), end, b.category)
				}
				ends[b] = uses[b]
			case b.size > smallWeight && (m.does(b, program.OpProduct) && (b.category == purpose.Gradient || isContribution(b) && !b.added && !recomputes) ||
				m.op(b) == "" && b.category == purpose.Gradient):
				then := at(consumed(dead, b.begin.event, p.end))
				end := unpacked(then)
				if end == then {
					end.rank = released
				}
				i := firstFrom(nodes, b.begin.event)
				for i < len(nodes) && m.op(nodes[i]) == m.op(b) {
					i++
				}
				if i < len(nodes) { // of the next node, or a sum
					end = end.earlier(before.at(nodes[i].begin.event))
				}
				begin := weightComesBack.at(nodeOf(nodes, dead, p.backward, b.begin.event+1)).by(b.begin.event)
				bring(b, begin, end, purpose.TemporaryData)
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
