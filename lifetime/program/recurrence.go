package program

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

const (
	minRecurrence = 2 // minimum number of sites with equally many allocations
	leastSteps    = 4 // minimum number of steps that recur
	maxTimes      = 4 // maximum number of allocations of a site in an iteration
)

// history is the buffers of a space that began in the window, by site.
type history struct {
	s       *lifetime.Space
	buffers map[lifetime.SiteID][]int
	order   []lifetime.SiteID // sites with such buffers, sorted

	// Computed when first needed.
	calls    map[moduleFunction]map[int]interval // see callsOf
	backward []interval                          // runs of buffers of backward passes
	passes   int                                 // backward passes or, if there are none, forward passes; 0 = not counted
	forward  []interval                          // forward passes
	turns    bool                                // the only forward pass is several; see takeTurns
	recurs   *Steps                              // see recurrence
}

// historyOf returns the history of a space.
func (p *Program) historyOf(s *lifetime.Space) *history {
	h := p.histories[s]
	if h == nil {
		h = &history{s: s, buffers: map[lifetime.SiteID][]int{}}
		p.histories[s] = h
		counts := make([]int, len(p.Sites)+1)
		for i := range s.Buffers {
			if s.Buffers[i].Edge&lifetime.BeginUnseen == 0 {
				counts[s.Buffers[i].Site+1]++
			}
		}
		for site := range p.Sites {
			counts[site+1] += counts[site]
		}
		began, next := make([]int, counts[len(p.Sites)]), slices.Clone(counts)
		for i := range s.Buffers {
			if site := s.Buffers[i].Site; s.Buffers[i].Edge&lifetime.BeginUnseen == 0 {
				began[next[site]] = i
				next[site]++
			}
		}
		for site := range p.Sites {
			if from, to := counts[site], counts[site+1]; from < to {
				h.order, h.buffers[lifetime.SiteID(site)] = append(h.order, lifetime.SiteID(site)), began[from:to]
			}
		}
	}
	return h
}

// recurrentSteps returns the steps that recurrence infers, unless all buffers may still be waited for.
func (p *Program) recurrentSteps(s *lifetime.Space) *Steps {
	if s.Facts&lifetime.History == 0 || len(s.Buffers) < minRecurrence*leastSteps || p.waitingOf(s).all {
		return noSteps
	}
	h := p.historyOf(s)
	if h.recurs == nil { // what waits on one device is asked of all devices of its process
		h.recurs = p.recurrence(h)
	}
	return h.recurs
}

// recurrence infers steps from the most common number of allocations per site: most sites of a loop allocate once in
// each iteration, and the others agree less with each other. Call paths of a line count as one if most of them do not
// agree: a line with many may allocate equally often through several by chance.
func (p *Program) recurrence(h *history) *Steps {
	s := h.s
	type times struct {
		at lifetime.Place
		n  int // number of allocations
	}
	paths, equal := map[lifetime.Place]int{}, map[times]int{} // of a line: all, and by number of allocations
	for _, site := range h.order {
		n := len(h.buffers[site])
		if n < leastSteps {
			continue
		}
		at := p.PlaceOf(site)
		paths[at]++
		equal[times{at, n}]++
	}
	often := map[int]int{} // number of sites by number of allocations
	for line, sites := range equal {
		if 2*sites < paths[line.at] {
			sites = 1
		}
		often[line.n] += sites
	}
	all := maps.Clone(often)
	maps.DeleteFunc(often, func(n, sites int) bool { return sites < minRecurrence })
	counts := slices.SortedFunc(maps.Keys(often), func(x, y int) int {
		return cmp.Or(cmp.Compare(often[y], often[x]), cmp.Compare(inLoopOf(y, all), inLoopOf(x, all)), cmp.Compare(x, y))
	})
	for _, n := range counts {
		if p.areLayers(h, n) || p.sizesDiffer(h, n) {
			continue
		}
		var first []int // buffers of the site that begins the iteration
		for _, site := range h.order {
			if b := h.buffers[site]; len(b) == n && (first == nil || b[0] < first[0]) {
				first = b
			}
		}
		if from, to := s.Buffers[first[0]].Begin,
			s.Buffers[first[n-1]].Begin; 2*allocatedBetween(s, from, to) < allocatedBetween(s, s.Begin, s.End) {
			continue // a loop within an iteration
		}
		if first = leaders(first); len(first) < leastSteps {
			continue
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

// leaders returns the first buffers of groups, if those of a site come in groups: a quarter of them right after the one
// before, beside the mean distance. Steps are about as long as each other, so what follows in a group is of the same
// step.
func leaders(buffers []int) []int {
	const closer = 8 // times
	for {
		n := len(buffers) - 1
		isClose := func(k int) bool { return closer*(buffers[k]-buffers[k-1])*n < buffers[n]-buffers[0] }
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

// inLoopOf returns the number of allocations of a loop with n iterations, in which some sites allocate several times.
// Of two loops, the one that does most is that of the program; the other may be what fills a cache.
func inLoopOf(n int, often map[int]int) (allocations int) {
	for times := 1; times <= maxTimes; times++ {
		allocations += n * times * often[n*times]
	}
	return allocations
}

// areLayers reports whether most sites of modules and of backward passes with a number of allocations loop within one
// pass, over its layers: all of them are in one call or one forward pass, or there are fewer passes.
func (p *Program) areLayers(h *history, n int) bool {
	looping, all := 0, 0
	for _, site := range h.order {
		if len(h.buffers[site]) != n {
			continue
		}
		if p.inModule(site) || p.Purpose(h.s.PurposeOf(h.buffers[site][0])).Phase == purpose.Backward {
			all++
			if n > p.passesOf(h)+1 || p.inOneCall(h, site) || p.inOnePass(h, h.buffers[site]) {
				looping++
			}
		}
	}
	return 2*looping > all
}

// sizesDiffer reports whether most sites with a number of allocations have several sizes, and no frame of Python tells
// where they are: the layers of a network differ, its steps have the same parameters.
func (p *Program) sizesDiffer(h *history, n int) bool {
	differ, all := 0, 0
	for _, site := range h.order {
		buffers := h.buffers[site]
		if len(buffers) != n {
			continue
		}
		if p.At(site).Python {
			return false
		}
		all++
		if slices.ContainsFunc(buffers, func(i int) bool { return h.s.Buffers[i].Requested != h.s.Buffers[buffers[0]].Requested }) {
			differ++
		}
	}
	return 2*differ > all
}

// passesOf returns the number of backward passes or, if there are none, of calls of root modules; many if fewer than
// two are known.
func (p *Program) passesOf(h *history) int {
	if h.passes == 0 {
		for _, span := range phaseSpans(&p.Tables, h.s) {
			if span.Phase == purpose.Backward {
				h.passes++
			}
		}
		if h.passes == 0 {
			h.passes = len(p.forwardOf(h))
		}
		if h.passes < 2 {
			h.passes = math.MaxInt - 1
		}
	}
	return h.passes
}

// inOnePass reports whether one forward pass allocated some buffers.
func (p *Program) inOnePass(h *history, buffers []int) bool {
	return !h.turns && slices.ContainsFunc(p.forwardOf(h), func(pass interval) bool {
		return pass.first <= buffers[0] && buffers[len(buffers)-1] <= pass.last
	})
}

// Passes returns the number of forward passes in a space.
func (p *Program) Passes(s *lifetime.Space) int { return len(p.forwardOf(p.historyOf(s))) }

// forwardOf returns the forward passes of a history.
func (p *Program) forwardOf(h *history) []interval {
	if h.forward == nil {
		h.forward = append([]interval{}, p.forwardPasses(h.s)...)
		h.turns = len(h.forward) == 1 && p.takeTurns(h.s, h.forward[0])
	}
	return h.forward
}

// forwardPasses returns the calls of root modules: runs of buffers below one call. What the program allocates outside
// of modules ends a call.
func (p *Program) forwardPasses(s *lifetime.Space) (all []interval) {
	ended, root := true, PathID(0)
	for i := range s.Buffers {
		b := &s.Buffers[i]
		if b.Edge&(lifetime.BeginUnseen|lifetime.SiteFromFree) != 0 {
			continue
		}
		switch f := p.At(b.Site); {
		case p.stacks.PhaseOf(f) == purpose.Forward:
			if ended || f.RootCall != root {
				all = append(all, interval{i, i})
			}
			all[len(all)-1].last, root, ended = i, f.RootCall, false
		case f.Python || f.Engine:
			ended = true
		}
	}
	return all
}
