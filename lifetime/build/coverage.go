package build

import (
	"cmp"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/chunked"
)

// coverage is a set of addresses. Every buffer that ends adds to it, but queries are rare. So ranges are collected, and
// sorted only for a query or when there are many. recent filters the ranges of blocks that are reused again and again.
type coverage struct {
	merged []addresses             // sorted, with gaps between them
	fresh  chunked.List[addresses] // not sorted
	recent [1 << recentBits]addresses
}

// addresses are a range [lo, hi).
type addresses struct{ lo, hi uint64 }

const (
	recentBits = 10
	maxFresh   = 1 << 20 // 16 MiB
	// maxLinear limits the unsorted ranges that a query searches.
	maxLinear = 1 << 10
)

func (c *coverage) add(lo, hi uint64) {
	const prime = 0x9E3779B97F4A7C15
	recent := &c.recent[lo*prime>>(64-recentBits)]
	if lo >= hi || recent.lo <= lo && hi <= recent.hi {
		return
	}
	*recent = addresses{lo, hi}
	if c.fresh.Add(*recent); c.fresh.N >= max(maxFresh, len(c.merged)/4) {
		c.merge()
	}
}

// merge sorts and joins all ranges.
func (c *coverage) merge() {
	for a := range c.fresh.All() {
		c.merged = append(c.merged, *a)
	}
	c.fresh = chunked.List[addresses]{}
	slices.SortFunc(c.merged, func(x, y addresses) int { return cmp.Compare(x.lo, y.lo) })
	all := c.merged
	c.merged = c.merged[:0]
	for _, a := range all {
		if k := len(c.merged) - 1; k >= 0 && a.lo <= c.merged[k].hi {
			c.merged[k].hi = max(c.merged[k].hi, a.hi)
		} else {
			c.merged = append(c.merged, a)
		}
	}
}

// overlaps reports whether any address of [lo, hi) is in the set.
func (c *coverage) overlaps(lo, hi uint64) bool {
	if c.fresh.N > max(maxLinear, len(c.merged)/4) {
		c.merge()
	}
	after := sort.Search(len(c.merged), func(i int) bool { return c.merged[i].hi > lo })
	overlap := func(a addresses) bool { return a.lo < hi && lo < a.hi && lo < hi }
	if after < len(c.merged) && overlap(c.merged[after]) {
		return true
	}
	for a := range c.fresh.All() {
		if overlap(*a) {
			return true
		}
	}
	return false
}
