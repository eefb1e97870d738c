package build

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/memlane/memlane/internal/chunked"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/internal/spans"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/outline"
)

// keptTotals are the totals that an outline needs: those with the fragmentation at the peak, the highest and the last
// fragmentation. Without any fragmentation, it is the last total.
type keptTotals struct {
	atPeak, highest, last lifetime.Total
	any                   bool
}

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

// fold replaces pairing with PeakAndEnd. It takes the reports on a space in order of time and keeps two sets of
// buffers: those alive now, and those alive at the highest level so far.
//
// A buffer that is older than the window first appears when it is freed, and adds to all levels before that. So a level here is the sum of the changes
// since the window began. The memory in use at that time is one number, which is added to all levels at the end.
type fold struct {
	log   *spaceLog
	open  map[uint64]int // by address: index into bufs
	bufs  chunked.List[lifetime.Buffer]
	spare []int    // free indexes of bufs
	ended []int    // of bufs: ended, but alive at the peak
	used  coverage // addresses of buffers that ended

	size, requested     int64 // changes since the window began
	stack               int64
	at                  int64 // time of the last change
	begun               bool
	changed             bool // settle must look at the last change, after its stack level
	peak, peakRequested lifetime.Level

	allocations, frees int
	older              lifetime.Amount // freed buffers from before the window
	replaced           counted         // lost frees
	addresses, stacks  bool            // as Facts
	lost               bool            // the kept data is not enough

	totals   keptTotals
	initial  int64 // bytes in use when the window began, by the first total
	mismatch counted
}

// maxFolded limits levels. Beyond it, sums may saturate and depend on their order.
const maxFolded = 1 << 60

func (f *fold) event(e *event) {
	f.settle()
	if !f.begun {
		f.begun, f.peak.At, f.peakRequested.At = true, f.log.begin, f.log.begin
	}
	f.at, f.changed = e.t, true
	before, ok := f.open[e.addr]
	if ok {
		delete(f.open, e.addr)
		f.end(before)
	}
	switch {
	case e.op == opAlloc:
		f.allocations++
		if ok {
			b := f.bufs.At(before)
			b.Edge |= lifetime.EndInferred
			f.replaced.add(b.Size, func() string { return fmt.Sprintf("address %#x", e.addr) })
		}
		b := e.buffer(e.t)
		b.Site = e.site
		f.open[e.addr] = f.keep(&b)
		f.size, f.requested = f.size+b.Size, f.requested+b.Requested
	case e.op != opFree:
		f.lost = true
	case ok:
		f.frees++
	default:
		f.frees++
		b := e.buffer(f.log.begin)
		b.Edge |= lifetime.BeginUnseen
		if f.log.freesName {
			b.Site = f.log.b.Site(lifetime.Site{Unseen: true})
		}
		f.older.Add(lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested})
		f.lost = f.lost || f.used.overlaps(extent(&b))
		f.end(f.keep(&b))
	}
}

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

// settle checks whether the level after the last change is the highest so far.
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

// stackReserved takes a level of Space.Stack. The first one holds from the beginning of the window.
func (f *fold) stackReserved(bytes int64) {
	if len(f.log.space.Stack) == 1 {
		f.peak.Bytes = units.AddSat(f.peak.Bytes, bytes)
		f.peakRequested.Bytes = units.AddSat(f.peakRequested.Bytes, bytes)
	}
	f.stack = bytes
}

// total takes a reported total. All totals must imply the same initial memory.
func (f *fold) total(t *lifetime.Total) {
	if t.Measure != lifetime.Occupied || t.Bytes > maxFolded {
		f.lost = true
	}
	initial := t.Bytes - f.size
	if !f.totals.any {
		f.initial = initial
	}
	if gap := initial - f.initial; gap != 0 {
		f.mismatch.add(max(gap, -gap), func() string { return fmt.Sprintf("%d reported, %d seen", t.Bytes, t.Bytes-gap) })
	}
	f.totals.add(t)
}

// finish stores the kept data in the space.
func (f *fold) finish(s *lifetime.Space) {
	f.settle()
	if !f.begun {
		f.at, f.peak.At, f.peakRequested.At = s.Begin, s.Begin, s.Begin
	}
	log := f.log
	s.Allocations, s.Frees = f.allocations, f.frees
	f.replaced.report(log.b, loss.LostFree, s)
	if f.totals.any {
		s.Base = f.initial - f.older.Bytes
	}
	for _, i := range f.open {
		b := f.bufs.At(i)
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

func (f *fold) outline(s *lifetime.Space) *outline.Space {
	stack := int64(0)
	if len(s.Stack) > 0 {
		stack = s.Stack[0].Bytes
	}
	// peak returns the first of the highest levels: at the beginning, the highest so far,
	// and at the end. All include the memory in use when the window began.
	peak := func(older int64, highest lifetime.Level, last int64) lifetime.Level {
		initial := s.Base + older
		levels := []lifetime.Level{{At: s.Begin, Bytes: initial + stack},
			{At: highest.At, Bytes: initial + highest.Bytes}, {At: f.at, Bytes: initial + last + f.stack}}
		return slices.MaxFunc(levels, func(x, y lifetime.Level) int { return cmp.Compare(x.Bytes, y.Bytes) })
	}
	sum := s.Summary()
	return outline.OfSpace(s, &outline.Space{
		Peak: peak(f.older.Bytes, f.peak, f.size), PeakRequested: peak(f.older.Requested, f.peakRequested, f.requested),
		BeginBytes: s.Base + f.older.Bytes + stack, Live: sum.Live, Pending: sum.Pending,
	})
}
