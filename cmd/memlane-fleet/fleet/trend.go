package fleet

import (
	"cmp"
	"math"
	"path"
	"slices"

	"github.com/memlane/memlane/lifetime/finding"
)

// Trend collects the figures of runs of a job in their order. It does not keep their records.
type Trend struct {
	Runs []Run

	series map[seriesKey]*series
	roles  *Roles // of the last run
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
	CategoryBytes          int64
}

type seriesKey struct{ kind, rank, id string }

// series are the figures of one memory. Runs without it have no point.
type series struct {
	runs     []int
	captures []string
	values   [len(trendMeasures)][]float64
}

var trendMeasures = [...]struct {
	name string
	of   func(*Memory) int64
}{
	{"peak", func(m *Memory) int64 { return m.Peak }},
	{"reserved bytes", func(m *Memory) int64 { return m.ReservedPeak }},
	{"leaked bytes", func(m *Memory) int64 { return m.Leaked }},
}

// Add adds a run. Damaged captures are not judged. given is nil if no table of roles is given.
func (t *Trend) Add(name string, f *Fleet, given *Roles) {
	if t.series == nil {
		t.series = map[seriesKey]*series{}
	}
	type figures struct {
		peak, reserved, leaked, perStep []int64
		categories                      map[string]int64
	}
	kinds := map[string]*figures{}
	for _, k := range f.inOrder() {
		if k.Damaged() {
			continue
		}
		for i := range k.Memories {
			m := &k.Memories[i]
			kind := finding.KindOf(m.Space())
			of := kinds[kind]
			if of == nil {
				of = &figures{categories: map[string]int64{}}
				kinds[kind] = of
			}
			perStep := 0.0
			for _, found := range k.Findings {
				if found.Memory == i && IsLeak(found.Rule) && found.Severity != finding.Info.String() {
					perStep += found.BytesPerStep
				}
			}
			of.peak, of.reserved, of.leaked = append(of.peak, m.Peak), append(of.reserved, m.ReservedPeak), append(of.leaked, m.Leaked)
			of.perStep = append(of.perStep, int64(perStep))
			for _, c := range m.Categories {
				of.categories[c.Name] += c.Bytes
			}
			key := seriesKey{kind, cmp.Or(m.Rank, path.Base(k.Name)), m.Space().ID()}
			s := t.series[key]
			if s == nil {
				s = &series{}
				t.series[key] = s
			}
			if n := len(s.runs); n > 0 && s.runs[n-1] == len(t.Runs) { // a second capture of the rank
				continue
			}
			s.runs, s.captures = append(s.runs, len(t.Runs)), append(s.captures, k.Name)
			for j := range trendMeasures {
				s.values[j] = append(s.values[j], float64(trendMeasures[j].of(m)))
			}
		}
	}
	run := Run{name, map[string]RunFigures{}}
	for kind, of := range kinds {
		n := len(of.peak)
		figures := RunFigures{Memories: n, Peak: medianOf(of.peak, n), Reserved: medianOf(of.reserved, n), Leaked: medianOf(of.leaked, n), PerStep: medianOf(of.perStep, n)}
		figures.Category, _ = largestOf(of.categories, 1)
		figures.CategoryBytes = of.categories[figures.Category]
		run.Kinds[kind] = figures
	}
	t.Runs = append(t.Runs, run)
	t.roles = f.rolesOf(given)
}

// Series are the figures of one memory.
type Series struct {
	Kind, Rank, ID string
	Capture        string // the last
	Runs           []int  // indexes into Trend.Runs
	Values         [len(trendMeasures)][]float64
}

// TrendMeasures returns the names of the values of a Series.
func TrendMeasures() (names []string) {
	for _, m := range trendMeasures {
		names = append(names, m.name)
	}
	return names
}

// Series returns the figures of all memories, by kind and rank.
func (t *Trend) Series() (all []Series) {
	for key, s := range t.series {
		all = append(all, Series{key.kind, key.rank, key.id, s.captures[len(s.captures)-1], s.runs, s.values})
	}
	slices.SortFunc(all, func(a, b Series) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), CompareRanks(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
	})
	return all
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
	levels, noises := map[seriesKey][len(trendMeasures)]twoLevels{}, map[measured][]int64{}
	for key, s := range t.series {
		ranks[key.kind] = append(ranks[key.kind], key.rank)
		var all [len(trendMeasures)]twoLevels
		for j := range trendMeasures {
			all[j] = levelsOf(s.values[j])
			noises[measured{key.kind, j}] = append(noises[measured{key.kind, j}], int64(all[j].noise))
		}
		levels[key] = all
	}
	usual := map[measured]int64{}
	for of, values := range noises {
		usual[of] = spreadOf(values).Ninetieth
	}
	for key, s := range t.series {
		peak, _ := finding.Spread(s.values[0])
		for j, l := range levels[key] {
			if l.counts(len(s.runs), peak, float64(usual[measured{key.kind, j}])) {
				g := group{key.kind, j, s.runs[l.at], l.after > l.before}
				groups[g] = append(groups[g], found{key.rank, s.captures[l.at], int64(l.before), int64(l.after)})
			}
		}
	}
	for g, some := range groups {
		slices.SortFunc(some, func(a, b found) int { return cmp.Or(CompareRanks(a.rank, b.rank), cmp.Compare(a.capture, b.capture)) })
		p := ChangePoint{Kind: g.kind, Measure: trendMeasures[g.measure].name, Run: g.run, Capture: some[0].capture}
		var before, after []int64
		for _, f := range some {
			p.Ranks = append(p.Ranks, f.rank)
			before, after = append(before, f.before), append(after, f.after)
		}
		p.Before, p.After = medianOf(before, len(before)), medianOf(after, len(after))
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
		return cmp.Or(cmp.Compare(grows(a), grows(b)), cmp.Compare(len(b.Ranks), len(a.Ranks)), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Measure, a.Measure))
	})
	return all
}

// twoLevels are those that values are divided into best. at is the index of the first value of the second, 0 if there
// are too few.
type twoLevels struct {
	at            int
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
			best, l.at = sum, i
		}
	}
	if l.at == 0 {
		return l
	}
	l.before, _ = finding.Spread(values[:l.at])
	l.after, _ = finding.Spread(values[l.at:])
	rest := make([]float64, len(values))
	for i, v := range values {
		if i < l.at {
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

// counts reports whether the levels of n runs are a change: more than a twentieth of the peak, and more than the noise
// of these values and of those of nine tenths of the other memories. Of many memories, some have little noise in a few
// runs by chance.
func (l *twoLevels) counts(n int, peak, usual float64) bool {
	off, least := math.Abs(l.after-l.before), max(l.noise, usual)
	if l.at == n-1 { // a single run does not make a level
		least *= 2
	}
	return l.at > 0 && off > changed*peak && off > least && finding.FarOff(off, l.spread)
}

// rangeOf returns the distance from the least to the greatest value, without one in twenty that are furthest from 0.
func rangeOf(values []float64) float64 {
	values = slices.SortedFunc(slices.Values(values), func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	values = values[:len(values)-len(values)/20]
	return slices.Max(values) - slices.Min(values)
}
