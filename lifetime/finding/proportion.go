package finding

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/lifetime"
)

// The thresholds of comparison.
const (
	exactly    = 0.03 // maximum relative deviation of a size in proportion
	mostly     = 0.8  // minimum share of the buffers of a site that are in proportion
	nearlyEach = 0.8  // minimum share of the growths that have the size of a piece
	scalar     = 512  // maximum size of buffers that do not depend on a batch: losses, flags
	maxSizes   = 32   // maximum number of sizes of a site between two buffers of another site

	// maxCompared is the number of growing sites up to which each is compared with all others. With more, each is
	// compared with a part of the others, so that the time is not quadratic.
	maxCompared = 64
	// maxBusier is the maximum ratio of the allocations of another site. A site with hundreds of allocations in between
	// has a size in proportion to anything.
	maxBusier = 256
)

// comparison compares sites by the sizes of their buffers. It serves all sites with growing buffers: a handful in most
// programs, thousands in one with longer and longer sequences.
type comparison struct {
	p      *Pass
	all    []lifetime.SiteID // busy sites whose sizes may depend on the size of a batch
	stride int               // every stride-th of them is compared with a site

	bySize []int32   // buffers by requested size, computed when first needed
	found  []between // scratch memory of intervals
	sizes  []int64   // scratch memory of intervals
}

func (p *Pass) newComparison(sites int) *comparison {
	c := &comparison{p: p}
	buffers := 0
	for _, site := range p.histories.order {
		if h := p.histories.sites[site]; site != 0 && len(h.lifetimes) >= minGrowths && p.histories.Has(h.buffers[0]) && p.dependsOnBatch(site, h) {
			c.all = append(c.all, site)
			buffers += len(h.buffers)
		}
	}
	// Each comparison visits all buffers of the other site.
	c.stride = 1 + sites*buffers/(maxCompared*(1+p.histories.Between(0, len(p.Space.Buffers))))
	return c
}

// othersGrow reports whether the buffers of many other busy sites are in proportion to those of a site: all grow with
// the batch. A growing history is in proportion to little else.
func (c *comparison) othersGrow(own growingSite) bool {
	sites := c.p.histories.sites
	var others []*history
	for i := 0; i < len(c.all); i += c.stride {
		o := sites[c.all[i]]
		if !slices.Contains(own.sites, c.all[i]) && len(o.buffers) >= len(own.buffers)/2 &&
			len(o.buffers) <= maxBusier*len(own.buffers) {
			others = append(others, o)
		}
	}
	least := maxProportional * float64(max(len(others), 1))
	grow := 0
	for i, o := range others {
		if float64(grow+len(others)-i) < least {
			return false
		}
		if c.proportional(own.history, o, 0) || c.proportional(own.history, o, 1) {
			grow++
		}
		if float64(grow) >= least {
			return true
		}
	}
	return false
}

// dependsOnBatch reports whether the sizes of a site may depend on the size of a batch. Those of scalars and of
// optimizers (which have the sizes of weights) do not.
func (p *Pass) dependsOnBatch(site lifetime.SiteID, h *history) bool {
	return !p.program.At(site).Optimizes() &&
		slices.ContainsFunc(h.buffers, func(i int) bool { return p.Space.Buffers[i].Requested > scalar })
}

// between lists the sizes that a site allocates between two buffers of another site.
type between struct {
	size  int64   // of one of the two buffers
	sizes []int64 // distinct, at most maxSizes
}

// proportional reports whether o allocates, between each two buffers of h, one whose size is a fixed share of the
// buffer of h before it (next = 0) or after it (next = 1). Buffers that do not grow are in proportion to any of a fixed
// size.
func (c *comparison) proportional(h, o *history, next int) bool {
	all := c.intervals(h, o, next)
	if len(all) < minGrowths {
		return false
	}
	middle := all[len(all)/2]
	for _, size := range middle.sizes {
		share := float64(size) / float64(max(middle.size, 1))
		fits, least, most := 0, int64(math.MaxInt64), int64(0)
		for _, b := range all {
			if slices.ContainsFunc(b.sizes, func(x int64) bool {
				off := float64(x) - share*float64(b.size)
				return max(off, -off) < exactly*float64(x)
			}) {
				fits++
				least, most = min(least, b.size), max(most, b.size)
			}
		}
		if float64(fits) >= mostly*float64(len(all)) && float64(most) >= minFactor*float64(least) {
			return true
		}
	}
	return false
}

// intervals returns what o allocates between each two buffers of h. The next call overwrites the result.
func (c *comparison) intervals(h, o *history, next int) []between {
	buffers := c.p.Space.Buffers
	all, sizes := c.found[:0], c.sizes[:0]
	k, last, from := 0, -1, 0
	for _, i := range o.buffers {
		for k+1 < len(h.buffers) && h.buffers[k+1] < i {
			k++
		}
		if i < h.buffers[0] || k+next >= len(h.buffers) {
			continue
		}
		if k != last {
			all = append(all, between{size: buffers[h.buffers[k+next]].Requested})
			last, from = k, len(sizes)
		}
		size := buffers[i].Requested
		if seen := sizes[from:]; len(seen) < maxSizes && !slices.Contains(seen, size) {
			sizes = append(sizes, size)
			all[len(all)-1].sizes = sizes[from:len(sizes):len(sizes)] // stays valid when append moves sizes
		}
	}
	c.found, c.sizes = all, sizes
	return all
}

// joinsPieces reports whether a site grows by the sizes of other buffers that were allocated in between: the pieces of
// a concatenation. Sizes that are multiples of a block may be rounded. Buffers of backward passes and optimizers are
// left out: a sequence that grows by one token grows by the size of a bias, whose gradient each step allocates.
func (c *comparison) joinsPieces(h *history) bool {
	const block = 512
	all, joined, before := h.growths(), 0, c.p.histories.older-1
	for _, g := range all {
		after := c.p.histories.older + g.at.allocations - 1 // the buffer that is larger
		more := g.to - g.from
		rounded := g.to%block == 0 && g.from%block == 0
		if c.isPiece(more, before, after) || rounded && (c.isPiece(more-block, before, after) || c.isPiece(more+block, before, after)) {
			joined++
		}
		before = after
	}
	return len(all) > 0 && float64(joined) >= nearlyEach*float64(len(all))
}

// isPiece reports whether a buffer of a size was allocated between two others.
func (c *comparison) isPiece(size int64, before, after int) bool {
	same := c.ofSize(size)
	at, _ := slices.BinarySearch(same, int32(before+1))
	return at < len(same) && int(same[at]) < after
}

// ofSize returns the buffers of a requested size that may be pieces, in order of allocation.
func (c *comparison) ofSize(size int64) []int32 {
	buffers := c.p.Space.Buffers
	if c.bySize == nil {
		c.bySize = make([]int32, 0, len(buffers))
		piece := map[lifetime.SiteID]bool{}
		for i := range buffers {
			site := buffers[i].Site
			is, known := piece[site]
			if !known {
				of := c.p.program.At(site)
				is = !of.Backward() && !of.Optimizes() && c.p.histories.Has(i)
				piece[site] = is
			}
			if is {
				c.bySize = append(c.bySize, int32(i))
			}
		}
		slices.SortFunc(c.bySize, func(x, y int32) int {
			return cmp.Or(cmp.Compare(buffers[x].Requested, buffers[y].Requested), cmp.Compare(x, y))
		})
	}
	from := sort.Search(len(c.bySize), func(i int) bool { return buffers[c.bySize[i]].Requested >= size })
	like := c.bySize[from:]
	return like[:sort.Search(len(like), func(i int) bool { return buffers[like[i]].Requested > size })]
}
