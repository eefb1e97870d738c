package fleet

import (
	"cmp"
	"iter"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

// Records returns all records in the order of their names, without the sites of
// their memories.
func (f *Fleet) Records() iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		for _, k := range f.inOrder() {
			if !yield(&k.Record) {
				return
			}
		}
	}
}

// Spread says how figures of many memories are distributed. All are exact.
type Spread struct{ Least, Median, Ninetieth, Most int64 }

func spreadOf(values []int64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	at := func(share float64) int64 { return values[int(share*float64(len(values)-1)+0.5)] }
	return Spread{values[0], at(0.5), at(0.9), values[len(values)-1]}
}

// SiteSum is what a site did in all memories together.
type SiteSum struct {
	SiteTotals
	Memories int    // in how many
	AtPeaks  Spread // of the bytes that were alive at the peak, over those memories
}

// Sites returns all sites, most bytes at the peaks first. Sums saturate.
func (f *Fleet) Sites() []SiteSum {
	sums := make([]SiteSum, len(f.sites.list))
	values := make([][]int64, len(f.sites.list))
	for _, k := range f.inOrder() {
		for i := range k.Memories {
			for n, t := range f.totalsOf(k, i) {
				sums[n].add(&t)
				sums[n].Memories++
				values[n] = append(values[n], t.AtPeak.Bytes)
			}
		}
	}
	var order []uint32
	for n := range sums {
		if sums[n].Memories > 0 {
			order = append(order, uint32(n))
		}
	}
	slices.SortFunc(order, func(a, b uint32) int {
		x, y := &sums[a], &sums[b]
		return cmp.Or(cmp.Compare(y.AtPeak.Bytes, x.AtPeak.Bytes), cmp.Compare(y.AtEnd.Bytes, x.AtEnd.Bytes), cmp.Compare(y.Allocated.Bytes, x.Allocated.Bytes),
			f.compareSites(a, b))
	})
	all := make([]SiteSum, len(order))
	for i, n := range order {
		all[i] = sums[n]
		all[i].Site = f.site(n)
		all[i].AtPeaks = spreadOf(values[n])
	}
	return all
}

// Group is a finding that one or more memories have: the same rule at the same
// place.
type Group struct {
	Rule, Severity, Place string // the worst severity
	Found                 []Where
	Amount                lifetime.Amount // of all
	BytesPerStep          float64         // the median of those that know it
}

// Where is one memory that has a finding.
type Where struct {
	Name, Rank, Device string // of its capture, its rank, its device
	Amount             lifetime.Amount
}

// severities in the order in which groups are listed.
var severities = []string{leak.Critical.String(), leak.Warning.String(), leak.Info.String()}

// Findings returns the findings by rule and place: the worst first, then those
// that most memories have, then those of most bytes.
func (f *Fleet) Findings() []*Group {
	type signature struct{ rule, place string }
	groups := map[signature]*Group{}
	steps := map[*Group][]float64{}
	for _, k := range f.inOrder() {
		for i := range k.Findings {
			found := &k.Findings[i]
			g := groups[signature{found.Rule, found.Place}]
			if g == nil {
				g = &Group{Rule: found.Rule, Severity: found.Severity, Place: found.Place}
				groups[signature{found.Rule, found.Place}] = g
			}
			if slices.Index(severities, found.Severity) < slices.Index(severities, g.Severity) {
				g.Severity = found.Severity
			}
			m := &k.Memories[found.Memory]
			g.Found = append(g.Found, Where{k.Name, m.Rank, m.Device, found.Amount})
			g.Amount.Add(found.Amount)
			if found.BytesPerStep > 0 {
				steps[g] = append(steps[g], found.BytesPerStep)
			}
		}
	}
	all := make([]*Group, 0, len(groups))
	for _, g := range groups {
		if len(steps[g]) > 0 {
			g.BytesPerStep, _ = leak.Spread(steps[g])
		}
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)), cmp.Compare(len(b.Found), len(a.Found)),
			cmp.Compare(b.Amount.Bytes, a.Amount.Bytes), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Place, b.Place))
	})
	return all
}

// Outliers compares the memories of all captures that were read, as
// leak.CompareRanks does.
func (f *Fleet) Outliers() []leak.Finding {
	var figures []leak.RankFigures
	for _, k := range f.inOrder() {
		for i := range k.Memories {
			m := &k.Memories[i]
			figures = append(figures, leak.RankFigures{
				Rank: m.Rank, File: k.Name, Peak: m.Peak, End: m.AtEnd, Growth: m.Growth, Leaked: m.Leaked,
				Space: &lifetime.Space{Host: m.Host, Process: m.Process, Device: m.Device, Memory: m.Memory, Allocator: m.Allocator},
			})
		}
	}
	return leak.CompareRanks(figures)
}
