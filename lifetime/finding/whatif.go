package finding

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/replay"
)

// Advice against fragmentation in PyTorch that no replay has tested.
const (
	adviceFragmented = "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; bucket batch sizes."
	adviceBuckets    = "Bucket or pad batch sizes; allocate long-lived buffers first."
)

// The thresholds of advice that was replayed.
const (
	maxReplayed = 2_000_000 // buffers of a space: more take too long
	maxPinning  = 3         // places whose buffers are moved to a pool of their own
	leastApart  = 0.05      // minimum gain of such a pool
)

// replayed replays the space under other settings, and with pinning buffers in a pool of their own. The advice of a
// finding about fragmentation or a failed allocation becomes what helps. at is the instant of the holes. It returns parts
// of the text. Without a recording that can be replayed, it only removes advice that the program already follows.
func (p *Pass) replayed(f *Finding, at int64) (parts []string) {
	h := p.recording()
	if h == nil {
		if slices.Contains(f.Suggestions, adviceFragmented) && p.expandable() {
			f.Suggestions = []string{adviceBuckets}
		}
		return nil
	}
	d := replay.Device{Capacity: h.Capacity()}
	own, best, better := h.Advise(d)
	if failed := f.Cause != NoCause; failed != own.OOM {
		return nil // the replay does not show what the finding is about
	}
	f.add(figure(FigReplayedOwn, own.PeakReserved))
	var advice string
	if better {
		conf := cmp.Or(best.Settings.String(), `""`)
		f.add(textFigure(FigReplayedConf, conf), figure(FigReplayed, best.PeakReserved), figure(FigReplayedExact, certain(&best)))
		parts, advice = []string{f.gives("other settings", &own, &best)}, fmt.Sprintf("Set PYTORCH_CUDA_ALLOC_CONF=%s.", conf)
		if !own.OOM {
			advice = fmt.Sprintf("Set PYTORCH_CUDA_ALLOC_CONF=%s to save %s.", conf, units.Bytes(own.PeakReserved-best.High))
		}
	} else if f.Cause != Exhausted {
		parts = []string{"a replay shows that no other settings help"}
	}
	if f.Cause != Exhausted {
		pins, apart := p.apart(f, h, d, &own, at)
		parts, advice = append(parts, pins...), cmp.Or(advice, apart, adviceBuckets)
	}
	if advice != "" {
		f.Suggestions = []string{advice}
	}
	return parts
}

// recording returns the history of the space if it holds to the rules of PyTorch's allocator, else nil.
func (p *Pass) recording() *replay.History {
	if len(p.Space.Buffers) > maxReplayed {
		return nil
	}
	h := replay.Of(p.Space, p.Sources[p.Space.Source].Settings)
	if h == nil {
		return nil
	}
	if law := h.Verify(); h.Refusal(&law) != "" {
		return nil
	}
	return h
}

// expandable reports whether the program has expandable segments.
func (p *Pass) expandable() bool {
	return slices.Contains(p.Sources[p.Space.Source].Settings, lifetime.Setting{Key: "expandable_segments", Value: "true"}) ||
		slices.ContainsFunc(p.Space.Regions, func(r lifetime.Region) bool { return r.Kind == lifetime.Expandable })
}

// certain returns 1 if the recording determines an outcome.
func certain(o *replay.Outcome) int {
	if o.Exact {
		return 1
	}
	return 0
}

// gives says what a change gives, compared with the recorded outcome, if that is not what the finding is about.
func (f *Finding) gives(change string, own, other *replay.Outcome) string {
	how := "replayed exactly"
	switch {
	case other.Low < other.High:
		how = "as far as a recording from the middle tells"
	case !other.Exact:
		how = "replayed within 5 %"
	}
	if own.OOM {
		return fmt.Sprintf("with %s it fits, %s", change, how)
	}
	least := units.Bytes(other.PeakReserved)
	if float64(own.PeakReserved) != f.Value(FigReserved) {
		least += " instead of " + units.Bytes(own.PeakReserved)
	}
	return fmt.Sprintf("with %s %s suffice, %s", change, least, how)
}

// pinned is a place and what its buffers pin at one instant.
type pinned struct {
	place lifetime.Place
	sites []lifetime.SiteID // with buffers there, in order of the buffers
	holes int64             // bytes of holes in the regions in which the buffers lie
}

// pinningPlaces returns the places whose buffers lie in regions with holes, those with most bytes of holes first. Regions for
// small buffers do not count.
func (p *Pass) pinningPlaces(at int64) (all []*pinned) {
	s := p.Space
	of := s.BufferRegions()
	free, inside := map[int32]int64{}, map[int32][]lifetime.SiteID{}
	for _, i := range s.LiveAt(at) {
		if r := of[i]; r != lifetime.NoRegion && !s.Regions[r].Small {
			if _, ok := free[r]; !ok {
				free[r] = s.Regions[r].Size
			}
			free[r] -= s.Buffers[i].Size
			inside[r] = append(inside[r], s.Buffers[i].Site)
		}
	}
	found := map[lifetime.Place]*pinned{}
	for _, r := range slices.Sorted(maps.Keys(free)) {
		seen := map[lifetime.Place]bool{}
		for _, site := range distinct(inside[r]) {
			where := p.PlaceOf(site)
			if found[where] == nil {
				found[where] = &pinned{place: where}
				all = append(all, found[where])
			}
			x := found[where]
			if !slices.Contains(x.sites, site) {
				x.sites = append(x.sites, site)
			}
			if !seen[where] {
				seen[where] = true
				x.holes = units.AddSat(x.holes, max(free[r], 0))
			}
		}
	}
	slices.SortStableFunc(all, func(x, y *pinned) int { return cmp.Compare(y.holes, x.holes) })
	return all
}

// apart replays the program with the buffers of a pinning place in a pool of their own, for the places that pin most. It
// returns the place for which that gives most as a part of the text, and as advice if it gives enough.
func (p *Pass) apart(f *Finding, h *replay.History, d replay.Device, own *replay.Outcome, at int64) (parts []string, advice string) {
	var best *pinned
	var least replay.Outcome
	places := p.pinningPlaces(at)
	for _, x := range places[:min(len(places), maxPinning)] {
		o := h.Apart(p.allOf(x.sites)).RunBoth(own.Settings, d)
		if best == nil || least.OOM && !o.OOM || least.OOM == o.OOM && o.PeakReserved < least.PeakReserved {
			best, least = x, o
		}
	}
	if best == nil {
		return nil, ""
	}
	name := best.place.String()
	f.add(textFigure(FigPinnedBy, name), figure(FigPinned, best.holes), figure(FigApart, least.PeakReserved))
	if least.OOM || !own.OOM && float64(least.High) > (1-leastApart)*float64(own.PeakReserved) {
		return []string{fmt.Sprintf("%s is next to %s of holes", name, units.Bytes(best.holes))}, ""
	}
	return []string{f.gives(name+" in its own pool", own, &least)}, fmt.Sprintf("Allocate %s in a pool of its own: torch.cuda.use_mem_pool.", name)
}

// allOf returns the buffers of some sites.
func (p *Pass) allOf(sites []lifetime.SiteID) (all []int) {
	of := map[lifetime.SiteID]bool{}
	for _, site := range sites {
		of[site] = true
	}
	for i := range p.Space.Buffers {
		if of[p.Space.Buffers[i].Site] {
			all = append(all, i)
		}
	}
	return all
}
