package whatif

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/replay"
)

// Levels returns the bytes in use of a scenario at the times of the recording: at each recorded call of the allocator the highest until the
// next one, and what is in use right before that one. on is the space of the engine, on its own axis or by event. nil if the scenario is refused.
func (e *Engine) Levels(s Scenario, on *lifetime.Space) []lifetime.Level {
	m, r := e.whole(s)
	if r.Refused != "" {
		return nil
	}
	h, calls := m.program()
	places := h.Places()
	level := int64(0)
	for i := range m.buffers {
		if m.buffers[i].start {
			level += places[i].Size
		}
	}
	all := []lifetime.Level{{At: on.Begin, Bytes: level}}
	at, next := on.Begin, 0 // call of the scenario
	upTo := func(end int) {
		last := &all[len(all)-1]
		for ; next < min(end, len(calls)); next++ {
			switch c := calls[next]; c.Kind {
			case replay.Allocate:
				level += places[c.Request].Size
			case replay.Free:
				level -= places[c.Request].Size
			case replay.Fail: // the peak of a scenario has what did not get memory
				last.Bytes = max(last.Bytes, level+h.BlockSizeOf(c.Request))
			}
			last.Bytes = max(last.Bytes, level)
		}
		if last.Bytes > level {
			all = append(all, lifetime.Level{At: last.At, Bytes: level})
		}
	}
	k := 0 // recorded call
	for c := range e.history.Calls() {
		switch c.Kind {
		case replay.Allocate:
			at = on.Buffers[c.Request].Begin
		case replay.Free:
			at = on.Buffers[c.Request].End
		}
		upTo(int(m.axis[k]))
		all = append(all, lifetime.Level{At: at, Bytes: level})
		k++
	}
	if !m.longer { // the step after the recorded ones has no time
		upTo(len(calls))
	}
	return all
}
