package finding

import (
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/program"
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

// history is the live buffers of one site over the window.
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

// replaced returns how many freed buffers of unknown origin, with the sizes of kept, the buffers of a site may have
// replaced. Frees before the second allocation of the site do not count: these buffers were in flight when the window
// opened.
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

// allocatedBefore returns the number of buffers that began before an instant.
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
