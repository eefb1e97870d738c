package leak

import (
	"fmt"
	"math"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of trend.
const (
	maxSlices  = 48 // of the window whose lowest levels are compared
	minSlices  = 18 // of them that are not the first third
	leastGrown = 0.05
	// flatFrom is the share of the window after which nothing is allocated in a
	// flat line, and minAllocations the number of allocations below which the rule is
	// silent about it.
	flatFrom       = 0.1
	minAllocations = 10
)

// trend finds a floor of the memory in use that rises from slice to slice of
// the window where no site leaks, or where sites are not known. It compares the lowest
// level of each slice with the one before: levels themselves wander, so that a
// regression of them finds trends in noise.
//
// It also names the opposite: a line that is flat because everything was
// allocated at the beginning.
func trend(p *Pass) []Finding {
	if p.compiled() {
		return nil
	}
	if share, flat := p.flat(); flat {
		return []Finding{p.flatLine(share)}
	}
	if p.leaks || p.Space.Facts&lifetime.History == 0 && !p.Space.UsageOnly() {
		return nil
	}
	floors := p.floors()
	tail := floors[len(floors)/3:]
	if len(tail) < minSlices {
		return nil
	}
	fell := 0
	for i := 1; i < len(tail); i++ {
		if tail[i] <= tail[i-1] {
			fell++
		}
	}
	grew := tail[len(tail)-1] - tail[0]
	if fell > 1 || shareOf(grew, p.highest().Bytes) < leastGrown { // of 17 coins at most one tails: 1 in 7,000
		return nil
	}
	f := Finding{Confidence: 1 - float64(fell+1)/float64(len(tail)), Amount: lifetime.Amount{Bytes: grew},
		Evidence:    []Evidence{figure(FigSlices, len(tail)), figure(FigNotHigher, fell), figure(FigGrown, grew)},
		Suggestions: []string{"Record allocations one by one with stacks, over more steps."}}
	unknown := "no call site shows why"
	if p.Space.UsageOnly() {
		f.Severity = Warning
		unknown = "only totals were recorded, not who allocated"
	}
	f.describe("", fmt.Sprintf("the lowest level of memory in use rose by %s over the last %d slices of the recording", units.Bytes(grew), len(tail)), unknown)
	return []Finding{f}
}

// floors returns the lowest levels of equal slices of the changes of the window.
func (p *Pass) floors() []int64 {
	levels := p.usage()
	n := min(maxSlices, len(levels)/2)
	floors := make([]int64, n)
	for i := range floors {
		floors[i] = math.MaxInt64
		for _, level := range levels[i*len(levels)/n : (i+1)*len(levels)/n] {
			floors[i] = min(floors[i], level.Bytes)
		}
	}
	return floors
}

// flat reports whether everything in the window happened at its beginning: in
// that share of it.
func (p *Pass) flat() (share float64, flat bool) {
	s := p.Space
	if s.Facts&lifetime.History == 0 || s.Allocations < minAllocations || s.Axis != lifetime.Time || len(s.Buffers) == 0 {
		return 0, false
	}
	share = p.busyShare()
	return share, share < flatFrom
}

// busyShare returns the share of the window up to the last allocation or free. Marks
// may go on after the last event of memory.
func (p *Pass) busyShare() float64 {
	end := p.Space.End
	for i := range p.Space.Marks {
		end = max(end, p.Space.Marks[i].End)
	}
	return float64(p.lastChange()-p.Space.Begin) / float64(end-p.Space.Begin)
}

// lastChange returns when a buffer began or ended last.
func (p *Pass) lastChange() (t int64) {
	for i := range p.Space.Buffers {
		b := &p.Space.Buffers[i]
		t = max(t, b.Begin)
		if b.Edge&lifetime.EndOpen == 0 {
			t = max(t, b.End)
		}
	}
	return t
}

func (p *Pass) flatLine(share float64) Finding {
	s := p.Space
	f := Finding{Confidence: 1, Amount: lifetime.Amount{Bytes: p.atEnd()}, Evidence: []Evidence{figure(FigShareOfWindow, share)},
		Suggestions: []string{"Look at the compiled programs: memlane peak --module NAME."}}
	f.describe("", fmt.Sprintf("all %s allocations and %s frees happened in the first %.1f %% of the recording; memory in use is flat after that, "+
		"as in programs that plan it when they are compiled (TPU), so this is not a leak", units.Count(int64(s.Allocations)), units.Count(int64(s.Frees)),
		math.Max(0.1, 100*share)))
	return f
}
