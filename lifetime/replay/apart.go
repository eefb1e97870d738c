package replay

import (
	"maps"
	"slices"
)

// Apart returns the same program with some buffers in a private pool of their own, as
// torch.cuda.use_mem_pool puts them (https://docs.pytorch.org/docs/stable/notes/cuda.html).
// buffers are indexes of Space.Buffers.
func (h *History) Apart(buffers []int) *History {
	other := *h
	other.requests = slices.Clone(h.requests)
	other.pools = maps.Clone(h.pools)
	const name = "apart" // no pool of a snapshot has a name like this
	pool := int32(len(h.pools)) + 1
	other.pools[name] = pool
	for _, i := range buffers {
		if r := &other.requests[i]; r.pool == 0 {
			r.pool = pool
		}
	}
	return &other
}
