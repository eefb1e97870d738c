package whatif

import (
	"slices"

	"github.com/memlane/memlane/lifetime/purpose"
)

// keepGradients is zero_grad(set_to_none=False): the first gradient of each parameter stays, later ones are added to it. Nets that take turns
// make theirs in different rounds.
func (m *model) keepGradients() string {
	trained, _ := m.trained()
	missing := numbersOf(filter(trained, func(b *buffer) bool { return !b.added })) // gradients of parameters, by size
	any, dead := false, map[int][]int{}
	for _, b := range m.buffers {
		k := m.roundOf(b)
		if b.category != purpose.Gradient || k < 0 || b.added {
			continue
		}
		any = true
		if missing[b.size] > 0 {
			missing[b.size]--
			m.until(b, never)
			continue
		}
		if dead[k] == nil {
			dead[k] = m.deathsOfRound(k)
		}
		m.until(b, released.at(consumed(dead[k], b.begin.event, m.rounds[k].optimizer)))
	}
	if !any {
		return "no gradient of a parameter is known"
	}
	return ""
}

// freeGradients is zero_grad(set_to_none=True) after each step: gradients end with it. Of one that was kept, the contribution of each later
// round is the gradient of that round: that which has the same number among the buffers of its size that the backward passes of a round make.
func (m *model) freeGradients() string {
	byRound := make([]map[int64][]*buffer, len(m.rounds)) // of backward, by size
	for _, b := range m.buffers {
		if k := m.roundOf(b); k >= 0 && b.phase == purpose.Backward {
			if byRound[k] == nil {
				byRound[k] = map[int64][]*buffer{}
			}
			byRound[k][b.size] = append(byRound[k][b.size], b)
		}
	}
	any, forwards := false, m.forwards()
	for _, b := range m.buffers {
		of := m.roundOf(b)
		switch {
		case b.category != purpose.Gradient || b.added:
			continue
		case b.isOlder() && !b.isFreed():
			return "gradients are older than the recording"
		case of < 0:
			continue
		}
		if next, _ := slices.BinarySearch(forwards, m.rounds[of].end); next == len(forwards) || b.end.event < forwards[next] {
			continue
		}
		wasKept := !b.isFreed()
		m.until(b, frees.at(m.rounds[of].end).by(b.begin.event))
		any = true
		number := slices.Index(byRound[of][b.size], b)
		for k := of + 1; wasKept && number >= 0 && k < len(m.rounds); k++ {
			if same := byRound[k][b.size]; number < len(same) && !m.rounds[k].open {
				m.until(same[number], frees.at(m.rounds[k].end).by(b.begin.event))
				same[number].category = purpose.Gradient
			}
		}
	}
	if !any {
		return "no gradient is kept after the step"
	}
	return ""
}
