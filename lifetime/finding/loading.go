package finding

import (
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// The thresholds of loading.
const (
	maxStaging       = 1    // lines that allocate staging buffers
	maxStagingFailed = 3    // the same, if memory runs out in the function that retains buffers
	stagingShare     = 4    // a line belongs to the loop if it frees a buffer for each stagingShare retained ones
	maxPerKept       = 1.25 // freed buffers for each retained one
)

// loading reports whether a finding may be data that a program loads: steps are not marked, or memory runs out, and all
// that the program frees, on all devices, are staging buffers, if any, that the retaining function allocates or, if
// memory runs out there, its caller. One layer, shard or request after the other, and one step after the other of a
// leak, then look the same.
func (p *Pass) loading(f *Finding) bool {
	loaders := p.userFrames(f.Sites[0])
	last, _ := p.lastFailure()
	marked := len(p.steps.Begins) > 0 && !p.steps.Inferred()
	if len(loaders) == 0 || p.program.At(f.Sites[0]).Computes() || marked && last == nil {
		return false
	}
	inside := func(site lifetime.SiteID) bool {
		return p.anyFrame(site, func(o *frame.Frame) bool {
			return slices.ContainsFunc(loaders, func(f frame.Frame) bool { return o.Function == f.Function && o.File == f.File })
		})
	}
	most := maxStagingFailed
	if last == nil || !inside(last.Site) {
		loaders, most = loaders[:1], maxStaging
	}
	freed := p.freedSites()
	if len(freed) == 0 {
		return true // no step did any work
	}
	lines := map[lifetime.Place]int64{}
	for site, n := range freed {
		lines[p.PlaceOf(site)] += n
	}
	loop, all := map[lifetime.Place]bool{}, int64(0)
	for place, n := range lines {
		if n*stagingShare >= f.Amount.Count {
			loop[place] = true
			all += n
		}
	}
	if most == maxStaging && float64(all) > maxPerKept*float64(f.Amount.Count) {
		return false
	}
	for site := range freed {
		if loop[p.PlaceOf(site)] && (p.program.At(site).Computes() || !inside(site)) {
			return false
		}
	}
	return len(loop) > 0 && len(loop) <= most
}

// userFrames returns the innermost two functions of the program on the stack of a site.
func (p *Pass) userFrames(site lifetime.SiteID) (frames []frame.Frame) {
	for f := range p.FramesOf(p.Sites[site].Stack) {
		if len(frames) == 2 {
			break
		}
		if f.Kind == frame.User && f.Function != "<module>" {
			frames = append(frames, *f)
		}
	}
	return frames
}

// freedSites returns how many buffers of each site were allocated and freed in the recording, on all devices.
func (p *Pass) freedSites() map[lifetime.SiteID]int64 {
	freed := map[lifetime.SiteID]int64{}
	for _, s := range p.Spaces {
		for i := range s.Buffers {
			if b := &s.Buffers[i]; b.Edge&(lifetime.EndOpen|lifetime.BeginUnseen) == 0 {
				freed[b.Site]++
			}
		}
	}
	return freed
}
