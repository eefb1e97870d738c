package whatif

import (
	"slices"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// nextStep reports whether the next step is there: all edits of such a recording are of that step.
func (m *model) nextStep() string {
	if len(m.again) == 0 {
		return "not one whole step alone was recorded that makes what the next one has from its beginning"
	}
	return ""
}

// firstStep returns the step that made the state of the optimizer, or whose gradients are not freed, if it is the only whole one of the
// recording: the next one has them from its beginning. ok is false if there is none.
func (m *model) firstStep() (step int, ok bool) {
	for _, p := range m.passes {
		r := m.rounds[p.round]
		switch {
		case p.cut || !p.trains() || r.open:
		case ok && r.step != step:
			return 0, false
		default:
			step, ok = r.step, true
		}
	}
	if !ok {
		return 0, false
	}
	for _, r := range m.rounds {
		if r.step == step && slices.ContainsFunc(m.cuts, func(event int) bool { return event >= r.optimizer && event <= r.end }) {
			return 0, false
		}
	}
	isOlder := func(b *buffer) bool { return b.isOlder() && b.category == purpose.OptimizerState }
	isLeft := func(b *buffer) bool {
		return !b.isOlder() && (b.category == purpose.OptimizerState || b.category == purpose.Gradient && !b.isFreed())
	}
	return step, !m.any(isOlder) && m.any(isLeft)
}

// addStep runs a step, the first one, again after all that was recorded. What it holds until the recording ends is freed when the next
// one makes it anew, gradients before that: those that may be freed as late as right before the backward pass are marked as late.
func (m *model) addStep(step int) {
	m.leaveOutExit()
	first, last := -1, -1 // rounds
	for k, r := range m.rounds {
		if r.step == step && !r.open {
			if last = k; first < 0 {
				first = k
			}
		}
	}
	begin, end := m.rounds[first].begin, m.rounds[last].end
	shift := m.n - begin
	passes := m.addRounds(first, last, shift)
	for _, b := range m.buffers {
		pass, inPass := passes[b.pass]
		inRound := b.pass < 0 && b.begin.event >= begin && b.begin.event < end && b.isFreed()
		switch isKept := program.Outlives(b.category); {
		case m.roundOf(b) > last && !b.isFreed() && !isKept: // of a pass that was cut off
			m.until(b, before.at(m.n))
			continue
		case !inPass && !inRound || isKept && b.end.event > end:
			continue
		}
		again := *b
		again.begin.event += shift
		if inPass {
			again.pass = pass
		}
		if b.requestFree != noEvent {
			again.requestFree += shift
		}
		switch {
		case b.isFreed():
			again.end.event += shift
		case b.category == purpose.Gradient:
			b.end, b.requestFree, b.late = before.at(m.n), noEvent, true
		default:
			b.end, b.requestFree = released.at(again.begin.event), noEvent
		}
		m.buffers = append(m.buffers, &again)
	}
	for m.step = begin; len(m.again) < end-begin; {
		m.again = append(m.again, m.n+len(m.again))
	}
	m.n, m.moved = m.n+end-begin, true
	m.settle()
}

// addRounds adds some rounds, and their passes, once more so many events later. It returns the new passes by those that they are like.
func (m *model) addRounds(first, last, shift int) (passes map[int32]int32) {
	passes = map[int32]int32{}
	for k, p := range m.passes {
		if p.round >= first && p.round <= last && !p.cut {
			passes[int32(k)] = int32(len(m.passes))
			m.passes = append(m.passes, pass{p.begin + shift, p.backward + shift, p.end + shift, p.round + len(m.rounds) - first, false})
		}
	}
	for _, r := range m.rounds[first : last+1] {
		m.rounds = append(m.rounds, round{r.begin + shift, r.optimizer + shift, r.end + shift, r.step + 1, false})
	}
	return passes
}

// leaveOutExit does not free what a program frees as it ends, among it its parameters.
func (m *model) leaveOutExit() {
	last := m.buffers[len(m.buffers)-1].begin.event // request
	isFreed := func(b *buffer) bool { return b.isFreed() && b.end.event > last }
	if !m.any(func(b *buffer) bool { return isParameter(b) && isFreed(b) }) {
		return
	}
	for _, b := range filter(m.buffers, isFreed) {
		m.until(b, never)
	}
}

// freedLate widens the range of the peak up to that of a program that frees gradients of a step right before the next backward pass.
func (m *model) freedLate() {
	isLate := func(b *buffer) bool { return b.late && !b.added && b.isFreed() }
	if !m.any(isLate) {
		return
	}
	late := m.clone()
	for _, b := range late.buffers {
		if isLate(b) {
			late.until(b, frees.at(late.last().backward).by(b.begin.event))
		}
	}
	m.leaveOpen(late)
}
