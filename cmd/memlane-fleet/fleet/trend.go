package fleet

import (
	"cmp"
	"maps"
	"math"
	"path"
	"slices"

	"github.com/memlane/memlane/lifetime/finding"
)

// Trend collects the figures of runs of a job in their order. It does not keep their records.
type Trend struct {
	Runs []Run

	series map[[3]string]*Series // by kind, rank and ID
	roles  *Roles                // of the last run
}

// Run has the figures of a run: medians over the ranks, in bytes.
type Run struct {
	Name  string
	Kinds map[string]RunFigures
}

// RunFigures are those of one kind of memory.
type RunFigures struct {
	Memories               int
	Peak, Reserved, Leaked int64
	PerStep                int64  // of the leaks of a memory together
	Category               string // with the most bytes at the peaks; "" if none is known
}

// Series are the figures of one memory. Runs without it have no point.
type Series struct {
	Kind, Rank, ID string
	Runs           []int    // indexes into Trend.Runs
	Captures       []string // of each run
	Values         [len(trendMeasures)][]float64
}

var trendMeasures = [...]struct {
	name  string
	value func(*Memory) int64
}{
	{"peak", func(m *Memory) int64 { return m.Peak }},
	{"reserved bytes", func(m *Memory) int64 { return m.ReservedPeak }},
	{"leaked bytes", func(m *Memory) int64 { return m.Leaked }},
}

// Add adds a run. Damaged captures are not judged. given is nil if no table of roles is given.
func (t *Trend) Add(name string, f *Fleet, given *Roles) {
	if t.series == nil {
		t.series = map[[3]string]*Series{}
	}
	type figures struct {
		peak, reserved, leaked, perStep []int64
		categories                      map[string]int64
	}
	kinds := map[string]*figures{}
	for m := range f.members() {
		if m.k.Damaged() {
			continue
		}
		kind := kinds[m.kind]
		if kind == nil {
			kind = &figures{categories: map[string]int64{}}
			kinds[m.kind] = kind
		}
		perStep := 0.0
		for _, found := range m.k.Findings {
			if found.Memory == m.number && IsLeak(found.Rule) && found.Severity != finding.Info.String() {
				perStep += found.BytesPerStep
			}
		}
		kind.peak, kind.reserved = append(kind.peak, m.Peak), append(kind.reserved, m.ReservedPeak)
		kind.leaked, kind.perStep = append(kind.leaked, m.Leaked), append(kind.perStep, int64(perStep))
		for _, c := range m.Categories {
			kind.categories[c.Name] += c.Bytes
		}
		key := [3]string{m.kind, cmp.Or(m.Rank, path.Base(m.k.Name)), m.Space().ID()}
		s := t.series[key]
		if s == nil {
			s = &Series{Kind: key[0], Rank: key[1], ID: key[2]}
			t.series[key] = s
		}
		if n := len(s.Runs); n > 0 && s.Runs[n-1] == len(t.Runs) { // a second capture of the rank
			continue
		}
		s.Runs, s.Captures = append(s.Runs, len(t.Runs)), append(s.Captures, m.k.Name)
		for i, measure := range trendMeasures {
			s.Values[i] = append(s.Values[i], float64(measure.value(m.Memory)))
		}
	}
	run := Run{name, map[string]RunFigures{}}
	for name, kind := range kinds {
		figures := RunFigures{
			Memories: len(kind.peak), Peak: medianOf(kind.peak), Reserved: medianOf(kind.reserved),
			Leaked: medianOf(kind.leaked), PerStep: medianOf(kind.perStep),
		}
		if names := ByCount(kind.categories); len(names) > 0 && kind.categories[names[0]] > 0 {
			figures.Category = names[0]
		}
		run.Kinds[name] = figures
	}
	t.Runs = append(t.Runs, run)
	t.roles = f.rolesOf(given)
}

// TrendMeasures returns the names of the values of a Series.
func TrendMeasures() (names []string) {
	for _, m := range trendMeasures {
		names = append(names, m.name)
	}
	return names
}

// Series returns the figures of all memories, by kind and rank.
func (t *Trend) Series() []*Series {
	return slices.SortedFunc(maps.Values(t.series), func(a, b *Series) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), CompareRanks(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
	})
}

// ChangePoint is a lasting change of a figure, on the ranks on which it begins in the same run.
type ChangePoint struct {
	Kind, Measure string
	Run           int // index into Runs: the first with the change
	Ranks         []string
	Role          string // as in OutlierGroup
	OfRole        int
	Before, After int64  // medians over the ranks
	Capture       string // the first with the change
}

// leastBefore is the number of runs before a change.
const leastBefore = 3

// Changes returns the largest change point of each figure of each memory, grouped by run, see twoLevels.counts.
func (t *Trend) Changes() (all []ChangePoint) {
	type group struct {
		kind    string
		measure int
		run     int
		grows   bool
	}
	type found struct {
		rank, capture string
		before, after int64
	}
	type measured struct {
		kind    string
		measure int
	}
	groups, ranks := map[group][]found{}, map[string][]string{}
	levels, noises := map[*Series][len(trendMeasures)]twoLevels{}, map[measured][]int64{}
	for _, s := range t.series {
		ranks[s.Kind] = append(ranks[s.Kind], s.Rank)
		var all [len(trendMeasures)]twoLevels
		for i := range trendMeasures {
			all[i] = levelsOf(s.Values[i])
			noises[measured{s.Kind, i}] = append(noises[measured{s.Kind, i}], int64(all[i].noise))
		}
		levels[s] = all
	}
	usual := map[measured]int64{}
	for what, values := range noises {
		usual[what] = spreadOf(values).Ninetieth
	}
	for s, all := range levels {
		peak, _ := finding.Spread(s.Values[0])
		for i, l := range all {
			if l.counts(len(s.Runs), peak, float64(usual[measured{s.Kind, i}])) {
				g := group{s.Kind, i, s.Runs[l.first], l.after > l.before}
				groups[g] = append(groups[g], found{s.Rank, s.Captures[l.first], int64(l.before), int64(l.after)})
			}
		}
	}
	for g, some := range groups {
		slices.SortFunc(some, func(a, b found) int {
			return cmp.Or(CompareRanks(a.rank, b.rank), cmp.Compare(a.capture, b.capture))
		})
		p := ChangePoint{Kind: g.kind, Measure: trendMeasures[g.measure].name, Run: g.run, Capture: some[0].capture}
		var before, after []int64
		for _, f := range some {
			p.Ranks = append(p.Ranks, f.rank)
			before, after = append(before, f.before), append(after, f.after)
		}
		p.Before, p.After = medianOf(before), medianOf(after)
		p.Role, p.OfRole = t.roles.common(p.Ranks, ranks[g.kind], ranks[g.kind])
		p.Ranks = slices.Compact(p.Ranks)
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b ChangePoint) int {
		grows := func(p ChangePoint) int {
			if p.After > p.Before {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(grows(a), grows(b)), cmp.Compare(len(b.Ranks), len(a.Ranks)),
			cmp.Compare(a.Run, b.Run), cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Measure, a.Measure))
	})
	return all
}

// twoLevels are those that values are divided into best. first is the index of the first value of the second, 0 if
// there are too few.
type twoLevels struct {
	first         int
	before, after float64
	spread, noise float64 // of the values around them
}

func levelsOf(values []float64) (l twoLevels) {
	reversed := slices.Clone(values)
	slices.Reverse(reversed)
	first, last := distances(values), distances(reversed)
	best := math.Inf(1)
	for i := leastBefore; i < len(values); i++ {
		if sum := first[i] + last[len(values)-i]; sum < best {
			best, l.first = sum, i
		}
	}
	if l.first == 0 {
		return l
	}
	l.before, _ = finding.Spread(values[:l.first])
	l.after, _ = finding.Spread(values[l.first:])
	rest := make([]float64, len(values))
	for i, v := range values {
		if i < l.first {
			rest[i] = v - l.before
		} else {
			rest[i] = v - l.after
		}
	}
	_, l.spread = finding.Spread(rest)
	l.noise = rangeOf(rest)
	return l
}

// distances returns, for each n, the sum of the distances of the first n values from their median.
func distances(values []float64) []float64 {
	sums := make([]float64, len(values)+1)
	var sorted []float64
	for i, v := range values {
		at, _ := slices.BinarySearch(sorted, v)
		sorted = slices.Insert(sorted, at, v)
		for j := range len(sorted) / 2 {
			sums[i+1] += sorted[len(sorted)-1-j] - sorted[j]
		}
	}
	return sums
}

// counts reports whether the levels of n runs are a change: more than a twentieth of the peak, and more than the
// noise of these values and of those of nine tenths of the other memories. Of many memories, some have little noise
// in a few runs by chance.
func (l *twoLevels) counts(n int, peak, usual float64) bool {
	off, least := math.Abs(l.after-l.before), max(l.noise, usual)
	if l.first == n-1 { // a single run does not make a level
		least *= 2
	}
	return l.first > 0 && off > changed*peak && off > least && finding.FarOff(off, l.spread)
}

// rangeOf returns the distance from the least to the greatest value, without one in twenty that are furthest from 0.
func rangeOf(values []float64) float64 {
	values = slices.SortedFunc(slices.Values(values), func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	values = values[:len(values)-len(values)/20]
	return slices.Max(values) - slices.Min(values)
}
