package lifetime

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Builder takes the facts of a capture in any order and makes the model of
// them. It is all a reader sees of this package: readers do not pair, sort or
// repair. The zero value is not usable; call NewBuilder.
//
// Times may repeat and go back; at Finish the events of a space are brought in
// order of time (equal times keep the order in which they arrived) and made
// strictly increasing, so that no result depends on a tie.
type Builder struct {
	capture *Capture
	spaces  []*spaceLog

	sites    map[Site]SiteID
	stacks   map[uint64][]StackID // by hash of the frames
	frames   map[Frame]FrameID
	notes    map[string]NoteID
	frameIDs []FrameID // the chunk that the next stack is cut from
	losses   map[Reason]*Loss
}

// SpaceRef names a space of a Builder.
type SpaceRef int

// NewBuilder returns a Builder for one capture.
func NewBuilder() *Builder {
	return &Builder{
		capture: &Capture{Sites: make([]Site, 1), Stacks: make([][]FrameID, 1), Frames: make([]Frame, 1), Notes: make([]string, 1)},
		sites:   map[Site]SiteID{{}: 0},
		stacks:  map[uint64][]StackID{},
		frames:  map[Frame]FrameID{},
		notes:   map[string]NoteID{"": 0},
		losses:  map[Reason]*Loss{},
	}
}

// Source adds an input file and returns its index.
func (b *Builder) Source(s Source) int {
	b.capture.Sources = append(b.capture.Sources, s)
	return len(b.capture.Sources) - 1
}

// Space adds a space. Many formats name a space after its events: Describe
// follows later. A space that is never described is left out.
func (b *Builder) Space() SpaceRef {
	b.spaces = append(b.spaces, &spaceLog{})
	return SpaceRef(len(b.spaces) - 1)
}

// Describe sets who and where a space is: the fields of s up to Facts, Limit
// and, when they are known beforehand, the window, Base and the numbers of
// allocations and frees. A fact that no event backs (EndState, Clock) must
// stand there; the others are derived.
func (b *Builder) Describe(space SpaceRef, s Space) {
	b.spaces[space].desc = s
	b.spaces[space].described = true
}

// Frame interns a frame.
func (b *Builder) Frame(f Frame) FrameID {
	id, ok := b.frames[f]
	if !ok {
		id = FrameID(len(b.capture.Frames))
		b.capture.Frames = append(b.capture.Frames, f)
		b.frames[f] = id
	}
	return id
}

// Stack interns a call stack, leaf first; an empty one is 0. frames is not
// kept.
func (b *Builder) Stack(frames []FrameID) StackID {
	if len(frames) == 0 {
		return 0
	}
	const prime = 0x9E3779B97F4A7C15
	h := uint64(len(frames))
	for _, f := range frames {
		h = (h ^ uint64(f)) * prime
		h ^= h >> 29
	}
	for _, id := range b.stacks[h] {
		if slices.Equal(b.capture.Stacks[id], frames) {
			return id
		}
	}
	id := StackID(len(b.capture.Stacks))
	b.capture.Stacks = append(b.capture.Stacks, b.keep(frames))
	b.stacks[h] = append(b.stacks[h], id)
	return id
}

// keep copies frames into a chunk that many stacks share.
func (b *Builder) keep(frames []FrameID) []FrameID {
	if cap(b.frameIDs)-len(b.frameIDs) < len(frames) {
		b.frameIDs = make([]FrameID, 0, max(chunkLen, len(frames)))
	}
	from := len(b.frameIDs)
	b.frameIDs = append(b.frameIDs, frames...)
	return b.frameIDs[from:len(b.frameIDs):len(b.frameIDs)]
}

// Site interns a site.
func (b *Builder) Site(s Site) SiteID {
	id, ok := b.sites[s]
	if !ok {
		id = SiteID(len(b.capture.Sites))
		b.capture.Sites = append(b.capture.Sites, s)
		b.sites[s] = id
	}
	return id
}

// Note interns a text of the program about a buffer; "" is 0.
func (b *Builder) Note(text string) NoteID {
	id, ok := b.notes[text]
	if !ok {
		id = NoteID(len(b.capture.Notes))
		b.capture.Notes = append(b.capture.Notes, text)
		b.notes[text] = id
	}
	return id
}

// Alloc records that size bytes at addr were allocated at t. occupied is 0
// when the capture does not tell; it is then requested rounded up to 512, the
// granularity of the caching allocators of PyTorch.
func (b *Builder) Alloc(space SpaceRef, t int64, addr uint64, requested, occupied int64, site SiteID) {
	b.log(space, event{t, addr, max(requested, 0), site, opAlloc}, occupied)
}

// FreeRequested records that the program gave the block at addr back; the
// allocator may reuse it only after Free.
func (b *Builder) FreeRequested(space SpaceRef, t int64, addr uint64, requested int64, site SiteID) {
	b.log(space, event{t, addr, max(requested, 0), site, opFreeRequested}, 0)
}

// Free records that the block at addr ended at t. requested is its size when
// the event has it, else 0.
func (b *Builder) Free(space SpaceRef, t int64, addr uint64, requested int64, site SiteID) {
	b.log(space, event{t, addr, max(requested, 0), site, opFree}, 0)
}

// Annotate attaches a text to the buffer that lives at addr at t.
func (b *Builder) Annotate(space SpaceRef, t int64, addr uint64, note NoteID) {
	b.log(space, event{t, addr, int64(note), 0, opNote}, 0)
}

// Live records a block of the end state. A space whose description has the
// fact EndState was alive with these blocks and no others when its history
// ended.
func (b *Builder) Live(space SpaceRef, l LiveBlock) {
	log := b.spaces[space]
	log.live = append(log.live, l)
}

// LiveBlock is a block of the end state.
type LiveBlock struct {
	Addr                uint64
	Requested, Occupied int64 // bytes
	Site                SiteID
	Pending             bool // its free was asked for but not completed
}

// Reserve records that the allocator took [addr, addr+size) from the device.
func (b *Builder) Reserve(space SpaceRef, t int64, addr uint64, size int64, site SiteID) {
	b.log(space, event{t, addr, max(size, 0), site, opReserve}, 0)
}

// Release records that the allocator gave [addr, addr+size) back. It need not
// match one Reserve: ranges split and join.
func (b *Builder) Release(space SpaceRef, t int64, addr uint64, size int64) {
	b.log(space, event{t, addr, max(size, 0), 0, opRelease}, 0)
}

// LiveRegion records reserved memory of the end state. Addr, Size, Site, Kind,
// Stream and Pool of r are used.
func (b *Builder) LiveRegion(space SpaceRef, r Region) {
	log := b.spaces[space]
	log.liveRegions = append(log.liveRegions, r)
}

// Interval records a buffer whose begin and end are both known, edges included.
// A space is given Intervals or events, not both. freeSite and note may be 0.
func (b *Builder) Interval(space SpaceRef, buf Buffer, freeSite SiteID, note NoteID) {
	log := b.spaces[space]
	log.intervals = append(log.intervals, interval{buf, freeSite, note})
}

type interval struct {
	buf      Buffer
	freeSite SiteID
	note     NoteID
}

// Region records reserved memory whose begin and end are both known.
func (b *Builder) Region(space SpaceRef, r Region) {
	b.spaces[space].regions = append(b.spaces[space].regions, r)
}

// Total records what the producer said was allocated, after the events that
// were recorded before it.
func (b *Builder) Total(space SpaceRef, t Total) {
	log := b.spaces[space]
	b.log(space, event{t.T, 0, int64(len(log.totals)), 0, opTotal}, 0)
	log.totals = append(log.totals, t)
}

// Mark records a point or range. A point keeps its place between the events
// that were recorded before and after it.
func (b *Builder) Mark(space SpaceRef, m Mark) {
	log := b.spaces[space]
	if m.Begin == m.End {
		b.log(space, event{m.Begin, 0, int64(len(log.marks)), 0, opMark}, 0)
	}
	log.marks = append(log.marks, m)
}

// HistoryCut says that the history of a space ends before its end state was
// taken: the two cannot be reconciled in full.
func (b *Builder) HistoryCut(space SpaceRef) { b.spaces[space].cut = true }

// RingFull says that the history of a space has as many events as its recorder
// keeps: if there are older buffers, it is because events were dropped.
func (b *Builder) RingFull(space SpaceRef) { b.spaces[space].ringFull = true }

// NoHistory says that the events of a space, if there are any, do not add up to
// a history.
func (b *Builder) NoHistory(space SpaceRef) { b.spaces[space].noHistory = true }

// Lose counts something that is not in the model. where is kept for the first
// of each reason.
func (b *Builder) Lose(r Reason, count, bytes int64, where string) {
	l := b.losses[r]
	if l == nil {
		l = &Loss{Reason: r, First: where}
		b.losses[r] = l
	}
	l.Count += count
	l.Bytes = addSat(l.Bytes, bytes)
}

// op is the kind of a logged event.
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
)

// event is one logged fact. size is bytes, or an index for opNote, opTotal and
// opMark.
type event struct {
	t    int64
	addr uint64
	size int64
	site SiteID
	op   op
}

// spaceLog collects the facts of one space until Finish.
type spaceLog struct {
	desc        Space
	events      chunked[event]
	occupied    map[int]int64 // by index of event, where the capture tells
	live        []LiveBlock
	liveRegions []Region
	intervals   []interval
	regions     []Region
	totals      []Total
	marks       []Mark
	last        int64
	unsorted    bool
	cut         bool
	ringFull    bool
	noHistory   bool
	described   bool
}

// windowGiven reports whether the description tells the window: then it tells
// the facts too.
func (log *spaceLog) windowGiven() bool { return log.desc.End > log.desc.Begin }

func (b *Builder) log(space SpaceRef, e event, occupied int64) {
	log := b.spaces[space]
	if log.events.n > 0 && e.t < log.last {
		log.unsorted = true
	}
	log.last = e.t
	if occupied > 0 {
		if log.occupied == nil {
			log.occupied = map[int]int64{}
		}
		log.occupied[log.events.n] = occupied
	}
	log.events.add(e)
}

// Finish makes the model. The Builder must not be used afterwards. It fails
// only when no source or no space was added.
func (b *Builder) Finish() (*Capture, error) {
	if len(b.capture.Sources) == 0 {
		return nil, errors.New("no source")
	}
	for i, log := range b.spaces {
		if log.described {
			b.capture.Spaces = append(b.capture.Spaces, b.finishSpace(log))
		}
		b.spaces[i] = nil // the log is as large as the model: let it go
	}
	sort.SliceStable(b.capture.Spaces, func(i, j int) bool {
		x, y := b.capture.Spaces[i], b.capture.Spaces[j]
		if x.Source != y.Source {
			return x.Source < y.Source
		}
		return x.ID() < y.ID()
	})
	for _, l := range b.losses {
		b.capture.Losses = append(b.capture.Losses, *l)
	}
	sort.Slice(b.capture.Losses, func(i, j int) bool {
		x, y := b.capture.Losses[i], b.capture.Losses[j]
		if sx, sy := x.Reason.Severity(), y.Reason.Severity(); sx != sy {
			return sx > sy
		}
		return x.Reason < y.Reason
	})
	return b.capture, nil
}

func (b *Builder) finishSpace(log *spaceLog) *Space {
	space := log.desc
	s := &space
	log.order()
	if n := log.events.n; log.windowGiven() {
	} else if n > 0 {
		s.Begin, s.End = subSat(log.events.at(0).t, 1), log.events.at(n-1).t+1
	} else {
		s.Begin, s.End = 0, 1 // an instant
	}
	s.Regions = finishRegions(b, s, log)
	if log.intervals != nil {
		storeIntervals(s, log.intervals)
	} else {
		pair(b, s, log)
	}
	s.Marks = log.marks
	sort.SliceStable(s.Marks, func(i, j int) bool { return s.Marks[i].Begin < s.Marks[j].Begin })
	s.Totals = log.totals
	if !log.windowGiven() {
		b.deriveFacts(s, log)
	}
	b.solveBase(s)
	return s
}

// order brings the events in order of time, equal times in order of arrival,
// and makes the times strictly increasing.
func (log *spaceLog) order() {
	if log.unsorted {
		all := make([]event, 0, log.events.n)
		occupied := map[int]int64{}
		index := make([]int, 0, log.events.n)
		i := 0
		for e := range log.events.all() {
			all = append(all, *e)
			index = append(index, i)
			i++
		}
		slices.SortStableFunc(index, func(x, y int) int { return cmp.Compare(all[x].t, all[y].t) })
		log.events = chunked[event]{}
		for to, from := range index {
			log.events.add(all[from])
			if size, ok := log.occupied[from]; ok {
				occupied[to] = size
			}
		}
		log.occupied = occupied
	}
	last := int64(math.MinInt64)
	for e := range log.events.all() {
		e.t = min(e.t, math.MaxInt64-int64(log.events.n)-1) // room for the ties after it
		switch e.op {
		case opNote, opTotal, opMark: // they speak of the state as it is and take no time
			e.t = max(e.t, last)
		default:
			if e.t <= last {
				e.t = last + 1
			}
		}
		last = e.t
		switch e.op {
		case opTotal:
			log.totals[e.size].T = e.t
		case opMark:
			log.marks[e.size].Begin, log.marks[e.size].End = e.t, e.t
		}
	}
}

// deriveFacts says what the space was built from, and what is missing.
func (b *Builder) deriveFacts(s *Space, log *spaceLog) {
	switch {
	case log.noHistory:
		b.Lose(NotAHistory, 1, 0, s.ID())
	case s.Allocations+s.Frees > 0:
		s.Facts |= History
	}
	if len(s.Regions) > 0 {
		s.Facts |= Regions
	}
	if len(s.Totals) > 0 {
		s.Facts |= Totals
	}
	for i := range s.Buffers {
		if s.Buffers[i].Addr != 0 {
			s.Facts |= Addresses
		}
		if b.capture.Sites[s.Buffers[i].Site].Stack != 0 {
			s.Facts |= Stacks
		}
		if s.Facts&Addresses != 0 && s.Facts&Stacks != 0 {
			break
		}
	}
}

// solveBase finds the bytes that were alive through the window without being
// seen. A complete end state names every live block, so Base is 0 and totals
// only check; otherwise the first total less the buffers alive at it is Base.
// Totals that do not fit are counted as a loss. A total of occupied bytes can
// check nothing while the size of a live buffer is inferred.
func (b *Builder) solveBase(s *Space) {
	level := map[Measure]int64{}
	inferred, next := 0, 0
	solved := s.Facts&EndState != 0 || s.Base != 0
	check := func(until int64) {
		for ; next < len(s.Totals) && s.Totals[next].T < until; next++ {
			t := s.Totals[next]
			if t.Measure != Requested && inferred > 0 {
				continue
			}
			gap := t.Bytes - s.Base - level[t.Measure]
			if !solved {
				s.Base, solved = max(gap, 0), true
				continue
			}
			if gap != 0 && t.Measure != OccupiedLessPending {
				b.Lose(TotalMismatch, 1, max(gap, -gap), fmt.Sprintf("%s: %d reported, %d seen", s.ID(), t.Bytes, t.Bytes-gap))
			}
		}
	}
	if len(s.Totals) == 0 {
		return
	}
	for c := range s.Changes() {
		check(c.T)
		buf := &s.Buffers[c.Buffer]
		sign := int64(1)
		if !c.Begin {
			sign = -1
		}
		level[Requested] += sign * buf.Requested
		level[Occupied] += sign * buf.Size
		level[OccupiedLessPending] += sign * buf.Size
		if buf.Edge&SizeInferred != 0 {
			inferred += int(sign)
		}
	}
	check(math.MaxInt64)
}
