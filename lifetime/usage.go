package lifetime

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/lifetime/internal/spans"
)

// Bytes returns the size of b in measure m. OccupiedLessPending is a state of
// the end, not of a buffer: it counts as Occupied here.
func (b *Buffer) Bytes(m Measure) int64 {
	if m == Requested {
		return b.Requested
	}
	return b.Size
}

// Change is one buffer that begins or ends.
type Change struct {
	T      int64
	Buffer int // index into Space.Buffers
	Begin  bool
}

// Changes yields every begin and end of the space's buffers in order of time;
// at one instant ends come before begins, since buffers are half open. Buffers
// that are alive at the end yield no end.
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

// SortEnds fills EndOrder. ended are the indexes of the buffers that ended in the
// window, as far as they are known in order of End: those who find ends one after
// the other spare the sort. nil: nothing is known of them.
func (s *Space) SortEnds(ended []uint32) {
	key := func(i uint32) int64 {
		if s.Buffers[i].Edge&EndOpen != 0 {
			return math.MaxInt64
		}
		return s.Buffers[i].End
	}
	order := ended
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

// Peak returns the highest level of the window in measure m, Base and Stack
// included, and the first instant that has it. Without buffers it is that of
// Base and Stack.
func (s *Space) Peak(m Measure) Level {
	peak := Level{At: s.Begin, Bytes: math.MinInt64}
	if s.UsageOnly() { // what went before is not known
		peak.Bytes = 0
	}
	for level := range s.Levels(m) {
		if level.Bytes > peak.Bytes {
			peak = level
		}
	}
	return peak
}

// Levels yields the level of the window in measure m, Base and Stack included,
// at its beginning and after every change, in order of time. Changes of one
// instant come one by one, ends first.
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

// walk calls visit with the levels of the window in both measures, as Levels yields
// them, until it returns false.
func (s *Space) walk(visit func(at, requested, occupied int64) bool) {
	stack := stackCursor{levels: s.Stack}
	stack.next(s.Begin)
	requested, occupied := s.Base, s.Base
	if !visit(s.Begin, AddSat(requested, stack.bytes), AddSat(occupied, stack.bytes)) {
		return
	}
	stackUntil := func(t int64) bool { // it changes between two buffers
		for stack.at() < t {
			if at := stack.next(stack.at()); !visit(at, AddSat(requested, stack.bytes), AddSat(occupied, stack.bytes)) {
				return false
			}
		}
		return true
	}
	for c := range s.Changes() {
		if !stackUntil(c.T) {
			return
		}
		if c.Begin || !stack.rises(c.T) { // no level of an instant is above both that before and that after it
			stack.next(c.T)
		}
		b := &s.Buffers[c.Buffer]
		if c.Begin {
			requested, occupied = AddSat(requested, b.Requested), AddSat(occupied, b.Size)
		} else {
			requested, occupied = AddSat(requested, -b.Requested), AddSat(occupied, -b.Size)
		}
		if !visit(c.T, AddSat(requested, stack.bytes), AddSat(occupied, stack.bytes)) {
			return
		}
	}
	stackUntil(s.End)
}

// peaks returns Peak in both measures.
func (s *Space) peaks() (requested, occupied Level) {
	if s.UsageOnly() {
		return s.Peak(Requested), s.Peak(Occupied)
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

// LevelAt returns the level at t in measure m, Base and Stack included: at
// Space.End it is that of the end of the window. Before the window it is 0.
func (s *Space) LevelAt(t int64, m Measure) (bytes int64) {
	for level := range s.Levels(m) {
		if level.At > t {
			break
		}
		bytes = level.Bytes
	}
	return bytes
}

// Steps returns how many marks are steps of the program.
func (s *Space) Steps() (n int) {
	for i := range s.Marks {
		if s.Marks[i].Kind == Step {
			n++
		}
	}
	return n
}

// UsageOnly reports whether nothing is known of a space but totals.
func (s *Space) UsageOnly() bool {
	return len(s.Buffers) == 0 && len(s.Totals) > 0 && s.Facts&History == 0
}

// usage yields the level at every instant that has a total: the last one counts.
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

// stackCursor walks along Space.Stack.
type stackCursor struct {
	levels []Level // still to come
	begun  bool
	bytes  int64 // now
}

// at returns when the level changes next.
func (c *stackCursor) at() int64 {
	if len(c.levels) == 0 {
		return math.MaxInt64
	}
	return c.levels[0].At
}

// rises reports whether the level is higher at t than now.
func (c stackCursor) rises(t int64) bool {
	before := c.bytes
	c.next(t)
	return c.bytes > before
}

// next goes on to t, which it returns.
func (c *stackCursor) next(t int64) int64 {
	if !c.begun && len(c.levels) > 0 {
		c.bytes, c.levels = c.levels[0].Bytes, c.levels[1:]
	}
	c.begun = true
	for c.at() <= t {
		c.bytes, c.levels = c.levels[0].Bytes, c.levels[1:]
	}
	return t
}

// StackAt returns the bytes set aside beside the heap at t.
func (s *Space) StackAt(t int64) int64 {
	c := stackCursor{levels: s.Stack}
	c.next(t)
	return c.bytes
}

// aliveAt reports whether b is alive at t, an instant of the window.
func (b *Buffer) aliveAt(t int64) bool {
	return b.Begin <= t && (t < b.End || b.Edge&EndOpen != 0)
}

// LiveAt returns the indexes of the buffers that are alive at t, in order of
// Begin.
func (s *Space) LiveAt(t int64) []int {
	var live []int
	for i := range s.Buffers {
		b := &s.Buffers[i]
		if b.Begin > t {
			break
		}
		if b.aliveAt(t) {
			live = append(live, i)
		}
	}
	return live
}

// Reserved returns the bytes that the allocator held from the device at the
// end of the window and at most in it, by its regions or else by its totals;
// 0, 0 without either.
func (s *Space) Reserved() (end, peak int64) {
	for _, level := range s.ReservedLevels() {
		end, peak = level.Bytes, max(peak, level.Bytes)
	}
	return end, peak
}

// ReservedLevels returns the bytes that the allocator held from the device, by
// its regions or else by its totals, after every change, in order of time.
func (s *Space) ReservedLevels() []Level {
	var levels []Level
	if len(s.Regions) == 0 {
		for _, t := range s.Totals {
			if t.Measure == Reserved {
				levels = append(levels, Level{t.T, t.Bytes})
			}
		}
		return levels
	}
	for i := range s.Regions {
		r := &s.Regions[i]
		levels = append(levels, Level{r.Begin, r.Size})
		if r.Edge&EndOpen == 0 {
			levels = append(levels, Level{r.End, -r.Size})
		}
	}
	// Releases first at one instant: a split region ends where its parts begin.
	sort.Slice(levels, func(i, j int) bool {
		if levels[i].At != levels[j].At {
			return levels[i].At < levels[j].At
		}
		return levels[i].Bytes < levels[j].Bytes
	})
	for i := 1; i < len(levels); i++ {
		levels[i].Bytes = AddSat(levels[i-1].Bytes, levels[i].Bytes)
	}
	return levels
}

// Holes is unused reserved memory, in bytes.
type Holes struct {
	Total   int64
	Largest int64  // in one piece
	At      uint64 // address of the largest
}

// Fragmentation returns the share of the free reserved bytes that lies outside
// the largest hole, 0 to 1: XProf's definition, (free - largest) / free. ok is
// false without free bytes.
func (h Holes) Fragmentation() (share float64, ok bool) {
	if h.Total == 0 {
		return 0, false
	}
	return float64(h.Total-h.Largest) / float64(h.Total), true
}

// FreeAt returns the holes inside reserved memory at t. They do not reach
// across regions, but for expandable ones that touch.
func (s *Space) FreeAt(t int64) Holes {
	var holes spans.Map[bool]
	for i := range s.Regions {
		if r := &s.Regions[i]; r.Begin <= t && (r.End > t || r.Edge&EndOpen != 0) {
			holes.Set(r.Addr, spans.End(r.Addr, r.Size), r.Kind == Expandable)
		}
	}
	for _, i := range s.LiveAt(t) {
		b := &s.Buffers[i]
		holes.Cut(b.Addr, spans.End(b.Addr, b.Size))
	}
	var free Holes
	var last spans.Span[bool]
	for h := range holes.All() {
		free.Total = AddSat(free.Total, h.Size())
		if last.Val && h.Val && last.Hi == h.Lo {
			h.Lo = last.Lo
		}
		if size := h.Size(); size > free.Largest {
			free.Largest, free.At = size, h.Lo
		}
		last = h
	}
	return free
}

// Expandable is the Kind of regions that grow in place.
const Expandable = "expandable"

// AddSat adds without wrapping around: sums of bytes and times of damaged
// captures saturate.
func AddSat(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}
