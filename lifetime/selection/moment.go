package selection

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Moment is the value of --at: an instant or the name of one.
type Moment struct {
	name string // peak, end or oom; "" = at
	at   Instant
	text string
}

// Moments with a name.
var (
	AtPeak = Moment{name: "peak"}
	AtEnd  = Moment{name: "end"}
	AtOOM  = Moment{name: "oom"}
)

// Moments are the names of moments.
var Moments = []string{AtPeak.name, AtEnd.name, AtOOM.name}

// String returns the value of --at.
func (m Moment) String() string { return cmp.Or(m.name, m.text) }

// MomentError describes an invalid moment.
type MomentError string

// Error returns the text.
func (e MomentError) Error() string { return string(e) }

// ParseMoment parses peak, end, oom, a duration such as 20ms, or an instant from JSON output. The error is a
// MomentError.
func ParseMoment(text string) (Moment, error) {
	if slices.Contains(Moments, text) {
		return Moment{name: text}, nil
	}
	at, err := ParseInstant(text)
	if err != nil {
		return Moment{},
			MomentError(fmt.Sprintf("%q: use peak, end, oom, a duration such as 20ms, or an instant from --json output", text))
	}
	return Moment{at: at, text: text}, nil
}

// ParseInstant parses a duration since the beginning of the recording, such as 20ms, or an instant from JSON output.
func ParseInstant(text string) (Instant, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return Instant{T: int64(d), Since: true}, nil
	}
	t, err := strconv.ParseInt(text, 10, 64)
	return Instant{T: t}, err
}

// OfOutline reports whether a outline.Outline is enough for the moment.
func (m Moment) OfOutline() bool { return m == AtPeak || m == AtEnd }

// In returns the instant of the moment in a space. It fails with a *NothingError if no allocation failed, and with
// a MomentError if the window does not contain the instant.
func (m Moment) In(file string, s *lifetime.Space) (int64, error) {
	switch {
	case m == AtPeak:
		return s.Peak(lifetime.Occupied).At, nil
	case m == AtEnd:
		return s.AtEnd(), nil
	case m == AtOOM:
		for i := range s.Marks {
			if s.Marks[i].Kind == lifetime.OOM { // the first failure causes the others
				return s.Marks[i].Begin, nil
			}
		}
		why := fmt.Sprintf("no allocation failed on %s in the recording; use --at peak for its highest level", s.ID())
		return 0, &NothingError{File: file, Why: why}
	case m.text == "0" && m.at.Since && s.Axis != lifetime.Time: // the instant 0, which also parses as a duration
		m.at.Since = false
		return m.In(file, s)
	case m.at.Since && s.Axis != lifetime.Time:
		return 0, MomentError(fmt.Sprintf("%q: %s has no clock; use peak, end, oom or the number of an %s", m.text,
			s.ID(), s.Axis.Unit()))
	case m.at.Since && m.at.T >= s.End-s.Begin:
		return 0, MomentError(fmt.Sprintf("%s: the recording of %s is %s long", m.text, s.ID(),
			units.Span(s.AtEnd()-s.Begin, s.Axis.Unit())))
	case m.at.Since:
		return s.Begin + m.at.T, nil
	case m.at.T < s.Begin || m.at.T >= s.End:
		why := fmt.Sprintf("%d: the recording of %s is from %d to %d", m.at.T, s.ID(), s.Begin, s.AtEnd())
		if s.Axis == lifetime.Time {
			why = fmt.Sprintf("%d: the recording of %s is %s long; give a duration since its beginning with a unit: %dms", m.at.T, s.ID(),
				units.Span(s.AtEnd()-s.Begin, s.Axis.Unit()), m.at.T)
		}
		return 0, MomentError(why)
	}
	return m.at.T, nil
}

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
