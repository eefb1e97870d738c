package program

import (
	"cmp"
	"maps"
	"slices"
	"sort"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/purpose"
)

// minOtherLines is the minimum number of lines, besides the looping one, of a function that was called once. A single
// line may be an allocation that only the first call makes and retains.
const minOtherLines = 2

// onePass: a loop over the layers of one forward pass and a loop over steps both retain memory again and again between
// frees. But a module may retain memory until its call returns; until then it does not leak.
//
// The lines of a function that is called many times allocate in turns. If all allocations of each line end before those
// of the next line begin, the function was called once, and a line with many allocations is a loop. The main function
// of a program is called once as well, so only functions that run in a module call (torch.nn.Module) count.

// moduleFunction is a function that a module call runs, with all its callers and their lines.
type moduleFunction struct {
	callers        uint64 // hash of the callers
	function, file string
}

// interval is the first and the last allocation of a line, as indices of buffers.
type interval struct{ first, last int }

// callsOf collects the lines of all functions that module calls run.
func (p *Program) callsOf(h *history) map[moduleFunction]map[int]interval {
	if h.calls != nil {
		return h.calls
	}
	h.calls = map[moduleFunction]map[int]interval{}
	for _, site := range h.order {
		buffers := h.buffers[site]
		first, last := buffers[0], buffers[len(buffers)-1]
		for in, line := range p.inModules(site) {
			if h.calls[in] == nil {
				h.calls[in] = map[int]interval{}
			}
			seen, ok := h.calls[in][line]
			if !ok {
				seen = interval{first, last}
			}
			h.calls[in][line] = interval{min(first, seen.first), max(last, seen.last)}
		}
	}
	return h.calls
}

// inModule reports whether a module allocated: it was called, or its forward was.
func (p *Program) inModule(site lifetime.SiteID) bool {
	f := p.At(site)
	return f.All&CallsModule != 0 || f.Has(InModule)
}

// inModules yields the functions on the stack of a site that module calls run, with their lines.
func (p *Program) inModules(site lifetime.SiteID) func(yield func(moduleFunction, int) bool) {
	return func(yield func(moduleFunction, int) bool) {
		p.At(site)                    // reads its frames
		var frames []lifetime.FrameID // innermost first
		for id := p.Sites[site].Stack; id != 0; id = p.Capture.Stacks[id].Caller {
			frames = append(frames, p.Capture.Stacks[id].Frame)
		}
		hash, inModule := uint64(0), false
		for _, id := range slices.Backward(frames) {
			f := &p.Frames[id]
			if f.Kind > frame.Framework { // frames of the interpreter, if C++ is recorded
				continue
			}
			module := p.stacks.frames[id].flags&CallsModule != 0
			inModule = inModule || f.Function == "forward" // stacks may lack what calls it
			if inModule && !module && !yield(moduleFunction{hash, f.Function, f.File}, f.Line) {
				return
			}
			inModule = inModule || module
			hash = (hash ^ uint64(id)) * 0x9E3779B97F4A7C15
			hash ^= hash >> 29
		}
	}
}

// disjoint reports whether no two intervals overlap.
func disjoint(lines map[int]interval) bool {
	inOrder := slices.SortedFunc(maps.Values(lines), func(x, y interval) int { return cmp.Compare(x.first, y.first) })
	for i := 1; i < len(inOrder); i++ {
		if inOrder[i].first <= inOrder[i-1].last {
			return false
		}
	}
	return true
}

// InOneCall reports whether all allocations of a site are in one module call or one backward pass, which goes through
// the layers once.
func (p *Program) InOneCall(s *lifetime.Space, site lifetime.SiteID) bool {
	return p.inOneCall(p.historyOf(s), site)
}

func (p *Program) inOneCall(h *history, site lifetime.SiteID) bool {
	buffers := h.buffers[site]
	if len(buffers) == 0 { // all are older than the recording
		return false
	}
	if h.backward == nil {
		h.backward = p.backwardRuns(h.s)
	}
	first, last := buffers[0], buffers[len(buffers)-1]
	i := sort.Search(len(h.backward), func(i int) bool { return h.backward[i].last >= last })
	if i < len(h.backward) && h.backward[i].first <= first {
		return true
	}
	if !p.inModule(site) {
		return false
	}
	for in := range p.inModules(site) {
		if lines := p.callsOf(h)[in]; len(lines) > minOtherLines && disjoint(lines) {
			return true
		}
	}
	return false
}

// backwardRuns returns the runs of buffers that were allocated by backward passes.
func (p *Program) backwardRuns(s *lifetime.Space) []interval {
	runs := []interval{}
	for i := range s.Buffers {
		if p.Purpose(s.PurposeOf(i)).Phase != purpose.Backward {
			continue
		}
		if n := len(runs); n > 0 && runs[n-1].last == i-1 {
			runs[n-1].last = i
		} else {
			runs = append(runs, interval{i, i})
		}
	}
	return runs
}
