package finding

import (
	"cmp"
	"slices"
	"sort"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// The bounds of set-up.
const (
	maxSetUp = 3 // sizes of a site
	earliest = 4 // set-up is among the first so many buffers of its site on its stream
)

// survivors returns the buffers of a site that began in the window and are alive at its end, without set-up: a size
// that is allocated once per stream, such as the workspace of cuBLAS, which has the stack of the first matrix product.
// Set-up is few sizes, and early, but for workspaces: a second run or handle allocates one more. A site with more sizes
// that occur once is one whose sizes vary. What waits for a backward pass is left out too.
func (p *Pass) survivors(h *history) []int {
	if h.counted { // several rules need them
		return h.survivors
	}
	h.counted = true
	setUp := p.setUp(h)
	for _, i := range h.open {
		if _, early := slices.BinarySearch(setUp, i); !early && p.Space.Buffers[i].Edge&lifetime.Pending == 0 {
			h.survivors = append(h.survivors, i)
		}
	}
	h.survivors = p.program.Settled(p.Space, h.survivors)
	return h.survivors
}

// setUp returns the buffers of a site that are set-up, in order.
func (p *Pass) setUp(h *history) []int {
	if !h.settled {
		h.setUp, h.settled = p.findSetUp(h), true
	}
	return h.setUp
}

func (p *Pass) findSetUp(h *history) (all []int) {
	once, n, sizes := p.oncePerStream(h), 0, 0
	for _, streams := range once {
		n += len(streams)
		sizes += min(len(streams), 1) // none for a size that repeats
	}
	few := sizes <= maxSetUp && 2*n <= len(h.buffers)
	seen := map[int64]int{} // buffers so far by stream
	for _, i := range h.buffers {
		if n == 0 {
			break
		}
		b := &p.Space.Buffers[i]
		on := p.streamOf(b)
		if seen[on]++; once[b.Requested] != nil && (few && seen[on] <= earliest || p.isWorkspace(i)) {
			all = append(all, i)
		}
	}
	return all
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

// oncePerStream returns the requested sizes that a site allocated once per stream, workspaces a few times, and never
// freed, with their number on each stream.
func (p *Pass) oncePerStream(h *history) map[int64]map[int64]int {
	once := map[int64]map[int64]int{} // nil for sizes that repeat on a stream
	for _, i := range h.open {
		b := &p.Space.Buffers[i]
		on, seen := once[b.Requested]
		stream := p.streamOf(b)
		switch {
		case !seen:
			once[b.Requested] = map[int64]int{stream: 1}
		case on[stream] > 0 && !p.isWorkspace(i), on[stream] >= minRises-1:
			once[b.Requested] = nil
		case on != nil:
			on[stream]++
		}
	}
	for _, f := range h.freed {
		if len(once) == 0 {
			break
		}
		delete(once, p.Space.Buffers[f.buffer].Requested)
	}
	return once
}

// streamOf returns the stream of the region that contains a live buffer, 0 if there is none.
func (p *Pass) streamOf(b *lifetime.Buffer) int64 {
	if p.reserved == nil {
		p.reserved = []lifetime.Region{}
		for _, r := range p.Space.Regions {
			if r.Edge&lifetime.EndOpen != 0 {
				p.reserved = append(p.reserved, r)
			}
		}
		slices.SortFunc(p.reserved, func(x, y lifetime.Region) int { return cmp.Compare(x.Addr, y.Addr) })
	}
	after := sort.Search(len(p.reserved), func(i int) bool { return p.reserved[i].Addr > b.Addr })
	if after == 0 {
		return 0
	}
	return p.reserved[after-1].Stream
}
