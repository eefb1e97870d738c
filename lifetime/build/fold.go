package build

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/internal/chunked"
	"github.com/memlane/memlane/lifetime/internal/spans"
	"github.com/memlane/memlane/lifetime/loss"
)

// keptTotals are the totals that are looked for later: of those with a
// fragmentation the one that holds at the peak, the highest and the last one; where
// none has one, the last.
type keptTotals struct {
	atPeak, highest, last lifetime.Total
	any                   bool
}

// add takes the next total.
func (k *keptTotals) add(t *lifetime.Total) {
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
func (k *keptTotals) list() (list []lifetime.Total) {
	if k.any {
		list = append(list, k.last)
	}
	for _, t := range []lifetime.Total{k.atPeak, k.highest} {
		if t.HasFragmentation {
			list = append(list, t)
		}
	}
	slices.SortStableFunc(list, func(x, y lifetime.Total) int { return cmp.Compare(x.T, y.T) })
	return slices.CompactFunc(list, func(x, y lifetime.Total) bool { return x.T == y.T })
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
	bufs  chunked.List[lifetime.Buffer]
	spare []int    // of bufs: those that are gone
	ended []int    // of bufs: those that were alive at the peak
	used  coverage // addresses of buffers that ended

	size, requested     int64 // changes since the window began
	stack               int64
	at                  int64 // time of the last change
	begun               bool
	changed             bool // what came of the last change is not looked at: its stack may still come
	peak, peakRequested lifetime.Level

	allocations, frees int
	older              lifetime.Amount // of the frees, buffers from before the window
	replaced           counted         // frees that were lost
	addresses, stacks  bool            // as Facts
	lost               bool            // what is kept is not enough

	totals   keptTotals
	there    int64 // by the first total, what was there when the window began
	mismatch counted
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
			b := f.bufs.At(before.index)
			b.Edge |= lifetime.EndInferred
			f.replaced.add(b.Size, func() string { return fmt.Sprintf("address %#x", e.addr) })
		}
		b := e.buffer(e.t)
		b.Site = e.site
		f.open.put(e.addr, openBuffer{f.keep(&b), notRequested})
		f.size, f.requested = f.size+b.Size, f.requested+b.Requested
	case e.op != opFree:
		f.lost = true
	case ok:
		f.frees++
	default:
		f.frees++
		b := e.buffer(f.log.begin)
		b.Edge |= lifetime.BeginUnseen
		f.older.Add(lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested})
		f.lost = f.lost || f.used.overlaps(extent(&b))
		f.end(f.keep(&b))
	}
}

// keep stores a buffer.
func (f *fold) keep(b *lifetime.Buffer) (i int) {
	f.addresses = f.addresses || b.Addr != 0
	f.stacks = f.stacks || f.log.b.capture.Sites[b.Site].Stack != 0
	if max(b.Size, b.Requested) > maxFolded {
		f.lost = true
	}
	if n := len(f.spare); n > 0 {
		i, f.spare = f.spare[n-1], f.spare[:n-1]
		*f.bufs.At(i) = *b
		return i
	}
	f.bufs.Add(*b)
	return f.bufs.N - 1
}

// end ends a buffer that is not open any more.
func (f *fold) end(i int) {
	b := f.bufs.At(i)
	b.End = f.at
	f.size, f.requested = f.size-b.Size, f.requested-b.Requested
	f.used.add(b.Addr, spans.End(b.Addr, max(b.Size, b.Requested, 1)))
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
		f.peakRequested = lifetime.Level{At: f.at, Bytes: level}
	}
	if level := f.size + f.stack; level > f.peak.Bytes {
		f.peak = lifetime.Level{At: f.at, Bytes: level}
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
	if len(f.log.space.Stack) == 1 {
		f.peak.Bytes += bytes
		f.peakRequested.Bytes += bytes
	}
	f.stack = bytes
}

// total takes what the producer said was allocated. It tells what was there when
// the window began, and must go on to.
func (f *fold) total(t *lifetime.Total) {
	if t.Measure != lifetime.Occupied || t.Bytes > maxFolded {
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
func (f *fold) finish(s *lifetime.Space) {
	f.settle()
	if !f.begun {
		f.at, f.peak.At, f.peakRequested.At = s.Begin, s.Begin, s.Begin
	}
	log := f.log
	s.Allocations, s.Frees = f.allocations, f.frees
	f.replaced.report(log.b, loss.LostFree, s)
	if f.totals.any {
		s.Base = f.there - f.older.Bytes
	}
	for o := range f.open.all() {
		b := f.bufs.At(o.index)
		b.End, b.Edge = s.End, b.Edge|lifetime.EndOpen
		s.Buffers = append(s.Buffers, *b)
	}
	for _, i := range f.ended {
		s.Buffers = append(s.Buffers, *f.bufs.At(i))
	}
	slices.SortFunc(s.Buffers, func(x, y lifetime.Buffer) int {
		return cmp.Or(cmp.Compare(x.Begin, y.Begin), cmp.Compare(x.Addr, y.Addr))
	})
	s.SortEnds(nil)
	for _, t := range f.totals.list() {
		log.totals.Add(t)
	}
	if f.addresses {
		s.Facts |= lifetime.Addresses
	}
	if f.stacks {
		s.Facts |= lifetime.Stacks
	}
	if f.older.Count > 0 {
		log.b.Lose(loss.BeforeWindow, f.older.Count, f.older.Bytes, s.ID())
	}
	f.mismatch.report(log.b, loss.TotalMismatch, s)
}

// outline returns what is known of the space that finish made.
func (f *fold) outline(s *lifetime.Space) *lifetime.SpaceOutline {
	stack := int64(0)
	if len(s.Stack) > 0 {
		stack = s.Stack[0].Bytes
	}
	// peak returns the highest of the first, the highest and the last level, what was
	// there when the window began included. The first is that of an instant as a whole.
	peak := func(older int64, highest lifetime.Level, last int64) lifetime.Level {
		there := s.Base + older
		levels := []lifetime.Level{{At: s.Begin, Bytes: there + stack}, {At: highest.At, Bytes: there + highest.Bytes}, {At: f.at, Bytes: there + last + f.stack}}
		most := levels[0]
		for _, l := range levels {
			if l.Bytes > most.Bytes {
				most = l
			}
		}
		return most
	}
	sum := s.Summary()
	o := &lifetime.SpaceOutline{
		Peak: peak(f.older.Bytes, f.peak, f.size), PeakRequested: peak(f.older.Requested, f.peakRequested, f.requested),
		BeginBytes: s.Base + f.older.Bytes + stack, EndBytes: s.Base + f.older.Bytes + f.size + f.stack, Live: sum.Live, Pending: sum.Pending,
	}
	o.PeakRows, o.EndRows = s.Breakdown(o.Peak.At), s.Breakdown(s.AtEnd())
	o.Describe(s)
	return o
}
