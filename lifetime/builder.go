package lifetime

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
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

	sites    interned[Site, SiteID]
	stacks   stackTable
	frames   interned[Frame, FrameID]
	notes    interned[string, NoteID]
	frameIDs []FrameID // the chunk that the next stack is cut from
	losses   map[Reason]*Loss

	forgotten int      // of spaces
	beyond    int64    // spaces that were asked for beyond MaxSpaces
	discarded SpaceRef // stands for all of them; 0 = there were none so far

	keepReports  bool
	keepCalls    bool
	peakAndEnd   bool // of the buffers, keep those alone
	keepAll      bool // until a space is complete
	noOperations bool
}

// SpaceRef names a space of a Builder.
type SpaceRef int

// NewBuilder returns a Builder for one capture.
func NewBuilder() *Builder {
	c := &Capture{Sites: make([]Site, 1), Stacks: make([][]FrameID, 1), Frames: make([]Frame, 1), Notes: make([]string, 1)}
	return &Builder{
		capture: c,
		sites:   newInterned[Site, SiteID](&c.Sites),
		frames:  newInterned[Frame, FrameID](&c.Frames),
		notes:   newInterned[string, NoteID](&c.Notes),
		losses:  map[Reason]*Loss{},
	}
}

// Source adds an input file and returns its index.
func (b *Builder) Source(s Source) int {
	b.capture.Sources = append(b.capture.Sources, s)
	return len(b.capture.Sources) - 1
}

// MaxSpaces bounds the spaces of a capture: each costs some kilobytes, and a record
// of a few bytes can ask for one. No program has as many devices and allocators.
const MaxSpaces = 10_000

// Space adds a space. Many formats name a space after its events: Describe
// follows later. A space that is never described is left out. Beyond MaxSpaces all
// are one, of which nothing is kept but a TooManySpaces loss.
func (b *Builder) Space() SpaceRef {
	if len(b.spaces)-b.forgotten >= MaxSpaces {
		if b.beyond++; b.discarded != 0 {
			return b.discarded
		}
		b.discarded = SpaceRef(len(b.spaces))
		b.forgotten++ // it takes no room
	}
	log := newSpaceLog(b)
	log.discard = b.discarded != 0 && b.discarded == SpaceRef(len(b.spaces))
	b.spaces = append(b.spaces, log)
	return SpaceRef(len(b.spaces) - 1)
}

// InOrder promises that the events of a space come in order of time (equal
// times included): they are then paired as they come, and not kept.
func (b *Builder) InOrder(space SpaceRef) { b.spaces[space].inOrder = true }

// ReportsInOrder is InOrder, and promises that the buffers of the space come by
// Report alone.
func (b *Builder) ReportsInOrder(space SpaceRef) {
	b.InOrder(space)
	if log := b.spaces[space]; b.peakAndEnd && !b.keepAll && !log.discard {
		log.fold = &fold{log: log}
	}
}

// Describe sets who and where a space is: the fields of s up to Facts, Limit
// and, when they are known beforehand, the window, Base and the numbers of
// allocations and frees. A fact that no event backs (EndState, Clock) must
// stand there; the others are derived.
func (b *Builder) Describe(space SpaceRef, s Space) {
	log := b.spaces[space]
	if log.discard {
		return
	}
	s.Values, s.Reports, s.Stack = log.desc.Values, log.desc.Reports, log.desc.Stack
	log.desc = s
	log.described = true
}

// StackReserved records how many bytes are set aside beside the heap from t on.
func (b *Builder) StackReserved(space SpaceRef, t, bytes int64) {
	b.spaces[space].add(event{op: opStack, t: t, size: max(bytes, 0)})
}

// Frame interns a frame.
func (b *Builder) Frame(f Frame) FrameID { return b.frames.id(f) }

// Stack interns a call stack, leaf first; an empty one is 0. frames is not
// kept.
func (b *Builder) Stack(frames []FrameID) StackID {
	if len(frames) == 0 {
		return 0
	}
	slot := b.stacks.slot(frames, b.capture.Stacks)
	if *slot == 0 {
		b.capture.Stacks = append(b.capture.Stacks, b.keep(frames))
		*slot = StackID(len(b.capture.Stacks) - 1)
	}
	return *slot
}

// stackTable finds the ID of a stack: an open-addressing hash table of IDs,
// since the frames themselves stand in Capture.Stacks. A map would need a key
// of its own for each stack, and this is asked once per event.
type stackTable struct {
	ids  []StackID // length a power of two, at most half full
	seed uint64    // no file can be made to collide
}

// slot returns where the ID of frames stands, or is to be put (0). stacks are
// all stacks so far.
func (t *stackTable) slot(frames []FrameID, stacks [][]FrameID) *StackID {
	if 2*len(stacks) >= len(t.ids) {
		if t.ids == nil {
			t.seed = rand.Uint64()
		}
		t.ids = make([]StackID, max(1024, 2*len(t.ids)))
		for id := 1; id < len(stacks); id++ {
			*t.probe(stacks[id], stacks) = StackID(id)
		}
	}
	return t.probe(frames, stacks)
}

func (t *stackTable) probe(frames []FrameID, stacks [][]FrameID) *StackID {
	const prime = 0x9E3779B97F4A7C15
	h := t.seed ^ uint64(len(frames))
	rest := frames
	for ; len(rest) >= 2; rest = rest[2:] {
		h = (h ^ uint64(rest[0])<<32 ^ uint64(rest[1])) * prime
		h ^= h >> 29
	}
	if len(rest) > 0 {
		h = (h ^ uint64(rest[0])) * prime
		h ^= h >> 29
	}
	mask := uint64(len(t.ids) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		if id := t.ids[i]; id == 0 || slices.Equal(stacks[id], frames) {
			return &t.ids[i]
		}
	}
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
func (b *Builder) Site(s Site) SiteID { return b.sites.id(s) }

// Note interns a text of the program about a buffer; "" is 0.
func (b *Builder) Note(text string) NoteID { return b.notes.id(text) }

// interned finds the ID of a value in a table: an open-addressing hash table of
// IDs, since a map would hold all values a second time.
type interned[T comparable, ID ~uint32] struct {
	seed  maphash.Seed     // no file can be made to collide
	slots []internedID[ID] // length a power of two, at most half full
	all   *[]T             // entry 0 stands for "none"
}

// internedID is an ID and the lower half of its value's hash, which saves most
// looks at other values, and hashing them again when the table grows.
type internedID[ID ~uint32] struct {
	hash uint32
	id   ID // 0 is free
}

func newInterned[T comparable, ID ~uint32](all *[]T) interned[T, ID] {
	return interned[T, ID]{seed: maphash.MakeSeed(), slots: make([]internedID[ID], 64), all: all}
}

// id returns the index of v in the table, where it is put when it is new.
func (t *interned[T, ID]) id(v T) ID {
	if v == (*t.all)[0] {
		return 0
	}
	hash := uint32(maphash.Comparable(t.seed, v))
	mask := uint32(len(t.slots) - 1)
	i := hash & mask
	for ; t.slots[i].id != 0; i = (i + 1) & mask {
		if s := t.slots[i]; s.hash == hash && (*t.all)[s.id] == v {
			return s.id
		}
	}
	id := ID(len(*t.all))
	*t.all = append(*t.all, v)
	t.slots[i] = internedID[ID]{hash, id}
	if 2*len(*t.all) > len(t.slots) {
		t.grow()
	}
	return id
}

func (t *interned[T, ID]) grow() {
	old := t.slots
	t.slots = make([]internedID[ID], 2*len(old))
	mask := uint32(len(t.slots) - 1)
	for _, s := range old {
		if s.id == 0 {
			continue
		}
		i := s.hash & mask
		for ; t.slots[i].id != 0; i = (i + 1) & mask {
		}
		t.slots[i] = s
	}
}

// size takes a size in bytes. One below zero is a loss.
func (b *Builder) size(n int64) int64 {
	if n < 0 {
		b.Lose(OddSize, 1, 0, fmt.Sprintf("%d bytes", n))
		return 0
	}
	return n
}

// Alloc records that size bytes at addr were allocated at t. occupied is 0
// when the capture does not tell; it is then requested rounded up to 512, the
// granularity of the caching allocators of PyTorch.
func (b *Builder) Alloc(space SpaceRef, t int64, addr uint64, requested, occupied int64, site SiteID) {
	b.spaces[space].add(event{op: opAlloc, t: t, addr: addr, size: b.size(requested), occupied: b.size(occupied), site: site})
}

// FreeRequested records that the program gave the block at addr back; the
// allocator may reuse it only after Free.
func (b *Builder) FreeRequested(space SpaceRef, t int64, addr uint64, requested int64, site SiteID) {
	b.spaces[space].add(event{op: opFreeRequested, t: t, addr: addr, size: b.size(requested), site: site})
}

// Free records that the block at addr ended at t. requested is its size when
// the event has it, else 0.
func (b *Builder) Free(space SpaceRef, t int64, addr uint64, requested int64, site SiteID) {
	b.spaces[space].add(event{op: opFree, t: t, addr: addr, size: b.size(requested), site: site})
}

// Annotate attaches a text to the buffer that lives at addr at t.
func (b *Builder) Annotate(space SpaceRef, t int64, addr uint64, note NoteID) {
	b.spaces[space].add(event{op: opNote, t: t, addr: addr, size: int64(note)})
}

// Live records a block of the end state. A space whose description has the
// fact EndState was alive with these blocks and no others when its history
// ended.
func (b *Builder) Live(space SpaceRef, l LiveBlock) {
	l.Requested, l.Occupied = b.size(l.Requested), b.size(l.Occupied)
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
	b.spaces[space].add(event{op: opReserve, t: t, addr: addr, size: b.size(size), site: site})
}

// Release records that the allocator gave [addr, addr+size) back. It need not
// match one Reserve: ranges split and join.
func (b *Builder) Release(space SpaceRef, t int64, addr uint64, size int64) {
	b.spaces[space].add(event{op: opRelease, t: t, addr: addr, size: b.size(size)})
}

// LiveRegion records reserved memory of the end state. Addr, Size, Site, Kind,
// Stream and Pool of r are used.
func (b *Builder) LiveRegion(space SpaceRef, r Region) {
	r.Size = b.size(r.Size)
	log := b.spaces[space]
	log.liveRegions = append(log.liveRegions, r)
}

// Interval records a buffer whose begin and end are both known, edges included.
// A space is given Intervals or events, not both.
func (b *Builder) Interval(space SpaceRef, buf Buffer, beside Beside) {
	log := b.spaces[space]
	log.intervals = append(log.intervals, interval{buf, beside})
}

// Beside is what the optional columns of a space say of a buffer; zero is
// nothing.
type Beside struct {
	FreeSite SiteID
	Note     NoteID
	ValueID  int64
	IsValue  bool // ValueID is one
}

type interval struct {
	buf    Buffer
	beside Beside
}

// Value records a logical buffer of a compiled program.
func (b *Builder) Value(space SpaceRef, v Value) {
	log := b.spaces[space]
	log.desc.Values = append(log.desc.Values, v)
}

// Region records reserved memory whose begin and end are both known.
func (b *Builder) Region(space SpaceRef, r Region) {
	b.spaces[space].regions.regions = append(b.spaces[space].regions.regions, r)
}

// Total records what the producer said was allocated, after the events that
// were recorded before it.
func (b *Builder) Total(space SpaceRef, t Total) {
	log := b.spaces[space]
	if log.fold != nil {
		t.T = max(t.T, log.last)
		log.fold.total(&t)
		return
	}
	log.totals.add(t)
	log.add(event{op: opTotal, t: t.T, size: int64(log.totals.n - 1)})
}

// Delta records that bytes more (or, below zero, less) were allocated, by whom
// and where is not told. A space is given Deltas or other events, not both.
func (b *Builder) Delta(space SpaceRef, t, bytes int64) {
	b.spaces[space].add(event{op: opDelta, t: t, size: bytes})
}

// Mark records a point or range. A point keeps its place between the events
// that were recorded before and after it.
func (b *Builder) Mark(space SpaceRef, m Mark) {
	m.End = max(m.End, m.Begin)
	log := b.spaces[space]
	log.marks = append(log.marks, m)
	if m.Begin == m.End {
		log.add(event{op: opMark, t: m.Begin, size: int64(len(log.marks) - 1)})
	}
}

// maxMarks bounds what MarkAll copies: a file may name a million marks and as
// many spaces.
const maxMarks = 1 << 20

// MarkAll records marks of the whole program in each of some spaces. Spaces for
// which all copies together would be too many are left without.
func (b *Builder) MarkAll(spaces []SpaceRef, marks []Mark) {
	room := maxMarks
	for _, space := range spaces {
		if room -= len(marks); room < 0 {
			return
		}
		for _, m := range marks {
			b.Mark(space, m)
		}
	}
}

// HistoryCut says that the history of a space ends before its end state was
// taken: the two cannot be reconciled in full.
func (b *Builder) HistoryCut(space SpaceRef) { b.spaces[space].cut = true }

// RingFull says that the history of a space has as many events as its recorder
// keeps: if there are older buffers, it is because events were dropped.
func (b *Builder) RingFull(space SpaceRef) { b.spaces[space].ringFull = true }

// Numbered says that the addresses of a space are numbers that only tell its
// buffers apart: they are not kept.
func (b *Builder) Numbered(space SpaceRef) { b.spaces[space].numbered = true }

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
	l.Bytes = AddSat(l.Bytes, bytes)
}

// Finish makes the model. The Builder must not be used afterwards. It fails
// only when no source or no space was added.
func (b *Builder) Finish() (*Capture, error) {
	if len(b.capture.Sources) == 0 {
		return nil, errors.New("no source")
	}
	if b.beyond > 0 {
		b.Lose(TooManySpaces, b.beyond, 0, "")
	}
	made := make([]*Space, len(b.spaces)) // by SpaceRef
	for i, log := range b.spaces {
		if log.described {
			made[i] = log.finish()
			if b.peakAndEnd {
				made[i].keepPeakAndEnd()
			}
			b.capture.Spaces = append(b.capture.Spaces, made[i])
		}
		b.spaces[i] = nil // the log may be as large as the model: let it go
	}
	sort.SliceStable(b.capture.Spaces, func(i, j int) bool {
		x, y := b.capture.Spaces[i], b.capture.Spaces[j]
		if x.Source != y.Source {
			return x.Source < y.Source
		}
		return x.ID() < y.ID()
	})
	b.settleCalls(made)
	for _, l := range b.losses {
		b.capture.Losses = append(b.capture.Losses, *l)
	}
	slices.SortFunc(b.capture.Operations, func(x, y Operation) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	sort.Slice(b.capture.Losses, func(i, j int) bool {
		x, y := b.capture.Losses[i], b.capture.Losses[j]
		if sx, sy := x.Reason.Severity(), y.Reason.Severity(); sx != sy {
			return sx > sy
		}
		return x.Reason < y.Reason
	})
	return b.capture, nil
}
