package oom

import (
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/region"
)

// manyCaught is the number of equal failures that a program survived, from which the next one is no surprise to it.
const manyCaught = 4

// stateAt returns what is known about a failed allocation: what a text says, and else the state of the space at that
// instant, whatever was freed later. Figures that are not known are -1.
func stateAt(s *lifetime.Space, m *lifetime.Mark) failure.Failure {
	if m.Failure != nil {
		return *m.Failure
	}
	f := failure.Unknown("")
	f.Survived, f.Absurd = DidSurvive(s, m), m.Requested >= absurd
	f.Live = s.LevelAt(m.Begin, lifetime.Occupied)
	if s.Limit > 0 {
		f.Capacity = s.Limit
	}
	if len(s.Regions) > 0 {
		f.Reserved = region.ReservedAt(s, m.Begin)
	}
	if len(s.Regions) > 0 && s.Facts&lifetime.Addresses != 0 {
		holes := region.FreeAt(s, m.Begin)
		f.Unallocated, f.LargestFree = holes.Total, holes.Largest
		if _, idle := freeFor(s, m); idle > 0 {
			f.Idle, f.Unallocated = idle, max(holes.Total-idle, 0)
		}
	}
	return f
}

// freeFor returns the reserved but free memory that a request could use, and the free memory of private pools, which it could
// not. Without recorded pools, all is usable.
func freeFor(s *lifetime.Space, m *lifetime.Mark) (usable region.Holes, idle int64) {
	if len(s.Regions) == 0 || s.Facts&lifetime.Addresses == 0 {
		return usable, 0
	}
	for _, use := range region.PoolsAt(s, m.Begin) {
		switch {
		case use.Pool != "":
			idle = units.AddSat(idle, use.Free.Total)
		case use.Stream == m.Stream && use.Free.Total > 0:
			usable.Total = units.AddSat(usable.Total, use.Free.Total)
			usable.Largest = max(usable.Largest, use.Free.Largest)
		}
	}
	return usable, idle
}

const mib = 1 << 20

// segmentFor returns what PyTorch asks of the driver for a request (get_allocation_size in c10/cuda/CUDACachingAllocator.cpp):
// a segment is larger than a small request.
func segmentFor(requested int64) int64 {
	switch {
	case requested <= mib:
		return 2 * mib
	case requested < 10*mib:
		return 20 * mib
	}
	return units.AddSat(requested, 2*mib-1) / (2 * mib) * (2 * mib)
}

// DidSurvive reports whether the program survived a failure: the text says so, or it went on, or it went on after several failures of
// the same request at the same call site before.
func DidSurvive(s *lifetime.Space, m *lifetime.Mark) bool {
	if m.Failure != nil || continued(s, m) {
		return m.Failure == nil || m.Failure.Survived
	}
	before := 0
	for i := range s.Marks { // by Begin
		if o := &s.Marks[i]; o.Begin >= m.Begin || before == manyCaught {
			break
		} else if o.Kind == lifetime.OOM && m.Site != 0 && o.Site == m.Site && o.Requested == m.Requested && continued(s, o) {
			before++
		}
	}
	return before == manyCaught
}

// continued reports whether the program allocated again after a recorded failure: as much as it had requested, often, or at the same
// call site, or began another step. What exception handlers allocate is less.
func continued(s *lifetime.Space, m *lifetime.Mark) bool {
	const often = 4096 // allocations; it also bounds the search
	later := int64(0)
	first := sort.Search(len(s.Buffers), func(i int) bool { return s.Buffers[i].Begin > m.Begin })
	for n, b := range s.Buffers[first:] {
		later = units.AddSat(later, b.Size)
		if m.Site != 0 && b.Site == m.Site || later >= max(m.Requested, 1) || n >= often {
			return true
		}
	}
	for n, mark := range slices.Backward(s.Marks) { // by Begin
		if mark.Begin <= m.Begin || mark.Kind == lifetime.Step || len(s.Marks)-n >= often {
			return mark.Begin > m.Begin && mark.Kind == lifetime.Step
		}
	}
	return false
}
