package oom

import (
	"fmt"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/region"
)

// manyCaught is the number of equal failures that a program survived, from which the next one is no surprise to it.
const manyCaught = 4

// state sets what is known about a failed allocation: what a text says, and else the state of the space at that instant, whatever was freed
// later. now has what is alive then. Figures that are not known are -1. Without recorded pools, a request could use all free memory of its
// stream; never that of private pools.
func (d *Diagnosis) state(now *lifetime.Space, survived bool) {
	s, m := d.Space, d.Mark
	f, free, own := failure.Unknown(""), region.Holes{}, int64(0)
	if len(s.Regions) > 0 && s.Facts&lifetime.Addresses != 0 {
		for _, use := range region.PoolsAt(now, m.Begin) {
			free.Total, free.Largest = units.AddSat(free.Total, use.Free.Total), max(free.Largest, use.Free.Largest)
			switch {
			case use.Stream == m.Stream:
				own = units.AddSat(own, use.Free.Total)
			case use.Pool == "":
				d.elsewhere = units.AddSat(d.elsewhere, use.Free.Total)
			}
			switch {
			case use.Pool != "":
				d.privatePools = units.AddSat(d.privatePools, use.Free.Total)
			case use.Stream == m.Stream && use.Free.Total > 0:
				d.usable.Total, d.usable.Largest = units.AddSat(d.usable.Total, use.Free.Total), max(d.usable.Largest, use.Free.Largest)
			}
		}
		if own >= m.Requested {
			d.elsewhere = 0
		}
		f.LargestFree = free.Largest
		if f.Unallocated = free.Total; d.privatePools > 0 {
			f.Idle, f.Unallocated = d.privatePools, max(free.Total-d.privatePools, 0)
		}
	}
	if d.Failure = f; m.Failure != nil {
		d.Failure = *m.Failure
		return
	}
	d.Survived, d.Absurd = survived, m.Requested >= absurd
	d.Live = now.LevelAt(m.Begin, lifetime.Occupied)
	if s.Limit > 0 {
		d.Capacity = s.Limit
	}
	if len(s.Regions) > 0 {
		d.Reserved = region.ReservedAt(now, m.Begin)
	}
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

// Unfit says why a request of PyTorch did not fit although as much is free: how much more of the device would have been enough, unless a leak
// takes that, too, and why none of the allocator's free memory serves it. It returns "" if less is free, or if the reason says it.
func (d *Diagnosis) Unfit() string {
	idle, missing := max(d.Unallocated, 0), d.asked-d.free // a text has the size of the segment
	if d.Source == "" {
		missing = segmentFor(d.asked) - d.free
	}
	if d.Reason != Exhausted && d.Reason != Leak || d.by != torch || d.asked <= 0 || idle == 0 || d.free < 0 || units.AddSat(idle, d.free) < d.asked || missing <= 0 {
		return ""
	}
	words := fmt.Sprintf("the %s reserved but free are ", units.Bytes(idle))
	switch {
	case d.LargestFree < 0:
		words += "in smaller pieces or for other streams"
	case d.LargestFree < d.asked:
		words += "in pieces of at most " + units.Bytes(d.LargestFree)
	case d.usable.Largest >= d.asked && d.asked <= mib:
		words += "for requests of more than 1 MiB"
	default:
		words += "for other streams or pools"
	}
	if d.Reason == Leak {
		return words
	}
	return units.Bytes(missing) + " more would have been enough; " + words
}

// Survivors returns a function that reports whether the program survived a failure of a space: the text says so, or it went on, or it
// went on after several failures of the same request at the same call site before. It takes O(buffers + marks), the function O(1).
func Survivors(s *lifetime.Space) func(m *lifetime.Mark) bool {
	type request struct {
		site  lifetime.SiteID
		bytes int64
	}
	isFailure := func(m lifetime.Mark) bool { return m.Kind == lifetime.OOM }
	if !slices.ContainsFunc(s.Marks, isFailure) {
		return func(*lifetime.Mark) bool { return false }
	}
	goesOn := continued(s)
	caught := map[request][]int64{} // when it failed and the program went on
	for i := range s.Marks {
		if m := &s.Marks[i]; isFailure(*m) && m.Site != 0 && goesOn(m) {
			of := request{m.Site, m.Requested}
			caught[of] = append(caught[of], m.Begin)
		}
	}
	return func(m *lifetime.Mark) bool {
		if m.Failure != nil || goesOn(m) {
			return m.Failure == nil || m.Failure.Survived
		}
		before := caught[request{m.Site, m.Requested}]
		return len(before) >= manyCaught && before[manyCaught-1] < m.Begin
	}
}

// continued returns a function that reports whether the program allocated again after a recorded failure: as much as it had requested,
// often, or at the same call site, or began another step. What exception handlers allocate is less.
func continued(s *lifetime.Space) func(m *lifetime.Mark) bool {
	const often = 4096 // allocations
	last := s.Buffers[max(len(s.Buffers)-often, 0):]
	wentOn := s.Begin // up to here, more than the last or a step follow
	if before := len(s.Buffers) - len(last); before > 0 {
		wentOn = s.Buffers[before-1].Begin
	}
	for _, mark := range s.Marks[max(len(s.Marks)-often, 0):] {
		if mark.Kind == lifetime.Step {
			wentOn = max(wentOn, mark.Begin)
		}
	}
	rest := make([]int64, len(last)+1) // bytes of the buffers from each on
	for i, b := range slices.Backward(last) {
		rest[i] = units.AddSat(rest[i+1], b.Size)
	}
	latest := map[lifetime.SiteID]int64{} // when each site allocated last
	for i := range last {
		latest[last[i].Site] = last[i].Begin
	}
	delete(latest, 0)
	return func(m *lifetime.Mark) bool {
		first := sort.Search(len(last), func(i int) bool { return last[i].Begin > m.Begin })
		again, ok := latest[m.Site]
		return wentOn > m.Begin || ok && again > m.Begin || rest[first] >= max(m.Requested, 1)
	}
}
