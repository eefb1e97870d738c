package leak

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of trending and spikes.
const (
	maxSlices  = 48 // of the window whose lowest levels are compared
	minSlices  = 18 // of them that are not the first third
	leastGrown = 0.05
	// flatFrom is the share of the window after which nothing is allocated in a
	// flat line, and minAllocations the number of allocations that makes that
	// worth a word.
	flatFrom       = 0.1
	minAllocations = 10
	minSteps       = 12   // that tell what a usual one needs
	outlier        = 1.5  // in quartile ranges, Tukey's rule
	muchMore       = 1.25 // times the usual peak: where all steps are alike, one byte is an outlier too
)

// trending finds a floor of the memory in use that rises from slice to slice of
// the window where no site leaks, or where sites are not known. The lowest level of each
// slice is compared with the one before: levels themselves wander, so that a
// regression of them finds trends in noise.
//
// It also names the opposite: a line that is flat because everything was
// allocated at the beginning.
func trending(l Look) []Finding {
	s := l.Space
	if l.Function != nil || s.Axis == lifetime.ProgramOrder {
		return nil
	}
	if share, flat := l.flat(); flat {
		return []Finding{l.flatLine(share)}
	}
	if l.leaks || s.Facts&lifetime.History == 0 && !s.UsageOnly() {
		return nil
	}
	floors := l.floors()
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
	if fell > 1 || shareOf(grew, l.highest().Bytes) < leastGrown { // of 17 coins at most one tails: 1 in 7,000
		return nil
	}
	f := Finding{Confidence: 1 - float64(fell+1)/float64(len(tail)), Amount: lifetime.Amount{Bytes: grew},
		Evidence: []Evidence{{Name: "slices", Value: float64(len(tail))}, {Name: "not_higher", Value: float64(fell)}, {Name: "grown_bytes", Value: float64(grew)}},
		Description: fmt.Sprintf("the lowest level of each of the last %d slices of the window is higher than that of the one before: it grew by %s, and no site shows why",
			len(tail), units.Exact(grew)),
		Suggestions: []string{"Record allocations one by one with stacks, over more steps: the rule \"leak\" then names the site."}}
	if s.UsageOnly() {
		f.Severity = Warning
		f.Description = fmt.Sprintf("the lowest level of each of the last %d slices of the window is higher than that of the one before: it grew by %s; only the usage is known, not who held it",
			len(tail), units.Exact(grew))
	}
	return []Finding{f}
}

// floors returns the lowest levels of equal slices of the changes of the window.
func (l Look) floors() []int64 {
	levels := l.usage()
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
func (l Look) flat() (share float64, flat bool) {
	s := l.Space
	if n := len(s.Buffers); s.Facts&lifetime.History == 0 || s.Allocations < minAllocations || s.Axis != lifetime.Time || n == 0 {
		return 0, false
	}
	share = l.busyShare()
	return share, share < flatFrom
}

// busyShare is the share of the window up to the last allocation or free. Marks
// may go on after the last event of memory.
func (l Look) busyShare() float64 {
	end := l.Space.End
	for i := range l.Space.Marks {
		end = max(end, l.Space.Marks[i].End)
	}
	return float64(l.lastChange()-l.Space.Begin) / float64(end-l.Space.Begin)
}

// lastChange returns when a buffer began or ended last.
func (l Look) lastChange() (t int64) {
	for i := range l.Space.Buffers {
		b := &l.Space.Buffers[i]
		t = max(t, b.Begin)
		if b.Edge&lifetime.EndOpen == 0 {
			t = max(t, b.End)
		}
	}
	return t
}

func (l Look) flatLine(share float64) Finding {
	s := l.Space
	return Finding{Confidence: 1, Amount: lifetime.Amount{Bytes: l.atEnd()}, Evidence: []Evidence{{Name: "share_of_window", Value: share}},
		Description: fmt.Sprintf("all %s allocations and %s frees lie in the first %.1f %% of the window; after that the line is flat, as it usually is "+
			"where programs plan their memory when they are compiled (TPU): no leak", units.Count(int64(s.Allocations)), units.Count(int64(s.Frees)),
			math.Max(0.1, 100*share)),
		Suggestions: []string{"To see who uses that memory, look at the compiled programs: memlane peak --module NAME."}}
}

// spikes finds steps whose peak is far above the usual: an evaluation, a long
// sequence. The peak of the job is theirs.
func spikes(l Look) []Finding {
	in := l.inSteps()
	if l.leaks || l.Function != nil || !l.dynamic() || len(in.begins) < minSteps { // with a leak the last steps are the highest
		return nil
	}
	peaks := make([]lifetime.Level, len(in.begins)) // of each step
	step := 0
	for _, level := range l.usage() {
		for step+1 < len(in.begins) && level.At >= in.begins[step+1] {
			step++
		}
		if level.At >= in.begins[0] && level.Bytes > peaks[step].Bytes {
			peaks[step] = level
		}
	}
	sorted := make([]int64, len(peaks))
	for i, p := range peaks {
		sorted[i] = p.Bytes
	}
	slices.Sort(sorted)
	quartile := func(q int) float64 { return float64(sorted[q*(len(sorted)-1)/4]) }
	bound := max(quartile(3)+outlier*(quartile(3)-quartile(1)), muchMore*quartile(2))
	n := len(sorted) - sort.Search(len(sorted), func(i int) bool { return float64(sorted[i]) > bound })
	if n == 0 {
		return nil
	}
	worst, usual := 0, peaks[0]
	for i, p := range peaks {
		if p.Bytes > peaks[worst].Bytes {
			worst = i
		}
		if p.Bytes == sorted[len(sorted)/2] {
			usual = p
		}
	}
	highest := peaks[worst]
	f := Finding{Confidence: 0.9, Amount: lifetime.Amount{Bytes: highest.Bytes - usual.Bytes},
		Evidence: []Evidence{{Name: "steps_above", Value: float64(n)}, {Name: "steps", Value: float64(len(peaks))}, {Name: "peak", Value: float64(highest.Bytes)},
			{Name: "usual_peak", Value: float64(usual.Bytes)}, {Name: "step", Value: float64(worst)}}}
	if site, bytes, ok := l.difference(usual.At, highest.At); ok {
		f.Sites = []lifetime.SiteID{site}
		f.Description = fmt.Sprintf(", most of it %s with %s more", l.PlaceOf(site), units.Bytes(bytes))
	}
	f.Description = fmt.Sprintf("%s of %s steps need much more than the usual one: step %s %s, the usual one %s", units.Count(int64(n)),
		units.Count(int64(len(peaks))), units.Count(int64(worst)), units.Exact(highest.Bytes), units.Bytes(usual.Bytes)) + f.Description
	f.Suggestions = []string{"These steps decide whether the job fits: split them (smaller evaluation batches, a bound on the sequence length, no_grad)."}
	return []Finding{f}
}

// difference returns the site with most bytes more at one instant than at another.
func (l Look) difference(before, after int64) (site lifetime.SiteID, bytes int64, ok bool) {
	was := map[lifetime.SiteID]int64{}
	for _, row := range l.Space.Breakdown(before) {
		was[row.Site] += row.Bytes
	}
	for _, row := range l.Space.Breakdown(after) {
		if more := row.Bytes - was[row.Site]; row.Kind.OfBuffers() && more > bytes {
			site, bytes, ok = row.Site, more, true
		}
	}
	return site, bytes, ok
}
