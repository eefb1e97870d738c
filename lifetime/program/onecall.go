package program

import (
	"sort"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// interval is the first and the last allocation of a line, as indices of buffers.
type interval struct{ first, last int }

func (p *Program) inModule(site lifetime.SiteID) bool {
	f := p.At(site)
	return f.All&CallsModule != 0 || f.Has(InModule)
}

// InOneCall reports whether all allocations of a site are in one forward pass or one backward pass, which goes through
// the layers once.
func (p *Program) InOneCall(s *lifetime.Space, site lifetime.SiteID) bool {
	h := p.historyOf(s)
	buffers := h.buffers[site]
	if len(buffers) == 0 { // all are older than the recording
		return false
	}
	return h.inOne(p.backwardOf(h), buffers) || p.inModule(site) && len(p.forwardOf(h)) > 0 && !h.turns && h.inOne(h.forward, buffers)
}

// inOne reports whether a pass, of those that begin one after the other, contains some buffers. Few run at once.
func (h *history) inOne(passes []interval, buffers []int) bool {
	const atOnce = 8
	k := sort.Search(len(passes), func(i int) bool { return passes[i].first > buffers[0] })
	for n := 0; k > 0 && n < atOnce; n++ {
		if k--; buffers[len(buffers)-1] <= passes[k].last {
			return true
		}
	}
	return false
}

// backwardOf returns the runs of buffers that were allocated by backward passes. A thread that runs no passes ends
// none.
func (p *Program) backwardOf(h *history) []interval {
	if h.backward != nil {
		return h.backward
	}
	s, runs, ended, computes := h.s, []interval{}, true, p.computing(h)
	for i := range s.Buffers {
		if !h.begins(i) {
			continue
		}
		if p.Purpose(s.PurposeOf(i)).Phase != purpose.Backward {
			thread := p.At(s.Buffers[i].Site).Thread
			ended = ended || thread == 0 || computes[thread] || len(computes) == 0
			continue
		}
		if ended {
			runs = append(runs, interval{i, i})
		}
		runs[len(runs)-1].last, ended = i, false
	}
	h.backward = runs
	return runs
}

// computing returns the threads that run passes.
func (p *Program) computing(h *history) map[ThreadID]bool {
	computes := map[ThreadID]bool{}
	for _, site := range h.order {
		f := p.At(site)
		if phase := p.stacks.PhaseOf(f); f.Thread != 0 && phase != purpose.UnknownPhase && phase != purpose.OtherPhase {
			computes[f.Thread] = true
		}
	}
	return computes
}
