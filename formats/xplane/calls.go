package xplane

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// nested is an open event on the stack of a line. It has no pointers: most events are opened and closed without a call.
type nested struct {
	begin, end int64 // picoseconds since the line's timestamp
	id         int64 // the metadata number of its name, or its node in groups
}

// nesting is the stack of a line's open events.
type nesting struct {
	open  []nested // outermost first
	links []opened // of the open consumers
	calls []*call  // of the outermost open events: those that an allocation or a launch needed
	spare *spare
}

// opened is the link of an open event.
type opened struct {
	link link
	at   int // in nesting.open
}

// enclosing closes the events that do not enclose [begin, end], and returns the innermost of the others; nil if there
// is none. This is how XProf nests events. The events must come in order of their beginnings, and of those that begin
// together, the longest must be first: XProf sorts the lines that it writes so.
func (s *nesting) enclosing(begin, end int64) *nested {
	n := len(s.open)
	for n > 0 && (s.open[n-1].begin > begin || s.open[n-1].end < end) {
		n--
	}
	s.open = s.open[:n]
	if len(s.calls) > n || len(s.links) > 0 {
		s.shorten()
	}
	if n == 0 {
		return nil
	}
	return &s.open[n-1]
}

// shorten drops the calls and links of events that were closed.
func (s *nesting) shorten() {
	for n := len(s.calls); n > len(s.open); n-- {
		s.spare.release(s.calls[n-1])
		s.calls = s.calls[:n-1]
	}
	for n := len(s.links); n > 0 && s.links[n-1].at >= len(s.open); n-- {
		s.links = s.links[:n-1]
	}
}

// maxNested bounds the open events of a line. Python's own limit is 1000 calls.
const maxNested = 1 << 13

// enter opens an event. An instant encloses nothing. entered is false if it is not opened.
func (s *nesting) enter(begin, duration, id int64) (entered bool) {
	end := begin + duration
	if duration <= 0 || end < begin {
		return false
	}
	s.enclosing(begin, end)
	if len(s.open) == maxNested {
		return false
	}
	s.open = append(s.open, nested{begin, end, id})
	return true
}

func (l *line) enter() {
	e, s := &l.event, l.nesting
	if e.number(isAsync, 0) != 0 { // it ends anywhere
		return
	}
	if of, consumes := e.consumes(); s.enter(e.offset, e.duration, e.meta) && consumes {
		s.links = append(s.links, opened{of, len(s.open) - 1})
	}
}

// call is an event that encloses an allocation or a producer.
type call struct {
	region
	at       instant
	caller   *call // the event that encloses it on its line
	root     *call // the outermost one
	depth    int
	inPython bool // it or one of its callers on its line is a function of Python
	consumes bool
	link     link
	refs     int32 // from the open events, the calls inside it and the producers

	stacks [maxLaunches]lifetime.StackID // by the number of launches that were followed to get here; 0 = not made yet
}

// maxLaunches bounds the threads that one stack spans: a task that launches itself again has no first thread.
const maxLaunches = 4

// maxLaunched bounds the calls of a thread that are put on the stack of the thread that launched it. Every launch makes
// these stacks anew. Worker threads are not deep.
const maxLaunched = 64

// calls finds the call stacks of allocations: the events that enclose them on their thread, and on the thread that
// launched the work. It makes them for allocations only, not for every event.
type calls struct {
	regions   []region         // by the metadata number of the event
	rare      map[int64]region // the same for numbers beyond maxDense
	producers [][producersEach]produced
	seed      uint64 // random, so that no file can force collisions
	spare     spare
}

// spare are calls for reuse: nearly all events are open for a short time.
type spare []*call

func (s *spare) call() *call {
	n := len(*s)
	if n == 0 {
		return &call{}
	}
	c := (*s)[n-1]
	*s = (*s)[:n-1]
	return c
}

// release drops a reference to c, which may be nil.
func (s *spare) release(c *call) {
	for c != nil {
		if c.refs--; c.refs > 0 {
			return
		}
		*s = append(*s, c)
		c = c.caller
	}
}

// produced is a producer of a link: the innermost call around it, or the producer itself.
type produced struct {
	link link
	at   instant
	call *call
}

// The producers that are kept: a table of buckets by a hash of the link. Work begins soon after it is launched, so a
// new producer replaces the one of its bucket that was not used for longest.
const (
	producerBuckets = 1 << 6
	producersEach   = 8
)

// innermost returns the innermost event that encloses the current one, or nil.
func (h *host) innermost(l *line) *call {
	e, s := &l.event, l.nesting
	s.enclosing(e.offset, units.AddSat(e.offset, max(e.duration, 0)))
	for n := len(s.calls); n < len(s.open); n++ {
		c := s.spare.call()
		*c = call{region: h.region(s.open[n].id), at: after(l.stamp, s.open[n].begin), refs: 1}
		c.root, c.inPython = c, c.python
		if n > 0 {
			c.caller = s.calls[n-1]
			c.root, c.depth, c.inPython = c.caller.root, n, c.python || c.caller.inPython
			c.caller.refs++
		}
		if i, ok := slices.BinarySearchFunc(s.links, n, func(o opened, n int) int { return cmp.Compare(o.at, n) }); ok {
			c.consumes, c.link = true, s.links[i].link
		}
		s.calls = append(s.calls, c)
	}
	if len(s.calls) == 0 {
		return nil
	}
	return s.calls[len(s.calls)-1]
}

// bucket returns the producers with the hash of a link, the last one used first.
func (s *calls) bucket(of link) *[producersEach]produced {
	if s.producers == nil {
		s.producers, s.seed = make([][producersEach]produced, producerBuckets), rand.Uint64()
	}
	h := s.seed
	for _, part := range [...]int64{of.kind, of.id} {
		h = (h ^ uint64(part)) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	return &s.producers[h%producerBuckets]
}

// produce keeps a producer for its consumers.
func (s *calls) produce(p produced) {
	if p.call == nil {
		return
	}
	p.call.refs++
	b := s.bucket(p.link)
	s.spare.release(b[producersEach-1].call)
	copy(b[1:], b[:])
	b[0] = p
}

// producer returns the last producer of a link; its call is nil if there is none.
func (s *calls) producer(of link) produced {
	b := s.bucket(of)
	for i, p := range b {
		if p.call != nil && p.link == of {
			copy(b[1:i+1], b[:i])
			b[0] = p
			return p
		}
	}
	return produced{}
}

// launcher returns the call that launched c on another thread, or earlier on this one; nil if that is not known. A
// function of Python on the own thread is the better answer.
func (s *calls) launcher(c *call) *call {
	if !c.consumes || c.inPython || c.depth >= maxLaunched {
		return nil
	}
	p := s.producer(c.link)
	if p.call == nil || p.call.root == c.root || p.at.compare(c.at) > 0 {
		return nil
	}
	return p.call
}

// stack returns the call stack of c after a number of launches. The stack goes on with the launcher of the innermost
// consumer that has one.
func (h *host) stack(c *call, launches int) lifetime.StackID {
	if c == nil || launches == maxLaunches {
		return 0
	}
	if c.stacks[launches] == 0 {
		if p := h.calls.launcher(c); p != nil {
			c.stacks[launches] = h.above(c, h.stack(p, launches+1))
		} else {
			c.stacks[launches] = h.r.b.Call(c.frame, h.stack(c.caller, launches))
		}
	}
	return c.stacks[launches]
}

// above puts the calls of a thread up to c on the stack of another thread.
func (h *host) above(c *call, launcher lifetime.StackID) lifetime.StackID {
	if c == nil {
		return launcher
	}
	return h.r.b.Call(c.frame, h.above(c.caller, launcher))
}

// inOperator puts the operator that the allocator recorded on the stack of c, unless it is there.
func (h *host) inOperator(op string, c *call, stack lifetime.StackID) lifetime.StackID {
	if op == "" || stack == 0 {
		return stack
	}
	frame := h.r.b.Frame(frame.Frame{Function: op, Kind: frame.Scope})
	for ; c != nil; c = c.caller {
		if c.frame == frame {
			return stack
		}
		if c.operator {
			break
		}
	}
	return h.r.b.Call(frame, stack)
}
