package finding

import "github.com/memlane/memlane/lifetime"

// preallocate creates the history of each site with the exact capacity: histories that grow would copy the data of a
// million buffers several times and leave half of their memory unused.
func (h *histories) preallocate(s *lifetime.Space) {
	sites := countBuffers(s)
	h.sites = make([]*history, len(sites))
	for site, n := range sites {
		if n == (counts{}) {
			continue
		}
		hist, freedOnes := &history{holds: n.open+n.olderOpen > 0}, n.begun-n.open
		if hist.holds {
			hist.levels = make([]level, 0, n.begun+freedOnes+n.older-n.olderOpen)
		}
		hist.buffers, hist.open = make([]int, 0, n.begun), make([]int, 0, n.open)
		hist.freed, hist.lifetimes = make([]freed, 0, freedOnes), make([]int32, 0, freedOnes)
		h.sites[site] = hist
		h.order = append(h.order, lifetime.SiteID(site))
	}
}

// counts are the numbers of buffers of a site.
type counts struct {
	begun, open      int // begun in the window, and those alive at its end
	older, olderOpen int // older than the window, and those alive at its end
}

// countBuffers returns the counts of each site, by SiteID.
func countBuffers(s *lifetime.Space) []counts {
	most := lifetime.SiteID(0)
	for i := range s.Buffers {
		most = max(most, s.Buffers[i].Site)
	}
	sites := make([]counts, most+1)
	for i := range s.Buffers {
		n, edge := &sites[s.Buffers[i].Site], s.Buffers[i].Edge
		total, open := &n.begun, &n.open
		if edge&lifetime.BeginUnseen != 0 {
			total, open = &n.older, &n.olderOpen
		}
		*total++
		if edge&lifetime.EndOpen != 0 {
			*open++
		}
	}
	return sites
}
