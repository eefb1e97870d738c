package finding

import (
	"iter"
	"math"
	"sort"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
)

// SiteHistory is what a call site allocated and freed in a recording, for rules. Buffers are indices into
// Space.Buffers.
type SiteHistory struct {
	Allocated []int // buffers that were allocated in the recording, in order of the allocation
	Freed     []int // those of them that were freed in the recording, in order of the free
	Retained  []int // those of them that are alive at the end of the recording
	Older     []int // buffers that are older than the recording; alive at its end with lifetime.EndOpen, else freed in it

	// Alive has, for each of Pass.Steps, the buffers that are alive when it ends, Older included. A leak is a number
	// that rises to the last step.
	Alive []lifetime.Amount
}

// CallSites yields the call sites that a rule judges: those with buffers that Settings.Function selects and that no
// earlier rule has explained, sorted. Site 0 has the buffers without a recorded call site. A space without a history
// has none.
func (p *Pass) CallSites() iter.Seq[lifetime.SiteID] {
	return func(yield func(lifetime.SiteID) bool) {
		if !p.dynamic() {
			return
		}
		for site := range p.unexplained() {
			if !yield(site) {
				return
			}
		}
	}
}

// Steps returns the steps of the program, as times of the space (SpaceInfo.Axis). There are none if the space has no
// history or nothing tells the steps.
func (p *Pass) Steps() *program.Steps { return p.program.Steps(p.Space) }

// History returns what a call site allocated and freed. It is empty for a site without buffers and in a space without a
// history.
func (p *Pass) History(site lifetime.SiteID) SiteHistory {
	if !p.dynamic() || p.histories.sites[site] == nil {
		return SiteHistory{}
	}
	h := p.histories.sites[site]
	out := SiteHistory{Allocated: h.buffers, Retained: h.open, Older: p.olderOf(site), Alive: make([]lifetime.Amount, len(p.steps.Ends))}
	for _, f := range h.freed {
		out.Freed = append(out.Freed, int(f.buffer))
	}
	for _, list := range [][]int{out.Older, out.Allocated} {
		for _, i := range list {
			p.countSteps(out.Alive, i)
		}
	}
	return out
}

// countSteps adds a buffer to the steps at whose end it is alive.
func (p *Pass) countSteps(alive []lifetime.Amount, buffer int) {
	b := &p.Space.Buffers[buffer]
	end := b.End
	if b.Edge&lifetime.EndOpen != 0 {
		end = math.MaxInt64
	}
	ends := p.steps.Ends
	for k := sort.Search(len(ends), func(k int) bool { return ends[k] > b.Begin }); k < len(ends) && ends[k] <= end; k++ {
		alive[k].Add(amountOf(b))
	}
}

// olderOf returns the buffers of a site that are older than the recording.
func (p *Pass) olderOf(site lifetime.SiteID) []int {
	if p.older == nil {
		p.older = map[lifetime.SiteID][]int{}
		for i := range p.Space.Buffers {
			if b := &p.Space.Buffers[i]; b.Edge&lifetime.BeginUnseen != 0 {
				p.older[b.Site] = append(p.older[b.Site], i)
			}
		}
	}
	return p.older[site]
}
