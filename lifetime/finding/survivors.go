package finding

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/region"
)

// The bounds of set-up.
const (
	maxSetUp = 3             // sizes of a site
	earliest = 4             // set-up is among the first so many buffers of its site on its stream
	leastRun = 2 * leastLoop // buffers of a site after which another run may allocate it again
)

// survivors returns the buffers of a site that began in the window and are alive at its end, without set-up: a size
// that is allocated once per stream, such as the workspace of cuBLAS, which has the stack of the first matrix product.
// Set-up is few sizes, and early, but for workspaces; a second run or handle allocates one more. A site with more sizes
// that occur once is one whose sizes vary: of these, and if more sizes are set-up, the steps tell it (madeFirst). What waits for a backward pass is left out too.
func (p *Pass) survivors(h *history) []int {
	if h.survivors == nil { // several rules need them
		open := slices.DeleteFunc(slices.Clone(h.open), func(i int) bool {
			_, early := slices.BinarySearch(p.setUp(h), i)
			return early || p.Space.Buffers[i].Edge&lifetime.Pending != 0
		})
		h.survivors = append([]int{}, p.program.Settled(p.Space, open)...)
	}
	return h.survivors
}

func (p *Pass) setUp(h *history) []int {
	if h.setUp == nil {
		h.setUp = p.findSetUp(h)
	}
	return h.setUp
}

func (p *Pass) findSetUp(h *history) []int {
	all, once := []int{}, p.fewPerStream(h)
	for _, made := range once {
		all = append(all, made...)
	}
	few := len(once) <= maxSetUp && 2*len(all) <= len(h.buffers)
	seen, early := map[int64]int{}, map[int64]bool{} // buffers so far by stream; sizes of set-up
	for _, i := range h.buffers[:min(len(all), 1)*len(h.buffers)] {
		b := &p.Space.Buffers[i]
		on := p.streamOf(i)
		seen[on]++
		early[b.Requested] = early[b.Requested] || seen[on] <= earliest
	}
	all = slices.DeleteFunc(all, func(i int) bool {
		size := p.Space.Buffers[i].Requested
		return !(few && early[size] || p.isWorkspace(i) && !varies(once, size))
	})
	all = append(all, p.madeFirst(h.open)...)
	slices.Sort(all)
	return slices.Compact(all)
}

// madeFirst returns the live buffers of a site that the first step made beside what it retains as later steps do, or that are older: at most so
// many more than the most that a later step retains, of sizes that are outside of those of later steps, those that differ most first.
func (p *Pass) madeFirst(open []int) []int {
	first := sort.Search(len(open), func(k int) bool { return p.steps.At(p.Space.Buffers[open[k]].Begin) > 0 })
	most, least, largest, n, last := 0, int64(math.MaxInt64), int64(0), 0, 0
	for _, i := range open[first:] {
		b := &p.Space.Buffers[i]
		if at := p.steps.At(b.Begin); at != last {
			n, last = 0, at
		}
		n++
		most, least, largest = max(most, n), min(least, b.Requested), max(largest, b.Requested)
	}
	if len(open)-first < minRises || first <= most {
		return nil
	}
	ratio := func(i int) float64 { // of its size to the nearest one of a later step
		size := p.Space.Buffers[i].Requested
		return max(float64(size)/float64(largest), float64(least)/float64(max(size, 1)))
	}
	set := slices.DeleteFunc(slices.Clone(open[:first]), func(i int) bool { return ratio(i) <= 1 })
	slices.SortStableFunc(set, func(x, y int) int { return cmp.Compare(ratio(y), ratio(x)) })
	return set[:min(len(set), first-most)]
}

// varies reports whether a size may be one of several, smaller and larger ones, by chance.
func varies(sizes map[int64][]int, size int64) bool {
	smaller, larger := 0, 0
	for other := range sizes {
		switch cmp.Compare(other, size) {
		case -1:
			smaller++
		case 1:
			larger++
		}
	}
	return min(smaller, larger) > 1
}

// rises returns the moments at which the floor of a site rises, without set-up: a few early buffers that stay would
// make what follows at a steady rate seem to fade.
func (p *Pass) rises(h *history) []moment {
	if len(h.open) < minRises {
		return h.rises()
	}
	setUp := p.setUp(h)
	if len(setUp) == 0 || len(setUp) == len(h.open) {
		return h.rises()
	}
	steady := *h
	steady.levels = slices.Clone(h.levels)
	for i := range steady.levels {
		l := &steady.levels[i]
		l.alive -= int32(sort.SearchInts(setUp, p.histories.older+int(l.allocations)))
	}
	return steady.rises()
}

// isWorkspace reports whether a library keeps a buffer for each of its handles.
func (p *Pass) isWorkspace(i int) bool {
	return p.Purpose(p.Space.PurposeOf(i)).Category == purpose.Workspace
}

// fewPerStream returns the buffers of each size that a site never freed and allocated once per stream, or a few times:
// in other runs, or as workspaces.
func (p *Pass) fewPerStream(h *history) map[int64][]int {
	few := map[int64][]int{} // nil for sizes that repeat
	for _, i := range h.open {
		b := &p.Space.Buffers[i]
		made, seen := few[b.Requested]
		on := slices.DeleteFunc(slices.Clone(made), func(k int) bool { return p.streamOf(k) != p.streamOf(i) })
		if n := len(on); seen && made == nil || n == minRises-1 || n > 0 && !p.isWorkspace(i) &&
			sort.SearchInts(h.buffers, i)-sort.SearchInts(h.buffers, on[n-1]) < leastRun {
			few[b.Requested] = nil
			continue
		}
		few[b.Requested] = append(made, i)
	}
	for _, f := range h.freed {
		if len(few) == 0 {
			break
		}
		delete(few, p.Space.Buffers[f.buffer].Requested)
	}
	maps.DeleteFunc(few, func(_ int64, made []int) bool { return made == nil })
	return few
}

// streamOf returns the stream of a buffer.
func (p *Pass) streamOf(buffer int) int64 {
	if p.streams == nil {
		p.streams = region.StreamsOfBuffers(p.Space)
	}
	return p.streams(buffer)
}
