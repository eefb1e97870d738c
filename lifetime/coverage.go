package lifetime

import (
	"cmp"
	"slices"
)

// coverage is a set of addresses. Every buffer that ends adds to it, and next to
// no one asks: ranges are gathered and merged many at a time, and those of blocks
// that are used over and over are met again before they come that far.
type coverage struct {
	merged []addresses // in order, none touches another
	fresh  []addresses // in no order
	recent [1 << recentBits]addresses

	keys   []uint64    // scratch of sort
	sorted []addresses // scratch of sort
}

// addresses are a range [lo, hi).
type addresses struct{ lo, hi uint64 }

const (
	recentBits = 10
	maxFresh   = 1024
)

// add makes [lo, hi) part of the set.
func (c *coverage) add(lo, hi uint64) {
	const prime = 0x9E3779B97F4A7C15
	recent := &c.recent[lo*prime>>(64-recentBits)]
	if lo >= hi || recent.lo <= lo && hi <= recent.hi {
		return
	}
	*recent = addresses{lo, hi}
	if c.fresh = append(c.fresh, *recent); len(c.fresh) >= max(maxFresh, len(c.merged)/4) {
		c.merge()
	}
}

// merge brings what is fresh into order, in place, from the last range to the
// first.
func (c *coverage) merge() {
	c.sort()
	n, m := len(c.merged)-1, len(c.fresh)-1
	all := append(c.merged, c.fresh...)
	for k := len(all) - 1; m >= 0; k-- {
		if n >= 0 && c.merged[n].lo > c.fresh[m].lo {
			all[k], n = c.merged[n], n-1
		} else {
			all[k], m = c.fresh[m], m-1
		}
	}
	c.fresh, c.merged = c.fresh[:0], all[:0]
	for _, a := range all {
		if k := len(c.merged) - 1; k >= 0 && a.lo <= c.merged[k].hi {
			c.merged[k].hi = max(c.merged[k].hi, a.hi)
		} else {
			c.merged = append(c.merged, a)
		}
	}
}

// sort brings what is fresh into order: half of what a set costs. Addresses of
// programs have 48 bits, which leaves room for the place of a range in the number
// that is sorted.
func (c *coverage) sort() {
	const bits = 16
	keys, all := c.keys[:0], uint64(0)
	for i, a := range c.fresh {
		keys, all = append(keys, a.lo<<bits|uint64(i)), all|a.lo
	}
	if c.keys = keys; all>>(64-bits) != 0 || len(keys) > 1<<bits {
		slices.SortFunc(c.fresh, func(x, y addresses) int { return cmp.Compare(x.lo, y.lo) })
		return
	}
	slices.Sort(keys)
	c.sorted = append(c.sorted[:0], c.fresh...)
	for i, key := range keys {
		c.fresh[i] = c.sorted[key&(1<<bits-1)]
	}
}

// overlaps reports whether any address of [lo, hi) is in the set.
func (c *coverage) overlaps(lo, hi uint64) bool {
	after, _ := slices.BinarySearchFunc(c.merged, lo, func(a addresses, lo uint64) int {
		if a.hi <= lo {
			return -1
		}
		return 1
	})
	meets := func(a addresses) bool { return a.lo < hi && lo < a.hi }
	return lo < hi && (after < len(c.merged) && meets(c.merged[after]) || slices.ContainsFunc(c.fresh, meets))
}
