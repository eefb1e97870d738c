package fleet

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/finding"
)

// Comparison is what differs between two runs of a job. Ranks are matched by number and memory ID.
type Comparison struct {
	Kinds                     []KindChange
	OnlyBefore, OnlyAfter     []string // ranks
	NewPlaces                 []PlaceSum
	NewFindings, GoneFindings []*Group // above Info severity
	NotJudged                 int      // memories of damaged captures, which are not compared
}

// KindChange is what differs in one kind of memory: medians over the ranks of both runs, in bytes.
type KindChange struct {
	Name                  string
	Memories              int
	Peak, Reserved, Leaks [2]int64 // before and after
	Grown, Shrunk         *RankChange
}

// RankChange is the memories whose peak changed by more than a twentieth in one direction, and the medians of their
// changes.
type RankChange struct {
	Ranks      []string
	Role       string // as in OutlierGroup
	OfRole     int
	Off        int64
	Categories []CategoryExcess
	Places     []PlaceExcess
}

// changed is the change of a peak that counts, as a share of the peak before.
const changed = 0.05

// pair is a memory in two runs.
type pair struct{ before, after *member }

// Compare compares a run with an earlier one. given is nil if no table of roles is given.
func Compare(before, after *Fleet, given *Roles) *Comparison {
	out := &Comparison{}
	was, is := before.described(out, given), after.described(out, given)
	type key struct{ rank, id string }
	index := func(g *grouping) (map[key]*member, map[string]bool) {
		all, ranks := map[key]*member{}, map[string]bool{}
		for _, m := range g.members {
			rank := cmp.Or(m.of().Rank, path.Base(m.k.Name))
			ranks[rank] = true
			all[key{rank, m.of().Space().ID()}] = m
		}
		return all, ranks
	}
	old, oldRanks := index(was)
	now, nowRanks := index(is)
	out.OnlyBefore, out.OnlyAfter = without(oldRanks, nowRanks), without(nowRanks, oldRanks)

	pairs := map[string][]pair{}
	for k, m := range now {
		if o := old[k]; o != nil {
			pairs[m.kind] = append(pairs[m.kind], pair{o, m})
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(pairs)) {
		out.Kinds = append(out.Kinds, is.change(kind, pairs[kind]))
	}
	out.NewPlaces = newPlaces(was, is)
	out.NewFindings, out.GoneFindings = newFindings(before, after), newFindings(after, before)
	return out
}

func (m *member) of() *Memory { return &m.k.Memories[m.memory] }

// described returns the memories of the captures that were read as a whole, with their categories and places.
func (f *Fleet) described(out *Comparison, given *Roles) *grouping {
	g := &grouping{f: f, roles: f.rolesOf(given)}
	for _, k := range f.inOrder() {
		for i := range k.Memories {
			if k.Damaged() {
				out.NotJudged++
				continue
			}
			g.members = append(g.members, &member{k: k, memory: i, kind: finding.KindOf(k.Memories[i].Space())})
		}
	}
	g.describe()
	return g
}

// without returns the ranks that only the first set has.
func without(ranks, others map[string]bool) (only []string) {
	for _, rank := range slices.SortedFunc(maps.Keys(ranks), CompareRanks) {
		if !others[rank] {
			only = append(only, rank)
		}
	}
	return only
}

func (g *grouping) change(kind string, pairs []pair) KindChange {
	c := KindChange{Name: kind, Memories: len(pairs)}
	for _, of := range []struct {
		to    *[2]int64
		value func(*Memory) int64
	}{
		{&c.Peak, func(m *Memory) int64 { return m.Peak }}, {&c.Reserved, func(m *Memory) int64 { return m.ReservedPeak }}, {&c.Leaks, func(m *Memory) int64 { return m.Leaked }},
	} {
		var was, is []int64
		for _, p := range pairs {
			was, is = append(was, of.value(p.before.of())), append(is, of.value(p.after.of()))
		}
		*of.to = [2]int64{medianOf(was, len(was)), medianOf(is, len(is))}
	}
	var grown, shrunk []pair
	for _, p := range pairs {
		was, is := p.before.of().Peak, p.after.of().Peak
		switch off := float64(is) - float64(was); {
		case off > changed*float64(was):
			grown = append(grown, p)
		case off < -changed*float64(was):
			shrunk = append(shrunk, p)
		}
	}
	c.Grown, c.Shrunk = g.rankChange(grown, 1), g.rankChange(shrunk, -1)
	return c
}

// rankChange describes memories that changed in the direction of sign, nil if there are none.
func (g *grouping) rankChange(pairs []pair, sign int64) *RankChange {
	if len(pairs) == 0 {
		return nil
	}
	out := &RankChange{}
	var offs []int64
	var members []*member
	categories, places, layers := map[string][]int64{}, map[string][]int64{}, map[Part][]int64{}
	for _, p := range pairs {
		offs = append(offs, p.after.of().Peak-p.before.of().Peak)
		members = append(members, p.after)
		out.Ranks = append(out.Ranks, p.after.k.RankOf(p.after.memory))
		if len(p.before.categories) > 0 && len(p.after.categories) > 0 {
			collect(categories, differences(p.before.categories, p.after.categories))
			collect(layers, differences(p.before.parts, p.after.parts))
		}
		collect(places, differences(p.before.places, p.after.places))
	}
	slices.SortFunc(out.Ranks, CompareRanks)
	out.Ranks = slices.Compact(out.Ranks)
	out.Off = medianOf(offs, len(offs))
	out.Role, out.OfRole = g.roleOf(members)
	parts := mediansOf(layers, len(pairs))
	for _, e := range excesses(mediansOf(categories, len(pairs)), sign) {
		out.Categories = append(out.Categories, CategoryExcess{e.Place, layersOf(e.Place, parts, sign), e.Bytes})
	}
	out.Places = excesses(mediansOf(places, len(pairs)), sign)
	return out
}

// differences returns the changes that are not 0.
func differences[K comparable](was, is map[K]int64) map[K]int64 {
	out := map[K]int64{}
	for name, bytes := range is {
		if off := bytes - was[name]; off != 0 {
			out[name] = off
		}
	}
	for name, bytes := range was {
		if _, ok := is[name]; !ok {
			out[name] = -bytes
		}
	}
	return out
}

// mediansOf returns the median of n values of each name; those that are not given are 0.
func mediansOf[K comparable](all map[K][]int64, n int) map[K]int64 {
	out := map[K]int64{}
	for name, values := range all {
		full := append(make([]int64, n-len(values), n), values...) // values may be negative
		out[name] = medianOf(full, n)
	}
	return out
}

// lineOf matches the line in the name of a place: "step (train.py:41)".
var lineOf = regexp.MustCompile(`:\d+\)`)

// newPlaces returns the places at the peaks of a run that the earlier run does not have, most bytes first. A place
// whose line alone differs from one that is gone was moved by an edit, and is not new.
func newPlaces(was, is *grouping) (all []PlaceSum) {
	places := func(g *grouping) map[string][]int64 {
		all := map[string][]int64{}
		for _, m := range g.members {
			collect(all, m.places)
		}
		return all
	}
	old, now := places(was), places(is)
	gone := map[string]int{}
	for place := range old {
		if now[place] == nil {
			gone[lineOf.ReplaceAllString(place, ")")]++
		}
	}
	for _, place := range slices.Sorted(maps.Keys(now)) {
		name := lineOf.ReplaceAllString(place, ")")
		if old[place] != nil {
			continue
		}
		if gone[name] > 0 {
			gone[name]--
			continue
		}
		sum := PlaceSum{Place: place, Memories: len(now[place]), AtPeaks: spreadOf(now[place])}
		for _, bytes := range now[place] {
			sum.Bytes = units.AddSat(sum.Bytes, bytes)
		}
		all = append(all, sum)
	}
	slices.SortStableFunc(all, func(a, b PlaceSum) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return all
}

// newFindings returns the findings above Info severity that the earlier run has at no place of the same name.
func newFindings(before, after *Fleet) (all []*Group) {
	had := map[[2]string]bool{}
	for _, g := range before.Findings() {
		had[[2]string{g.Rule, lineOf.ReplaceAllString(g.Place, ")")}] = true
	}
	for _, g := range after.Findings() {
		if g.Severity != finding.Info.String() && !had[[2]string{g.Rule, lineOf.ReplaceAllString(g.Place, ")")}] {
			all = append(all, g)
		}
	}
	return all
}
