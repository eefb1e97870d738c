package blocks

import (
	"cmp"
	"math"
	"slices"
)

// smallest is the minimum width and height of a block with a separate shape, in tenths of
// a pixel. The mouse cannot point at smaller ones.
const smallest = 5

// areaBelow is the height below which blocks of the stacked layout are drawn together, as areas, in tenths of a pixel.
const areaBelow = 20

// candidate is a buffer that is large enough for a separate shape.
type candidate struct {
	area   float64 // size x lifetime
	buffer int
	k0, k1 int32 // columns [k0, k1) in the stacked layout
	class  uint8
}

// largest moves the n candidates with the largest area to the front of all,
// largest first, and returns them.
func largest(all []candidate, n int) []candidate {
	n = min(n, len(all))
	if n == 0 {
		return nil
	}
	// Sorting a million candidates costs more than drawing them. The upper bits of
	// positive floats have the order of the floats: count by these bits, and sort only
	// candidates that can be among the first n.
	key := func(c *candidate) uint64 { return math.Float64bits(c.area) >> 48 }
	count := make([]int, 1<<16)
	for i := range all {
		count[key(&all[i])]++
	}
	least, seen := uint64(len(count)), 0
	for seen < n {
		least--
		seen += count[least]
	}
	at := 0
	for i := range all {
		if key(&all[i]) >= least {
			all[at], all[i] = all[i], all[at]
			at++
		}
	}
	slices.SortFunc(all[:at], func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.area, a.area), cmp.Compare(a.buffer, b.buffer))
	})
	return all[:n]
}

// inOrder returns a copy of own in order of allocation.
func inOrder(own []candidate) []candidate {
	own = slices.Clone(own)
	slices.SortFunc(own, func(a, b candidate) int { return cmp.Compare(a.buffer, b.buffer) })
	return own
}

// Bytes of a file: the markup of one block without its texts, one corner of its outline,
// and the budget of all blocks. With it a picture of defaultMaxBlocks is below 2 MB.
const (
	blockCost  = 40
	cornerCost = 6
	budget     = 170 * defaultMaxBlocks
)

// affordable returns how many of the largest blocks to try next: all of own if they fit
// the budget with so many corners, otherwise fewer.
func (p *picture) affordable(own []candidate, corners int) int {
	cost := corners * cornerCost
	for i := range own {
		cost += blockCost + len(p.title(own[i].buffer))
	}
	limit := max(budget, budget/defaultMaxBlocks*p.o.MaxBlocks)
	if cost <= limit {
		return len(own)
	}
	return min(len(own)-1, int(float64(len(own))*float64(limit)/float64(cost)*0.98))
}
