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

// largest moves the n candidates with the largest area to the front of all, largest first, and returns them.
func largest(all []candidate, n int) []candidate {
	n = min(n, len(all))
	if n == 0 {
		return nil
	}
	// Sorting a million candidates costs more than drawing them. The upper bits of positive floats have the order of
	// the floats: count by these bits, and sort only candidates that can be among the first n.
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

// Bytes of a file: the markup of a block with a tooltip besides its outline and its text, and what the outlines and
// tooltips of a picture of the default size may have, so that all of it has 40 KB. With MaxBlocks, each block may have
// as many as outlines and tooltips usually need.
const (
	blockCost     = 35
	defaultBudget = 26_000
	perBlock      = 170
)

// budgetOf returns how many bytes the outlines and tooltips of a picture may have. asked are the options as they were
// given, of with defaults.
func budgetOf(asked, of Options) int {
	if asked.MaxBlocks > 0 {
		return perBlock * max(defaultMaxBlocks, asked.MaxBlocks)
	}
	return int(defaultBudget * max(1, float64(of.Width)*float64(of.Height)/(defaultWidth*defaultHeight)))
}

// affordable returns how many of the largest blocks to try next: all of own if their outlines fit two thirds of the
// budget with other bytes, or a quarter, otherwise fewer. The rest is for tooltips.
func (p *picture) affordable(own []candidate, l *layout, others int) int {
	cost, room := 0, max(p.budget*2/3-others, p.budget/4)
	for i := range l.shapes {
		cost += p.outlineOf(l, &l.shapes[i]).Bytes()
	}
	if cost <= room {
		return len(own)
	}
	return min(len(own)-1, int(float64(len(own))*float64(room)/float64(cost)*.98))
}

// describe gives tooltips to the largest blocks, as far as the budget goes with all outlines. own is in that order.
func (p *picture) describe(l *layout, own []candidate) {
	left := p.budget
	shapes := map[int]*shape{}
	for i := range l.shapes {
		shapes[l.shapes[i].buffer] = &l.shapes[i]
		left -= p.outlineOf(l, &l.shapes[i]).Bytes()
	}
	for _, m := range l.merged {
		left -= m.path.Bytes()
	}
	for i := range own {
		if left -= blockCost + len(p.title(own[i].buffer)); left < 0 {
			return
		}
		shapes[own[i].buffer].titled = true
	}
}
