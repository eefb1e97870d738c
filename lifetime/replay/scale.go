package replay

import (
	"math"
	"slices"

	"github.com/memlane/memlane/internal/units"
)

// Scaled is a program that was recorded at two batch sizes. Its requests at other batch
// sizes are those of the larger recording, with sizes on the line through both.
type Scaled struct {
	n, m  int64 // batch sizes, n < m
	large *History
	small []int64 // requested bytes at n, by request of large; -1 = no request of the smaller recording matches
	off   float64 // how far a prediction of the smaller recording is off, as a share
}

// leastMatched is the share of the requests that must be in both recordings.
const leastMatched = 0.8

// Scale matches the requests of two recordings of a program, at batch sizes n < m. smallKeys and largeKeys tell where
// each buffer was allocated. It returns nil if the recordings differ too much.
func Scale(small, large *History, n, m int64, smallKeys, largeKeys []uint64) *Scaled {
	s := &Scaled{n: n, m: m, large: large, small: slices.Repeat([]int64{-1}, len(large.requests))}
	a, b := aligner{h: small, keys: smallKeys}, aligner{h: large, keys: largeKeys}
	a.collect()
	b.collect()
	matched := 0
	align(&a, &b, float64(m)/float64(n), func(i, j int32) {
		s.small[j] = small.requests[i].requested
		matched++
	})
	if float64(matched) < leastMatched*float64(max(len(a.order), len(b.order))) {
		return nil
	}
	for _, j := range large.startRequests {
		s.small[j] = large.requests[j].requested // older than the recording: parameters and what the optimizer keeps
	}
	back := s.At(n, true).run(small.Settings, Device{}, false, asRecorded).PeakReserved
	recorded := small.run(small.Settings, Device{}, false, asRecorded).PeakReserved
	s.off = math.Abs(float64(back-recorded)) / float64(max(recorded, 1))
	return s
}

// aligner has the requests of a recording in order of their allocation.
type aligner struct {
	h     *History
	keys  []uint64
	order []int32
}

func (a *aligner) collect() {
	for _, e := range a.h.events {
		if e.op == opAlloc && int(e.of) < len(a.keys) {
			a.order = append(a.order, e.of)
		}
	}
}

// Bounds of a search for the next place at which two recordings agree again.
const (
	lookAhead = 600 // requests
	agreement = 8   // requests that must agree there
)

// align calls match with the requests that are in both recordings, in order.
func align(a, b *aligner, ratio float64, match func(i, j int32)) {
	same := func(i, j int, exact bool) bool {
		if i >= len(a.order) || j >= len(b.order) {
			return i-len(a.order) == j-len(b.order) // both end
		}
		x, y := a.order[i], b.order[j]
		if a.keys[x] != b.keys[y] {
			return false
		}
		p, q := float64(a.h.requests[x].requested), float64(b.h.requests[y].requested)
		if exact {
			return p == q || math.Abs(q-p*ratio) <= 0.01*q
		}
		return p <= q && q <= p*ratio*1.01+minBlock
	}
	agree := func(i, j int) bool {
		for k := range agreement {
			if !same(i+k, j+k, true) {
				return false
			}
		}
		return true
	}
	for i, j := 0, 0; i < len(a.order) && j < len(b.order); {
		if same(i, j, false) {
			match(a.order[i], b.order[j])
			i, j = i+1, j+1
			continue
		}
		i, j = next(i, j, agree)
	}
}

// next returns the nearest place behind (i, j) at which agree holds.
func next(i, j int, agree func(i, j int) bool) (int, int) {
	for skipped := 1; skipped < lookAhead; skipped++ {
		for k := 0; k <= skipped; k++ {
			if agree(i+k, j+skipped-k) {
				return i + k, j + skipped - k
			}
		}
	}
	return i + 1, j + 1
}

// At returns the program at a batch size. Requests without a match grow with the batch, or stay as they are.
func (s *Scaled) At(batch int64, grow bool) *History {
	h := *s.large
	h.requests = slices.Clone(s.large.requests)
	h.Settings, h.peakReserved, h.grownPeak, h.differs = s.large.Settings, 0, 0, false
	for i := range h.requests {
		r := &h.requests[i]
		at, from := float64(r.requested), float64(s.small[i])
		switch {
		case s.small[i] >= 0:
			at += (at - from) / float64(s.m-s.n) * float64(batch-s.m)
		case grow:
			at *= float64(batch) / float64(s.m)
		}
		if size := int64(min(max(at, 1), maxSize)); size != r.requested {
			r.requested, r.occupied = size, 0
		}
	}
	return &h
}

// Predictions for batches up to four times the larger one were off by at most this share, in 180 predictions for three
// programs with the real allocator. How sizes fit into segments of cudaMalloc is erratic.
const (
	offSegments   = 0.12
	offExpandable = 0.05
)

// Outcome returns what the program would need at a batch size. Low and High are the range of the reserved bytes: how
// far the smaller recording would be off, and what requests without a match may do. It is not exact.
func (s *Scaled) Outcome(batch int64, settings Settings, d Device) Outcome {
	o, other := s.At(batch, true).Run(settings, d), s.At(batch, false).Run(settings, d)
	off := s.bound(&settings)
	o.Low = int64((1 - off) * float64(min(o.Low, other.Low)))
	o.High = units.AddSat(max(o.High, other.High), int64(off*float64(max(o.PeakReserved, other.PeakReserved))))
	if most := d.most(&settings); most > 0 {
		o.High = min(o.High, most)
	}
	o.Exact = false
	return o
}

// bound returns how far predictions may be off, as a share.
func (s *Scaled) bound(settings *Settings) float64 {
	if settings.Expandable {
		return max(s.off, offExpandable)
	}
	return max(s.off, offSegments)
}

// maxBatch bounds the search for the largest batch.
const maxBatch = 1 << 30

// offLive is the same for live bytes, which do not depend on segments.
const offLive = 0.03

// Largest returns the largest batch size that fits a device with the room that predictions may be off, and what it
// needs. most is the largest one whose live bytes alone fit. 0 = none.
func (s *Scaled) Largest(settings Settings, d Device) (batch, most int64, o Outcome) {
	room := Device{Capacity: int64(float64(d.Capacity) / (1 + s.bound(&settings))), Fraction: d.Fraction}
	capacity := (1 + offLive) * float64(d.most(&settings))
	batch, most = maxBatch, 0
	for _, grow := range []bool{false, true} {
		batch = min(batch, largest(func(n int64) bool { return !s.At(n, grow).Run(settings, room).OOM }))
		most = max(most, largest(func(n int64) bool { return float64(s.At(n, grow).Run(settings, Device{}).PeakLive) <= capacity }))
	}
	if batch > 0 {
		o = s.Outcome(batch, settings, d)
	}
	return batch, max(batch, most), o
}

// largest returns the largest number for which fits holds, if it holds for all below.
func largest(fits func(int64) bool) int64 {
	lo, hi := int64(0), int64(1)
	for hi < maxBatch && fits(hi) {
		lo, hi = hi, 2*hi
	}
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; fits(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}
