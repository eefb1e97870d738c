// Package region computes what the reserved memory of a space tells: how much the allocator reserved from the device,
// the pools and streams that divide it, and the holes in it.
//
// Its place in the pipeline: beside the methods of lifetime.Space, which count buffers. Everything here needs
// lifetime.Regions among the facts of a space; without them only [Levels] and [Reserved] have data, from totals.
package region

import (
	"cmp"
	"iter"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
)

// Reserved returns the bytes that the allocator had reserved from the device at the end
// of the window, and the peak. Both are 0 without regions and totals of them.
func Reserved(s *lifetime.Space) (end, peak int64) {
	for _, level := range Levels(s) {
		end, peak = level.Bytes, max(peak, level.Bytes)
	}
	return end, peak
}

// ReservedAt returns the reserved bytes at an instant.
func ReservedAt(s *lifetime.Space, t int64) (bytes int64) {
	for i := range s.Regions {
		if r := &s.Regions[i]; aliveAt(r, t) {
			bytes = units.AddSat(bytes, r.Size)
		}
	}
	return bytes
}

// Unused is the most bytes that the allocator had reserved, and how many of them no buffer has used since.
type Unused struct{ Reserved, Idle int64 }

// Idle returns what is reserved and not used. Idle is 0 if it is less than half, or less than 64 MiB, as every allocator has a few segments that are
// used in part (docs/evidence/rules.md), and if what was in use is not known.
func Idle(s *lifetime.Space) (of Unused) {
	const least = 64 << 20
	at := s.Begin
	for _, l := range Levels(s) {
		if l.Bytes > of.Reserved {
			at, of.Reserved = l.At, l.Bytes
		}
	}
	used, isKnown := s.LevelAt(at, lifetime.Occupied), false
	for l := range s.Levels(lifetime.Occupied) {
		isKnown = true
		if l.At >= at {
			used = max(used, l.Bytes)
		}
	}
	if idle := of.Reserved - max(used, 0); isKnown && s.Axis != lifetime.ProgramOrder && idle >= least && idle > of.Reserved/2 {
		of.Idle = idle
	}
	return of
}

// Moments returns a function that returns a space with only what is alive at an instant: its buffers and regions, or its last total. The
// instants must not fall; each costs what is alive then, and all together the space once. A result is valid until the next one.
func Moments(s *lifetime.Space) func(t int64) *lifetime.Space {
	now, buffers, regions, totals := *s, s.Buffers, s.Regions, s.Totals
	now.Buffers, now.Regions, now.Totals, now.EndOrder = nil, nil, nil, nil
	if s.UsageOnly() { // its totals decide, also before the first
		now.Stack = nil
	}
	return func(t int64) *lifetime.Space {
		for ; len(buffers) > 0 && buffers[0].Begin <= t; buffers = buffers[1:] {
			now.Buffers = append(now.Buffers, buffers[0])
		}
		kept := now.Buffers[:0]
		for _, b := range now.Live(t) {
			kept = append(kept, *b)
		}
		now.Buffers = kept
		for ; len(regions) > 0 && regions[0].Begin <= t; regions = regions[1:] {
			now.Regions = append(now.Regions, regions[0])
		}
		now.Regions = slices.DeleteFunc(now.Regions, func(r lifetime.Region) bool { return !aliveAt(&r, t) })
		for ; s.UsageOnly() && len(totals) > 0 && totals[0].T <= t; totals = totals[1:] {
			if totals[0].Measure != lifetime.Reserved {
				now.Totals = totals[:1]
			}
		}
		return &now
	}
}

// Planned returns the bytes that a compiled program needs of the memory of a space: all that XLA placed, also what lies between
// buffers. That must fit. It is 0 for other spaces.
func Planned(s *lifetime.Space) (bytes int64) {
	if s.Axis == lifetime.ProgramOrder {
		_, bytes = Reserved(s)
	}
	return bytes
}

// Levels returns the bytes reserved from the device after every change, in order
// of time. It uses the regions or, without any, the totals.
func Levels(s *lifetime.Space) []lifetime.Level {
	var levels []lifetime.Level
	if len(s.Regions) == 0 {
		for _, t := range s.Totals {
			if t.Measure == lifetime.Reserved {
				levels = append(levels, lifetime.Level{At: t.T, Bytes: t.Bytes})
			}
		}
		return levels
	}
	for i := range s.Regions {
		r := &s.Regions[i]
		if r.Uses&compiled.ForThreadLocal != 0 { // on stacks of the host
			continue
		}
		levels = append(levels, lifetime.Level{At: r.Begin, Bytes: r.Size})
		if r.Edge&lifetime.EndOpen == 0 {
			levels = append(levels, lifetime.Level{At: r.End, Bytes: -r.Size})
		}
	}
	// At the same instant, releases come first: a split region ends where its parts begin.
	slices.SortFunc(levels, func(x, y lifetime.Level) int { return cmp.Or(cmp.Compare(x.At, y.At), cmp.Compare(x.Bytes, y.Bytes)) })
	var sum units.Sum
	for i := range levels {
		sum.Add(levels[i].Bytes)
		levels[i].Bytes = sum.Value()
	}
	return levels
}

// LastOfEach yields the last level of each instant. The maximum is among them, because ends precede begins.
func LastOfEach(levels iter.Seq[lifetime.Level]) iter.Seq[lifetime.Level] {
	return func(yield func(lifetime.Level) bool) {
		var last lifetime.Level
		any := false
		for level := range levels {
			if any && level.At != last.At && !yield(last) {
				return
			}
			last, any = level, true
		}
		if any {
			yield(last)
		}
	}
}
