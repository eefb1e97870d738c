package finding

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/region"
)

// moment is a point of the window on two clocks. work counts the allocations so far whose buffers were freed within the
// window, or runs evenly through the steps (see stepClock); allocations counts all. Bystanders do no work.
type moment struct {
	work, allocations int
}

type histories struct {
	sites []*history        // by SiteID
	order []lifetime.SiteID // sites with buffers, sorted
	end   moment
	done  int // allocations so far whose buffers were freed within the window
	older int // buffers that are older than the window, which come first
	program.Evidence
	unknown map[int64][]int64 // instants of frees of buffers older than the window without a site, by requested size
	borns   []int32           // work at the beginning of each buffer
	steps   []int             // work at the beginning of each step; nil if steps are unknown
}

type history struct {
	levels    []level // none if no buffer of the site is alive at the end: then no floor rises
	holds     bool    // a buffer is alive at the end
	now       level   // current level while newHistories walks through the window
	buffers   []int   // buffers that began in the window, by index
	open      []int   // those that are alive at its end
	freed     []freed
	lifetimes []int32 // of the freed buffers, in work
	allocated int
	older     int // buffers of the site that are older than the window

	sorted    bool  // lifetimes are sorted
	survivors []int // cache of Pass.survivors, not nil once it is set
	setUp     []int // cache of Pass.setUp, not nil once it is set
}

// freed is a buffer that was allocated and freed in the window. Lists are in order of the frees.
type freed struct {
	buffer      int32 // index
	allocations int32 // in the space before the free
	work        int32 // before the free
}

// level is the number and size of live buffers from a moment on. It is compact because there is one for each change.
type level struct {
	work, allocations int32 // the moment
	alive             int32
	bytes             int64 // requested
}

func (l *level) at() moment { return moment{int(l.work), int(l.allocations)} }

// newHistories builds the histories of a space. clock is nil for the clock of work.
func newHistories(s *lifetime.Space, sites []lifetime.Site, clock *stepClock, e program.Evidence) *histories {
	h := &histories{unknown: map[int64][]int64{}, borns: make([]int32, len(s.Buffers)), Evidence: e}
	h.preallocate(s)
	for c := range s.Changes() {
		h.end.work = clock.at(c.T, h.done)
		b := &s.Buffers[c.Buffer]
		site := h.sites[b.Site]
		older := b.Edge&lifetime.BeginUnseen != 0
		sign := 1
		switch {
		case !c.Begin:
			sign = -1
			h.free(site, c, b, older && (b.Site == 0 || sites[b.Site].Unseen), older)
		case older:
			site.older++
		default:
			h.allocate(site, c.Buffer, b)
		}
		site.now.alive += int32(sign)
		site.now.bytes = units.AddSat(site.now.bytes, int64(sign)*b.Requested)
		if site.holds && !(c.Begin && older) { // older buffers are the start of the floor, not a rise
			site.now.work, site.now.allocations = int32(h.end.work), int32(h.end.allocations)
			site.levels = append(site.levels, site.now)
		}
	}
	h.end.work = clock.at(math.MaxInt64, h.done)
	return h
}

func (h *histories) allocate(site *history, buffer int, b *lifetime.Buffer) {
	site.allocated++
	site.buffers = append(site.buffers, buffer)
	h.borns[buffer] = int32(h.end.work)
	h.end.allocations++
	switch {
	case b.Edge&lifetime.EndOpen != 0:
		site.open = append(site.open, buffer)
	case h.Has(buffer):
		h.done++
	}
}

// free records the free of a buffer. unknown: the site of its allocation is not known.
func (h *histories) free(site *history, c lifetime.Change, b *lifetime.Buffer, unknown, older bool) {
	if !older {
		site.lifetimes = append(site.lifetimes, int32(h.age(c.Buffer)))
		site.freed = append(site.freed, freed{int32(c.Buffer), int32(h.end.allocations), int32(h.end.work)})
	} else if unknown {
		h.unknown[b.Requested] = append(h.unknown[b.Requested], c.T)
	}
}

// between returns how many allocations from one to before another are evidence.
func (h *histories) between(from, to int) int { return h.Between(h.older+from, h.older+to) }

// stepOf returns the step in which an amount of work is reached, from 1; 0 before the first step.
func (h *histories) stepOf(work int) int {
	return sort.Search(len(h.steps), func(k int) bool { return h.steps[k] > work })
}

// replaced returns how many freed buffers of unknown origin, with the sizes of kept, the buffers of a site may have replaced. Frees before the second
// allocation of the site do not count: these buffers were in flight when the window opened.
func (h *histories) replaced(s *lifetime.Space, hist *history, kept []int) int64 {
	if len(hist.buffers) < 2 {
		return 0
	}
	from, sizes, n := s.Buffers[hist.buffers[1]].Begin, map[int64]bool{}, int64(0)
	for _, i := range kept {
		sizes[s.Buffers[i].Requested] = true
	}
	for size := range sizes {
		for _, t := range h.unknown[size] {
			if t > from {
				n++
			}
		}
	}
	return n
}

// lag returns the age, in work, from which a live buffer of the site is overdue.
func (h *history) lag() int { return int(patience * float64(h.quantile(usual))) }

// quantile returns a quantile of the lifetimes of the freed buffers, in work; 0 if none was freed.
func (h *history) quantile(share float64) int {
	if len(h.lifetimes) == 0 {
		return 0
	}
	if !h.sorted {
		slices.Sort(h.lifetimes)
		h.sorted = true
	}
	return int(h.lifetimes[int(share*float64(len(h.lifetimes)-1))])
}

// rises returns the times at which the floor rises, in order, one for each buffer. The floor at a moment is the lowest
// number of live buffers from then to the end.
func (h *history) rises() []moment {
	var times []moment
	floor := 0
	if n := len(h.levels); n > 0 {
		floor = int(h.levels[n-1].alive)
	}
	for i := len(h.levels) - 1; i >= 0; i-- {
		for ; floor > int(h.levels[i].alive); floor-- {
			times = append(times, h.levels[i+1].at())
		}
	}
	for ; floor > h.older; floor-- {
		times = append(times, h.levels[0].at())
	}
	slices.Reverse(times)
	return times
}

// age returns the work from the allocation of a buffer until now or, after newHistories, the end of the window.
func (h *histories) age(buffer int) int { return h.end.work - int(h.borns[buffer]) }

func allocatedBefore(s *lifetime.Space, t int64) int {
	return sort.Search(len(s.Buffers), func(i int) bool { return s.Buffers[i].Begin >= t })
}

// callPaths numbers stacks; those that differ only in what does not count have one number. Stacks of deep recursion share most of
// their frames, so each frame is looked at once.
type callPaths struct {
	numbers map[pathFrame]int
	of      map[lifetime.StackID]int
}

// pathFrame is a frame of a path and the number of the path that called it.
type pathFrame struct {
	caller   int // 0 = none
	function string
	file     string
	line     int
}

// number returns the number of a stack; 0 if none of its frames counts. name returns the name under which a frame counts, and whether it
// does. It must be the same function in all calls.
func (c *callPaths) number(t *lifetime.Tables, stack lifetime.StackID, name func(*frame.Frame) (string, bool)) int {
	if c.of == nil {
		c.numbers, c.of = map[pathFrame]int{}, map[lifetime.StackID]int{0: 0}
	}
	var unknown []lifetime.StackID
	number, known := c.of[stack]
	for !known {
		unknown = append(unknown, stack)
		stack = t.Stacks[stack].Caller
		number, known = c.of[stack]
	}
	for _, stack := range slices.Backward(unknown) {
		f := &t.Frames[t.Stacks[stack].Frame]
		if function, counts := name(f); counts {
			path := pathFrame{number, function, f.File, f.Line}
			if c.numbers[path] == 0 {
				c.numbers[path] = len(c.numbers) + 1
			}
			number = c.numbers[path]
		}
		c.of[stack] = number
	}
	return number
}

// preallocate creates the history of each site with the exact capacity: histories that grow would copy the data of a
// million buffers several times and leave half of their memory unused.
func (h *histories) preallocate(s *lifetime.Space) {
	sites := countBuffers(s)
	h.sites = make([]*history, len(sites))
	for site, n := range sites {
		if n == (counts{}) {
			continue
		}
		h.older += n.older
		hist, freedOnes := &history{holds: n.open+n.olderOpen > 0}, n.begun-n.open
		if hist.holds {
			hist.levels = make([]level, 0, n.begun+freedOnes+n.older-n.olderOpen)
		}
		hist.buffers, hist.open = make([]int, 0, n.begun), make([]int, 0, n.open)
		hist.freed, hist.lifetimes = make([]freed, 0, freedOnes), make([]int32, 0, freedOnes)
		h.sites[site] = hist
		h.order = append(h.order, lifetime.SiteID(site))
	}
}

type counts struct {
	begun, open      int // begun in the window, and those alive at its end
	older, olderOpen int // older than the window, and those alive at its end
}

func countBuffers(s *lifetime.Space) []counts {
	most := lifetime.SiteID(0)
	for i := range s.Buffers {
		most = max(most, s.Buffers[i].Site)
	}
	sites := make([]counts, most+1)
	for i := range s.Buffers {
		n, edge := &sites[s.Buffers[i].Site], s.Buffers[i].Edge
		total, open := &n.begun, &n.open
		if edge&lifetime.BeginUnseen != 0 {
			total, open = &n.older, &n.olderOpen
		}
		*total++
		if edge&lifetime.EndOpen != 0 {
			*open++
		}
	}
	return sites
}

const (
	// uneven is the ratio of the work in the last third of the steps to that in the first from which work is not a
	// measure of progress.
	uneven = 2
	// leastLoop is the minimum number of steps of a loop.
	leastLoop = 2 * minRises
	// inLoop is the minimum share of the allocations that marked steps must contain to be the loop of the program: a
	// profiler may mark some of many iterations.
	inLoop = 0.5

	finest = 1 << 10 // parts of a step that a stepClock distinguishes
)

// stepClock runs evenly through the steps, and through the work within each. Work alone stands still if a leak retains all that would have been freed, and
// then the leak seems to have stopped. What was before the first step counts as a step.
type stepClock struct {
	begins []int64 // of the steps
	done   []int   // work at the beginning of each step, and at the end of the window
	step   int     // index in begins of the next step
	each   int     // duration of a step
}

// at returns the time at an instant at which an amount of work is done. Instants must not decrease. The time of a nil clock is work.
func (c *stepClock) at(t int64, done int) int {
	if c == nil {
		return done
	}
	for c.step < len(c.begins) && c.begins[c.step] <= t {
		c.step++
	}
	if t == math.MaxInt64 {
		return c.each * (c.step + 1)
	}
	from := 0
	if c.step > 0 {
		from = c.done[c.step-1]
	}
	return c.each*c.step + c.each*(done-from)/(c.done[c.step]-from+1)
}

// workAt returns the work at several instants, which are sorted, and at the end of the window. Only evidence counts.
func workAt(s *lifetime.Space, instants []int64, e program.Evidence) []int {
	works, work := make([]int, 0, len(instants)+1), 0
	for i := range s.Buffers {
		b := &s.Buffers[i]
		for len(works) < len(instants) && instants[len(works)] <= b.Begin {
			works = append(works, work)
		}
		if b.Edge&(lifetime.BeginUnseen|lifetime.EndOpen) == 0 && e.Has(i) {
			work++
		}
	}
	for len(works) <= len(instants) {
		works = append(works, work)
	}
	return works
}

// newTimeline builds the histories of a space and finds its steps. Marked steps are the time. Inferred steps are the time only if work grows from step to
// step (a backward pass through all steps so far), so that an event of every step seems to get rare.
func (p *Pass) newTimeline() {
	s, e := p.Space, p.program.Evidence(p.Space)
	if p.steps = p.program.Steps(s); p.areTime() {
		p.useClock()
		return
	}
	p.histories = newHistories(s, p.Sites, nil, e)
	n := len(p.steps.Begins)
	if n < leastLoop {
		return
	}
	p.histories.steps = workAt(s, p.steps.Begins, e)
	third := n / 3
	if at := p.histories.steps; at[n]-at[n-third] >= uneven*(at[third]-at[0]) {
		p.useClock()
	}
}

func (p *Pass) useClock() {
	e := p.program.Evidence(p.Space)
	clock := &stepClock{p.steps.Begins, workAt(p.Space, p.steps.Begins, e), 0, min(finest, math.MaxInt32/(len(p.steps.Begins)+1))}
	p.histories = newHistories(p.Space, p.Sites, clock, e)
	for k := range len(p.steps.Begins) + 1 {
		p.histories.steps = append(p.histories.steps, clock.each*(k+1))
	}
}

// areTime reports whether the steps are those of the loop of the program: the program marks them, and most allocations are in them.
func (p *Pass) areTime() bool {
	s, n := p.Space, len(p.steps.Begins)
	if n < leastLoop || p.steps.Source != program.Marked {
		return false
	}
	e, from, to := p.program.Evidence(s), allocatedBefore(s, p.steps.Begins[0]), allocatedBefore(s, slices.Max(p.steps.Ends))
	return float64(e.Between(from, to)) >= inLoop*float64(e.Between(0, len(s.Buffers)))
}

// The bounds of set-up.
const (
	maxSetUp = 3             // sizes of a site
	earliest = 4             // set-up is among the first so many buffers of its site on its stream
	leastRun = 2 * leastLoop // buffers of a site after which another run may allocate it again
)

// survivors returns the buffers of a site that began in the window and are alive at its end, without set-up: a size
// that is allocated once per stream, such as the workspace of cuBLAS, which has the stack of the first matrix product.
// Set-up is few sizes, and early, but for workspaces; a second run or handle allocates one more. A site with more sizes
// that occur once is one whose sizes vary: of these, and if more sizes are set-up, the steps tell it (madeFirst). What waits for a backward pass is left out too.
func (p *Pass) survivors(h *history) []int {
	if h.survivors == nil { // several rules need them
		open := slices.DeleteFunc(slices.Clone(h.open), func(i int) bool {
			_, early := slices.BinarySearch(p.setUp(h), i)
			return early || p.Space.Buffers[i].Edge&lifetime.Pending != 0
		})
		h.survivors = append([]int{}, p.program.Settled(p.Space, open)...)
	}
	return h.survivors
}

func (p *Pass) setUp(h *history) []int {
	if h.setUp == nil {
		h.setUp = p.findSetUp(h)
	}
	return h.setUp
}

func (p *Pass) findSetUp(h *history) []int {
	all, once := []int{}, p.fewPerStream(h)
	for _, made := range once {
		all = append(all, made...)
	}
	few := len(once) <= maxSetUp && 2*len(all) <= len(h.buffers)
	seen, early := map[int64]int{}, map[int64]bool{} // buffers so far by stream; sizes of set-up
	for _, i := range h.buffers[:min(len(all), 1)*len(h.buffers)] {
		b := &p.Space.Buffers[i]
		on := p.streamOf(i)
		seen[on]++
		early[b.Requested] = early[b.Requested] || seen[on] <= earliest
	}
	all = slices.DeleteFunc(all, func(i int) bool {
		size := p.Space.Buffers[i].Requested
		return !(few && early[size] || p.isWorkspace(i) && !varies(once, size))
	})
	all = append(all, p.madeFirst(h.open)...)
	slices.Sort(all)
	return slices.Compact(all)
}

// madeFirst returns the live buffers of a site that the first step made beside what it retains as later steps do, or that are older: at most so
// many more than the most that a later step retains, of sizes that are outside of those of later steps, those that differ most first.
func (p *Pass) madeFirst(open []int) []int {
	first := sort.Search(len(open), func(k int) bool { return p.steps.At(p.Space.Buffers[open[k]].Begin) > 0 })
	most, least, largest, n, last := 0, int64(math.MaxInt64), int64(0), 0, 0
	for _, i := range open[first:] {
		b := &p.Space.Buffers[i]
		if at := p.steps.At(b.Begin); at != last {
			n, last = 0, at
		}
		n++
		most, least, largest = max(most, n), min(least, b.Requested), max(largest, b.Requested)
	}
	if len(open)-first < minRises || first <= most {
		return nil
	}
	ratio := func(i int) float64 { // of its size to the nearest one of a later step
		size := p.Space.Buffers[i].Requested
		return max(float64(size)/float64(largest), float64(least)/float64(max(size, 1)))
	}
	set := slices.DeleteFunc(slices.Clone(open[:first]), func(i int) bool { return ratio(i) <= 1 })
	slices.SortStableFunc(set, func(x, y int) int { return cmp.Compare(ratio(y), ratio(x)) })
	return set[:min(len(set), first-most)]
}

// varies reports whether a size may be one of several, smaller and larger ones, by chance.
func varies(sizes map[int64][]int, size int64) bool {
	smaller, larger := 0, 0
	for other := range sizes {
		switch cmp.Compare(other, size) {
		case -1:
			smaller++
		case 1:
			larger++
		}
	}
	return min(smaller, larger) > 1
}

// rises returns the moments at which the floor of a site rises, without set-up: a few early buffers that stay would
// make what follows at a steady rate seem to fade.
func (p *Pass) rises(h *history) []moment {
	if len(h.open) < minRises {
		return h.rises()
	}
	setUp := p.setUp(h)
	if len(setUp) == 0 || len(setUp) == len(h.open) {
		return h.rises()
	}
	steady := *h
	steady.levels = slices.Clone(h.levels)
	for i := range steady.levels {
		l := &steady.levels[i]
		l.alive -= int32(sort.SearchInts(setUp, p.histories.older+int(l.allocations)))
	}
	return steady.rises()
}

// isWorkspace reports whether a library keeps a buffer for each of its handles.
func (p *Pass) isWorkspace(i int) bool {
	return p.Purpose(p.Space.PurposeOf(i)).Category == purpose.Workspace
}

// fewPerStream returns the buffers of each size that a site never freed and allocated once per stream, or a few times: in other runs, or as workspaces.
func (p *Pass) fewPerStream(h *history) map[int64][]int {
	few := map[int64][]int{} // nil for sizes that repeat
	for _, i := range h.open {
		b := &p.Space.Buffers[i]
		made, seen := few[b.Requested]
		on := slices.DeleteFunc(slices.Clone(made), func(k int) bool { return p.streamOf(k) != p.streamOf(i) })
		if n := len(on); seen && made == nil || n == minRises-1 || n > 0 && !p.isWorkspace(i) &&
			sort.SearchInts(h.buffers, i)-sort.SearchInts(h.buffers, on[n-1]) < leastRun {
			few[b.Requested] = nil
			continue
		}
		few[b.Requested] = append(made, i)
	}
	for _, f := range h.freed {
		if len(few) == 0 {
			break
		}
		delete(few, p.Space.Buffers[f.buffer].Requested)
	}
	maps.DeleteFunc(few, func(_ int64, made []int) bool { return made == nil })
	return few
}

// streamOf returns the stream of a buffer.
func (p *Pass) streamOf(buffer int) int64 {
	if p.streams == nil {
		p.streams = region.StreamsOfBuffers(p.Space)
	}
	return p.streams(buffer)
}
