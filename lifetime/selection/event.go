package selection

import (
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// ByEvent returns the space on an axis of events: its n-th event is at n, however much time lies between events. Events
// are the allocations and frees of buffers, changes of the reserved memory and of the stack, and failed allocations.
// Any other instant becomes that of the event before it, or 0, where the window begins.
//
// Spaces that are not on an axis of time, and those without events, stay as they are. The result shares slices with s
// and must not be changed.
func ByEvent(s *lifetime.Space) *lifetime.Space {
	times := eventTimes(s)
	if s.Axis != lifetime.Time || len(times) == 0 {
		return s
	}
	eventOf := func(t int64) int64 {
		n, found := slices.BinarySearch(times, t)
		if found {
			n++
		}
		return int64(n)
	}
	out := *s
	out.Axis, out.Facts = lifetime.Event, s.Facts&^lifetime.Clock
	out.Begin, out.End = 0, int64(len(times))+1
	end := func(t int64, edge lifetime.Edge) int64 {
		if edge&lifetime.EndOpen != 0 {
			return out.End
		}
		return eventOf(t)
	}
	out.Buffers = slices.Clone(s.Buffers)
	for i := range out.Buffers {
		b := &out.Buffers[i]
		b.Begin, b.End = eventOf(b.Begin), end(b.End, b.Edge)
	}
	out.FreeRequests = slices.Clone(s.FreeRequests)
	for i, t := range out.FreeRequests {
		out.FreeRequests[i] = max(eventOf(t), out.Buffers[i].Begin)
		if s.Buffers[i].End == t {
			out.FreeRequests[i] = out.Buffers[i].End
		}
	}
	out.Regions = slices.Clone(s.Regions)
	for i := range out.Regions {
		r := &out.Regions[i]
		r.Begin, r.End = eventOf(r.Begin), end(r.End, r.Edge)
	}
	out.Totals = slices.Clone(s.Totals)
	for i := range out.Totals {
		out.Totals[i].T = eventOf(out.Totals[i].T)
	}
	out.Marks = slices.Clone(s.Marks)
	for i := range out.Marks {
		m := &out.Marks[i]
		m.Begin, m.End = eventOf(m.Begin), eventOf(m.End)
	}
	out.Stack = slices.Clone(s.Stack)
	for i := range out.Stack {
		out.Stack[i].At = eventOf(out.Stack[i].At)
	}
	return &out
}

// eventTimes returns the distinct instants of events after the beginning of the window, in order.
func eventTimes(s *lifetime.Space) (times []int64) {
	add := func(t int64) {
		if t > s.Begin {
			times = append(times, t)
		}
	}
	for c := range s.Changes() {
		if len(times) == 0 || c.T != times[len(times)-1] {
			add(c.T)
		}
	}
	for i := range s.Regions {
		r := &s.Regions[i]
		add(r.Begin)
		if r.Edge&lifetime.EndOpen == 0 {
			add(r.End)
		}
	}
	for _, l := range s.Stack {
		add(l.At)
	}
	for i := range s.Marks {
		if s.Marks[i].Kind == lifetime.OOM {
			add(s.Marks[i].Begin)
		}
	}
	slices.Sort(times)
	return slices.Compact(times)
}
