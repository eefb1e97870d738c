package diff

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// placeSum is what a place comes to on one side.
type placeSum struct {
	Figures
	place  lifetime.Place
	site   lifetime.SiteID
	most   int64    // bytes of that site at its most
	path   []string // of its file, from the name upwards
	unseen bool     // what was alive before the window and is of no known site
	taken  bool
}

// placesOf sums a space up by place, in the order of their first sites.
func placesOf(c *lifetime.Capture, side *Side, lines bool) (all []*placeSum) {
	if side == nil {
		return nil
	}
	index := map[lifetime.Place]*placeSum{}
	for _, row := range side.sites {
		p := c.PlaceOf(row.Site)
		p.Frame.Column = 0
		if !lines {
			p.Frame.Line = 0
		}
		sum := index[p]
		if sum == nil {
			sum = &placeSum{place: p, path: pathOf(p.Frame.File)}
			index[p] = sum
			all = append(all, sum)
		}
		sum.add(Figures{row.AtPeak, row.AtEnd, row.Allocated})
		if most := max(row.AtPeak.Bytes, row.AtEnd.Bytes, row.Allocated.Bytes); sum.site == 0 || most > sum.most {
			sum.site, sum.most = row.Site, most
		}
	}
	if base := side.Space.Base; base != 0 {
		amount := lifetime.Amount{Bytes: base, Requested: base}
		all = append(all, &placeSum{unseen: true, Figures: Figures{Peak: amount, End: amount}})
	}
	return all
}

// anonymous reports whether nothing tells who allocated, though something did.
func anonymous(side *Side, places []*placeSum) bool {
	if side.Space.UsageOnly() {
		return true
	}
	for _, p := range places {
		if p.place != (lifetime.Place{}) {
			return false
		}
	}
	return len(places) > 0
}

// pathOf splits a path, the name of the file first.
func pathOf(file string) []string {
	parts := strings.Split(strings.ReplaceAll(file, `\`, "/"), "/")
	slices.Reverse(parts)
	return parts
}

// matched is a place on each side; nil where there is none.
type matched struct{ before, after *placeSum }

// placeKey is what two places must share to be the same.
type placeKey struct {
	function, file string // the name of the file alone: checkouts lie in different folders
	line           int
	op, shape      string
	unseen         bool
}

// match pairs the places of two sides: with their lines first, then without, as
// code moves; of several without lines in one function the order of lines
// decides. Operations match with their shapes, then without.
func match(before, after []*placeSum, lines bool) (all []matched) {
	stages := []func(p *placeSum) placeKey{
		func(p *placeSum) placeKey {
			return placeKey{p.place.Frame.Function, p.path[0], p.place.Frame.Line, p.place.Op, p.place.Shape, p.unseen}
		},
		func(p *placeSum) placeKey {
			return placeKey{p.place.Frame.Function, p.path[0], 0, p.place.Op, p.place.Shape, p.unseen}
		},
	}
	if !lines {
		stages = stages[1:]
	}
	partner := map[*placeSum]*placeSum{}
	for _, sides := range [][]*placeSum{before, after} {
		for _, p := range sides {
			if p.path == nil {
				p.path = []string{""}
			}
		}
	}
	for _, key := range stages {
		candidates := map[placeKey][]*placeSum{}
		for _, a := range inLineOrder(after) {
			if !a.taken {
				candidates[key(a)] = append(candidates[key(a)], a)
			}
		}
		for _, b := range inLineOrder(before) {
			if b.taken {
				continue
			}
			if a := nearest(b, candidates[key(b)]); a != nil {
				a.taken, b.taken, partner[b] = true, true, a
			}
		}
	}
	for _, b := range before {
		all = append(all, matched{b, partner[b]})
	}
	for _, a := range after {
		if !a.taken {
			all = append(all, matched{nil, a})
		}
	}
	return all
}

// inLineOrder returns places by line, those of one line as they are.
func inLineOrder(places []*placeSum) []*placeSum {
	sorted := slices.Clone(places)
	slices.SortStableFunc(sorted, func(x, y *placeSum) int { return cmp.Compare(x.place.Frame.Line, y.place.Frame.Line) })
	return sorted
}

// nearest returns the first candidate that shares most of the path.
func nearest(b *placeSum, candidates []*placeSum) (best *placeSum) {
	most := -1
	for _, a := range candidates {
		if a.taken {
			continue
		}
		shared := 0
		for shared < len(a.path) && shared < len(b.path) && a.path[shared] == b.path[shared] {
			shared++
		}
		if shared > most {
			best, most = a, shared
		}
	}
	return best
}

// sameLines reports whether the lines of two captures mean the same. Traces of the
// profiler before PyTorch 2.15 know the line of the def, snapshots that of the
// call: a function has one line there and several here.
func sameLines(before, after *lifetime.Capture) bool {
	if formatOf(before) == formatOf(after) {
		return true
	}
	return !ofDefs(before) && !ofDefs(after)
}

func formatOf(c *lifetime.Capture) string {
	if len(c.Sources) == 0 {
		return ""
	}
	return c.Sources[0].Format
}

// ofDefs reports whether every function has but one line.
func ofDefs(c *lifetime.Capture) bool {
	lines := map[[2]string]int{}
	for _, f := range c.Frames {
		if f.Kind != lifetime.User || f.Line == 0 {
			continue
		}
		key := [2]string{f.Function, f.File}
		if line, ok := lines[key]; ok && line != f.Line {
			return false
		}
		lines[key] = f.Line
	}
	return true
}
