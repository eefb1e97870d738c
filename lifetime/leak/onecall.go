package leak

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// minOtherLines is how many lines of a function besides the looping one must run once
// for the function to count as called once. A single line may allocate something at the
// first call and keep it.
const minOtherLines = 2

// calls distinguish a loop over the layers of one forward pass from a loop over
// steps. To the allocator they look the same: memory that is kept, again and
// again, between memory that is freed. But a module may keep memory until its call
// returns; before that it is not a leak.
//
// A function that is called many times runs its lines again and again, so their
// allocations interleave. If those of each of its lines end before those of the
// next begin, it was called once, and the line that allocated many times is a
// loop. A program's main function is called once, too; therefore only functions
// count that a module call (torch.nn.Module) runs.
type calls struct {
	c     *lifetime.Capture
	lines map[call]map[int]interval
}

// call is a function that is run by one module call of the program: all its
// callers, with their lines.
type call struct {
	callers        uint64 // hash
	function, file string
}

// interval is the first and the last allocation, by index of the buffer.
type interval struct{ first, last int }

// newCalls collects the lines of every function that a module call runs.
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

// of yields the functions on the stack of site that a module call runs, each
// with its line.
func (k *calls) of(site lifetime.SiteID) func(yield func(call, int) bool) {
	return func(yield func(call, int) bool) {
		var frames []lifetime.FrameID // innermost first
		for id := k.c.Sites[site].Stack; id != 0; id = k.c.Stacks[id].Caller {
			frames = append(frames, k.c.Stacks[id].Frame)
		}
		hash, inModule := uint64(0), false
		for _, id := range slices.Backward(frames) {
			f := &k.c.Frames[id]
			if f.Kind == lifetime.Native { // the interpreter's, where C++ is recorded
				continue
			}
			module := strings.HasSuffix(f.File, "torch/nn/modules/module.py")
			if inModule && !module && !yield(call{hash, f.Function, f.File}, f.Line) {
				return
			}
			inModule = module
			hash = (hash ^ uint64(id)) * 0x9E3779B97F4A7C15
			hash ^= hash >> 29
		}
	}
}

// one reports whether everything that the site allocated lies inside one call
// of a module.
func (k *calls) one(site lifetime.SiteID) bool {
	for in := range k.of(site) {
		if lines := k.lines[in]; len(lines) > minOtherLines && disjoint(lines) {
			return true
		}
	}
	return false
}

// disjoint reports whether no two of the intervals overlap.
func disjoint(lines map[int]interval) bool {
	inOrder := slices.SortedFunc(maps.Values(lines), func(x, y interval) int { return cmp.Compare(x.first, y.first) })
	for i := 1; i < len(inOrder); i++ {
		if inOrder[i].first <= inOrder[i-1].last {
			return false
		}
	}
	return true
}

// inOneCall reports whether everything that a site allocated lies inside one call
// of a module.
func (p *Pass) inOneCall(site lifetime.SiteID) bool {
	if p.calls == nil { // most captures have no site whose buffers keep rising
		p.calls = newCalls(p.Capture, p.histories)
	}
	return p.calls.one(site)
}
