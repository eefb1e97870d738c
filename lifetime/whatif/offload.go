package whatif

import (
	"slices"

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
	for k := range m.passes {
		p := &m.passes[k]
		if !p.trains() && !p.cut {
			continue
		}
		uses, unpacked, dead, nodes := m.lastUses(k), m.unpacked(k), m.deaths(k), m.backward(k)
		copied := int64(0)
		for _, b := range m.ofPass(k) {
			switch {
			case b.saved:
				if !p.cut || b.end.event < p.end { // else its backward pass did not come
					begin := comesBack.at(nodeOf(nodes, dead, p.backward, b.end.event)).by(b.begin.event)
					bring(b, begin, unpacked(b.end), b.category)
				}
				ends[b] = uses[b]
			case b.category == purpose.Gradient && b.size > smallWeight:
				then := at(consumed(dead, b.begin.event, p.end))
				end := unpacked(then)
				if end == then {
					end.rank = released
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

// nodeOf returns the first allocation of a backward pass after the previous end of what was saved: that of the node that runs at an event.
func nodeOf(backward []*buffer, dead []int, begin, event int) int {
	since := begin
	if j, _ := slices.BinarySearch(dead, event); j > 0 {
		since = dead[j-1] + 1
	}
	i, _ := slices.BinarySearchFunc(backward, since, func(b *buffer, event int) int { return b.begin.event - event })
	if i < len(backward) && backward[i].begin.event < event {
		return backward[i].begin.event
	}
	return event
}

// noGrad runs forward passes alone: all, or those over which no backward pass runs.
func (m *model) noGrad(v string) string {
	all, ends := v == "", map[*buffer]moment{}
	for k := range m.passes {
		uses := m.lastUses(k)
		for _, b := range m.ofPass(k) {
			if use, isUsed := uses[b]; isUsed && (b.dropped || all && b.saved) {
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
