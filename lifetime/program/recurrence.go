package program

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/memlane/memlane/internal/units"
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

// recurrence infers steps from the most common number of allocations per site: most sites of a loop allocate once in each iteration, in turns, and the
// others agree less with each other. At least so many of them allocate in the last iteration, which may not have ended.
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

// leaders returns the first buffers of groups, if those of a site come in groups: a quarter of them right after the one before, beside the mean distance.
// Steps are about as long as each other, so what follows in a group is of the same step.
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

// passesOf returns the number of backward passes or, if there are none, of calls of root modules; many if fewer than two are known.
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

// interval is the first and the last allocation of a line, as indices of buffers.
type interval struct{ first, last int }

func (p *Program) inModule(site lifetime.SiteID) bool {
	f := p.At(site)
	return f.All&CallsModule != 0 || f.Has(InModule)
}

// InOneCall reports whether all allocations of a site are in one forward pass or one backward pass, which goes through the layers once.
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

// backwardOf returns the runs of buffers that were allocated by backward passes. A thread that runs no passes ends none.
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

// waiting are the passes of a space whose backward pass may still come.
type waiting struct {
	passes []interval // forward passes
	first  int        // index in passes of the first that waits; len(passes) = none
	runs   []int      // first buffers of backward passes
	all    bool       // nothing tells passes of PyTorch apart, and several operators retain most of what they allocated, or no step is known
}

// Settled returns the live buffers of a line without those that the program may still drop: what a forward pass keeps for a backward pass that has not
// come, as the recording ends in a pass, or before its backward pass; and the gradients of the last backward pass, which the next step clears. They stay
// if earlier passes left buffers of the line too.
func (p *Program) Settled(s *lifetime.Space, alive []int) []int {
	if len(alive) == 0 {
		return alive
	}
	w := p.waitingOf(s)
	if w.all {
		return nil
	}
	alive = p.cleared(s, w, alive)
	if len(alive) == 0 || w.first == len(w.passes) || alive[len(alive)-1] < w.passes[w.first].first {
		return alive
	}
	rest := slices.DeleteFunc(slices.Clone(alive), func(i int) bool {
		return i >= w.passes[w.first].first && p.phase(s, i) == purpose.Forward
	})
	left, last, k := 0, -1, 0 // passes that left buffers, with what the program allocates after them
	for _, i := range rest {
		for k < w.first && w.passes[k].first <= i {
			k++
		}
		if k != last {
			left, last = left+1, k
		}
	}
	if left > 0 && (left > 1 || w.first < 3) { // a single one may be set-up
		return alive
	}
	return rest
}

// cleared returns the live buffers of a line without those of the last backward pass, unless two earlier ones left
// buffers too: what one left may be set-up.
func (p *Program) cleared(s *lifetime.Space, w *waiting, alive []int) []int {
	if len(w.runs) == 0 || alive[len(alive)-1] < w.runs[len(w.runs)-1] {
		return alive
	}
	left := map[int]bool{} // backward passes that left buffers
	for _, i := range alive {
		if p.phase(s, i) == purpose.Backward {
			left[sort.SearchInts(w.runs, i+1)] = true
		}
	}
	if last := len(w.runs); left[last] && len(left) <= 2 {
		return slices.DeleteFunc(slices.Clone(alive), func(i int) bool {
			return i >= w.runs[last-1] && p.phase(s, i) == purpose.Backward
		})
	}
	return alive
}

func (p *Program) phase(s *lifetime.Space, i int) purpose.Phase {
	if s.Purposes != nil {
		return p.Purpose(s.PurposeOf(i)).Phase
	}
	return p.stacks.PhaseOf(p.At(s.Buffers[i].Site))
}

// waitingOf finds the passes after the last backward pass: at most as many as one backward pass had before, at least
// one. Without a backward pass, lines that take turns in a root module are several calls of it, and none waits.
func (p *Program) waitingOf(s *lifetime.Space) *waiting {
	h := p.historyOf(s)
	if h.waits != nil {
		return h.waits
	}
	w := &waiting{passes: p.forwardOf(h)}
	h.waits = w
	usual, now, k, step, steps := 1, 0, 0, -1, p.Steps(s)
	var trains, runs, python bool
	allocated, open, sites := int64(0), int64(0), map[lifetime.SiteID]bool{}
	for i := range s.Buffers {
		for k < len(w.passes) && w.passes[k].first <= i {
			k++
			now++
		}
		b := &s.Buffers[i]
		if !h.begins(i) || b.Edge&lifetime.SiteFromFree != 0 {
			continue
		}
		f := p.At(b.Site)
		is := p.phase(s, i)
		if p.stacks.PhaseOf(f) == purpose.Backward || is == purpose.Backward {
			usual, now, trains = max(usual, now), 0, true
			if at := steps.At(b.Begin); !runs || at != step {
				w.runs, step = append(w.runs, i), at
			}
			runs = true
		} else if is == purpose.Forward || is == purpose.OptimizerPhase {
			runs = false
		}
		if python = python || f.Python; !python {
			op := p.PlaceOf(b.Site).Op
			python = op != "" && !strings.HasPrefix(op, "aten::")
		}
		if allocated = units.AddSat(allocated, b.Size); b.Edge&lifetime.EndOpen != 0 {
			open, sites[b.Site] = units.AddSat(open, b.Size), true
		}
	}
	w.all = !trains && !python && len(sites) > 2 && (open > allocated/2 || len(steps.Begins) == 0)
	if w.first = len(w.passes) - min(now, usual); !trains && h.turns {
		w.first = 1
	}
	return w
}

// callsIn returns the calls of the root module in a run of its buffers that nothing else ends: the line that begins the
// first one allocates again after another line did. turns: other lines do, so that the only call may be several.
func (p *Program) callsIn(h *history, run interval) (calls []interval, turns bool) {
	seen, first, last := map[lifetime.FrameID]bool{}, lifetime.FrameID(0), lifetime.FrameID(0)
	thread := p.At(h.s.Buffers[run.first].Site).Thread
	for i := run.first; i <= run.last; i++ {
		f := p.At(h.s.Buffers[i].Site)
		if !h.begins(i) || f.Thread != thread {
			continue
		}
		line := lifetime.FrameID(0)
		for path := f.Path; path != 0 && path != f.RootCall; path = p.stacks.callers[path] {
			if frame := p.stacks.lines[path]; p.stacks.frames[frame].flags&(CallsModule|RunsHooks) == 0 {
				line = frame
			}
		}
		if first = cmp.Or(first, line); len(calls) == 0 || line == first && line != last {
			calls = append(calls, interval{i, i})
		}
		turns = turns || line != last && seen[line]
		seen[line], last, calls[len(calls)-1].last = true, line, i
	}
	return calls, turns && len(calls) == 1
}
