package build

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/memlane/memlane/internal/chunked"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// op is the kind of an event.
type op uint8

const (
	opAlloc op = iota
	opFreeRequested
	opFree
	opNote
	opReserve
	opRelease
	opTotal
	opMark
	opStack
	opDelta
)

// event is one recorded event. size is bytes, or an index for opNote, opTotal and opMark.
type event struct {
	t        int64
	addr     uint64
	size     int64
	occupied int64 // of blocks; of opReserve and opRelease an index into regionPairing.classes
	site     lifetime.SiteID
	op       op
	inferred bool // occupied was computed from size
}

// maxTime leaves room for additions to times.
const maxTime = 1 << 62

type spaceLog struct {
	b         *Builder
	space     *lifetime.Space // of its own, because it outlives the log
	described bool

	inOrder bool
	events  chunked.List[event] // kept only if not inOrder
	begin   int64               // of the window: just before the first event
	last    int64               // time of the last event
	any     bool
	discard bool  // beyond MaxSpaces
	sum     int64 // of all sizes

	pairing pairing
	fold    *fold // instead of pairing, with PeakAndEnd
	regions regionPairing

	live        chunked.List[Block]
	liveRegions []lifetime.Region
	intervals   []Interval
	totals      chunked.List[lifetime.Total]
	marks       []lifetime.Mark
	held        []held

	// Sum of the deltas so far, its lowest value, and numbers of deltas.
	running, lowest int64
	grown, shrunk   int

	// Of the reports so far.
	limit, lifetimePeak      int64
	lastAllocated, lastStack int64
	lastReserved             int64
	reported                 int

	cut       bool // the history ends before the end state was taken
	ringFull  bool
	noHistory bool
	freesName bool // see Builder.FreesName
	numbered  bool
}

func newSpaceLog(b *Builder) *spaceLog {
	log := &spaceLog{b: b, space: &lifetime.Space{}}
	log.pairing = pairing{log: log, open: map[uint64]openBuffer{}}
	log.regions = regionPairing{log: log}
	return log
}

// add takes an event. If not inOrder, replay handles it at the end.
func (log *spaceLog) add(e event) {
	switch e.op {
	case opAlloc, opFreeRequested, opFree:
		log.sum = units.AddSat(log.sum, max(e.size, e.occupied))
	case opReserve:
		log.sum = units.AddSat(log.sum, e.size)
	case opDelta:
		log.sum = units.AddSat(log.sum, max(e.size, -max(e.size, -math.MaxInt64)))
	}
	switch {
	case log.discard:
	case log.inOrder:
		log.take(&e)
	default:
		log.events.Add(e)
	}
}

// overflows reports whether sums of sizes may saturate.
func (log *spaceLog) overflows() bool {
	sum := log.sum
	for l := range log.live.All() {
		sum = units.AddSat(sum, max(l.Occupied, l.Requested))
	}
	for i := range log.liveRegions {
		sum = units.AddSat(sum, log.liveRegions[i].Size)
	}
	return sum == math.MaxInt64
}

func levelOverflows(s *lifetime.Space) bool {
	var requested, occupied units.Sum
	for c := range s.Changes() {
		b := &s.Buffers[c.Buffer]
		if !c.Begin {
			requested.Sub(b.Requested)
			occupied.Sub(b.Size)
			continue
		}
		requested.Add(b.Requested)
		occupied.Add(b.Size)
		if !requested.Fits() || !occupied.Fits() {
			return true
		}
	}
	return false
}

// take sets the time of an event and handles it. Times are strictly increasing: an event that is not later than the one before it moves to one unit after
// it. Notes, totals, point marks and stack levels may have the time of the event before them.
func (log *spaceLog) take(e *event) {
	if !log.windowGiven() { // else the times come from a model
		e.t = min(max(e.t, -maxTime), maxTime)
	}
	if !log.any {
		log.any, log.begin, log.last = true, e.t-1, e.t-1
	}
	switch e.op {
	case opNote, opTotal, opMark, opStack:
		e.t = max(e.t, log.last)
	default:
		e.t = max(e.t, log.last+1)
	}
	log.last = e.t
	switch e.op {
	case opReserve, opRelease:
		log.regions.event(e)
	case opTotal:
		log.totals.At(int(e.size)).T = e.t
	case opStack:
		log.space.Stack = append(log.space.Stack, lifetime.Level{At: e.t, Bytes: e.size})
		if log.fold != nil {
			log.fold.stackReserved(e.size)
		}
	case opDelta:
		log.delta(e)
	case opMark:
		log.marks[e.size].Begin, log.marks[e.size].End = e.t, e.t
	default:
		if log.fold != nil {
			log.fold.event(e)
		} else {
			log.pairing.event(e)
		}
	}
}

// delta takes a change of the usage of a space without recorded buffers.
func (log *spaceLog) delta(e *event) {
	log.running = units.AddSat(log.running, e.size)
	log.lowest = min(log.lowest, log.running)
	if e.size > 0 {
		log.grown++
	} else {
		log.shrunk++
	}
	log.totals.Add(lifetime.Total{T: e.t, Bytes: log.running, Measure: lifetime.Occupied})
}

// replay takes the kept events in order of time, equal times in order of arrival.
func (log *spaceLog) replay() {
	all := make([]*event, 0, log.events.N)
	for e := range log.events.All() {
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(x, y *event) int { return cmp.Compare(x.t, y.t) })
	for _, e := range all {
		log.take(e)
	}
	log.events = chunked.List[event]{}
}

// windowGiven reports whether the description has a window. Then it has Facts and Base, too.
func (log *spaceLog) windowGiven() bool { return log.space.End > log.space.Begin }

func (log *spaceLog) finish() *lifetime.Space {
	log.replay()
	s := log.space
	given := log.windowGiven()
	if !given && log.overflows() {
		log.b.Lose(loss.Overflow, 1, 0, s.ID())
	}
	allocations, frees := s.Allocations, s.Frees
	switch {
	case given:
	case log.any:
		s.Begin, s.End = log.begin, log.last+1
	default:
		s.Begin, s.End = 0, 1 // an instant
	}
	log.regions.finish(s)
	switch {
	case log.fold != nil:
		log.fold.finish(s)
	case len(log.intervals) > 0:
		storeIntervals(s, log.intervals, log.b.Keeps(XProf))
		log.intervals = nil                                          // as large as s.Buffers
		if log.b.losses[loss.Overflow] == nil && levelOverflows(s) { // else a model with this loss was read
			log.b.Lose(loss.Overflow, 1, 0, s.ID())
		}
	default:
		log.pairing.finish(s)
	}
	if s.Allocations+s.Frees == 0 { // no events: use the description
		s.Allocations, s.Frees = allocations, frees
	}
	if log.numbered {
		for i := range s.Buffers {
			s.Buffers[i].Addr = 0
		}
	}
	log.storeHolders(s)
	s.Marks = log.marks
	if byBegin := func(x, y lifetime.Mark) int { return cmp.Compare(x.Begin, y.Begin) }; !slices.IsSortedFunc(s.Marks, byBegin) {
		slices.SortStableFunc(s.Marks, byBegin)
	}
	if len(s.Stack) == 1 && s.Stack[0].Bytes == 0 {
		s.Stack = nil // as in a space without a stack
	}
	s.Totals = make([]lifetime.Total, 0, log.totals.N)
	for t := range log.totals.All() {
		t.Bytes = units.AddSat(t.Bytes, -log.lowest) // at least so much was in use before the window
		s.Totals = append(s.Totals, *t)
	}
	if log.grown+log.shrunk > 0 {
		s.Allocations, s.Frees = log.grown, log.shrunk
		log.b.Lose(loss.Anonymous, int64(log.grown+log.shrunk), 0, s.ID())
	}
	if byTime := func(x, y lifetime.Total) int { return cmp.Compare(x.T, y.T) }; !slices.IsSortedFunc(s.Totals, byTime) {
		slices.SortStableFunc(s.Totals, byTime)
	}
	s.Limit, s.LifetimePeak = max(s.Limit, log.limit), max(s.LifetimePeak, log.lifetimePeak)
	if !given {
		log.deriveFacts(s)
		if log.fold == nil {
			log.solveBase(s)
		}
	}
	return s
}

// deriveFacts sets Facts and counts a missing history.
func (log *spaceLog) deriveFacts(s *lifetime.Space) {
	switch {
	case log.noHistory:
		log.b.Lose(loss.NotAHistory, 1, 0, s.ID())
	case s.Allocations+s.Frees > 0 && log.grown+log.shrunk == 0:
		s.Facts |= lifetime.History
	}
	if len(s.Regions) > 0 {
		s.Facts |= lifetime.Regions
	}
	if len(s.Totals) > 0 {
		s.Facts |= lifetime.Totals
	}
	for i := range s.Buffers {
		if s.Buffers[i].Addr != 0 {
			s.Facts |= lifetime.Addresses
		}
		if log.b.capture.Sites[s.Buffers[i].Site].Stack != 0 {
			s.Facts |= lifetime.Stacks
		}
		if s.Facts&lifetime.Addresses != 0 && s.Facts&lifetime.Stacks != 0 {
			break
		}
	}
}

// solveBase computes Base from the totals. A complete end state has every live block, so Base is 0. Otherwise Base is
// the first total less the buffers alive at that time. Later totals that differ from the buffers count as a loss.
// Totals of occupied bytes are not compared while the size of a live buffer is inferred.
func (log *spaceLog) solveBase(s *lifetime.Space) {
	var level [lifetime.Reserved + 1]int64
	inferred, next := 0, 0
	solved := s.Facts&lifetime.EndState != 0 || s.Base != 0
	check := func(until int64) {
		for ; next < len(s.Totals) && s.Totals[next].T < until; next++ {
			t := s.Totals[next]
			if t.Measure == lifetime.Reserved || t.Measure != lifetime.Requested && inferred > 0 {
				continue
			}
			gap := units.AddSat(units.AddSat(t.Bytes, -s.Base), -level[t.Measure])
			if !solved {
				s.Base, solved = max(gap, 0), true
				continue
			}
			if gap != 0 && t.Measure != lifetime.OccupiedLessPending {
				log.b.Lose(loss.TotalMismatch, 1, max(gap, -gap),
					fmt.Sprintf("%s: %d reported, %d seen", s.ID(), t.Bytes, units.AddSat(t.Bytes, -gap)))
			}
		}
	}
	if len(s.Totals) == 0 || s.UsageOnly() {
		return
	}
	for c := range s.Changes() {
		check(c.T)
		buf := &s.Buffers[c.Buffer]
		sign := int64(1)
		if !c.Begin {
			sign = -1
		}
		level[lifetime.Requested] = units.AddSat(level[lifetime.Requested], sign*buf.Requested)
		level[lifetime.Occupied] = units.AddSat(level[lifetime.Occupied], sign*buf.Size)
		level[lifetime.OccupiedLessPending] = level[lifetime.Occupied]
		if buf.Edge&lifetime.SizeInferred != 0 {
			inferred += int(sign)
		}
	}
	check(math.MaxInt64)
}
