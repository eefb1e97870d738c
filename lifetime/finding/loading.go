package finding

import (
	"maps"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// The thresholds of loading.
const (
	stagingShare = 4    // a line belongs to the loop if it frees a buffer for each stagingShare retained ones
	maxPerKept   = 1.25 // freed buffers for each retained one
	manyRounds   = 200  // rounds that no model and no pass has
)

// loading reports whether a finding may be data that a program loads: steps are not marked, and all that the program
// frees, on all devices, are staging buffers, if any, that a line of the retaining function allocates. One layer, shard
// or request after the other, and one step after the other of a leak, then look the same.
func (p *Pass) loading(f *Finding) bool {
	loader, known := p.userFrame(f.Sites[0])
	if !known || p.program.At(f.Sites[0]).Computes() || len(p.steps.Begins) > 0 && !p.steps.Inferred() {
		return false
	}
	freed := p.freedSites()
	lines, all := map[lifetime.Place]int64{}, int64(0)
	for site, n := range freed {
		lines[p.PlaceOf(site)] += n
	}
	maps.DeleteFunc(lines, func(_ lifetime.Place, n int64) bool { return n*stagingShare < f.Amount.Count })
	for _, n := range lines {
		all += n
	}
	if len(freed) == 0 {
		return true // no step did any work
	}
	if len(lines) != 1 || float64(all) > maxPerKept*float64(f.Amount.Count) || p.diedLate(f, all) {
		return false
	}
	for site := range freed {
		if lines[p.PlaceOf(site)] > 0 && (p.program.At(site).Computes() ||
			!p.anyFrame(site, func(o *frame.Frame) bool { return o.Function == loader.Function && o.File == loader.File })) {
			return false
		}
	}
	return true
}

// diedLate reports whether the program ran out of memory after many rounds of what a finding is about: certainSteps that
// are known, as many buffers in a container that the recorder saw, or manyRounds that each freed a buffer. Few models
// have as many equal pieces; fewer say neither.
func (p *Pass) diedLate(f *Finding, freed int64) bool {
	if _, fatal := p.failures(); !fatal || f.Amount.Count < certainSteps {
		return false
	}
	return len(p.steps.Begins) >= certainSteps || inContainer(p.heldOf(f.Kept)) || min(freed, f.Amount.Count) >= manyRounds
}

// userFrame returns the innermost function of the program on the stack of a site.
func (p *Pass) userFrame(site lifetime.SiteID) (user frame.Frame, known bool) {
	for f := range p.FramesOf(p.Sites[site].Stack) {
		if f.Kind == frame.User && f.Function != "<module>" {
			return *f, true
		}
	}
	return frame.Frame{}, false
}

// freedSites returns how many buffers of each site were allocated and freed in the recording, on all devices, without
// bystanders'.
func (p *Pass) freedSites() map[lifetime.SiteID]int64 {
	freed := map[lifetime.SiteID]int64{}
	for _, s := range p.Spaces {
		e := p.program.Evidence(s)
		for i := range s.Buffers {
			if b := &s.Buffers[i]; e.Has(i) && b.Edge&(lifetime.EndOpen|lifetime.BeginUnseen) == 0 {
				freed[b.Site]++
			}
		}
	}
	return freed
}
