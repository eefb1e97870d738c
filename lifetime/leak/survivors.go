package leak

import (
	"cmp"
	"slices"
	"sort"

	"github.com/memlane/memlane/lifetime"
)

// survivors returns the buffers of a site that began in the window and are alive at its end, without one-time
// allocations: a size that is allocated once per stream, such as the workspace of cuBLAS, which has the stack of the first
// matrix product.
func (p *Pass) survivors(h *history) []int {
	if h.counted { // several rules need them
		return h.survivors
	}
	h.counted = true
	once, n := p.oncePerStream(h), 0
	for _, streams := range once {
		n += len(streams)
	}
	vary := 2*n > len(h.buffers) // sizes vary between allocations, so most occur once
	for _, i := range h.open {
		b := &p.Space.Buffers[i]
		if b.Edge&lifetime.Pending == 0 && (vary || once[b.Requested] == nil) {
			h.survivors = append(h.survivors, i)
		}
	}
	return h.survivors
}

// oncePerStream returns the requested sizes that a site allocated once per stream and never freed, with their streams.
func (p *Pass) oncePerStream(h *history) map[int64]map[int64]bool {
	once := map[int64]map[int64]bool{} // nil for sizes that repeat on a stream
	for _, i := range h.open {
		b := &p.Space.Buffers[i]
		on, seen := once[b.Requested]
		stream := p.streamOf(b)
		switch {
		case !seen:
			once[b.Requested] = map[int64]bool{stream: true}
		case on[stream]:
			once[b.Requested] = nil
		case on != nil:
			on[stream] = true
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
