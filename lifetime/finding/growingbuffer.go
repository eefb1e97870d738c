package finding

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// The thresholds of growingBuffer.
const (
	minGrowths = 6   // minimum number of rises of the floor of the bytes of a site
	minFactor  = 1.5 // minimum ratio of the last floor to the first
	minLarger  = 0.8 // minimum share of the freed buffers that a larger one replaced
	// maxEarlier is the maximum level before the growth as a share of the last floor: a cache that is dropped and grows
	// again does not leak.
	maxEarlier = 0.2
	// maxProportional is the maximum share of other sites whose buffers grow in proportion. With more, the program
	// processes more and more data, such as longer sequences.
	maxProportional = 0.4
	// minThird is the minimum share of the growth in each third of the time: growth that slows down ends.
	minThird = 0.15
	// A buffer grows by a factor if it does so minDoublings times, at least by leastFactor, and if the pauses grow like
	// the sizes, within the factor maxOff: it is a log whose capacity grows by a factor when it is full.
	minDoublings = 4
	leastFactor  = 1.4
	maxOff       = 2
)

// growingBuffer finds sites that replace their buffer by a larger one again and again:
//
//	hist = torch.cat([hist, x])
//
// No buffer lives long, so their number is stable. But the floor of the live bytes of the site keeps rising, like the
// floor of the number in a leak, and a larger buffer replaces each freed one. Sequences whose lengths vary or grow
// leave nothing between two steps: their floor is level.
//
// A site is a line: the shape of a result is a part of the site of an operation, so each of its buffers may have another site.
func growingBuffer(p *Pass) []Finding {
	growing := p.growingSites()
	if len(growing) == 0 {
		return nil
	}
	all, compare := newPlaces(), p.newComparison(len(growing))
	for _, g := range growing {
		if compare.othersGrow(g) && !compare.joinsPieces(g.history) {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(g.open), func(i int) bool { return p.Space.Buffers[i].Edge&lifetime.Pending != 0 })
		if len(kept) > 0 {
			f := all.at(p.PlaceOf(p.Space.Buffers[kept[0]].Site))
			f.merge(p.Space, p.Space.Buffers[kept[0]].Site, kept, g.history)
			f.first = p.Space.Buffers[g.buffers[0]]
		}
	}
	return all.conclude(func(place lifetime.Place, f *Finding) bool {
		oldest := &f.first
		first, last, largest := oldest.Size, p.Space.Buffers[f.Kept[0]].Size, int64(0)
		for _, i := range f.Kept {
			largest = max(largest, p.Space.Buffers[i].Size)
		}
		f.Severity = Warning
		f.add(figure(FigFirstBytes, first), figure(FigLastBytes, last))
		grew := fmt.Sprintf("one buffer grew from %s to %s", units.Bytes(first), units.Bytes(last))
		if n := f.Amount.Count; n > 1 {
			grew = fmt.Sprintf("%s buffers grew, the first from %s to %s", units.Count(n), units.Bytes(first), units.Bytes(last))
		}
		f.describe(place.String(), grew, p.outlook(f, oldest.Begin, largest)...)
		f.blame(Concatenation, place)
		return last > first // else it grows within its block
	})
}

type growingSite struct {
	*history
	sites []lifetime.SiteID
}

// growingSites returns the sites, and else the lines, whose buffers are each larger than the previous one. Last come the lines of
// libraries, whichever line of the program called: a prompt and the tokens after it extend the same keys and values.
func (p *Pass) growingSites() (growing []growingSite) {
	lines, order := p.linesOf()
	var own, together, chains [][]lifetime.SiteID
	inner := map[lifetime.FrameID]int{} // index in chains
	for _, place := range order {
		for _, site := range lines[place].sites {
			own = append(own, []lifetime.SiteID{site})
			at := p.program.LineOf(site)
			if at == 0 || p.Frames[at].Kind != frame.Framework || len(p.histories.sites[site].freed) == 0 {
				continue
			}
			if _, known := inner[at]; !known {
				inner[at], chains = len(chains), append(chains, nil)
			}
			chains[inner[at]] = append(chains[inner[at]], site)
		}
		if place != (lifetime.Place{}) {
			together = append(together, lines[place].sites)
		}
	}
	known := map[lifetime.Place]bool{}
	for _, groups := range [][][]lifetime.SiteID{own, together, chains} {
		for i := range groups {
			groups[i] = slices.DeleteFunc(groups[i], func(site lifetime.SiteID) bool { return known[p.PlaceOf(site)] })
		}
		for _, sites := range p.replacing(groups) {
			g := growingSite{p.histories.sites[sites[0]], sites}
			if len(sites) > 1 {
				g.history = p.merged(sites)
			}
			if p.grows(g) {
				growing = append(growing, g)
			}
		}
		for _, g := range growing {
			for _, site := range g.sites {
				known[p.PlaceOf(site)] = true
			}
		}
	}
	return growing
}

// replacing returns the groups of sites that retain a buffer and in which a larger buffer replaced most of those that were freed: the last
// one that was allocated before the free. To merge the histories of all groups costs more than all other rules.
func (p *Pass) replacing(groups [][]lifetime.SiteID) [][]lifetime.SiteID {
	of := make([]int32, len(p.histories.sites)) // from 1; 0 = none
	for k, sites := range groups {
		if slices.ContainsFunc(sites, func(site lifetime.SiteID) bool { return len(p.histories.sites[site].open) > 0 }) {
			for _, site := range sites {
				of[site] = int32(k) + 1
			}
		}
	}
	uses := make([]struct{ last, freed, larger int64 }, len(groups)+1)
	for c := range p.Space.Changes() {
		b := &p.Space.Buffers[c.Buffer]
		switch u := &uses[of[b.Site]]; {
		case b.Edge&lifetime.BeginUnseen != 0:
		case c.Begin:
			u.last = b.Requested
		default:
			if u.freed++; u.last > b.Requested {
				u.larger++
			}
		}
	}
	var all [][]lifetime.SiteID
	for k, sites := range groups {
		if u := &uses[k+1]; u.freed >= minDoublings && shareOf(u.larger, u.freed) >= minLarger {
			all = append(all, sites)
		}
	}
	return all
}

func (p *Pass) grows(g growingSite) bool {
	if !p.histories.growsBySize(g.history) && !p.histories.growsByFactor(g.history) {
		return false
	}
	least, _ := p.verdict(g.history) // it may also grow in number
	return least == 0 && !slices.ContainsFunc(g.sites, p.inOneCall)
}

type growth struct {
	at       moment
	from, to int64
}

func (h *history) growths() (all []growth) {
	if len(h.levels) == 0 {
		return nil
	}
	floor := h.levels[len(h.levels)-1].bytes
	for i := len(h.levels) - 2; i >= 0; i-- {
		if bytes := h.levels[i].bytes; bytes < floor {
			all = append(all, growth{h.levels[i+1].at(), bytes, floor})
			floor = bytes
		}
	}
	slices.Reverse(all)
	return all
}

func (h *histories) growsBySize(site *history) bool {
	all := site.growths()
	until := h.end.work - site.lag()
	n := 0
	var rises []moment
	for _, g := range all {
		if g.at.work <= until {
			n++
		}
		rises = append(rises, g.at)
	}
	if n < minGrowths || len(site.lifetimes) < minGrowths || !h.keepsRising(rises, site.lag(), minGrowths) {
		return false
	}
	first, last := all[0], all[n-1]
	return float64(last.to) >= minFactor*float64(max(first.to, 1)) && inEachThird(all[:n]) &&
		!site.wasDropped(first, last.to)
}

// growsByFactor reports whether a site replaces its buffer by a larger one whenever it is full, and goes on: the pauses
// grow like the sizes, and the next one is not overdue.
func (h *histories) growsByFactor(site *history) bool {
	all := site.growths()
	n := 1 // growths at the end that fit
	for i := len(all) - 1; i > 0 && float64(all[i].to) >= leastFactor*float64(all[i].from) && all[i].from == all[i-1].to; i-- {
		if i < len(all)-1 {
			pause, next := all[i].at.work-all[i-1].at.work, all[i+1].at.work-all[i].at.work
			factor := float64(all[i+1].to) / float64(all[i].to)
			if grew := float64(next) / float64(max(pause, 1)); pause <= 0 || grew > maxOff*factor || maxOff*grew < factor {
				break
			}
		}
		n++
	}
	if n < minDoublings {
		return false
	}
	last, before := all[len(all)-1], all[len(all)-2]
	expected := float64(last.at.work-before.at.work) * float64(last.to) / float64(last.from)
	return float64(h.end.work-last.at.work) <= expected*1.25 && !site.wasDropped(all[len(all)-n], last.to)
}

// inEachThird reports whether each third of the time has at least minThird of the growth. Between two growths the level
// counts as rising evenly: with few growths, the bounds of the thirds would decide.
func inEachThird(all []growth) bool {
	first, last := all[0], all[len(all)-1]
	low := float64(first.to)
	for third := 1; third <= 3; third++ {
		until := first.at.work + (last.at.work-first.at.work)*third/3
		high := float64(last.to)
		if k := sort.Search(len(all), func(i int) bool { return all[i].at.work > until }); k > 0 && k < len(all) {
			x, y := all[k-1], all[k]
			high = float64(x.to) + float64(y.to-x.to)*float64(until-x.at.work)/float64(y.at.work-x.at.work)
		}
		if high-low < minThird*float64(last.to-first.to) {
			return false
		}
		low = high
	}
	return true
}

// wasDropped reports whether a site had more before its first growth, and more than a share of its last level. Until
// then it has a buffer and, for a moment, the one that replaces it.
func (h *history) wasDropped(first growth, last int64) bool {
	most := max(maxEarlier*float64(last), 2*float64(first.from))
	n := sort.Search(len(h.levels), func(i int) bool { return int(h.levels[i].allocations) >= first.at.allocations })
	return slices.ContainsFunc(h.levels[:n], func(l level) bool { return float64(l.bytes) > most })
}

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

// proportional reports whether o allocates, between each two buffers of h, one whose size is a fixed share of the buffer of h before it (next = 0) or
// after it (next = 1). Buffers that do not grow are in proportion to any of a fixed size.
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
