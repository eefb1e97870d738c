package lifetime

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
)

// Change is the begin or the end of one buffer.
type Change struct {
	T      int64
	Buffer int // index into Space.Buffers
	Begin  bool
}

// Changes yields every begin and end of the space's buffers in order of time. At the same instant, ends come before
// begins, because buffers are half open. Buffers that are alive at the end yield no end.
func (s *Space) Changes() iter.Seq[Change] {
	return func(yield func(Change) bool) {
		ends := s.ends()
		e := 0
		for i := range s.Buffers {
			for ; e < len(ends) && s.Buffers[ends[e]].End <= s.Buffers[i].Begin; e++ {
				if !yield(Change{s.Buffers[ends[e]].End, int(ends[e]), false}) {
					return
				}
			}
			if !yield(Change{s.Buffers[i].Begin, i, true}) {
				return
			}
		}
		for ; e < len(ends); e++ {
			if !yield(Change{s.Buffers[ends[e]].End, int(ends[e]), false}) {
				return
			}
		}
	}
}

// ends returns the buffers that ended in the window, in order of End.
func (s *Space) ends() []uint32 {
	n := sort.Search(len(s.EndOrder), func(i int) bool { return s.Buffers[s.EndOrder[i]].Edge&EndOpen != 0 })
	return s.EndOrder[:n]
}

// SortEnds sets EndOrder. ended lists the indexes of the buffers that ended in the window, in any order; nil means that
// SortEnds finds them. If they are already in order of End, it does not sort them again.
func (s *Space) SortEnds(ended []uint32) {
	key := func(i uint32) int64 {
		if s.Buffers[i].Edge&EndOpen != 0 {
			return math.MaxInt64
		}
		return s.Buffers[i].End
	}
	order := slices.Grow(ended, len(s.Buffers)-len(ended))
	for i := range s.Buffers {
		if s.Buffers[i].Edge&EndOpen != 0 || ended == nil {
			order = append(order, uint32(i))
		}
	}
	byEnd := func(a, b uint32) int { return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a, b)) }
	if !slices.IsSortedFunc(order, byEnd) {
		slices.SortFunc(order, byEnd)
	}
	s.EndOrder = order
}

// Level is a number of bytes at an instant.
type Level struct {
	At    int64
	Bytes int64
}

// Peak returns the highest level of the window in measure m, and the first instant of it. Base and Stack are included.
func (s *Space) Peak(m Measure) Level {
	requested, occupied := s.peaks()
	if m == Requested {
		return requested
	}
	return occupied
}

// Levels yields the level in measure m at the beginning of the window and after every change, in order of time. Base
// and Stack are included. Changes at the same instant are separate levels, ends first.
func (s *Space) Levels(m Measure) iter.Seq[Level] {
	if s.UsageOnly() {
		return s.usage()
	}
	return func(yield func(Level) bool) {
		s.walk(func(at, requested, occupied int64) bool {
			if m == Requested {
				return yield(Level{at, requested})
			}
			return yield(Level{at, occupied})
		})
	}
}

// walk calls visit with the levels that Levels yields, in both measures, until visit returns false.
func (s *Space) walk(visit func(at, requested, occupied int64) bool) {
	stack := s.stackCursor(s.Begin)
	var requested, occupied units.Sum
	requested.Add(s.Base)
	occupied.Add(s.Base)
	level := func(at int64) bool {
		return visit(at, units.AddSat(requested.Value(), stack.bytes), units.AddSat(occupied.Value(), stack.bytes))
	}
	if !level(s.Begin) {
		return
	}
	stackUntil := func(t int64) bool { // visits the changes of Stack before t
		for stack.at() < t {
			if !level(stack.next(stack.at())) {
				return false
			}
		}
		return true
	}
	for c := range s.Changes() {
		if !stackUntil(c.T) {
			return
		}
		if c.Begin || !stack.rises(c.T) { // else the level within the instant would exceed those before and after it
			stack.next(c.T)
		}
		b := &s.Buffers[c.Buffer]
		if c.Begin {
			requested.Add(b.Requested)
			occupied.Add(b.Size)
		} else {
			requested.Sub(b.Requested)
			occupied.Sub(b.Size)
		}
		if !level(c.T) {
			return
		}
	}
	stackUntil(s.End)
}

func (s *Space) peaks() (requested, occupied Level) {
	if s.UsageOnly() {
		peak := Level{At: s.Begin}
		for level := range s.usage() {
			if level.Bytes > peak.Bytes {
				peak = level
			}
		}
		return peak, peak
	}
	requested, occupied = Level{s.Begin, math.MinInt64}, Level{s.Begin, math.MinInt64}
	s.walk(func(at, r, o int64) bool {
		if r > requested.Bytes {
			requested = Level{at, r}
		}
		if o > occupied.Bytes {
			occupied = Level{at, o}
		}
		return true
	})
	return requested, occupied
}

// LevelAt returns the level at t in measure m, Base and Stack included. It is 0 before the window.
func (s *Space) LevelAt(t int64, m Measure) (bytes int64) {
	for level := range s.Levels(m) {
		if level.At > t {
			break
		}
		bytes = level.Bytes
	}
	return bytes
}

// UsageOnly reports whether the space has totals, but no buffers and no history.
func (s *Space) UsageOnly() bool {
	return len(s.Buffers) == 0 && len(s.Totals) > 0 && s.Facts&History == 0
}

// usage yields the last total of every instant that has one.
func (s *Space) usage() iter.Seq[Level] {
	return func(yield func(Level) bool) {
		var last Level
		any := false
		for _, t := range s.Totals {
			if t.Measure == Reserved {
				continue
			}
			if any && t.T > last.At && !yield(last) {
				return
			}
			last, any = Level{t.T, t.Bytes}, true
		}
		if any {
			yield(last)
		}
	}
}

// stackCursor iterates over Space.Stack.
type stackCursor struct {
	levels []Level // after the current instant
	bytes  int64   // current level
}

// stackCursor returns a cursor at t. The first level also holds before its time.
func (s *Space) stackCursor(t int64) (c stackCursor) {
	if len(s.Stack) > 0 {
		c = stackCursor{s.Stack[1:], s.Stack[0].Bytes}
		c.next(t)
	}
	return c
}

// at returns the time of the next level.
func (c *stackCursor) at() int64 {
	if len(c.levels) == 0 {
		return math.MaxInt64
	}
	return c.levels[0].At
}

// rises reports whether the level at t is above the current one.
func (c stackCursor) rises(t int64) bool {
	before := c.bytes
	c.next(t)
	return c.bytes > before
}

// next advances to t and returns it.
func (c *stackCursor) next(t int64) int64 {
	for len(c.levels) > 0 && c.levels[0].At <= t {
		c.bytes, c.levels = c.levels[0].Bytes, c.levels[1:]
	}
	return t
}

// StackAt returns the level of Stack at t, in bytes.
func (s *Space) StackAt(t int64) int64 { return s.stackCursor(t).bytes }

// aliveAt reports whether b is alive at t, an instant of the window.
func (b *Buffer) aliveAt(t int64) bool {
	return b.Begin <= t && (t < b.End || b.Edge&EndOpen != 0)
}

// LiveAt returns the indexes of the buffers that are alive at t, in order of Begin.
func (s *Space) LiveAt(t int64) []int {
	var live []int
	for i := range s.Live(t) {
		live = append(live, i)
	}
	return live
}

// Live yields the same as LiveAt, with the buffers.
func (s *Space) Live(t int64) iter.Seq2[int, *Buffer] {
	return func(yield func(int, *Buffer) bool) {
		for i := range s.Buffers {
			b := &s.Buffers[i]
			if b.Begin > t || b.aliveAt(t) && !yield(i, b) {
				return
			}
		}
	}
}

// Expandable is the Kind of regions that grow in place.
const Expandable = "expandable"
