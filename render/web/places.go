package web

import (
	"sort"

	"github.com/memlane/memlane/lifetime"
)

// places says where buffers of a space are drawn.
type places struct {
	lowest  uint64
	regions []moved // by where they were; nil where buffers stay
}

// moved is a buffer allocation of a compiled program that is drawn elsewhere.
type moved struct{ from, to, size uint64 }

// placesOf returns the places of a space. Those of a compiled program are XProf's:
// the allocations whose buffers come and go lie one behind the other from offset
// 0. Arguments, results and constants, which XProf does not draw, follow them.
func placesOf(s *lifetime.Space) places {
	if s.Axis == lifetime.ProgramOrder {
		return places{regions: viewerOrder(s)}
	}
	p := places{lowest: ^uint64(0)}
	for i := range s.Buffers {
		p.lowest = min(p.lowest, s.Buffers[i].Addr)
	}
	for i := range s.Regions {
		p.lowest = min(p.lowest, s.Regions[i].Addr)
	}
	if p.lowest == ^uint64(0) {
		p.lowest = 0
	}
	return p
}

func viewerOrder(s *lifetime.Space) []moved {
	comesAndGoes := map[int64]bool{} // allocations with a value that the schedule allocates
	for i := range s.Values {
		if v := &s.Values[i]; v.End >= v.Begin {
			comesAndGoes[v.Allocation] = true
		}
	}
	var all []moved
	offset := uint64(0)
	for _, drawn := range []bool{true, false} {
		for i := range s.Regions {
			r := &s.Regions[i]
			whole := r.Uses&(lifetime.ForParameter|lifetime.ForOutput|lifetime.ForConstant) != 0
			if (comesAndGoes[r.Index] && !whole) != drawn {
				continue
			}
			all = append(all, moved{r.Addr, offset, uint64(r.Size)})
			offset += uint64(r.Size)
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].from < all[j].from })
	return all
}

// of returns the place of what lies at addr.
func (p places) of(addr uint64) uint64 {
	i := sort.Search(len(p.regions), func(i int) bool { return p.regions[i].from > addr }) - 1
	for ; i >= 0; i-- { // regions without bytes share an address with the next one
		if r := p.regions[i]; addr-r.from < r.size {
			return r.to + (addr - r.from)
		}
		if p.regions[i].size > 0 {
			break
		}
	}
	return addr
}
