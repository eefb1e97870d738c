package finding

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// The thresholds of repeated.
const (
	oftenInStep = 10  // minimum allocations per step
	minOften    = 200 // minimum allocations of one size in the window
	minTraffic  = 0.1 // minimum share of all allocations
	maxRepeated = 3   // maximum number of findings
)

// repeated finds buffers of one size that a site allocates and frees again and again within a step. One reused buffer would be enough. Set-up, such as the
// work of a compiler, happens once, and no program passes buffers to its backward pass.
func repeated(p *Pass) (findings []Finding) {
	all, steps := p.histories, len(p.steps.Begins)
	for _, site := range all.order {
		h := all.sites[site]
		n := len(h.lifetimes)
		if n < minOften || n < oftenInStep*steps || !p.selected(site) ||
			float64(n) < minTraffic*float64(all.end.allocations) || p.isBackward(site) {
			continue
		}
		size, often := p.commonSize(h)
		if often < minOften || 2*often < n || p.Purpose(p.Space.PurposeOf(h.buffers[0])).Part == purpose.Setup {
			continue
		}
		share, traffic := float64(often)/float64(all.end.allocations), size*int64(often)
		f := Finding{Sites: []lifetime.SiteID{site}, Amount: lifetime.Amount{Count: int64(often), Bytes: traffic, Requested: traffic},
			Evidence: []Evidence{figure(FigAllocations, often), figure(FigSize, size), figure(FigShareOfAllocations, share)},
			Suggestions: p.advice("Allocate one buffer before the loop and write into it (out=).",
				"Compile the loop (jax.jit, tf.function): its memory is then planned once.")}
		f.describe(p.PlaceOf(site).String(),
			fmt.Sprintf("a buffer of %s is allocated and freed %s times, %.0f %% of all allocations; this costs time, not memory",
				units.Bytes(size), units.Count(int64(often)), 100*share))
		findings = append(findings, f)
	}
	slices.SortStableFunc(findings, func(x, y Finding) int { return cmp.Compare(y.Amount.Count, x.Amount.Count) })
	return findings[:min(len(findings), maxRepeated)]
}

// commonSize returns the size that a site requested most often (the smallest on a tie), and how often.
func (p *Pass) commonSize(h *history) (size int64, often int) {
	sizes := map[int64]int{}
	for _, i := range h.buffers {
		sizes[p.Space.Buffers[i].Requested]++
	}
	for s, n := range sizes {
		if n > often || n == often && s < size {
			size, often = s, n
		}
	}
	return size, often
}
