package whatif

import (
	"slices"

	"github.com/memlane/memlane/lifetime/purpose"
)

// firstStep returns the step that made the state of the optimizer, or whose gradients are not freed, if it is the only whole one of the
// recording: the next one has them from its beginning. ok is false if there is none.
func (m *model) firstStep() (k int, ok bool) {
	for _, p := range m.passes {
		s := m.steps[p.step]
		switch {
		case p.cut || p.back == p.end || s.open:
		case ok && int(p.step) != k:
			return 0, false
		default:
			k, ok = int(p.step), true
		}
	}
	for _, n := range m.cuts() {
		ok = ok && (n < m.steps[k].optimizer || n > m.steps[k].end)
	}
	keeps := false
	for i := range m.buffers {
		b := &m.buffers[i]
		if b.category == purpose.OptimizerState && b.start {
			return 0, false
		}
		keeps = keeps || !b.start && (b.category == purpose.OptimizerState || b.category == purpose.Gradient && b.end == never)
	}
	return k, ok && keeps
}

// addStep runs step k, the first one, again after all that was recorded. What it holds until the end of the recording is freed when the next
// one makes it anew, gradients before that: those that may be freed as late as right before the backward pass are marked as late.
func (m *model) addStep(k int) {
	m.leaveOutExit()
	of, begin := m.steps[k], float64(m.n)
	shift := begin - of.begin
	moved := func(p pos) pos {
		if p != never {
			p.n += shift
		}
		return p
	}
	firstPass := int32(len(m.passes))
	passes := map[int32]int32{}
	for i := range firstPass {
		if p := m.passes[i]; int(p.step) == k && !p.cut {
			passes[i] = int32(len(m.passes))
			m.passes = append(m.passes, pass{begin: p.begin + shift, back: p.back + shift, end: p.end + shift, step: int32(len(m.steps))})
		}
	}
	m.steps = append(m.steps, step{begin: begin, optimizer: of.optimizer + shift, end: of.end + shift})
	end := begin
	for i := range m.buffers {
		b := &m.buffers[i]
		inPass := int(b.step) == k && passes[b.pass] != 0
		inStep := inPass || b.pass < 0 && b.begin.n >= of.begin && b.begin.n < of.end && b.end != never
		isKept := keeps[b.category] && (b.end == never || b.end.n > of.end)
		switch {
		case b.step > int32(k) && b.end == never && !keeps[b.category]: // of a pass that was cut off
			m.until(b, pos{begin, before, 0, 0})
			continue
		case !inStep || isKept:
			continue
		}
		c := *b
		c.begin, c.end, c.requestFree = moved(b.begin), moved(b.end), moved(at(b.requestFree)).n
		if inPass {
			c.pass, c.step = passes[b.pass], int32(len(m.steps)-1)
		}
		if b.end == never {
			b.end, b.requestFree = pos{c.begin.n, after, 0, 0}, noEvent
			if b.category == purpose.Gradient {
				b.end, b.late = pos{begin, before, 0, 0}, true
			}
		}
		end = max(end, c.begin.n)
		if c.end != never {
			end = max(end, c.end.n)
		}
		m.buffers = append(m.buffers, c)
	}
	m.n, m.moved, m.longer = int(end)+1, true, true
	m.settle()
}

// leaveOutExit does not free what a program frees as it ends, among it its parameters.
func (m *model) leaveOutExit() {
	last := 0.0 // request
	for i := range m.buffers {
		last = max(last, m.buffers[i].begin.n)
	}
	for _, o := range m.others {
		last = max(last, o.at.n)
	}
	isFreed := func(b *buffer) bool { return b.end != never && b.end.n > last }
	if !slices.ContainsFunc(m.buffers, func(b buffer) bool { return b.category == purpose.ModelParameter && isFreed(&b) }) {
		return
	}
	for i := range m.buffers {
		if b := &m.buffers[i]; isFreed(b) {
			m.until(b, never)
		}
	}
}

// keeps has what a step leaves to the next one, if it was not freed.
var keeps = map[purpose.Category]bool{
	purpose.ModelParameter: true, purpose.ModelBuffer: true, purpose.OptimizerState: true, purpose.Workspace: true, purpose.Cache: true,
	purpose.Bucket: true,
}

// freedLate widens the range of the peak up to that of a program that frees gradients of a step right before the next backward pass.
func (m *model) freedLate() {
	isLate := func(b *buffer) bool { return b.late && !b.added && b.end != never }
	if !slices.ContainsFunc(m.buffers, func(b buffer) bool { return isLate(&b) }) {
		return
	}
	late := m.clone()
	for i := range late.buffers {
		if b := &late.buffers[i]; isLate(b) {
			late.until(b, pos{late.last().back, -1, b.begin.n, 0})
		}
	}
	m.leaveOpen(late)
}
