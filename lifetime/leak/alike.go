package leak

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// The thresholds of othersGrow and joinsPieces.
const (
	// exactly is how far two sizes may be from proportion, and mostly the share of the
	// buffers of a site that must be in it.
	exactly = 0.03
	mostly  = 0.8
	// nearlyEach is the share of the growths that must be by a piece.
	nearlyEach = 0.9
	// scalar is the largest size of a site that tells nothing: losses, flags.
	scalar = 512
	// maxSizes is how many sizes of a site are looked at between two buffers of
	// another one.
	maxSizes = 32
)

// othersGrow returns the share of the other busy sites whose buffers keep their
// proportion to those of a site: what works on a batch grows with it. What grows
// by itself, as a history does that is added to, is in proportion to little else.
func (l Look) othersGrow(except lifetime.SiteID) float64 {
	h := l.history()
	own := h.sites[except]
	grow, n := 0, 0
	for _, site := range h.order {
		o := h.sites[site]
		if site == except || site == 0 || len(o.buffers) < len(own.buffers)/2 || len(o.lifetimes) < minGrowths || !l.telling(site, o) {
			continue
		}
		n++
		if l.proportional(own, o, 0) || l.proportional(own, o, 1) {
			grow++
		}
	}
	return float64(grow) / float64(max(n, 1))
}

// telling reports whether the sizes of a site may depend on those of a batch: those
// of scalars do not, nor those of an optimizer, which are of weights.
func (l Look) telling(site lifetime.SiteID, h *history) bool {
	for _, f := range l.Stacks[l.Sites[site].Stack] {
		if strings.Contains(l.Frames[f].File, "torch/optim/") {
			return false
		}
	}
	return slices.ContainsFunc(h.buffers, func(i int) bool { return l.Space.Buffers[i].Requested > scalar })
}

// between is what a site allocates between two buffers of another one.
type between struct {
	size  int64   // of one of the two
	sizes []int64 // of the site
}

// proportional reports whether o allocates, between each two buffers of h, one that
// is a fixed share of the buffer of h before it or, with next = 1, after it.
func (l Look) proportional(h, o *history, next int) bool {
	all := l.intervals(h, o, next)
	if len(all) < minGrowths {
		return false
	}
	middle := all[len(all)/2]
	for _, size := range middle.sizes {
		share := float64(size) / float64(max(middle.size, 1))
		fits := 0
		for _, b := range all {
			if slices.ContainsFunc(b.sizes, func(x int64) bool {
				off := float64(x) - share*float64(b.size)
				return max(off, -off) < exactly*float64(x)
			}) {
				fits++
			}
		}
		if float64(fits) >= mostly*float64(len(all)) {
			return true
		}
	}
	return false
}

// intervals returns what o allocates between each two buffers of h, as far as it
// does.
func (l Look) intervals(h, o *history, next int) (all []between) {
	k, last := 0, -1
	for _, i := range o.buffers {
		for k+1 < len(h.buffers) && h.buffers[k+1] < i {
			k++
		}
		if i < h.buffers[0] || k+next >= len(h.buffers) {
			continue
		}
		if k != last {
			all = append(all, between{size: l.Space.Buffers[h.buffers[k+next]].Requested})
			last = k
		}
		b := &all[len(all)-1]
		if size := l.Space.Buffers[i].Requested; len(b.sizes) < maxSizes && !slices.Contains(b.sizes, size) {
			b.sizes = append(b.sizes, size)
		}
	}
	return all
}

// joinsPieces reports whether a site grows by what was allocated elsewhere in
// between: the pieces of a concatenation.
func joinsPieces(s *lifetime.Space, h *history) bool {
	grew, joined := 0, 0
	for k := 1; k < len(h.buffers); k++ {
		before, after := h.buffers[k-1], h.buffers[k]
		more := s.Buffers[after].Requested - s.Buffers[before].Requested
		if more <= 0 {
			continue
		}
		grew++
		for i := before + 1; i < after; i++ {
			if s.Buffers[i].Requested == more && s.Buffers[i].Site != s.Buffers[after].Site {
				joined++
				break
			}
		}
	}
	return grew > 0 && float64(joined) >= nearlyEach*float64(grew)
}
