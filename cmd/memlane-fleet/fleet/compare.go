package fleet

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"

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

// KindChange is what differs in one kind of memory.
type KindChange struct {
	Name          string
	Memories      int
	Medians       [len(trendMeasures)][2]int64 // of each measure, before and after
	Grown, Shrunk *RankChange
}

// RankChange is the memories whose peak changed by more than a twentieth in one direction, and the medians of their
// changes.
type RankChange struct {
	Ranks  []string
	Role   string // as in OutlierGroup
	OfRole int
	Off    int64
	Excess
}

// changed is the change of a peak that counts, as a share of the peak before.
const changed = 0.05

type pair struct{ before, after *member }

// Compare compares a run with an earlier one. given is nil if no table of roles is given.
func Compare(before, after *Fleet, given *Roles) *Comparison {
	out := &Comparison{}
	was, is := before.described(out, given), after.described(out, given)
	type key struct{ rank, id string }
	index := func(g *grouping) (map[key]*member, map[string]bool) {
		all, ranks := map[key]*member{}, map[string]bool{}
		for _, m := range g.members {
			rank := cmp.Or(m.Rank, path.Base(m.k.Name))
			ranks[rank] = true
			all[key{rank, m.Space().ID()}] = m
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

// described returns the memories of the captures that were read as a whole, with their categories and places.
func (f *Fleet) described(out *Comparison, given *Roles) *grouping {
	g := &grouping{f: f, roles: f.rolesOf(given)}
	for m := range f.members() {
		if m.k.Damaged() {
			out.NotJudged++
		} else {
			g.members = append(g.members, m)
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
	for i, measure := range trendMeasures {
		var was, is []int64
		for _, p := range pairs {
			was, is = append(was, measure.value(p.before.Memory)), append(is, measure.value(p.after.Memory))
		}
		c.Medians[i] = [2]int64{medianOf(was), medianOf(is)}
	}
	var grown, shrunk []pair
	for _, p := range pairs {
		was, is := float64(p.before.Peak), float64(p.after.Peak)
		switch off := is - was; {
		case off > changed*was:
			grown = append(grown, p)
		case off < -changed*was:
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
	var changes usual
	for _, p := range pairs {
		offs = append(offs, p.after.Peak-p.before.Peak)
		members = append(members, p.after)
		out.Ranks = append(out.Ranks, p.after.who)
		off := differences(p.before.held, p.after.held)
		if len(p.before.Categories) == 0 || len(p.after.Categories) == 0 { // the categories of one are unknown
			maps.DeleteFunc(off, func(what item, _ int64) bool { return !what.place })
		}
		changes.add(off)
	}
	slices.SortFunc(out.Ranks, CompareRanks)
	out.Ranks = slices.Compact(out.Ranks)
	out.Off = medianOf(offs)
	out.Role, out.OfRole = g.roleOf(members)
	out.Excess = excessOf(changes.medians(), sign)
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
			for what, bytes := range m.held {
				if what.place {
					all[what.name] = append(all[what.name], bytes)
				}
			}
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
		all = append(all, placeSumOf(place, now[place]))
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
