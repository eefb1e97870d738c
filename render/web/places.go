package web

import (
	"cmp"
	"slices"
	"sort"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/render/plot"
)

// places maps the addresses of a space to the places where buffers are drawn.
type places struct {
	lowest  uint64
	regions []moved // in order of from; nil if the places are the addresses
}

// moved is a buffer allocation of a compiled program that is drawn at another place.
type moved struct{ from, to, size uint64 }

// placesOf returns the places of a space. For a compiled program they are the same as in
// XProf: allocations with temporary buffers are one after the other from offset 0.
// Arguments, results and constants, which XProf does not draw, follow them.
func placesOf(s *lifetime.Space) places {
	if s.Axis == lifetime.ProgramOrder {
		return places{regions: viewerOrder(s)}
	}
	return places{lowest: plot.Lowest(s)}
}

func viewerOrder(s *lifetime.Space) []moved {
	temporary := map[int64]bool{} // allocations with a value that the schedule allocates
	for i := range s.Values {
		if v := &s.Values[i]; v.End >= v.Begin {
			temporary[v.Allocation] = true
		}
	}
	var all []moved
	offset := uint64(0)
	for _, drawn := range []bool{true, false} {
		for i := range s.Regions {
			r := &s.Regions[i]
			whole := r.Uses&(compiled.ForParameter|compiled.ForOutput|compiled.ForConstant) != 0
			if (temporary[r.Index] && !whole) != drawn {
				continue
			}
			all = append(all, moved{r.Addr, offset, uint64(r.Size)})
			offset += uint64(r.Size)
		}
	}
	slices.SortStableFunc(all, func(a, b moved) int { return cmp.Compare(a.from, b.from) })
	return all
}

// of returns the place of an address.
func (p places) of(addr uint64) uint64 {
	i := sort.Search(len(p.regions), func(i int) bool { return p.regions[i].from > addr }) - 1
	for ; i >= 0; i-- { // regions of size 0 have the same address as the next one
		if r := p.regions[i]; addr-r.from < r.size {
			return r.to + (addr - r.from)
		}
		if p.regions[i].size > 0 {
			break
		}
	}
	return addr
}
