package fleet

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
)

// Records returns all records in the order of their names, without the sites of their memories (see SiteRows).
func (f *Fleet) Records() iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		for _, k := range f.inOrder() {
			if !yield(&k.Record) {
				return
			}
		}
	}
}

// Record returns the record of a name with the sites of its memories, nil if there is none.
func (f *Fleet) Record(name string) *Record {
	k := f.records[name]
	if k == nil {
		return nil
	}
	r := k.Record
	r.Memories = slices.Clone(k.Memories)
	for i := range r.Memories {
		for n, t := range f.totalsOf(k, i) {
			t.Site = f.site(n)
			r.Memories[i].Sites = append(r.Memories[i].Sites, t)
		}
	}
	return &r
}

// SiteRow contains the totals of a site in one memory of a capture.
type SiteRow struct {
	Record *Record
	Memory int // index into Record.Memories
	Number int // of the site among all, in their order
	SiteTotals
}

// SiteRows returns the totals of every site in every memory: the memories in order, and the
// sites of each in the order of the binary form.
func (f *Fleet) SiteRows() iter.Seq[SiteRow] {
	return func(yield func(SiteRow) bool) {
		order := make([]uint32, len(f.sites.list))
		for n := range order {
			order[n] = uint32(n)
		}
		slices.SortFunc(order, f.compareSites)
		place := make([]int, len(order))
		sites := make([]Site, len(order))
		for i, n := range order {
			place[n], sites[n] = i, f.site(n)
		}
		for m := range f.members() {
			for _, t := range f.sortedTotals(m.k, m.number, func(n uint32) int { return place[n] }) {
				t.Site = sites[t.number]
				if !yield(SiteRow{&m.k.Record, m.number, place[t.number], t.SiteTotals}) {
					return
				}
			}
		}
	}
}

// RankOf returns the rank of a memory, or the name of the capture if it is unknown.
func (r *Record) RankOf(memory int) string { return cmp.Or(r.Memories[memory].Rank, r.Name) }

// CompareRanks orders the names of ranks by their numbers, those without one last.
func CompareRanks(a, b string) int {
	number := func(rank string) int {
		if n, ok := finding.RankNumber(rank); ok {
			return n
		}
		return math.MaxInt
	}
	return cmp.Or(cmp.Compare(number(a), number(b)), strings.Compare(a, b))
}

// Ranks returns the ranks of the captures that were read, in order. A memory without a rank
// counts as a rank with the name of its capture.
func (f *Fleet) Ranks() []string {
	ranks := map[string]bool{}
	for m := range f.members() {
		ranks[m.who] = true
	}
	return slices.SortedFunc(maps.Keys(ranks), CompareRanks)
}

// Gaps returns the ranks without a record between the least and the greatest number: their captures were never written,
// or not given. by finds the ranks of captures that were not read. If more numbers are absent than present, Gaps
// returns none: such numbers do not count ranks.
func (f *Fleet) Gaps(by finding.RankNames) (absent []string) {
	var numbers []int
	add := func(rank string) {
		if n, ok := finding.RankNumber(rank); ok && n >= 0 {
			numbers = append(numbers, n)
		}
	}
	for _, k := range f.records {
		add(by.Of("", k.Name))
		for i := range k.Memories {
			add(k.Memories[i].Rank)
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	if len(numbers) == 0 || numbers[len(numbers)-1]-numbers[0] >= 2*len(numbers) {
		return nil
	}
	for i, n := range numbers[1:] {
		for m := numbers[i] + 1; m < n; m++ {
			absent = append(absent, fmt.Sprintf("rank %d", m))
		}
	}
	return absent
}

// Spread is the exact distribution of a figure over many memories, in bytes.
type Spread struct {
	Least     int64 `json:"least_bytes"`
	Median    int64 `json:"median_bytes"`
	Ninetieth int64 `json:"ninetieth_bytes"` // 90 % are at most this
	Most      int64 `json:"most_bytes"`
}

func spreadOf(values []int64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	at := func(share float64) int64 { return values[int(share*float64(len(values)-1)+0.5)] }
	return Spread{values[0], at(0.5), at(0.9), values[len(values)-1]}
}

// SiteSum contains the totals of a site over all memories.
type SiteSum struct {
	SiteTotals
	Memories int    // in which the site occurs
	AtPeaks  Spread // of its bytes at the peak, over those memories
}

// Sites returns all sites, most bytes at the peaks first. Sums saturate.
func (f *Fleet) Sites() []SiteSum {
	sums := make([]SiteSum, len(f.sites.list))
	values := make([][]int64, len(f.sites.list))
	for m := range f.members() {
		for n, t := range f.totalsOf(m.k, m.number) {
			sums[n].add(&t)
			sums[n].Memories++
			values[n] = append(values[n], t.AtPeak.Bytes)
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
		return cmp.Or(cmp.Compare(y.AtPeak.Bytes, x.AtPeak.Bytes), cmp.Compare(y.AtEnd.Bytes, x.AtEnd.Bytes),
			cmp.Compare(y.Allocated.Bytes, x.Allocated.Bytes), f.compareSites(a, b))
	})
	all := make([]SiteSum, len(order))
	for i, n := range order {
		all[i] = sums[n]
		all[i].Site = f.site(n)
		all[i].AtPeaks = spreadOf(values[n])
	}
	return all
}

// Group is a finding that one or more memories have: the same rule at the same place.
type Group struct {
	Rule, Severity, Place string // the worst severity
	Found                 []Where
	Amount                lifetime.Amount // of all
	BytesPerStep          float64         // the median of those that know it
	HeldBy                []string        // the references that hold its buffers, those of most memories first
}

// Where is one memory that has a finding.
type Where struct {
	Record *Record
	Memory int // index into its memories
	Amount lifetime.Amount
}

// severities in the order in which groups are listed.
var severities = []string{finding.Critical.String(), finding.Warning.String(), finding.Info.String()}

// Findings returns the findings by rule and place: the worst first, then those
// that most memories have, then those of most bytes.
func (f *Fleet) Findings() []*Group {
	type signature struct{ rule, place string }
	groups := map[signature]*Group{}
	steps := map[*Group][]float64{}
	held := map[*Group]map[string]int{} // memories of each reference
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
			g.Found = append(g.Found, Where{&k.Record, found.Memory, found.Amount})
			g.Amount.Add(found.Amount)
			if found.HeldBy != "" {
				if held[g] == nil {
					held[g] = map[string]int{}
				}
				held[g][found.HeldBy]++
			}
			if found.BytesPerStep > 0 {
				steps[g] = append(steps[g], found.BytesPerStep)
			}
		}
	}
	all := make([]*Group, 0, len(groups))
	for _, g := range groups {
		if len(steps[g]) > 0 {
			g.BytesPerStep, _ = finding.Spread(steps[g])
		}
		g.HeldBy = ByCount(held[g])
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)),
			cmp.Compare(len(b.Found), len(a.Found)), cmp.Compare(b.Amount.Bytes, a.Amount.Bytes), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Place, b.Place))
	})
	return all
}

// Kind is one kind of memory of all captures, for example GPU memory. Figures of two kinds
// are not comparable. Sums saturate.
type Kind struct {
	Name     string     `json:"name"` // from finding.KindOf
	Memories int        `json:"memories"`
	Peaks    Spread     `json:"peaks"`       // occupied bytes
	Total    int64      `json:"total_bytes"` // sum of the peaks
	Base     int64      `json:"base_bytes"`  // part of Total: alive through the recording, without a buffer
	Places   []PlaceSum `json:"places"`
}

// PlaceSum contains the bytes of a place of the program at the peaks of the memories of a
// kind.
type PlaceSum struct {
	Place    string `json:"place"` // as in findings
	Bytes    int64  `json:"bytes"`
	Memories int    `json:"memories"` // in which it had bytes at the peak
	AtPeaks  Spread `json:"at_peaks"` // over those memories
}

// placeNames returns the names of the places of all sites, by number.
func (f *Fleet) placeNames() []string {
	places := make([]string, len(f.sites.list))
	for n := range places {
		s := f.site(uint32(n))
		places[n] = s.Place().String()
	}
	return places
}

// placesOf returns the bytes of each place at the peak of a memory. names are those of placeNames.
func (f *Fleet) placesOf(m *member, names []string) map[string]int64 {
	held := map[string]int64{}
	for n, t := range f.totalsOf(m.k, m.number) {
		if t.AtPeak.Bytes > 0 {
			held[names[n]] = units.AddSat(held[names[n]], t.AtPeak.Bytes)
		}
	}
	return held
}

func placeSumOf(place string, held []int64) PlaceSum {
	sum := PlaceSum{Place: place, Memories: len(held), AtPeaks: spreadOf(held)}
	for _, bytes := range held {
		sum.Bytes = units.AddSat(sum.Bytes, bytes)
	}
	return sum
}

// Kinds returns the bytes of each kind of memory at the peaks. The kinds, and the places of
// each, are sorted by bytes, most first.
func (f *Fleet) Kinds() []Kind {
	type sum struct {
		Kind
		peaks  []int64
		places map[string][]int64 // bytes in each memory
	}
	sums := map[string]*sum{}
	names := f.placeNames()
	for m := range f.members() {
		s := sums[m.kind]
		if s == nil {
			s = &sum{Kind: Kind{Name: m.kind, Places: []PlaceSum{}}, places: map[string][]int64{}}
			sums[m.kind] = s
		}
		s.Memories++
		s.peaks = append(s.peaks, m.Peak)
		s.Total = units.AddSat(s.Total, m.Peak)
		s.Base = units.AddSat(s.Base, m.Base)
		for place, bytes := range f.placesOf(m, names) {
			s.places[place] = append(s.places[place], bytes)
		}
	}
	all := make([]Kind, 0, len(sums))
	for _, s := range sums {
		s.Peaks = spreadOf(s.peaks)
		for place, held := range s.places {
			s.Places = append(s.Places, placeSumOf(place, held))
		}
		slices.SortFunc(s.Places, func(a, b PlaceSum) int {
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Place, b.Place))
		})
		all = append(all, s.Kind)
	}
	slices.SortFunc(all, func(a, b Kind) int { return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name)) })
	return all
}

// FailureGroup is failed allocations with one reason, that ended a program.
type FailureGroup struct {
	Reason     string // with its words
	Ranks      []string
	Requesters []string // places that asked, those of most ranks first
	WhatIf     *WhatIf  // nil if no change is known
}

// WhatIf is what would have lowered the peak of a rank most: the worst of a group for which a change is known.
type WhatIf struct {
	Rank string
	Change
}

func whatIfOf(m *member) *WhatIf {
	if m == nil {
		return nil
	}
	return &WhatIf{m.who, m.Change}
}

// Failures returns the failed allocations of all captures by reason, those of most ranks first.
func (f *Fleet) Failures() (all []FailureGroup) {
	ranks, requesters, worst := map[string][]string{}, map[string]map[string]int{}, map[string]*member{}
	for m := range f.members() {
		if m.Failed == "" {
			continue
		}
		ranks[m.Failed] = append(ranks[m.Failed], m.who)
		if m.Change.Saved > 0 && (worst[m.Failed] == nil || m.Peak > worst[m.Failed].Peak) {
			worst[m.Failed] = m
		}
		if requesters[m.Failed] == nil {
			requesters[m.Failed] = map[string]int{}
		}
		if m.Requester != "" {
			requesters[m.Failed][m.Requester]++
		}
	}
	for reason, failed := range ranks {
		slices.SortFunc(failed, CompareRanks)
		all = append(all, FailureGroup{reason, slices.Compact(failed), ByCount(requesters[reason]), whatIfOf(worst[reason])})
	}
	slices.SortFunc(all, func(a, b FailureGroup) int {
		return cmp.Or(cmp.Compare(len(b.Ranks), len(a.Ranks)), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// ByCount returns names, those with the most first.
func ByCount[N int | int64](counts map[string]N) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}
