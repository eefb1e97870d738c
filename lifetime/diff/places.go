package diff

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/judge"
)

type placeSum struct {
	Figures
	place  lifetime.Place
	site   lifetime.SiteID // site with most bytes
	most   int64           // bytes of that site
	op     string          // its operation
	path   []string        // parts of the path of its file, base name first
	unseen bool            // memory from before the window, without a site
	names  string          // that the recorder found for its buffers, sorted; "" = none
	sizes  uint64          // a hash of those of its buffers, in any order
	mixed  bool            // they are not all equal
	first  int64           // one of them
	taken  bool            // by match
}

// placesOf sums up a space by place, in order of the first sites.
func placesOf(c *judge.Capture, side *Side, lines bool) (all []*placeSum) {
	if side == nil {
		return nil
	}
	index := map[lifetime.Place]*placeSum{}
	sumOf := func(p lifetime.Place) *placeSum {
		p = comparedPlace(p, lines)
		sum := index[p]
		if sum == nil {
			sum = &placeSum{place: p, path: pathOf(p.Frame.File), unseen: p == lifetime.Place{Unseen: true}}
			index[p] = sum
			all = append(all, sum)
		}
		return sum
	}
	for _, row := range side.sites {
		sum := sumOf(c.PlaceOf(row.Site))
		sum.add(Figures{row.AtPeak, row.AtEnd, row.Allocated})
		if most := max(row.AtPeak.Bytes, row.AtEnd.Bytes, row.Allocated.Bytes); sum.site == 0 || most > sum.most {
			sum.site, sum.most, sum.op = row.Site, most, c.Sites[row.Site].Op
		}
	}
	places := map[lifetime.SiteID]*placeSum{}
	for i := range side.Space.Buffers {
		b := &side.Space.Buffers[i]
		sum, ok := places[b.Site]
		if !ok {
			sum = sumOf(c.PlaceOf(b.Site))
			places[b.Site], sum.first = sum, cmp.Or(sum.first, b.Size)
		}
		sum.mixed = sum.mixed || b.Size != sum.first
		sum.sizes += mix(uint64(b.Size))
	}
	setNames(&c.Tables, side.Space, func(site lifetime.SiteID) *placeSum { return sumOf(c.PlaceOf(site)) })
	if base := side.Space.Base; base != 0 {
		amount := lifetime.Amount{Bytes: base, Requested: base}
		sumOf(lifetime.Place{Unseen: true}).add(Figures{Peak: amount, End: amount})
	}
	return all
}

func comparedPlace(p lifetime.Place, lines bool) lifetime.Place {
	p.Frame.Column, p.Inferred = 0, false
	if !lines {
		p.Frame.Line = 0
	}
	return p
}

// anonymous reports whether a side has allocations but no call sites.
func anonymous(side *Side, places []*placeSum) bool {
	if side.Space.UsageOnly() {
		return true
	}
	for _, p := range places {
		if p.place != (lifetime.Place{}) && p.place != (lifetime.Place{Unseen: true}) {
			return false
		}
	}
	return len(places) > 0
}

// pathOf splits a path, base name first.
func pathOf(file string) []string {
	parts := strings.Split(strings.ReplaceAll(file, `\`, "/"), "/")
	slices.Reverse(parts)
	return parts
}

// matched is a place on both sides; nil if a side lacks it.
type matched struct{ before, after *placeSum }

type placeKey struct {
	function, file string // base name of the file: checkouts are in different folders
	line           int
	node           string
	op, shape      string
	unseen         bool
}

func (p *placeSum) key(line int) placeKey {
	at := &p.place
	return placeKey{at.Frame.Function, p.path[0], line, at.Node, at.Op, at.Shape, at.Unseen}
}

// match pairs the places of two sides: those with the same names, the lines of a function in their order, because code
// moves, then places with their lines, then those in other folders without, then instructions without their numbers.
func match(before, after []*placeSum, lines bool) (all []matched) {
	stages := []func(p *placeSum) placeKey{
		func(p *placeSum) placeKey {
			return p.key(p.place.Frame.Line)
		},
		func(p *placeSum) placeKey { return p.key(0) },
		func(p *placeSum) placeKey { // the compiler numbers its instructions anew, and chooses layouts anew
			k := p.key(0)
			if p.op != "" {
				k.shape = ""
			}
			if p.op == "" && k.shape != "" {
				k.op, _, _ = strings.Cut(k.op, ".")
			}
			if p.op == "" && p.place.Frame.Kind == frame.Scope {
				k.function, _, _ = strings.Cut(k.function, ".")
			}
			return k
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
	pair := func(b, a *placeSum) { a.taken, b.taken, partner[b] = true, true, a }
	pairNamed(before, after, pair)
	if lines {
		alignLines(before, after, pair)
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
				pair(b, a)
			}
		}
	}
	pairEqual(before, after, pair)
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

// mix returns a number that looks random, so that a sum of them tells sets of sizes apart: the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// pairEqual pairs places that one side lacks if the buffers of both are the same set of different sizes, with the same
// bytes at the peak and at the end, and no other place has it: they were renamed. Buffers of one size are no evidence.
func pairEqual(before, after []*placeSum, pair func(b, a *placeSum)) {
	type key struct {
		Figures
		sizes  uint64
		unseen bool
	}
	pairOnly(before, after, func(p *placeSum) (key, bool) { return key{p.Figures, p.sizes, p.unseen}, !p.taken && p.mixed }, pair)
}

// inLineOrder returns places sorted by line; the sort is stable.
func inLineOrder(places []*placeSum) []*placeSum {
	sorted := slices.Clone(places)
	slices.SortStableFunc(sorted, func(x, y *placeSum) int { return cmp.Compare(x.place.Frame.Line, y.place.Frame.Line) })
	return sorted
}

// nearest returns the first candidate with the longest common end of the path, nil if all are taken.
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

// sameLines reports whether lines of two captures are comparable. Traces of the profiler before PyTorch 2.15 have the
// line of the def, one for each function; snapshots have the line of the call, several for each function.
func sameLines(before, after *judge.Capture) bool {
	return formatOf(before) == formatOf(after) || !ofDefs(before) && !ofDefs(after)
}

func formatOf(c *judge.Capture) string {
	if len(c.Sources) == 0 {
		return ""
	}
	return c.Sources[0].Format
}

// ofDefs reports whether every function has only one line.
func ofDefs(c *judge.Capture) bool {
	lines := map[[2]string]int{}
	for _, f := range c.Frames {
		if f.Kind != frame.User || f.Line == 0 {
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

// setNames sets the names of the places of a space. Groups have none: what they are tells more.
func setNames(t *lifetime.Tables, s *lifetime.Space, at func(lifetime.SiteID) *placeSum) {
	if s.Holders == nil || s.Ungrouped != nil {
		return
	}
	names := map[*placeSum]map[string]bool{}
	for i := range s.Buffers {
		h := t.HolderOf(s, i)
		if h == nil || h.Name == "" {
			continue
		}
		p := at(s.Buffers[i].Site)
		if names[p] == nil {
			names[p] = map[string]bool{}
		}
		names[p][holder.FoldIndexes(h.Name)] = true
	}
	for p, all := range names {
		p.names = strings.Join(slices.Sorted(maps.Keys(all)), "\n")
	}
}

// pairNamed pairs the places whose buffers have the same names, unless other places have them too: code moves to other
// lines, functions and files, a parameter keeps its name.
func pairNamed(before, after []*placeSum, pair func(b, a *placeSum)) {
	pairOnly(before, after, func(p *placeSum) (string, bool) { return p.names, p.names != "" }, pair)
}

// pairOnly pairs the places with a key that no other place of their side has.
func pairOnly[K comparable](before, after []*placeSum, key func(p *placeSum) (k K, ok bool), pair func(b, a *placeSum)) {
	only := func(places []*placeSum) map[K]*placeSum {
		index := map[K]*placeSum{}
		for _, p := range places {
			if k, ok := key(p); ok {
				if _, several := index[k]; several {
					p = nil
				}
				index[k] = p
			}
		}
		return index
	}
	was, is := only(before), only(after)
	for _, b := range before {
		if k, _ := key(b); is[k] != nil && was[k] == b {
			pair(b, is[k])
		}
	}
}

const maxPairs = 1 << 20

// alignLines pairs the lines of functions that both sides have. An edit moves all lines below it, so an equal number is
// weak evidence: the line below may have it now. alignLines keeps the order of the lines and takes the pairs that agree
// best in number, operation and mean size.
func alignLines(before, after []*placeSum, pair func(b, a *placeSum)) {
	type function struct {
		lines [2][]*placeSum
		mixed bool // several files have such a function
	}
	functions := map[placeKey]*function{}
	for side, places := range [][]*placeSum{before, after} {
		for _, p := range inLineOrder(places) {
			if p.taken {
				continue
			}
			f := functions[p.key(0)]
			if f == nil {
				f = &function{}
				functions[p.key(0)] = f
			}
			f.mixed = f.mixed || len(f.lines[side]) > 0 && !slices.Equal(f.lines[side][0].path, p.path)
			f.lines[side] = append(f.lines[side], p)
		}
	}
	for key, f := range functions {
		if b, a := f.lines[0], f.lines[1]; key.function != "" && !f.mixed && len(b)*len(a) <= maxPairs {
			align(b, a, pair)
		}
	}
}

// align pairs the lines of one function, in order, so that the sum of agreement is highest.
func align(before, after []*placeSum, pair func(b, a *placeSum)) {
	width := len(after) + 1
	best := make([]int, (len(before)+1)*width) // of the lines from i and k on, at i*width+k
	for i := range slices.Backward(before) {
		for k := range slices.Backward(after) {
			at := i*width + k
			best[at] = max(best[at+width], best[at+1], best[at+width+1]+agreement(before[i], after[k]))
		}
	}
	for i, k := 0, 0; i < len(before) && k < len(after); {
		switch at := i*width + k; best[at] {
		case best[at+width+1] + agreement(before[i], after[k]):
			pair(before[i], after[k])
			i, k = i+1, k+1
		case best[at+width]:
			i++
		default:
			k++
		}
	}
}

// agreement returns how much speaks for b and a being the same line: any two lines in order may be, a size says more
// than a number.
func agreement(b, a *placeSum) int {
	n := 4
	if b.place.Frame.Line == a.place.Frame.Line {
		n += 3
	}
	if b.op == a.op && b.op != "" {
		n += 2
	}
	if b.meanSize() == a.meanSize() {
		n += 4
	}
	return n
}

func (p *placeSum) meanSize() int64 {
	amount := p.Allocated
	if amount.Count == 0 {
		amount = p.End
	}
	return amount.Requested / max(amount.Count, 1)
}
