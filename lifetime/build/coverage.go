package build

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime/internal/chunked"
)

// coverage is a set of addresses. Every buffer that ends adds to it, and hardly
// anyone asks: so ranges are gathered, and brought into order when someone does, or
// when they are many. Those of blocks that are used over and over are met again
// before they come that far.
type coverage struct {
	merged []addresses             // in order, none touches another
	fresh  chunked.List[addresses] // in no order
	recent [1 << recentBits]addresses
}

// addresses are a range [lo, hi).
type addresses struct{ lo, hi uint64 }

const (
	recentBits = 10
	maxFresh   = 1 << 20 // 16 MiB
	// maxAsked is how many ranges in no order are looked through one by one.
	maxAsked = 1 << 10
)

// add makes [lo, hi) part of the set.
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

// merge brings all ranges into order.
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
	if c.fresh.N > max(maxAsked, len(c.merged)/4) {
		c.merge()
	}
	after, _ := slices.BinarySearchFunc(c.merged, lo, func(a addresses, lo uint64) int {
		if a.hi <= lo {
			return -1
		}
		return 1
	})
	meets := func(a addresses) bool { return a.lo < hi && lo < a.hi && lo < hi }
	if after < len(c.merged) && meets(c.merged[after]) {
		return true
	}
	for a := range c.fresh.All() {
		if meets(*a) {
			return true
		}
	}
	return false
}
