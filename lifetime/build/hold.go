package build

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/internal/spans"
	"github.com/memlane/memlane/lifetime/loss"
)

// held is what holds the memory at an address at the end.
type held struct {
	addr   uint64
	holder lifetime.HolderID
}

// storeHolders fills the column of holders. A tensor may begin inside a buffer. Of several at one buffer, the first
// counts.
func (log *spaceLog) storeHolders(s *lifetime.Space) {
	if len(log.held) == 0 {
		return
	}
	var open []uint32 // buffers that are alive at the end, by address
	for i := range s.Buffers {
		if s.Buffers[i].Edge&lifetime.EndOpen != 0 {
			open = append(open, uint32(i))
		}
	}
	slices.SortFunc(open, func(x, y uint32) int { return cmp.Compare(s.Buffers[x].Addr, s.Buffers[y].Addr) })
	for _, h := range log.held {
		at, found := slices.BinarySearchFunc(open, h.addr,
			func(i uint32, addr uint64) int { return cmp.Compare(s.Buffers[i].Addr, addr) })
		if !found {
			at--
		}
		if at < 0 || h.addr >= spans.End(s.Buffers[open[at]].Addr, max(s.Buffers[open[at]].Size, 1)) {
			log.b.Lose(loss.NameWithoutBuffer, 1, 0, fmt.Sprintf("address %#x", h.addr))
			continue
		}
		if to := &column(&s.Holders, len(s.Buffers))[open[at]]; *to == 0 {
			*to = h.holder
		}
	}
}
