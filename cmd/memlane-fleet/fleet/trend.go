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

// Changes returns the largest change point of each figure of each memory, grouped by run. A change must be more than a twentieth of
// the peak, and more than the noise between runs, as for outliers.
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
	groups, ranks := map[group][]found{}, map[string][]string{}
	for key, s := range t.series {
		ranks[key.kind] = append(ranks[key.kind], key.rank)
		peak, _ := finding.Spread(s.values[0])
		for j := range trendMeasures {
			if at, before, after := changeOf(s.values[j], peak); at > 0 {
				g := group{key.kind, j, s.runs[at], after > before}
				groups[g] = append(groups[g], found{key.rank, s.captures[at], int64(before), int64(after)})
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

// changeOf returns the point that divides values best into two levels, and the levels. at is 0 if there is no change that counts.
func changeOf(values []float64, peak float64) (at int, before, after float64) {
	best := math.Inf(1)
	for i := leastBefore; i < len(values); i++ {
		b, _ := finding.Spread(values[:i])
		a, _ := finding.Spread(values[i:])
		sum := 0.0
		for j, v := range values {
			if j < i {
				sum += math.Abs(v - b)
			} else {
				sum += math.Abs(v - a)
			}
		}
		if sum < best {
			best, at, before, after = sum, i, b, a
		}
	}
	if at == 0 {
		return 0, 0, 0
	}
	var rest []float64
	for j, v := range values {
		if j < at {
			rest = append(rest, v-before)
		} else {
			rest = append(rest, v-after)
		}
	}
	_, noise := finding.Spread(rest)
	if off := math.Abs(after - before); off <= changed*peak || !finding.FarOff(off, noise) {
		return 0, 0, 0
	}
	return at, before, after
}
