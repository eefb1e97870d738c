package program

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

const (
	minRecurrence = 2 // minimum number of sites with equally many allocations
	leastSteps    = 4 // minimum number of steps that recur
	differ        = 3 // sites of each iteration beside one of some iterations: with fewer, they are no steps
)

// history is the buffers of a space that began in the window, by site, without bystanders.
type history struct {
	s *lifetime.Space
	Evidence
	buffers [][]int           // by SiteID
	order   []lifetime.SiteID // sites with such buffers, sorted

	// Computed when first needed.
	backward []interval // runs of buffers of backward passes
	forward  []interval // forward passes
	turns    bool       // the only forward pass is several; see callsIn
	recurs   *Steps     // see recurrence
	waits    *waiting   // see waitingOf
}

func (p *Program) historyOf(s *lifetime.Space) *history {
	h := p.histories[s]
	if h == nil {
		h = &history{s: s, Evidence: p.evidenceOf(s), buffers: make([][]int, max(len(p.Sites), 1))}
		p.histories[s] = h
		for i := range s.Buffers {
			if site := s.Buffers[i].Site; h.begins(i) {
				h.buffers[site] = append(h.buffers[site], i)
			}
		}
		for site := range p.Sites {
			if h.buffers[site] != nil {
				h.order = append(h.order, lifetime.SiteID(site))
			}
		}
	}
	return h
}

// begins reports whether a buffer began in the window and is evidence.
func (h *history) begins(i int) bool {
	return h.s.Buffers[i].Edge&lifetime.BeginUnseen == 0 && h.Has(i)
}

// recurrentSteps returns the steps that recurrence infers, unless all buffers may still be waited for.
func (p *Program) recurrentSteps(s *lifetime.Space) *Steps {
	if s.Facts&lifetime.History == 0 || len(s.Buffers) < minRecurrence*leastSteps || p.waitingOf(s).all {
		return noSteps
	}
	h := p.historyOf(s)
	if h.recurs == nil { // what waits on one device is asked of all devices of its process
		if h.recurs = p.recurrence(h, minRecurrence); h.recurs == noSteps {
			h.recurs = p.recurrence(h, 1)
		}
	}
	return h.recurs
}

// recurrence infers steps from the most common number of allocations per site: most sites of a loop allocate once in
// each iteration, in turns, and the others agree less with each other. At least so many of them allocate in the last
// iteration, which may not have ended.
func (p *Program) recurrence(h *history, least int) *Steps {
	s := h.s
	sites := map[int][][]int{} // buffers by number of allocations
	for _, site := range h.order {
		const once = Converting | Constructs | Initializes | MakesState // loop over the parameters of a model
		if n := len(h.buffers[site]); n >= leastSteps && p.At(site).Flags&once == 0 {
			for _, buffers := range p.atOnce(h, site) {
				sites[len(buffers)] = append(sites[len(buffers)], buffers)
			}
		}
	}
	begins := func(n int) []int { // buffers of the site that begins the iteration
		return slices.MinFunc(sites[n], func(x, y []int) int { return cmp.Compare(x[0], y[0]) })
	}
	often := map[int]int{} // sites by number of iterations
	for n := range sites {
		first := begins(n)
		for _, m := range []int{n, n - 1} { // sites that the last iteration did not reach
			for _, b := range sites[m] {
				if (m == n || often[n] >= least) && inTurns(first, b) {
					often[n]++
				}
			}
		}
	}
	maps.DeleteFunc(often, func(_, sites int) bool { return sites < minRecurrence })
	counts := slices.SortedFunc(maps.Keys(often), func(x, y int) int { return cmp.Or(cmp.Compare(often[y], often[x]), cmp.Compare(y, x)) })
	for _, n := range counts {
		if p.areLayers(h, sites[n]) {
			continue
		}
		first := begins(n)
		if from, to := s.Buffers[first[0]].Begin,
			s.Buffers[first[n-1]].Begin; 2*h.allocatedBetween(from, to) < h.allocatedBetween(s.Begin, s.End) {
			continue // a loop within an iteration
		}
		if first = h.leaders(first); len(first) < leastSteps || p.passesDiffer(h, first) {
			continue
		}
		if p.others(h, first) {
			return noSteps
		}
		n = len(first)
		steps := &Steps{Source: Recurrence}
		for k, i := range first {
			end := s.End
			if k+1 < n {
				end = s.Buffers[first[k+1]].Begin
			}
			steps.add(s.Buffers[i].Begin, end)
		}
		return steps
	}
	return noSteps
}

// others reports whether many sites, over most of the time of a loop, allocate in some of its iterations only, beside those that do so in
// each: then another loop iterates, or the iterations differ. What runs within an iteration, however often, does so in each.
func (p *Program) others(h *history, first []int) bool {
	n, fit, other := len(first), 0, 0
	thread := p.At(h.s.Buffers[first[0]].Site).Thread
	for _, site := range h.order {
		buffers := h.buffers[site]
		if len(buffers) < leastSteps || thread.IsOther(p.At(site).Thread) ||
			2*h.Between(buffers[0], buffers[len(buffers)-1]) < h.Between(first[0], first[n-1]) {
			continue
		}
		none, at := 0, 0
		for k := range first {
			from := at
			for at < len(buffers) && (k+1 == n || buffers[at] < first[k+1]) {
				at++
			}
			if at == from {
				none++
			}
		}
		switch {
		case none <= max(2, n/10):
			fit++
		case n-none >= leastSteps:
			other++
		}
	}
	return differ*other >= fit
}

// atOnce returns the buffers of a site in modules apart, by their place among those of different sizes that each call
// allocates one after the other, as results and workspaces of an operator: frames of C++ may be missing.
func (p *Program) atOnce(h *history, site lifetime.SiteID) [][]int {
	buffers := h.buffers[site]
	size := func(k int) int64 { return h.s.Buffers[buffers[k]].Requested }
	n := 1
	for n < len(buffers) && h.Between(buffers[n-1], buffers[n]) == 1 && size(n) != size(0) {
		n++
	}
	apart := make([][]int, n)
	for k, i := range buffers {
		if !p.inModule(site) || k%n > 0 && h.Between(buffers[k-1], i) != 1 || k >= n && size(k) != size(k-n) {
			return [][]int{buffers}
		}
		apart[k%n] = append(apart[k%n], i)
	}
	return apart
}

// leaders returns the first buffers of groups, if those of a site come in groups: a quarter of them right after the one
// before, beside the mean distance. Steps are about as long as each other, so what follows in a group is of the same
// step.
func (h *history) leaders(buffers []int) []int {
	const closer = 8 // times
	for {
		n := len(buffers) - 1
		isClose := func(k int) bool {
			return closer*h.Between(buffers[k-1], buffers[k])*n < h.Between(buffers[0], buffers[n])
		}
		first := buffers[:1:1]
		for k := 1; k <= n; k++ {
			if !isClose(k) {
				first = append(first, buffers[k])
			}
		}
		if 4*(len(buffers)-len(first)) < n || n == 0 {
			return buffers
		}
		buffers = first
	}
}

// passesDiffer reports whether a program trains, but not as often in each iteration, at least once: what iterates is a loop within
// a step, or something else than the training.
func (p *Program) passesDiffer(h *history, first []int) bool {
	runs, passes, off := p.backwardOf(h), make([]int, len(first)-1), 0
	before := func(i int) int { return sort.Search(len(runs), func(k int) bool { return runs[k].first >= i }) }
	for k := range passes {
		passes[k] = before(first[k+1]) - before(first[k])
	}
	usual := slices.Sorted(slices.Values(passes))[len(passes)/2]
	for _, n := range passes {
		if n != usual {
			off++
		}
	}
	return len(runs) > 0 && (usual == 0 || off > len(passes)/10)
}

// inTurns reports whether a site allocates once from each buffer of first to the next one, but for a tenth of them: what
// is prefetched is ahead of its iteration.
func inTurns(first, buffers []int) bool {
	off, at := 0, 0
	for k := range first {
		from := at
		for at < len(buffers) && (k+1 == len(first) || buffers[at] < first[k+1]) {
			at++
		}
		if n := at - from; n != 1 && (k+1 < len(first) || n > 1) {
			off++
		}
	}
	return off <= max(2, len(first)/10) && off < len(first)/2
}

// areLayers reports whether sites with one number of allocations loop over layers. Most of those of modules and of
// backward passes do so within one pass: all of their buffers are in one call or one forward pass, or there are fewer
// passes. Without a frame of Python, most have several sizes: the steps of a network have the same parameters.
func (p *Program) areLayers(h *history, sites [][]int) bool {
	looping, ofPasses, differ, python := 0, 0, 0, false
	for _, buffers := range sites {
		first := &h.s.Buffers[buffers[0]]
		python = python || p.At(first.Site).Python
		if p.inModule(first.Site) || p.Purpose(h.s.PurposeOf(buffers[0])).Phase == purpose.Backward {
			ofPasses++
			if len(buffers) > p.passesOf(h)+1 || p.InOneCall(h.s, first.Site) {
				looping++
			}
		}
		if slices.ContainsFunc(buffers, func(i int) bool { return h.s.Buffers[i].Requested != first.Requested }) {
			differ++
		}
	}
	return 2*looping > ofPasses || !python && 2*differ > len(sites)
}

// passesOf returns the number of backward passes or, if there are none, of calls of root modules; many if fewer than
// two are known.
func (p *Program) passesOf(h *history) int {
	n := len(p.backwardOf(h))
	if n == 0 {
		n = len(p.forwardOf(h))
	}
	if n < 2 {
		return math.MaxInt - 1
	}
	return n
}

// OnePass reports whether most of what a space recorded is one pass, forward, backward or both.
func (p *Program) OnePass(s *lifetime.Space) bool {
	h := p.historyOf(s)
	passes := slices.Concat(p.forwardOf(h), p.backwardOf(h))
	if len(passes) == 0 || len(h.forward) > 1 || len(h.backward) > 1 || h.turns {
		return false
	}
	from, to := s.Buffers[passes[0].first].Begin, s.Buffers[passes[len(passes)-1].last].Begin
	return 2*h.allocatedBetween(from, to+1) >= h.allocatedBetween(s.Begin, s.End)
}

// Passes returns the first and the last buffer of each forward pass in a space that other allocations tell apart.
func (p *Program) Passes(s *lifetime.Space) (all [][2]int) {
	for _, pass := range p.forwardPasses(p.historyOf(s)) {
		all = append(all, [2]int{pass.first, pass.last})
	}
	return all
}

func (p *Program) forwardOf(h *history) []interval {
	if h.forward == nil {
		h.forward = append([]interval{}, p.forwardPasses(h)...)
		if len(h.forward) == 1 {
			h.forward, h.turns = p.callsIn(h, h.forward[0])
		}
	}
	return h.forward
}

// forwardPasses returns the calls of root modules: runs of buffers below one call. What their thread allocates outside
// of modules ends a call, and what a thread does that is not known.
func (p *Program) forwardPasses(h *history) (all []interval) {
	type call struct {
		root PathID
		at   int // index in all
	}
	running := map[ThreadID]call{}
	for i := range h.s.Buffers {
		b := &h.s.Buffers[i]
		if !h.begins(i) || b.Edge&lifetime.SiteFromFree != 0 {
			continue
		}
		switch f := p.At(b.Site); {
		case p.stacks.PhaseOf(f) == purpose.Forward:
			now, ok := running[f.Thread]
			if !ok || f.RootCall != now.root {
				now = call{f.RootCall, len(all)}
				running[f.Thread], all = now, append(all, interval{i, i})
			}
			all[now.at].last = i
		case f.Thread != 0:
			delete(running, f.Thread)
		case f.Python || f.Engine:
			clear(running)
		}
	}
	return all
}
