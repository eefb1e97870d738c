package leak

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// minUse is the share of its buffers that a site must have asked for.
const minUse = 0.5

// inefficient finds the sites whose buffers at the peak are mostly rounding: a
// scalar takes 512 bytes, and settings of the allocator round far more.
func inefficient(l Look) []Finding {
	if !l.dynamic() {
		return nil
	}
	s, peak := l.Space, l.highest()
	all := newPlaces()
	for _, i := range s.LiveAt(peak.At) {
		b := &s.Buffers[i]
		if b.Edge&lifetime.SizeInferred == 0 && float64(b.Requested) < minUse*float64(b.Size) && l.wants(b.Site) {
			f := all.at(l.PlaceOf(b.Site))
			f.Sites = append(f.Sites, b.Site)
			f.Amount.Add(lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested})
		}
	}
	var findings []Finding
	for _, p := range all.order {
		f := all.found[p]
		waste := f.Amount.Bytes - f.Amount.Requested
		if waste < largeWaste || !l.worthTelling(waste) {
			continue
		}
		if shareOf(waste, peak.Bytes) >= warnWaste {
			f.Severity = Warning
		}
		f.Sites = distinct(f.Sites)
		f.Confidence = 1
		f.Evidence = []Evidence{{Name: "wasted_bytes", Value: float64(waste)}, {Name: "share_of_peak", Value: shareOf(waste, peak.Bytes)}}
		f.Description = fmt.Sprintf("%s buffers of %s take %s at the peak for %s that were asked for", units.Count(f.Amount.Count), p,
			units.Exact(f.Amount.Bytes), units.Bytes(f.Amount.Requested))
		f.Suggestions = []string{fmt.Sprintf("Put the many small tensors of %s into one, or look at roundup_power2_divisions in PYTORCH_CUDA_ALLOC_CONF.", p)}
		findings = append(findings, *f)
	}
	return findings
}

// The thresholds of repeated.
const (
	oftenInStep = 10  // allocations of one size in each step
	minOften    = 200 // allocations of one size in the window
	minTraffic  = 0.1 // of all allocations
	maxRepeated = 3   // findings
)

// repeated finds buffers of one size that a site allocates and frees over and over
// within a step: one that is kept would do.
func repeated(l Look) []Finding {
	if !l.dynamic() {
		return nil
	}
	h, steps := l.history(), len(l.inSteps().begins)
	var findings []Finding
	for _, site := range h.order {
		hist := h.sites[site]
		n := len(hist.lifetimes)
		if n < minOften || n < oftenInStep*steps || !l.wants(site) || float64(n) < minTraffic*float64(h.end.allocations) {
			continue
		}
		sizes := map[int64]int{}
		for _, i := range hist.buffers {
			sizes[l.Space.Buffers[i].Requested]++
		}
		size, often := int64(0), 0
		for s, n := range sizes {
			if n > often || n == often && s < size {
				size, often = s, n
			}
		}
		if often < minOften || 2*often < n {
			continue
		}
		p := l.PlaceOf(site)
		traffic := size * int64(often)
		f := Finding{Sites: []lifetime.SiteID{site}, Confidence: 0.8, Amount: lifetime.Amount{Count: int64(often), Bytes: traffic, Requested: traffic}}
		f.Evidence = []Evidence{{Name: "allocations", Value: float64(often)}, {Name: "size", Value: float64(size)},
			{Name: "share_of_allocations", Value: float64(often) / float64(h.end.allocations)}}
		f.Description = fmt.Sprintf("%s allocates %s %s times and frees it again: %.0f %% of all allocations of the window", p, units.Exact(size),
			units.Count(int64(often)), 100*float64(often)/float64(h.end.allocations))
		f.Suggestions = []string{fmt.Sprintf("Allocate one buffer before the loop and write into it (out=) in %s; it costs time rather than memory.", p)}
		findings = append(findings, f)
	}
	slices.SortStableFunc(findings, func(x, y Finding) int { return cmp.Compare(y.Amount.Count, x.Amount.Count) })
	return findings[:min(len(findings), maxRepeated)]
}
