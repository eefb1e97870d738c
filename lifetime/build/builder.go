package build

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// Builder takes the facts of a capture in any order and makes the model of
// them. Readers do not pair, sort or repair: the Builder does. Make one with New.
//
// Times may repeat and go back; at the end the events of a space are brought in
// order of time (equal times keep the order in which they arrived) and made
// strictly increasing, so that no result depends on a tie.
type Builder struct {
	keep    Keep
	capture *lifetime.Capture
	spaces  []*spaceLog

	sites  interned[lifetime.Site, lifetime.SiteID]
	frames interned[lifetime.Frame, lifetime.FrameID]
	notes  interned[string, lifetime.NoteID]
	stacks stacks
	losses map[loss.Reason]*loss.Loss

	forgotten int      // of spaces
	beyond    int64    // spaces that were made beyond MaxSpaces
	discarded SpaceRef // stands for all of them; 0 = there were none so far

	keepAll bool // until a space is complete
}

// Keep is a set of what a Builder keeps beside the buffers.
type Keep uint8

const (
	Operations Keep = 1 << iota // sums of the calls of operations: they take time that goes with the calls, not with the memory
	Calls                       // the calls of functions one by one: there may be millions
	Reports                     // what allocators reported, in place of buffers

	// PeakAndEnd keeps of the buffers those alone that are alive at the peak or at
	// the end. FinishOutline makes what can be asked of them.
	PeakAndEnd

	Everything = Operations | Calls
)

// SpaceRef names a space of a Builder.
type SpaceRef int

// New returns a Builder for one capture.
func New(keep Keep) *Builder {
	c := &lifetime.Capture{}
	b := &Builder{
		keep: keep, capture: c,
		sites:  newInterned[lifetime.Site, lifetime.SiteID](&c.Sites),
		frames: newInterned[lifetime.Frame, lifetime.FrameID](&c.Frames),
		notes:  newInterned[string, lifetime.NoteID](&c.Notes),
		losses: map[loss.Reason]*loss.Loss{},
	}
	b.stacks.nodes = newInterned[lifetime.Stack, lifetime.StackID](&c.Stacks)
	return b
}

// Keeps reports whether what is asked for in k is kept: readers leave out the work
// for what is not.
func (b *Builder) Keeps(k Keep) bool { return b.keep&k != 0 }

// Source adds an input file and returns its index.
func (b *Builder) Source(s lifetime.Source) int {
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
	if log := b.spaces[space]; b.Keeps(PeakAndEnd) && !b.keepAll && !log.discard {
		log.fold = &fold{log: log}
	}
}

// Describe says which memory a space is: the fields of s up to Facts, Limit
// and, when they are known beforehand, the window, Base and the numbers of
// allocations and frees. A fact that no event backs (EndState, Clock) must
// stand there; the others are derived.
func (b *Builder) Describe(space SpaceRef, s lifetime.SpaceInfo) {
	log := b.spaces[space]
	if log.discard {
		return
	}
	log.space.SpaceInfo = s
	log.described = true
}

// StackReserved records how many bytes are set aside beside the heap from t on.
func (b *Builder) StackReserved(space SpaceRef, t, bytes int64) {
	b.spaces[space].add(event{op: opStack, t: t, size: max(bytes, 0)})
}

// Frame interns a frame.
func (b *Builder) Frame(f lifetime.Frame) lifetime.FrameID { return b.frames.id(f) }

// Site interns a site.
func (b *Builder) Site(s lifetime.Site) lifetime.SiteID { return b.sites.id(s) }

// Note interns a text of the program about a buffer; "" is 0.
func (b *Builder) Note(text string) lifetime.NoteID { return b.notes.id(text) }

// size takes a size in bytes. One below zero is a loss.
func (b *Builder) size(n int64) int64 {
	if n < 0 {
		b.Lose(loss.OddSize, 1, 0, fmt.Sprintf("%d bytes", n))
		return 0
	}
	return n
}

// Block is a block of memory as an event records it, or the end state.
type Block struct {
	Addr      uint64
	Requested int64 // bytes
	Occupied  int64 // bytes that the allocator set aside
	Inferred  bool  // Occupied was computed from Requested
	Site      lifetime.SiteID
	Pending   bool // of the end state: its free was requested but not completed
}

// Alloc records that a block was allocated at t.
func (b *Builder) Alloc(space SpaceRef, t int64, block Block) { b.block(space, opAlloc, t, &block) }

// FreeRequested records that the program gave a block back, and where (Site); the
// allocator may reuse it only after Free.
func (b *Builder) FreeRequested(space SpaceRef, t int64, block Block) {
	b.block(space, opFreeRequested, t, &block)
}

// Free records that a block ended at t. Its sizes are those of the event, 0 where
// it has none; Site is where the program gave it back.
func (b *Builder) Free(space SpaceRef, t int64, block Block) { b.block(space, opFree, t, &block) }

func (b *Builder) block(space SpaceRef, op op, t int64, l *Block) {
	b.spaces[space].add(event{op: op, t: t, addr: l.Addr, size: b.size(l.Requested), occupied: b.size(l.Occupied), inferred: l.Inferred, site: l.Site})
}

// Annotate attaches a text to the buffer that lives at addr at t.
func (b *Builder) Annotate(space SpaceRef, t int64, addr uint64, note lifetime.NoteID) {
	b.spaces[space].add(event{op: opNote, t: t, addr: addr, size: int64(note)})
}

// Live records a block of the end state. A space whose description has the
// fact EndState was alive with these blocks and no others when its history
// ended.
func (b *Builder) Live(space SpaceRef, l Block) {
	l.Requested, l.Occupied = b.size(l.Requested), b.size(l.Occupied)
	log := b.spaces[space]
	log.live = append(log.live, l)
}

// Reserve records that the allocator took [addr, addr+size) from the device.
func (b *Builder) Reserve(space SpaceRef, t int64, addr uint64, size int64, site lifetime.SiteID) {
	b.spaces[space].add(event{op: opReserve, t: t, addr: addr, size: b.size(size), site: site})
}

// Release records that the allocator gave [addr, addr+size) back. It need not
// match one Reserve: ranges split and join.
func (b *Builder) Release(space SpaceRef, t int64, addr uint64, size int64) {
	b.spaces[space].add(event{op: opRelease, t: t, addr: addr, size: b.size(size)})
}

// LiveRegion records reserved memory of the end state. Addr, Size, Site, Kind,
// Stream and Pool of r are used.
func (b *Builder) LiveRegion(space SpaceRef, r lifetime.Region) {
	r.Size = b.size(r.Size)
	log := b.spaces[space]
	log.liveRegions = append(log.liveRegions, r)
}

// Interval records a buffer whose begin and end are both known, edges included.
// A space is given Intervals or events, not both.
func (b *Builder) Interval(space SpaceRef, v Interval) {
	log := b.spaces[space]
	log.intervals = append(log.intervals, v)
}

// Interval is a buffer with what the optional columns of a space hold of it; zero
// is nothing.
type Interval struct {
	lifetime.Buffer
	FreeSite lifetime.SiteID
	Note     lifetime.NoteID
	ValueID  *int64
}

// Value records a logical buffer of a compiled program.
func (b *Builder) Value(space SpaceRef, v lifetime.Value) {
	log := b.spaces[space]
	log.space.Values = append(log.space.Values, v)
}

// Region records reserved memory whose begin and end are both known.
func (b *Builder) Region(space SpaceRef, r lifetime.Region) {
	b.spaces[space].regions.regions = append(b.spaces[space].regions.regions, r)
}

// Total records what the producer said was allocated, after the events that
// were recorded before it.
func (b *Builder) Total(space SpaceRef, t lifetime.Total) {
	log := b.spaces[space]
	if log.fold != nil {
		t.T = max(t.T, log.last)
		log.fold.total(&t)
		return
	}
	log.totals.Add(t)
	log.add(event{op: opTotal, t: t.T, size: int64(log.totals.N - 1)})
}

// Delta records that bytes more (or, below zero, less) were allocated, by whom
// and where is not told. A space is given Deltas or other events, not both.
func (b *Builder) Delta(space SpaceRef, t, bytes int64) {
	b.spaces[space].add(event{op: opDelta, t: t, size: bytes})
}

// Mark records a point or range. A point keeps its place between the events
// that were recorded before and after it.
func (b *Builder) Mark(space SpaceRef, m lifetime.Mark) {
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
func (b *Builder) MarkAll(spaces []SpaceRef, marks []lifetime.Mark) {
	copies := 0
	for _, space := range spaces {
		if copies += len(marks); copies > maxMarks {
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

// Run records an execution of a compiled program; it is kept with reports.
func (b *Builder) Run(r lifetime.Run) {
	if b.Keeps(Reports) {
		b.capture.Runs = append(b.capture.Runs, r)
	}
}

// Operations adds the sums of operations. all is kept.
func (b *Builder) Operations(all ...lifetime.Operation) {
	if b.Keeps(Operations) {
		b.capture.Operations = append(b.capture.Operations, all...)
	}
}

// Lose counts something that is not in the model. where is kept for the first
// of each reason.
func (b *Builder) Lose(r loss.Reason, count, bytes int64, where string) {
	l := b.losses[r]
	if l == nil {
		l = &loss.Loss{Reason: r, First: where}
		b.losses[r] = l
	}
	l.Count += count
	l.Bytes = lifetime.AddSat(l.Bytes, bytes)
}

// StartOver is for readers that can read a space twice: it reports whether rules
// that look back need more of any of the spaces than PeakAndEnd kept. Read then
// again into other spaces, which are kept whole until they are complete, and give
// these to Forget.
func (b *Builder) StartOver(spaces ...SpaceRef) bool {
	for _, space := range spaces {
		if f := b.spaces[space].fold; f != nil && f.unsure() {
			b.keepAll = true
			return true
		}
	}
	return false
}

// Forget lets go of what was recorded for a space that will not be described.
func (b *Builder) Forget(space SpaceRef) {
	if b.spaces[space].discard {
		b.beyond--
		return
	}
	b.spaces[space] = newSpaceLog(b)
	b.forgotten++
}

// Finish makes the model. The Builder must not be used afterwards. It fails
// when no source was added, or when buffers are gone that PeakAndEnd did not keep.
func (b *Builder) Finish() (*lifetime.Capture, error) {
	for _, log := range b.spaces {
		if log.described && log.fold != nil {
			return nil, errors.New("only the peak and the end were kept")
		}
	}
	made := make([]*lifetime.Space, len(b.spaces)) // by SpaceRef
	err := b.finish(func(i int, log *spaceLog) {
		made[i] = log.finish()
		b.capture.Spaces = append(b.capture.Spaces, made[i])
	})
	if err != nil {
		return nil, err
	}
	sortSpaces(b.capture.Spaces, func(s *lifetime.Space) *lifetime.SpaceInfo { return &s.SpaceInfo })
	b.settleCalls(made)
	slices.SortFunc(b.capture.Operations, func(x, y lifetime.Operation) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	return b.capture, nil
}

// FinishOutline makes what is known of the peak and the end of each space, whatever
// was kept. The Builder must not be used afterwards. It fails when no source was
// added.
func (b *Builder) FinishOutline() (*lifetime.Outline, error) {
	o := &lifetime.Outline{}
	err := b.finish(func(_ int, log *spaceLog) {
		space := log.finish()
		if log.fold != nil {
			o.Spaces = append(o.Spaces, log.fold.outline(space))
		} else {
			o.Spaces = append(o.Spaces, space.Outline())
		}
	})
	o.Tables = b.capture.Tables
	sortSpaces(o.Spaces, func(s *lifetime.SpaceOutline) *lifetime.SpaceInfo { return &s.SpaceInfo })
	return o, err
}

// finish lets take make each space that was described, and settles the losses.
func (b *Builder) finish(take func(i int, log *spaceLog)) error {
	if len(b.capture.Sources) == 0 {
		return errors.New("no source")
	}
	if b.beyond > 0 {
		b.Lose(loss.TooManySpaces, b.beyond, 0, "")
	}
	b.stacks.known = nil // as large as the stacks
	for i, log := range b.spaces {
		if log.described {
			take(i, log)
		}
		b.spaces[i] = nil // the log may be as large as the model: let it go
	}
	for _, l := range b.losses {
		b.capture.Losses = append(b.capture.Losses, *l)
	}
	slices.SortFunc(b.capture.Losses, func(x, y loss.Loss) int {
		return cmp.Or(cmp.Compare(y.Reason.Class(), x.Reason.Class()), cmp.Compare(x.Reason, y.Reason))
	})
	return nil
}

// sortSpaces puts spaces in order of their source, then of their ID.
func sortSpaces[S any](spaces []S, info func(S) *lifetime.SpaceInfo) {
	slices.SortStableFunc(spaces, func(x, y S) int {
		return cmp.Or(cmp.Compare(info(x).Source, info(y).Source), cmp.Compare(info(x).ID(), info(y).ID()))
	})
}
