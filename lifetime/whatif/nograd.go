package whatif

import "github.com/memlane/memlane/lifetime/purpose"

var noGradKind = Kind{
	Name: "no_grad", Values: "[evaluation]", Doc: "run forward only; evaluation: where nothing trains",
	check: isOneOf("", "evaluation"), off: offNoGrad,
	apply: func(m *model, v string) string { return m.noGrad(v == "") },
}

// noGrad runs forward passes alone: all, or those over which no backward pass runs.
func (m *model) noGrad(all bool) string {
	ends := map[*buffer]moment{}
	for k := range m.passes {
		uses := m.lastUses(k, m.blocks(k))
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

// neverTrains reports whether no backward pass runs over what forward passes keep.
func (m *model) neverTrains() bool {
	return m.any(func(b *buffer) bool { return b.dropped }) && !m.any(func(b *buffer) bool { return b.saved })
}
