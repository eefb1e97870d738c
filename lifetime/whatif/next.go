package whatif

import (
	"slices"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// nextStep reports whether the next step is there: all edits of such a recording are of that step.
func (m *model) nextStep() string {
	if !m.longer {
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

// addedStep is a step that runs again after all that was recorded.
type addedStep struct {
	begin, end int // of the recorded step
	shift      int
	passes     map[int32]int32 // from recorded to added ones
	rounds     map[int]int
	last       int // recorded round
}

// moved returns where a moment of the recorded step is in the added one.
func (a *addedStep) moved(of moment) moment {
	if of != never {
		of.event += a.shift
	}
	return of
}

// addStep runs a step, the first one, again after all that was recorded. What it holds until the end of the recording is freed when the next
// one makes it anew, gradients before that: those that may be freed as late as right before the backward pass are marked as late.
func (m *model) addStep(step int) {
	m.leaveOutExit()
	added := m.startStep(step)
	last := m.n // event
	for _, b := range m.buffers {
		pass, inPass := added.passes[b.pass]
		inRound := b.pass < 0 && b.begin.event >= added.begin && b.begin.event < added.end && b.isFreed()
		isKept := program.Outlives(b.category) && b.end.event > added.end
		switch {
		case m.roundOf(b) > added.last && !b.isFreed() && !program.Outlives(b.category): // of a pass that was cut off
			m.until(b, before.at(m.n))
			continue
		case !inPass && !inRound || isKept:
			continue
		}
		again := *b
		again.begin, again.end, again.requestFree = added.moved(b.begin), added.moved(b.end), added.moved(at(b.requestFree)).event
		if inPass {
			again.pass = pass
		}
		if !b.isFreed() {
			b.end, b.requestFree = released.at(again.begin.event), noEvent
			if b.category == purpose.Gradient {
				b.end, b.late = before.at(m.n), true
			}
		}
		last = max(last, again.begin.event)
		if again.isFreed() {
			last = max(last, again.end.event)
		}
		m.buffers = append(m.buffers, &again)
	}
	m.n, m.moved, m.longer = last+1, true, true
	m.settle()
}

// startStep adds the rounds and passes of a step after all that was recorded.
func (m *model) startStep(step int) (a addedStep) {
	a.passes, a.rounds = map[int32]int32{}, map[int]int{}
	for k, r := range m.rounds {
		if r.step != step || r.open {
			continue
		}
		if len(a.rounds) == 0 {
			a.begin, a.shift = r.begin, m.n-r.begin
		}
		a.last, a.end, a.rounds[k] = k, r.end, len(m.rounds)
		m.rounds = append(m.rounds, round{r.begin + a.shift, r.optimizer + a.shift, r.end + a.shift, step + 1, false})
	}
	for k, p := range m.passes {
		if of, is := a.rounds[p.round]; is && !p.cut {
			a.passes[int32(k)] = int32(len(m.passes))
			m.passes = append(m.passes, pass{p.begin + a.shift, p.backward + a.shift, p.end + a.shift, of, false})
		}
	}
	return a
}

// leaveOutExit does not free what a program frees as it ends, among it its parameters.
func (m *model) leaveOutExit() {
	last := 0 // request
	for _, b := range m.buffers {
		last = max(last, b.begin.event)
	}
	for _, o := range m.others {
		last = max(last, o.at.event)
	}
	isFreed := func(b *buffer) bool { return b.isFreed() && b.end.event > last }
	if !m.any(func(b *buffer) bool { return isParameter(b) && isFreed(b) }) {
		return
	}
	for _, b := range m.buffers {
		if isFreed(b) {
			m.until(b, never)
		}
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
