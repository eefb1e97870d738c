package finding

import (
	"cmp"
	"maps"
	"slices"
	"sort"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
)

// minOtherLines is the minimum number of lines, besides the looping one, of a function that was called once. A single line
// may be an allocation that only the first call makes and retains.
const minOtherLines = 2

// calls distinguishes a loop over the layers of one forward pass from a loop over steps. Both retain memory again and again
// between frees. But a module may retain memory until its call returns; until then it does not leak.
//
// The lines of a function that is called many times allocate in turns. If all allocations of each line end before those of
// the next line begin, the function was called once, and a line with many allocations is a loop. The main function of a
// program is called once as well, so only functions that run in a module call (torch.nn.Module) count.
type calls struct {
	c     *lifetime.Capture
	lines map[call]map[int]interval
}

// call is a function that a module call runs, with all its callers and their lines.
type call struct {
	callers        uint64 // hash of the callers
	function, file string
}

// interval is the first and the last allocation of a line, as indices of buffers.
type interval struct{ first, last int }

// newCalls collects the lines of all functions that module calls run.
func newCalls(c *lifetime.Capture, h *histories) *calls {
	k := &calls{c, map[call]map[int]interval{}}
	for _, site := range h.order {
		buffers := h.sites[site].buffers
		if len(buffers) == 0 {
			continue
		}
		first, last := buffers[0], buffers[len(buffers)-1]
		for in, line := range k.of(site) {
			if k.lines[in] == nil {
				k.lines[in] = map[int]interval{}
			}
			seen, ok := k.lines[in][line]
			if !ok {
				seen = interval{first, last}
			}
			k.lines[in][line] = interval{min(first, seen.first), max(last, seen.last)}
		}
	}
	return k
}

// of yields the functions on the stack of a site that module calls run, with their lines.
func (k *calls) of(site lifetime.SiteID) func(yield func(call, int) bool) {
	return func(yield func(call, int) bool) {
		var frames []lifetime.FrameID // innermost first
		for id := k.c.Sites[site].Stack; id != 0; id = k.c.Stacks[id].Caller {
			frames = append(frames, k.c.Stacks[id].Frame)
		}
		hash, inModule := uint64(0), false
		for _, id := range slices.Backward(frames) {
			f := &k.c.Frames[id]
			if f.Kind > lifetime.Framework { // frames of the interpreter, if C++ is recorded
				continue
			}
			module := program.CallsModules(f)
			if inModule && !module && !yield(call{hash, f.Function, f.File}, f.Line) {
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

// inOneCall reports whether all allocations of a site are in one module call or one backward pass.
func (p *Pass) inOneCall(site lifetime.SiteID) bool {
	if p.inOneBackward(site) {
		return true
	}
	if p.program.At(site).All&program.CallsModule == 0 {
		return false
	}
	if p.calls == nil { // most captures have no growing site and need no calls
		p.calls = newCalls(p.Capture, p.histories)
	}
	for in := range p.calls.of(site) {
		if lines := p.calls.lines[in]; len(lines) > minOtherLines && disjoint(lines) {
			return true
		}
	}
	return false
}

// inOneBackward reports whether all allocations of a site are in one backward pass, which goes through the layers once.
func (p *Pass) inOneBackward(site lifetime.SiteID) bool {
	if p.backward == nil {
		p.backward = p.backwardPasses()
	}
	buffers := p.histories.sites[site].buffers
	if len(buffers) == 0 { // all are older than the recording
		return false
	}
	first, last := buffers[0], buffers[len(buffers)-1]
	i := sort.Search(len(p.backward), func(i int) bool { return p.backward[i].last >= last })
	return i < len(p.backward) && p.backward[i].first <= first
}

// backwardPasses returns the runs of buffers that were allocated by backward passes.
func (p *Pass) backwardPasses() []interval {
	runs := []interval{}
	for i := range p.Space.Buffers {
		if p.Purpose(p.Space.PurposeOf(i)).Phase != lifetime.Backward {
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
