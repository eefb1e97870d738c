package whatif

import (
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/replay"
)

// run replays the program without a limit.
func (m *model) run() replay.Outcome {
	h, _ := m.program()
	return h.Run(h.Settings, replay.Device{})
}

// Levels returns the bytes in use of a scenario at the times of the recording: at each recorded call of the allocator the highest until the
// next one, and what is in use right before that one. If OneStep is set, the next step is at the times of the recorded one. on is the space of the
// engine, on its own axis or by event. nil if the scenario is refused.
func (e *Engine) Levels(s Scenario, on *lifetime.Space) (all []lifetime.Level) {
	m, r := e.whole(s)
	if r.Refused != "" {
		return nil
	}
	used, high := m.inUse()
	draw := func(times []int64, from int, axis []int, end int) { // the calls from one to end, those before axis[i] at times[i]
		for i, now := range times {
			to := end
			if i < len(axis) {
				to = axis[i]
			}
			most := slices.Max(append(high[from+1:to+1:to+1], used[from]))
			if all = append(all, lifetime.Level{At: now, Bytes: most}); most > used[to] {
				all = append(all, lifetime.Level{At: now, Bytes: used[to]})
			}
			from = to
		}
	}
	times, now := []int64{on.Begin}, on.Begin
	for c := range e.history.Calls() {
		switch c.Kind {
		case replay.Allocate:
			now = on.Buffers[c.Request].Begin
		case replay.Free:
			now = on.Buffers[c.Request].End
		}
		times = append(times, now)
	}
	step, after := m.step, m.step+len(m.again)
	if step == after {
		draw(times, 0, m.axis, m.n)
		return all
	}
	draw(times[:step+1], 0, m.axis[:step], m.axis[step])
	draw(times[step:after+1], m.again[0], m.again, m.n)
	if after < len(m.axis) {
		draw(times[after:], m.axis[after], m.axis[after:], m.again[0])
	}
	return all
}

// inUse returns what is in use before each call, and after the last one; and the highest in it.
func (m *model) inUse() (used, high []int64) {
	h, calls := m.program()
	places, level := h.Places(), int64(0)
	for i, b := range m.buffers {
		if b.isOlder() {
			level += places[i].Size
		}
	}
	used, high = []int64{level}, []int64{level}
	for _, c := range calls {
		most := level
		switch c.Kind {
		case replay.Allocate:
			level += places[c.Request].Size
		case replay.Free:
			level -= places[c.Request].Size
		case replay.Fail: // the peak of a scenario has what did not get memory
			most += places[c.Request].Size
		}
		used, high = append(used, level), append(high, max(most, level))
	}
	return used, high
}

// Changes returns the recorded buffers, in order, that a scenario does without, or that have another size or other ends in it; none if it is refused.
func (e *Engine) Changes(s Scenario) (all []int) {
	m, r := e.whole(s)
	if r.Refused != "" || len(s) == 0 {
		return nil
	}
	m.settle() // from here on, moments are events
	type call struct {
		like       int32
		size       int64
		begin, end int
	}
	kept, later := map[call]bool{}, m.axis[len(m.axis)-1]+1 // what is after the recording is one event
	for _, b := range m.buffers {
		kept[call{b.like, b.size, min(b.begin.event, later), min(b.end.event, later)}] = true
	}
	now := func(event int) int {
		k, isRecorded := slices.BinarySearch(e.program.axis, event)
		switch {
		case isRecorded:
			return m.axis[k]
		case k == len(m.axis):
			return later
		}
		return event // before the recording
	}
	for _, b := range e.program.buffers {
		if !kept[call{b.like, b.size, now(b.begin.event), now(b.end.event)}] {
			all = append(all, int(b.like))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
