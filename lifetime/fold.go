package lifetime

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
)

// Outline holds levels of a space of which only the buffers that were alive at
// its peak or at its end were kept: the first level, the highest one and the last
// one, in order of time.
type Outline struct{ Requested, Occupied []Level }

// of returns the levels in measure m.
func (o *Outline) of(m Measure) []Level {
	if m == Requested {
		return o.Requested
	}
	return o.Occupied
}

// KeepPeakAndEnd asks for the buffers alone that are alive at the peak of occupied
// bytes or at the end of the window; the others, and the totals between, are let
// go of as soon as they are past, and Space.Outline has the levels. It is for
// those who ask for nothing else, of files of any length: Peak, the Breakdown at
// the peak and at the end, Live and Pending of Summary, what was reserved and
// lost are what they are with all buffers kept. Compiled programs and spaces of
// which only the usage is known are kept whole. It must be called before the
// first fact.
func (b *Builder) KeepPeakAndEnd() { b.peakAndEnd = true }

// Unsure reports whether KeepPeakAndEnd kept too little of a space: rules that
// look back at buffers which are gone decide about it. The reader then starts
// over, with KeepAll and other spaces; this one it gives to Forget.
func (b *Builder) Unsure(space SpaceRef) bool {
	f := b.spaces[space].fold
	return f != nil && f.unsure()
}

// KeepAll takes KeepPeakAndEnd back as far as it is a matter of reading: spaces
// are then cut down to their peak and end once they are complete.
func (b *Builder) KeepAll() { b.keepAll = true }

// Forget lets go of what was recorded for a space that will not be described.
func (b *Builder) Forget(space SpaceRef) {
	if b.spaces[space].discard {
		b.beyond--
		return
	}
	b.spaces[space] = newSpaceLog(b)
	b.forgotten++
}

// keptTotals are the totals that are looked for later: of those with a
// fragmentation the one that holds at the peak, the highest and the last one; where
// none has one, the last.
type keptTotals struct {
	atPeak, highest, last Total
	any                   bool
}

// add takes the next total.
func (k *keptTotals) add(t *Total) {
	if k.last.HasFragmentation && !t.HasFragmentation {
		return
	}
	k.any, k.last = true, *t
	if t.HasFragmentation && (t.Fragmentation > k.highest.Fragmentation || !k.highest.HasFragmentation) {
		if share := float64(t.Fragmentation); !math.IsInf(share, 0) && !math.IsNaN(share) {
			k.highest = *t
		}
	}
}

// list returns the totals, in order of time.
func (k *keptTotals) list() (list []Total) {
	if k.any {
		list = append(list, k.last)
	}
	for _, t := range []Total{k.atPeak, k.highest} {
		if t.HasFragmentation {
			list = append(list, t)
		}
	}
	slices.SortStableFunc(list, func(x, y Total) int { return cmp.Compare(x.T, y.T) })
	return slices.CompactFunc(list, func(x, y Total) bool { return x.T == y.T })
}

// fold is what pairing is where only the peak and the end are asked for: it takes
// the reports on a space in order of time and keeps the buffers that are alive,
// and those that were at the highest level so far.
//
// Buffers that are older than the window show when they are freed, and raise all
// levels before that. So a level here is the sum of the changes since the window
// began; what was there then, seen or not, is one number for all levels, which is
// added at the end.
type fold struct {
	log   *spaceLog
	open  addressTable // index into bufs
	bufs  chunked[Buffer]
	spare []int    // of bufs: those that are gone
	ended []int    // of bufs: those that were alive at the peak
	used  coverage // addresses of buffers that ended

	size, requested     int64 // changes since the window began
	stack               int64
	at                  int64 // time of the last change
	begun               bool
	changed             bool // what came of the last change is not looked at: its stack may still come
	peak, peakRequested Level

	allocations, frees int
	older              Amount // of the frees, buffers from before the window
	replaced           Loss   // frees that were lost
	addresses, stacks  bool   // as Facts
	lost               bool   // what is kept is not enough

	totals   keptTotals
	there    int64 // by the first total, what was there when the window began
	mismatch Loss
}

// maxFolded bounds levels: beyond it sums saturate, and do not add up any more.
const maxFolded = 1 << 60

// event takes an allocation or a free.
func (f *fold) event(e *event) {
	f.settle()
	if !f.begun {
		f.begun, f.peak.At, f.peakRequested.At = true, f.log.begin, f.log.begin
	}
	f.at, f.changed = e.t, true
	before, ok := f.open.remove(e.addr)
	if ok {
		f.end(before.index)
	}
	switch {
	case e.op == opAlloc:
		f.allocations++
		if ok {
			b := f.bufs.at(before.index)
			b.Edge |= EndInferred
			f.replaced.add(b.Size, func() string { return fmt.Sprintf("address %#x", e.addr) })
		}
		b := Buffer{Begin: e.t, Addr: e.addr, Requested: e.size, Site: e.site}
		b.Size, b.Edge = occupiedSize(e.size, e.occupied)
		f.open.put(e.addr, openBuffer{f.keep(&b), notRequested})
		f.size, f.requested = f.size+b.Size, f.requested+b.Requested
	case e.op != opFree:
		f.lost = true
	case ok:
		f.frees++
	default:
		f.frees++
		b := Buffer{Begin: f.log.begin, Addr: e.addr, Requested: e.size}
		b.Size, b.Edge = occupiedSize(e.size, e.occupied)
		b.Edge |= BeginUnseen
		f.older.add(&b)
		f.lost = f.lost || f.used.overlaps(b.extent())
		f.end(f.keep(&b))
	}
}

// keep stores a buffer.
func (f *fold) keep(b *Buffer) (i int) {
	f.addresses = f.addresses || b.Addr != 0
	f.stacks = f.stacks || f.log.b.capture.Sites[b.Site].Stack != 0
	if max(b.Size, b.Requested) > maxFolded {
		f.lost = true
	}
	if n := len(f.spare); n > 0 {
		i, f.spare = f.spare[n-1], f.spare[:n-1]
		*f.bufs.at(i) = *b
		return i
	}
	f.bufs.add(*b)
	return f.bufs.n - 1
}

// end ends a buffer that is not open any more.
func (f *fold) end(i int) {
	b := f.bufs.at(i)
	b.End = f.at
	f.size, f.requested = f.size-b.Size, f.requested-b.Requested
	f.used.add(b.Addr, endOf(b.Addr, max(b.Size, b.Requested, 1)))
	if b.Begin <= f.peak.At {
		f.ended = append(f.ended, i)
	} else {
		f.spare = append(f.spare, i)
	}
}

// settle looks whether the level after the last change is the highest so far.
func (f *fold) settle() {
	if !f.changed {
		return
	}
	f.changed = false
	if level := f.requested + f.stack; level > f.peakRequested.Bytes {
		f.peakRequested = Level{f.at, level}
	}
	if level := f.size + f.stack; level > f.peak.Bytes {
		f.peak = Level{f.at, level}
		f.totals.atPeak = f.totals.last
		f.spare = append(f.spare, f.ended...)
		f.ended = f.ended[:0]
	}
	if max(f.size, -f.size, f.requested, -f.requested, f.stack) > maxFolded {
		f.lost = true
	}
}

// stackReserved takes a change of what lies beside the heap. The first one holds
// since the window began.
func (f *fold) stackReserved(bytes int64) {
	if len(f.log.desc.Stack) == 1 {
		f.peak.Bytes += bytes
		f.peakRequested.Bytes += bytes
	}
	f.stack = bytes
}

// total takes what the producer said was allocated. It tells what was there when
// the window began, and must go on to.
func (f *fold) total(t *Total) {
	if t.Measure != Occupied || t.Bytes > maxFolded {
		f.lost = true
	}
	there := t.Bytes - f.size
	if !f.totals.any {
		f.there = there
	}
	if gap := there - f.there; gap != 0 {
		f.mismatch.add(max(gap, -gap), func() string { return fmt.Sprintf("%d reported, %d seen", t.Bytes, t.Bytes-gap) })
	}
	f.totals.add(t)
}

// unsure reports whether something was met that only all buffers together tell.
func (f *fold) unsure() bool {
	return f.lost || f.totals.any && f.there < f.older.Bytes
}

// finish hands the space what was kept.
func (f *fold) finish(s *Space) {
	f.settle()
	if !f.begun {
		f.at, f.peak.At, f.peakRequested.At = s.Begin, s.Begin, s.Begin
	}
	log := f.log
	s.Allocations, s.Frees = f.allocations, f.frees
	f.replaced.tell(log.b, LostFree, s)
	if f.totals.any {
		s.Base = f.there - f.older.Bytes
	}
	for o := range f.open.all() {
		b := f.bufs.at(o.index)
		b.End, b.Edge = s.End, b.Edge|EndOpen
		s.Buffers = append(s.Buffers, *b)
	}
	for _, i := range f.ended {
		s.Buffers = append(s.Buffers, *f.bufs.at(i))
	}
	slices.SortFunc(s.Buffers, func(x, y Buffer) int { return cmp.Or(cmp.Compare(x.Begin, y.Begin), cmp.Compare(x.Addr, y.Addr)) })
	s.sortAllEnds()
	s.Outline = f.outline(s)
	for _, t := range f.totals.list() {
		log.totals.add(t)
	}
	if f.addresses {
		s.Facts |= Addresses
	}
	if f.stacks {
		s.Facts |= Stacks
	}
	if f.older.Count > 0 {
		log.b.Lose(BeforeWindow, f.older.Count, f.older.Bytes, s.ID())
	}
	f.mismatch.tell(log.b, TotalMismatch, s)
}

// outline returns the levels, what was there when the window began included.
func (f *fold) outline(s *Space) *Outline {
	stack := int64(0)
	if len(s.Stack) > 0 {
		stack = s.Stack[0].Bytes
	}
	of := func(older int64, peak Level, last int64) []Level {
		there := s.Base + older
		return highest(slices.Values([]Level{{s.Begin, there + stack}, {peak.At, there + peak.Bytes}, {f.at, there + last + f.stack}}))
	}
	return &Outline{Requested: of(f.older.Requested, f.peakRequested, f.requested), Occupied: of(f.older.Bytes, f.peak, f.size)}
}

// highest returns the first, the highest and the last of some levels. The first is
// that of the first instant as a whole.
func highest(levels iter.Seq[Level]) []Level {
	var first, peak, last Level
	any := false
	for level := range levels {
		if !any {
			any, peak = true, level
			first.At = level.At
		}
		if level.At == first.At {
			first = level
		}
		if level.Bytes > peak.Bytes {
			peak = level
		}
		last = level
	}
	return slices.Compact([]Level{first, peak, last})
}

// keepPeakAndEnd cuts a space that is complete down to what KeepPeakAndEnd asks for.
func (s *Space) keepPeakAndEnd() {
	if s.Axis == ProgramOrder || s.UsageOnly() || s.Outline != nil {
		return
	}
	outline := &Outline{highest(s.Levels(Requested)), highest(s.Levels(Occupied))}
	peak, end := s.Peak(Occupied).At, s.AtEnd()
	whole := *s
	*s = *whole.with(func(b Buffer) (Buffer, bool) { return b, b.aliveAt(peak) || b.aliveAt(end) })
	s.Outline, s.Allocations, s.Frees = outline, whole.Allocations, whole.Frees
	s.Totals = nil
	var kept keptTotals
	for i := range whole.Totals {
		t := &whole.Totals[i]
		if t.Measure == Reserved {
			s.Totals = append(s.Totals, *t)
			continue
		}
		kept.add(t)
		if t.T <= peak {
			kept.atPeak = kept.last
		}
	}
	s.Totals = append(s.Totals, kept.list()...)
	slices.SortStableFunc(s.Totals, func(x, y Total) int { return cmp.Compare(x.T, y.T) })
}
