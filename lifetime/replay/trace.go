package replay

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Trace is how a program would have used memory over time under some settings. Its instants are those of the recording.
type Trace struct {
	Outcome
	Reserved, Live []lifetime.Level // after each change
	PeakAt         int64            // when PeakReserved was reached first
	Segments       []Segment        // at PeakAt
}

// Segment is a segment at one instant, or the mapped parts of an expandable one.
type Segment struct {
	Small, Expandable bool
	Blocks            []Block // by address
}

// Size returns the bytes of a segment.
func (s *Segment) Size() (sum int64) {
	for _, b := range s.Blocks {
		sum = units.AddSat(sum, b.Size)
	}
	return sum
}

// Used returns the bytes of a segment that are in use.
func (s *Segment) Used() (sum int64) {
	for _, b := range s.Blocks {
		if b.Used {
			sum = units.AddSat(sum, b.Size)
		}
	}
	return sum
}

// Block is a part of a segment: in use or free.
type Block struct {
	Size int64
	Used bool
}

// Trace is Run, but keeps what happens on the way. A recording that begins in the middle starts as recorded.
func (h *History) Trace(s Settings, d Device) *Trace {
	t := &Trace{Outcome: h.RunBoth(s, d), PeakAt: h.begin}
	peak, last := int64(-1), 0
	visit := func(r *runner, done int, at int64) bool {
		t.Reserved, t.Live = appendLevel(t.Reserved, at, r.reserved), appendLevel(t.Live, at, r.live)
		if r.peakReserved > 0 && r.reserved > peak { // what is cached at the start is not a peak
			peak, t.PeakAt, last = r.reserved, at, done
		}
		return true
	}
	h.walk(s, d, visit)
	h.walk(s, d, func(r *runner, done int, _ int64) bool {
		if done == last {
			t.Segments = r.layout()
		}
		return done < last
	})
	return t
}

// appendLevel adds a level if it differs from the last one. Of several at one instant only the last is a state.
func appendLevel(all []lifetime.Level, at, bytes int64) []lifetime.Level {
	n := len(all)
	switch {
	case n > 0 && all[n-1].Bytes == bytes:
		return all
	case n > 0 && all[n-1].At == at:
		all[n-1].Bytes = bytes
		return all
	}
	return append(all, lifetime.Level{At: at, Bytes: bytes})
}

// walk replays the recording and calls visit at its start and after each event, with the
// number of events so far, until it returns false.
func (h *History) walk(s Settings, d Device, visit func(r *runner, done int, at int64) bool) {
	r := h.newRunner(s, d, false)
	at := h.begin
	if !r.begin(asRecorded) || !visit(r, 0, at) {
		return
	}
	for i, e := range h.events {
		if e.op == opAlloc || e.op == opFull {
			at = h.requests[e.of].begin
		} else if e.op == opFree {
			at = max(at, h.requests[e.of].end)
		}
		if !r.event(e, true) || !visit(r, i+1, at) || r.work > maxWork {
			return
		}
		if e.op == opFull { // the program went on without it
			r.free(r.at[e.of], e.of+1)
		}
	}
}

// layout returns the segments, those for small blocks first, then by address.
func (a *allocator) layout() (all []Segment) {
	var first []int32
	for i := range a.blocks {
		if b := &a.blocks[i]; b.size > 0 && b.prev == 0 {
			first = append(first, int32(i))
		}
	}
	slices.SortFunc(first, func(x, y int32) int {
		small := func(i int32) int {
			if a.small(a.blocks[i].group) {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(small(x), small(y)), cmp.Compare(a.blocks[x].addr, a.blocks[y].addr))
	})
	for _, i := range first {
		s := Segment{Small: a.small(a.blocks[i].group), Expandable: a.blocks[i].expandable}
		for ; i != 0; i = a.blocks[i].next {
			if b := &a.blocks[i]; b.mapped {
				s.Blocks = append(s.Blocks, Block{b.size, b.used})
			}
		}
		if s.Blocks != nil {
			all = append(all, s)
		}
	}
	return all
}
