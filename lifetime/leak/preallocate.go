package leak

import "github.com/memlane/memlane/lifetime"

// preallocate makes the history of each site, with the capacity that it will need.
// Histories of a million buffers that grew on the way would be copied several
// times, and half of their memory would stay unused.
func (h *histories) preallocate(s *lifetime.Space) {
	sites, all := countBuffers(s)
	h.sites = make([]*history, len(sites))
	levels := make([]level, all.levels)
	buffers, open := make([]int, all.begun), make([]int, all.open)
	freedOnes, lifetimes := make([]freed, all.freed()), make([]int32, all.freed())
	for site, n := range sites {
		if n == (numbers{}) {
			continue
		}
		hist := &history{holds: n.levels > 0}
		hist.levels = cut(&levels, n.levels)
		hist.buffers, hist.open = cut(&buffers, n.begun), cut(&open, n.open)
		hist.freed, hist.lifetimes = cut(&freedOnes, n.freed()), cut(&lifetimes, n.freed())
		h.sites[site] = hist
		h.order = append(h.order, lifetime.SiteID(site))
	}
}

// numbers count the buffers of a site.
type numbers struct {
	begun, open          int // in the window, and of them alive at its end
	older, openFromOlder int // than the window, and of them alive at its end
	levels               int // as history has them
}

func (n *numbers) freed() int { return n.begun - n.open }

// countBuffers returns the numbers of each site, by SiteID, and their sums.
func countBuffers(s *lifetime.Space) (sites []numbers, all numbers) {
	most := lifetime.SiteID(0)
	for i := range s.Buffers {
		most = max(most, s.Buffers[i].Site)
	}
	sites = make([]numbers, most+1)
	for i := range s.Buffers {
		n, edge := &sites[s.Buffers[i].Site], s.Buffers[i].Edge
		total, open := &n.begun, &n.open
		if edge&lifetime.BeginUnseen != 0 {
			total, open = &n.older, &n.openFromOlder
		}
		*total++
		if edge&lifetime.EndOpen != 0 {
			*open++
		}
	}
	for i := range sites {
		n := &sites[i]
		if n.open+n.openFromOlder > 0 {
			n.levels = n.begun + n.freed() + n.older - n.openFromOlder
		}
		all.begun += n.begun
		all.open += n.open
		all.levels += n.levels
	}
	return sites, all
}

// cut takes n elements of capacity off list.
func cut[T any](list *[]T, n int) []T {
	part := (*list)[:0:n]
	*list = (*list)[n:]
	return part
}
