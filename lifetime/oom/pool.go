package oom

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/lifetime/replay"
)

// Pool is what a pool of their own for the buffers of one place gives.
type Pool struct {
	Place lifetime.Place
	Holes int64 // bytes of holes in the regions in which the buffers lie
	Least replay.Outcome
}

// Advice returns what to do if the pool gives enough.
func (p *Pool) Advice() string {
	return fmt.Sprintf("Allocate %s in a pool of its own: torch.cuda.use_mem_pool.", p.Place)
}

// Apart replays the program with the buffers of a place in a pool of their own, for the places that pin most at an instant, and
// returns the one for which that gives most; nil if none pins anything. own is the outcome with the recorded settings.
func Apart(t *lifetime.Tables, s *lifetime.Space, h *replay.History, d replay.Device, own *replay.Outcome, at int64) (best *Pool) {
	const maxPinning = 3 // places that are tried
	places := pinningPlaces(t, s, at)
	for _, x := range places[:min(len(places), maxPinning)] {
		var of []int
		for i := range s.Buffers {
			if x.sites[s.Buffers[i].Site] {
				of = append(of, i)
			}
		}
		o := h.Apart(of).RunBoth(own.Settings, d)
		if best == nil || best.Least.OOM && !o.OOM || best.Least.OOM == o.OOM && o.PeakReserved < best.Least.PeakReserved {
			best = &Pool{x.place, x.holes, o}
		}
	}
	return best
}

// pinned is a place and what its buffers pin at one instant.
type pinned struct {
	place lifetime.Place
	sites map[lifetime.SiteID]bool // with buffers there
	holes int64                    // bytes of holes in the regions in which the buffers lie
}

// pinningPlaces returns the places whose buffers lie in regions with holes, those with most bytes of holes first. Regions for
// small buffers do not count.
func pinningPlaces(t *lifetime.Tables, s *lifetime.Space, at int64) (all []*pinned) {
	of := region.OfBuffers(s)
	free, inside := map[int32]int64{}, map[int32][]lifetime.SiteID{}
	for _, i := range s.LiveAt(at) {
		if r := of[i]; r != region.None && !s.Regions[r].Small {
			if _, ok := free[r]; !ok {
				free[r] = s.Regions[r].Size
			}
			free[r] -= s.Buffers[i].Size
			inside[r] = append(inside[r], s.Buffers[i].Site)
		}
	}
	found := map[lifetime.Place]*pinned{}
	for _, r := range slices.Sorted(maps.Keys(free)) {
		seen, done := map[lifetime.Place]bool{}, map[lifetime.SiteID]bool{}
		for _, site := range inside[r] {
			if done[site] {
				continue
			}
			done[site] = true
			where := t.PlaceOf(site)
			x := found[where]
			if x == nil {
				x = &pinned{place: where, sites: map[lifetime.SiteID]bool{}}
				found[where], all = x, append(all, x)
			}
			if x.sites[site] = true; !seen[where] {
				seen[where] = true
				x.holes = units.AddSat(x.holes, max(free[r], 0))
			}
		}
	}
	slices.SortStableFunc(all, func(x, y *pinned) int { return cmp.Compare(y.holes, x.holes) })
	return all
}
