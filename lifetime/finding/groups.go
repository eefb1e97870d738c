package finding

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
)

// Thresholds of the rules about compiled programs.
const (
	smallBytes  = 16 << 10 // smaller buffers are not shown one by one in XProf's Memory Viewer
	maxFindings = 5        // groups of a space with a separate finding
)

// group is a set of buffers of a compiled program that one change of the source affects: one kind and shape from one
// place, such as the same line in every layer.
type group struct {
	groupKey
	sites  []lifetime.SiteID // in order of appearance; may repeat
	amount lifetime.Amount
	bytes  int64 // bytes that the rule counts
}

type groupKey struct {
	place   lifetime.Place
	kind    lifetime.Kind
	shape   string
	donated bool // an input that shares its memory with an output
}

// groupBuffers groups buffers, most bytes first. count returns the bytes of a buffer that the rule counts; buffers with
// 0 are omitted.
func groupBuffers(c *lifetime.Capture, s *lifetime.Space, buffers []int, count func(i int) int64) []group {
	index, donated := map[groupKey]int{}, donatedInputs(s)
	var groups []group
	for _, i := range buffers {
		n := count(i)
		if n <= 0 {
			continue
		}
		b := &s.Buffers[i]
		key := groupKey{c.PlaceOf(b.Site), b.Kind, c.Sites[b.Site].Shape, b.Kind == lifetime.Parameter && donated[b.Addr]}
		at, ok := index[key]
		if !ok {
			at = len(groups)
			index[key] = at
			groups = append(groups, group{groupKey: key})
		}
		groups[at].add(group{sites: []lifetime.SiteID{b.Site}, amount: amountOf(b), bytes: n})
	}
	// Buffers are in order of allocation, so the order of ties is deterministic.
	slices.SortStableFunc(groups, func(x, y group) int { return cmp.Compare(y.bytes, x.bytes) })
	return groups
}

// donatedInputs returns the addresses of allocations that hold an input and an output.
func donatedInputs(s *lifetime.Space) map[uint64]bool {
	const both = compiled.ForParameter | compiled.ForOutput
	at := map[uint64]bool{}
	for i := range s.Regions {
		if r := &s.Regions[i]; r.Uses&both == both && r.Size > 0 {
			at[r.Addr] = true
		}
	}
	return at
}

func (g *group) add(o group) {
	g.sites = append(g.sites, o.sites...)
	g.amount.Add(o.amount)
	g.bytes = units.AddSat(g.bytes, o.bytes)
}

// pick splits groups, sorted by bytes, into those with a separate finding and the sum of the others. The sum has the
// key of its largest group.
func pick(groups []group, large func(g *group) bool) (own []group, rest group) {
	for i := range groups {
		if len(own) < maxFindings && large(&groups[i]) {
			own = append(own, groups[i])
			continue
		}
		if rest.amount.Count == 0 {
			rest.groupKey = groups[i].groupKey
		}
		rest.add(groups[i])
	}
	return own, rest
}
