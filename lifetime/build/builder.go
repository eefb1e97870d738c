package build

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/internal/interned"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/outline"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Builder makes the model of a capture. It sorts, pairs and repairs the events, so readers do not. Make one with New.
//
// Times may repeat and go backwards. The Builder sorts the events of a space by time, equal times in order of arrival,
// and makes times strictly increasing. So no result depends on a tie.
type Builder struct {
	keep    Keep
	capture *lifetime.Capture
	spaces  []*spaceLog

	sites  interned.Table[lifetime.Site, lifetime.SiteID]
	frames interned.Table[frame.Frame, lifetime.FrameID]
	notes  interned.Table[string, lifetime.NoteID]
	held   interned.Table[holder.Holder, lifetime.HolderID]
	stacks stacks
	losses map[loss.Reason]*loss.Loss

	forgotten int      // number of spaces that take no memory
	beyond    int64    // number of spaces beyond MaxSpaces
	discarded SpaceRef // stands for all of these; 0 = none so far

	keepAll bool // ignore PeakAndEnd; see StartOver
}

// Keep is the set of data that a Builder keeps.
type Keep uint8

const (
	Operations Keep = 1 << iota // sums of the calls of operations; reading time grows with the calls
	Calls                       // single calls of functions; there may be millions
	Reports                     // the reports of allocators, instead of buffers
	XProf                       // compiled programs as XProf shows them: buffers are not cut where another one takes over their memory

	// PeakAndEnd keeps only the buffers that are alive at the peak or at the end. FinishOutline returns them.
	PeakAndEnd

	Everything = Operations | Calls
)

// SpaceRef names a space of a Builder.
type SpaceRef int

// New returns a Builder for one capture.
func New(keep Keep) *Builder {
	c := &lifetime.Capture{Tables: lifetime.Tables{Purposes: make([]purpose.Purpose, 1), Read: make(chan any, 1)}}
	b := &Builder{
		keep: keep, capture: c,
		sites:  interned.New[lifetime.Site, lifetime.SiteID](&c.Sites),
		frames: interned.New[frame.Frame, lifetime.FrameID](&c.Frames),
		notes:  interned.New[string, lifetime.NoteID](&c.Notes),
		held:   interned.New[holder.Holder, lifetime.HolderID](&c.Holders),
		losses: map[loss.Reason]*loss.Loss{},
	}
	b.stacks.nodes = interned.New[lifetime.Stack, lifetime.StackID](&c.Stacks)
	return b
}

// Keeps reports whether any data of k is kept. Readers skip other data.
func (b *Builder) Keeps(k Keep) bool { return b.keep&k != 0 }

// Source adds an input file and returns its index.
func (b *Builder) Source(s lifetime.Source) int {
	b.capture.Sources = append(b.capture.Sources, s)
	return len(b.capture.Sources) - 1
}

// Setting adds a setting of the allocator to a source.
func (b *Builder) Setting(source int, s lifetime.Setting) {
	to := &b.capture.Sources[source]
	to.Settings = append(to.Settings, s)
}

// Group adds a process group to a source.
func (b *Builder) Group(source int, g lifetime.Group) {
	to := &b.capture.Sources[source]
	to.Groups = append(to.Groups, g)
}

// MaxSpaces limits the spaces of a capture. A record of a few bytes can add a space, but
// each takes some kilobytes. No program has so many devices and allocators.
const MaxSpaces = 10_000

// Space adds a space. Call Describe before or after its events; a space without it is
// left out. Spaces beyond MaxSpaces are discarded and counted as a TooManySpaces loss.
func (b *Builder) Space() SpaceRef {
	if len(b.spaces)-b.forgotten >= MaxSpaces {
		if b.beyond++; b.discarded != 0 {
			return b.discarded
		}
		b.discarded = SpaceRef(len(b.spaces))
		b.forgotten++ // it does not count towards MaxSpaces
	}
	log := newSpaceLog(b)
	log.discard = b.discarded != 0 && b.discarded == SpaceRef(len(b.spaces))
	b.spaces = append(b.spaces, log)
	return SpaceRef(len(b.spaces) - 1)
}

// InOrder declares that the events of a space come in order of time; times may be equal. The Builder then pairs them at once and does not keep them.
func (b *Builder) InOrder(space SpaceRef) { b.spaces[space].inOrder = true }

// ReportsInOrder is InOrder for a space whose buffers come from Report only.
func (b *Builder) ReportsInOrder(space SpaceRef) {
	b.InOrder(space)
	if log := b.spaces[space]; b.Keeps(PeakAndEnd) && !b.keepAll && !log.discard {
		log.fold = &fold{log: log, open: map[uint64]int{}}
	}
}

// Describe sets the SpaceInfo of a space. If s has a window, the Builder uses s as it is. Otherwise it derives the window, Base and the numbers of
// allocations and frees. It also derives the Facts except EndState and Clock, which must be in s.
func (b *Builder) Describe(space SpaceRef, s lifetime.SpaceInfo) {
	log := b.spaces[space]
	if log.discard {
		return
	}
	log.space.SpaceInfo = s
	log.described = true
}

// StackReserved records that bytes are reserved outside the heap from t on.
func (b *Builder) StackReserved(space SpaceRef, t, bytes int64) {
	b.spaces[space].add(event{op: opStack, t: t, size: max(bytes, 0)})
}

// Frame interns a frame. Its line and column are limited to what every output can write.
func (b *Builder) Frame(f frame.Frame) lifetime.FrameID {
	f.Line, f.Column = min(max(f.Line, 0), math.MaxInt32), min(max(f.Column, 0), math.MaxInt32)
	return b.frames.ID(f)
}

// Reclassify changes the kind of a frame, when a later part of the file tells it.
func (b *Builder) Reclassify(frame lifetime.FrameID, kind frame.Kind) {
	b.capture.Frames[frame].Kind = kind
}

// FreesName declares that allocations have stacks: the buffers of a space from before the window are then named as
// such, and by where they were freed if that has a stack (lifetime.Site.Unseen). Call it before the first event.
func (b *Builder) FreesName(space SpaceRef) {
	b.spaces[space].freesName = true
	b.Site(lifetime.Site{Unseen: true}) // before all others, so that sites have the same numbers if only the peak and end are kept
}

// OperatorOf returns the operator that allocated at a stack; see lifetime.Tables.
func (b *Builder) OperatorOf(stack lifetime.StackID) string { return b.capture.OperatorOf(stack) }

// Site interns a site.
func (b *Builder) Site(s lifetime.Site) lifetime.SiteID { return b.sites.ID(s) }

// Note interns the program's text about a buffer; "" is 0.
func (b *Builder) Note(text string) lifetime.NoteID { return b.notes.ID(text) }

// Holder interns a holder.
func (b *Builder) Holder(h holder.Holder) lifetime.HolderID { return b.held.ID(h) }

// Hold records what holds the buffer that has addr in it at the end.
func (b *Builder) Hold(space SpaceRef, addr uint64, holder lifetime.HolderID) {
	log := b.spaces[space]
	log.held = append(log.held, held{addr, holder})
}

// size returns n, or 0 and counts a loss if n is negative.
func (b *Builder) size(n int64) int64 {
	if n < 0 {
		b.Lose(loss.InvalidSize, 1, 0, fmt.Sprintf("%d bytes", n))
		return 0
	}
	return n
}

// Block is a block of memory in an event or in the end state. Sizes are bytes. If only one size is known, Requested and Occupied are both that size.
type Block struct {
	Addr      uint64
	Requested int64
	Occupied  int64
	Site      lifetime.SiteID
	Inferred  bool // Occupied was computed from Requested
	Pending   bool // end state only: its free was requested but not completed
}

// Alloc records that a block was allocated at t, in the unit of the Axis of the space: nanoseconds unless Describe sets another.
func (b *Builder) Alloc(space SpaceRef, t int64, block Block) { b.block(space, opAlloc, t, &block) }

// FreeRequested records that the program freed a block at t, and the Site of the free. The allocator may reuse the block only after Free.
func (b *Builder) FreeRequested(space SpaceRef, t int64, block Block) {
	b.block(space, opFreeRequested, t, &block)
}

// Free records that a block ended at t. Site is the site of the free; it also names a buffer whose
// allocation was not recorded. Sizes are 0 if the event has none.
func (b *Builder) Free(space SpaceRef, t int64, block Block) { b.block(space, opFree, t, &block) }

func (b *Builder) block(space SpaceRef, op op, t int64, l *Block) {
	b.spaces[space].add(event{op: op, t: t, addr: l.Addr, size: b.size(l.Requested), occupied: b.size(l.Occupied),
		inferred: l.Inferred, site: l.Site})
}

// Annotate attaches a note to the buffer that is alive at addr at t.
func (b *Builder) Annotate(space SpaceRef, t int64, addr uint64, note lifetime.NoteID) {
	b.spaces[space].add(event{op: opNote, t: t, addr: addr, size: int64(note)})
}

// Live records a block of the end state. If the facts of a space include EndState, no other blocks were alive at its end.
func (b *Builder) Live(space SpaceRef, l Block) {
	l.Requested, l.Occupied = b.size(l.Requested), b.size(l.Occupied)
	b.spaces[space].live.Add(l)
}

// Reserve records that the allocator took a region from the device at t. It uses Addr, Size, Site, Kind, Small, Stream,
// Pool and PoolUnknown of r. If the region is in the end state, LiveRegion decides about the last five.
func (b *Builder) Reserve(space SpaceRef, t int64, r lifetime.Region) {
	b.region(space, opReserve, t, &r)
}

// Release records that the allocator returned a region to the device at t. The range may be a part of a Reserve, or
// cover several. The fields that Reserve uses, except Site, describe the parts that were reserved before the window.
func (b *Builder) Release(space SpaceRef, t int64, r lifetime.Region) {
	b.region(space, opRelease, t, &r)
}

func (b *Builder) region(space SpaceRef, op op, t int64, r *lifetime.Region) {
	log := b.spaces[space]
	log.add(event{op: op, t: t, addr: r.Addr, size: b.size(r.Size), occupied: log.regions.class(r), site: r.Site})
}

// LiveRegion records reserved memory of the end state. It uses the fields that Reserve uses.
func (b *Builder) LiveRegion(space SpaceRef, r lifetime.Region) {
	r.Size = b.size(r.Size)
	log := b.spaces[space]
	log.liveRegions = append(log.liveRegions, r)
}

// Grow prepares a space for numbers of marks, intervals and values that a reader has counted.
func (b *Builder) Grow(space SpaceRef, marks, intervals, values int) {
	log := b.spaces[space]
	log.marks = slices.Grow(log.marks, marks)
	log.intervals = slices.Grow(log.intervals, intervals)
	log.space.Values = slices.Grow(log.space.Values, values)
}

// GrowStacks prepares for n more calls of stacks, and frames more frames.
func (b *Builder) GrowStacks(n, frames int) {
	b.stacks.nodes.Grow(n)
	b.frames.Grow(frames)
}

// Stacks returns the number of calls of stacks so far, and of frames.
func (b *Builder) Stacks() (n, frames int) { return len(b.capture.Stacks), len(b.capture.Frames) }

// GrowSites prepares for n more sites.
func (b *Builder) GrowSites(n int) { b.sites.Grow(n) }

// Interval records a buffer with known begin, end and edges. Use either Intervals or events for a space, not both.
func (b *Builder) Interval(space SpaceRef, v Interval) {
	log := b.spaces[space]
	log.intervals = append(log.intervals, v)
}

// Interval is a buffer with its entries in the optional columns; 0 and nil = none.
type Interval struct {
	lifetime.Buffer
	FreeSite    lifetime.SiteID
	Note        lifetime.NoteID
	Holder      lifetime.HolderID
	ValueID     *int64
	FreeRequest *int64
}

// Value records a logical buffer of a compiled program.
func (b *Builder) Value(space SpaceRef, v lifetime.Value) {
	log := b.spaces[space]
	log.space.Values = append(log.space.Values, v)
}

// Region records reserved memory with known begin and end.
func (b *Builder) Region(space SpaceRef, r lifetime.Region) {
	b.spaces[space].regions.regions = append(b.spaces[space].regions.regions, r)
}

// Total records a total that the producer reported after the preceding events.
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

// Delta records that usage changed by bytes, without address and site. Use either Deltas or other events for a space, not both.
func (b *Builder) Delta(space SpaceRef, t, bytes int64) {
	b.spaces[space].add(event{op: opDelta, t: t, size: bytes})
}

// Mark records a point or range. A point keeps its position among the events. Only marks about failures have free bytes.
func (b *Builder) Mark(space SpaceRef, m lifetime.Mark) {
	m.End, m.Requested = max(m.End, m.Begin), b.size(m.Requested)
	if m.Kind != lifetime.OOM && m.Failure == nil {
		m.Free = failure.Bytes{}
	}
	log := b.spaces[space]
	log.marks = append(log.marks, m)
	if m.Begin == m.End {
		log.add(event{op: opMark, t: m.Begin, size: int64(len(log.marks) - 1)})
	}
}

// maxMarks limits the copies of MarkAll: a file may have a million marks and many spaces.
const maxMarks = 1 << 20

// MarkAll records marks of the whole program in each space. It stops before the space with which the copies would exceed maxMarks.
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

// HistoryTruncated declares that the history of a space is truncated: it ends before the end state was recorded, so the two may differ.
func (b *Builder) HistoryTruncated(space SpaceRef) { b.spaces[space].cut = true }

// RingFull declares that the ring buffer of a space was full. Buffers from before the window then count as a RingOverflow loss.
func (b *Builder) RingFull(space SpaceRef) { b.spaces[space].ringFull = true }

// Numbered declares that the addresses of a space only identify its buffers. They are not kept.
func (b *Builder) Numbered(space SpaceRef) { b.spaces[space].numbered = true }

// NoHistory declares that the events of a space, if any, are not a history.
func (b *Builder) NoHistory(space SpaceRef) { b.spaces[space].noHistory = true }

// Run records an execution of a compiled program, if Reports are kept.
func (b *Builder) Run(r lifetime.Run) {
	if b.Keeps(Reports) {
		b.capture.Runs = append(b.capture.Runs, r)
	}
}

// OperationKinds are the values of Operation.Kind in the order of Capture.Operations.
var OperationKinds = []string{"operator", "range", "function", "runtime"}

// Operations adds operations, if Operations are kept.
func (b *Builder) Operations(all ...lifetime.Operation) {
	if b.Keeps(Operations) {
		b.capture.Operations = append(b.capture.Operations, all...)
	}
}

// Lose counts a loss. The first place of each reason is kept.
func (b *Builder) Lose(r loss.Reason, count, bytes int64, where string) {
	l := b.losses[r]
	if l == nil {
		l = &loss.Loss{Reason: r, First: where}
		b.losses[r] = l
	}
	l.Count += count
	l.Bytes = units.AddSat(l.Bytes, bytes)
}

// StartOver is for readers that can read a space twice. It reports whether the model of any of the spaces needs buffers that PeakAndEnd did not keep. Then
// call Forget for these spaces and read them again into new ones, which keep all buffers.
func (b *Builder) StartOver(spaces ...SpaceRef) bool {
	for _, space := range spaces {
		if f := b.spaces[space].fold; f != nil && (f.lost || f.totals.any && f.initial < f.older.Bytes) { // the model needs buffers that were not kept
			b.keepAll = true
			return true
		}
	}
	return false
}

// Forget drops the data of a space that will not be described.
func (b *Builder) Forget(space SpaceRef) {
	if b.spaces[space].discard {
		b.beyond--
		return
	}
	b.spaces[space] = newSpaceLog(b)
	b.forgotten++
}

// Finish returns the model. The Builder must not be used afterwards. It fails without a source, or if PeakAndEnd has dropped buffers.
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
		kinds := OperationKinds
		return cmp.Or(cmp.Compare(slices.Index(kinds, x.Kind), slices.Index(kinds, y.Kind)), cmp.Compare(x.Name, y.Name))
	})
	return b.capture, nil
}

// FinishOutline returns the peak and the end of each space, with or without PeakAndEnd. It leaves the rows of spaces that are kept whole to
// Outline.SetRows. The Builder must not be used afterwards. It fails without a source.
func (b *Builder) FinishOutline() (*outline.Outline, error) {
	o := &outline.Outline{}
	err := b.finish(func(_ int, log *spaceLog) {
		space := log.finish()
		if log.fold != nil {
			o.Spaces = append(o.Spaces, log.fold.outline(space))
		} else {
			if outline.TooLarge(space) {
				b.Lose(loss.ManyBuffers, 1, 0, space.ID())
			}
			o.Spaces = append(o.Spaces, outline.OfSpace(space, nil))
		}
	})
	o.Tables = b.capture.Tables
	sortSpaces(o.Spaces, func(s *outline.Space) *lifetime.SpaceInfo { return &s.SpaceInfo })
	return o, err
}

// finish calls take for each described space, then sorts the losses.
func (b *Builder) finish(take func(i int, log *spaceLog)) error {
	if len(b.capture.Sources) == 0 {
		return errors.New("no source")
	}
	if b.beyond > 0 {
		b.Lose(loss.TooManySpaces, b.beyond, 0, "")
	}
	b.stacks.known = nil                                                                 // as large as the stacks
	if cut := setDepth(&b.capture.Tables); cut > 0 && b.losses[loss.DeepStacks] == nil { // native text has it already
		b.Lose(loss.DeepStacks, cut, 0, "")
	}
	b.reclassifyInstalled()
	for i, log := range b.spaces {
		if log.described {
			take(i, log)
		}
		b.spaces[i] = nil // free the log: it may be as large as the model
	}
	for _, l := range b.losses {
		b.capture.Losses = append(b.capture.Losses, *l)
	}
	slices.SortFunc(b.capture.Losses, func(x, y loss.Loss) int {
		return cmp.Or(cmp.Compare(y.Reason.Class(), x.Reason.Class()), cmp.Compare(x.Reason, y.Reason))
	})
	return nil
}

// sortSpaces sorts spaces by source, then by ID; memory of no device, such as that of executables, comes last.
func sortSpaces[S any](spaces []S, info func(S) *lifetime.SpaceInfo) {
	ofNone := func(s *lifetime.SpaceInfo) int {
		if s.Memory != "" && s.Device+s.Module+s.Allocator == "" {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(spaces, func(x, y S) int {
		return cmp.Or(cmp.Compare(info(x).Source, info(y).Source), cmp.Compare(ofNone(info(x)), ofNone(info(y))),
			cmp.Compare(info(x).ID(), info(y).ID()))
	})
}

type counted struct{ loss.Loss }

// add counts one case. It calls where for the first one only.
func (c *counted) add(bytes int64, where func() string) {
	if c.Count++; c.Count == 1 {
		c.First = where()
	}
	c.Bytes = units.AddSat(c.Bytes, bytes)
}

// report adds the cases to the losses of the capture, if there are any.
func (c *counted) report(b *Builder, r loss.Reason, s *lifetime.Space) {
	if c.Count > 0 {
		b.Lose(r, c.Count, c.Bytes, s.ID()+": "+c.First)
	}
}

// reclassifyInstalled makes the frames of an installed program frames of a program: those of packages that stacks begin
// in, behind a starter of Python or of the package. A thread may begin in any library.
func (b *Builder) reclassifyInstalled() {
	const starting, begun = 1, 2
	t := &b.capture.Tables
	at, own := make([]uint8, len(t.Stacks)), map[string]bool{}
	for id := 1; id < len(t.Stacks); id++ {
		f := &t.Frames[t.Stacks[id].Frame]
		at[id] = at[t.Stacks[id].Caller]
		if f.Kind > frame.Framework || at[id] == begun {
			continue
		}
		name, starts := packageOf(f.File), f.Function == "<module>" || f.Function == "_run_module_as_main"
		switch starter := f.Kind == frame.Framework || f.File == "<string>" || strings.Contains(f.File, "/bin/"); {
		case at[id] == 0 && !starts, name == "torch", name == "" && !starter:
			at[id] = begun
		case name == "":
			at[id] = starting
		default:
			at[id], own[name] = begun, true
		}
	}
	for i, f := range t.Frames {
		if len(own) > 0 && f.Kind == frame.Framework && own[packageOf(f.File)] {
			t.Frames[i].Kind = frame.User
		}
	}
}

// packageOf returns the installed package that a file belongs to, "" for none.
func packageOf(file string) string {
	_, inside, _ := strings.Cut(strings.ReplaceAll(file, `\`, "/"), "-packages/")
	return strings.Split(inside, "/")[0]
}

// Call interns a stack: its innermost frame, and the stack of the caller, 0 = none. Build a stack from its outermost call inwards.
func (b *Builder) Call(frame lifetime.FrameID, caller lifetime.StackID) lifetime.StackID {
	if frame == 0 {
		return caller
	}
	return b.stacks.nodes.ID(lifetime.Stack{Frame: frame, Caller: caller})
}

// Stack interns a call stack, innermost frame first; an empty one is 0. It does not keep frames.
func (b *Builder) Stack(frames []lifetime.FrameID) lifetime.StackID {
	if len(frames) == 0 {
		return 0
	}
	t := &b.stacks
	t.key = t.key[:0]
	for _, f := range frames {
		t.key = binary.NativeEndian.AppendUint32(t.key, uint32(f))
	}
	id, ok := t.known[string(t.key)]
	if !ok {
		id = b.calls(frames)
		if t.known == nil {
			t.known = map[string]lifetime.StackID{}
		}
		t.known[string(t.key)] = id
	}
	return id
}

// calls interns the calls of a stack. Consecutive stacks share most callers, which are not looked up again.
func (b *Builder) calls(frames []lifetime.FrameID) lifetime.StackID {
	t := &b.stacks
	outer := 0
	for n := min(len(frames), len(t.last)); outer < n && frames[len(frames)-1-outer] == t.last[outer].frame; outer++ {
	}
	t.last = t.last[:outer]
	id := lifetime.StackID(0)
	if outer > 0 {
		id = t.last[outer-1].id
	}
	for _, f := range slices.Backward(frames[:len(frames)-outer]) {
		id = b.Call(f, id)
		t.last = append(t.last, call{f, id})
	}
	return id
}

// stacks finds the ID of a stack. Most formats write a whole stack for each event.
type stacks struct {
	nodes interned.Table[lifetime.Stack, lifetime.StackID]
	last  []call // of the last stack that was interned, outermost first

	known map[string]lifetime.StackID // by the bytes of the frames
	key   []byte
}

type call struct {
	frame lifetime.FrameID
	id    lifetime.StackID
}

// Stacks of this depth are never cut. Stacks of all call sites may have this many frames, and more if they share few callers.
const (
	everyDepth  = 100
	fewFrames   = 100_000
	framesACall = 16
)

// setDepth sets Depth to the limit of Python or, if the stacks of all call sites would then have far more frames than the tree has
// calls, to less. It returns the number of call sites whose stacks are deeper.
func setDepth(t *lifetime.Tables) (cut int64) {
	t.Depth = 0
	limit := t.MaxDepth()
	t.Depth = limit
	if len(t.Stacks) <= everyDepth {
		return 0
	}
	depths := make([]uint16, len(t.Stacks)) // saturated
	for i := range t.Stacks[1:] {
		depths[i+1] = min(depths[t.Stacks[i+1].Caller], math.MaxUint16-1) + 1
	}
	frames, lists, most := 0, len(t.Sites), fewFrames+framesACall*len(t.Stacks)
	for i := range t.Sites {
		s := &t.Sites[i]
		frames += min(int(depths[s.Stack]), limit) + min(int(depths[s.Source]), limit)
		if s.Source != 0 {
			lists++
		}
	}
	if frames > most {
		t.Depth = max(everyDepth, most/lists)
	}
	for i := range t.Sites {
		if max(int(depths[t.Sites[i].Stack]), int(depths[t.Sites[i].Source])) > t.Depth {
			cut++
		}
	}
	return cut
}

// FunctionCall records a call of a function in a space. Calls keep their order.
func (b *Builder) FunctionCall(space SpaceRef, call lifetime.Call) {
	call.Space = int(space)
	b.capture.Calls = append(b.capture.Calls, call)
}

// Sample records a measurement of the device of a space. Samples keep their order.
func (b *Builder) Sample(space SpaceRef, s lifetime.Sample) {
	s.Space = int(space)
	b.capture.Samples = append(b.capture.Samples, s)
}

// settleCalls replaces the SpaceRef of calls and samples by the final index of the space. made has the spaces by
// SpaceRef. Calls and samples of spaces that were left out (nil) are dropped.
func (b *Builder) settleCalls(made []*lifetime.Space) {
	if len(b.capture.Calls)+len(b.capture.Samples) == 0 {
		return
	}
	final := make(map[*lifetime.Space]int, len(b.capture.Spaces))
	for i, s := range b.capture.Spaces {
		final[s] = i
	}
	calls := b.capture.Calls[:0]
	for _, call := range b.capture.Calls {
		if i, ok := final[made[call.Space]]; ok {
			call.Space = i
			calls = append(calls, call)
		}
	}
	samples := b.capture.Samples[:0]
	for _, s := range b.capture.Samples {
		if i, ok := final[made[s.Space]]; ok {
			s.Space = i
			samples = append(samples, s)
		}
	}
	b.capture.Calls, b.capture.Samples = calls, samples
}

// Report records the report of an allocator at t, in nanoseconds: an allocation or a free, and the totals after it. A free without a size gets the size of
// its allocation or, if that is not known, the change of the total.
func (b *Builder) Report(space SpaceRef, t int64, r *lifetime.AllocatorEvent) {
	log := b.spaces[space]
	if b.Keeps(Reports) {
		log.space.Reports.Add(*r)
		return
	}
	if r.Available >= 0 {
		log.limit = max(log.limit, units.AddSat(units.AddSat(max(r.Allocated, 0), max(r.Stack, 0)), r.Available))
	}
	log.lifetimePeak = max(log.lifetimePeak, r.Peak)
	e := event{op: opAlloc, t: t, addr: r.Addr, size: max(r.Requested, 0), occupied: r.Occupied, site: r.Site}
	if r.Free {
		e.op = opFree
		e.site = 0 // it is the site of the free, not of the allocation
		if e.occupied < 0 && log.reported > 0 {
			e.occupied = log.lastAllocated - r.Allocated
		}
	}
	if e.occupied <= 0 {
		e.occupied = 0
		if r.Requested > 0 && r.Occupied < 0 {
			e.occupied = r.Requested
		}
	}
	log.add(e)
	if r.Stack >= 0 && (r.Stack != log.lastStack || log.reported == 0) {
		b.StackReserved(space, t, r.Stack)
		log.lastStack = r.Stack
	}
	if r.Allocated >= 0 {
		b.Total(space, lifetime.Total{T: t, Bytes: r.Allocated, Measure: lifetime.Occupied, Fragmentation: float32(r.Fragmentation), HasFragmentation: r.HasFragmentation})
		if r.Reserved > 0 && r.Reserved != log.lastReserved {
			b.Total(space, lifetime.Total{T: t, Bytes: r.Reserved, Measure: lifetime.Reserved})
			log.lastReserved = r.Reserved
		}
		log.reported++
		log.lastAllocated = r.Allocated
	}
}
