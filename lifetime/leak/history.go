package leak

import (
	"slices"
	"sort"

	"github.com/memlane/memlane/lifetime"
)

// moment is a point of the window on two clocks: work, the number of
// allocations so far whose buffers were freed in the window, and all
// allocations so far.
type moment struct {
	work, allocations int
}

// histories is what each site of a space did.
type histories struct {
	sites []*history        // by SiteID
	order []lifetime.SiteID // sites with buffers, sorted
	end   moment
	// unknown are the times of the frees of buffers that are older than the
	// window and have no recorded site, by requested size.
	unknown map[int64][]int64
	borns   []int32 // work at the beginning of each buffer

	steps []int // work at the beginning of each step, where they are known
}

// history is the live buffers of one site over the window.
type history struct {
	levels    []level // none where no buffer of the site is alive at the end: then no floor rises
	holds     bool    // whether one is
	now       level   // while newHistories walks through the window
	buffers   []int   // that began in the window, by index
	open      []int   // of them, those that are alive at its end
	freed     []freed
	lifetimes []int32 // of the freed ones, in work
	allocated int
	older     int // buffers of the site that are older than the window

	sorted    bool  // whether lifetimes are sorted
	survivors []int // as Pass.survivors returns them
	counted   bool  // whether survivors is set
}

// freed is a buffer of the window that was freed in it, in order of the frees.
type freed struct {
	buffer      int32 // index
	allocations int32 // in the space before the free
	work        int32 // done before it
}

// level is the live buffers from a moment on. There is one for each change of the
// window, so it is no larger than it must be.
type level struct {
	work, allocations int32 // the moment
	alive             int32
	bytes             int64 // requested
}

func (l *level) at() moment { return moment{int(l.work), int(l.allocations)} }

func newHistories(s *lifetime.Space) *histories {
	h := &histories{unknown: map[int64][]int64{}, borns: make([]int32, len(s.Buffers))}
	h.preallocate(s)
	for c := range s.Changes() {
		b := &s.Buffers[c.Buffer]
		site := h.sites[b.Site]
		older := b.Edge&lifetime.BeginUnseen != 0
		sign := 1
		switch {
		case !c.Begin:
			sign = -1
			h.free(site, c, b, older)
		case older:
			site.older++
		default:
			h.allocate(site, c.Buffer, b)
		}
		site.now.alive += int32(sign)
		site.now.bytes = lifetime.AddSat(site.now.bytes, int64(sign)*b.Requested)
		if site.holds && !(c.Begin && older) { // the floor starts there, it does not rise to it
			site.now.work, site.now.allocations = int32(h.end.work), int32(h.end.allocations)
			site.levels = append(site.levels, site.now)
		}
	}
	return h
}

// allocate notes that a buffer of a site began.
func (h *histories) allocate(site *history, buffer int, b *lifetime.Buffer) {
	site.allocated++
	site.buffers = append(site.buffers, buffer)
	h.borns[buffer] = int32(h.end.work)
	h.end.allocations++
	if b.Edge&lifetime.EndOpen == 0 {
		h.end.work++
	} else {
		site.open = append(site.open, buffer)
	}
}

// free notes that a buffer of a site ended.
func (h *histories) free(site *history, c lifetime.Change, b *lifetime.Buffer, older bool) {
	if !older {
		site.lifetimes = append(site.lifetimes, int32(h.age(c.Buffer)))
		site.freed = append(site.freed, freed{int32(c.Buffer), int32(h.end.allocations), int32(h.end.work)})
	} else if b.Site == 0 {
		h.unknown[b.Requested] = append(h.unknown[b.Requested], c.T)
	}
}

// uneven is how many times as much work the last third of the steps must do as the
// first one for work to be no measure of progress.
const uneven = 2

// useSteps adds the steps to the histories. A backward pass through all steps so far
// does more work in each step than in the one before, so that an event of every step
// seems to get rare. useSteps then sets the clock of work to run evenly through the steps.
func (h *histories) useSteps(s *lifetime.Space, in *steps) {
	n := len(in.begins)
	if n < 2*minRises {
		return
	}
	h.steps = make([]int, 0, n+1)
	work := 0
	for i := range s.Buffers {
		b := &s.Buffers[i]
		for len(h.steps) < n && in.begins[len(h.steps)] <= b.Begin {
			h.steps = append(h.steps, work)
		}
		if b.Edge&(lifetime.BeginUnseen|lifetime.EndOpen) == 0 {
			work++
		}
	}
	for len(h.steps) <= n {
		h.steps = append(h.steps, h.end.work)
	}
	third := n / 3
	if first, last := h.steps[third]-h.steps[0], h.steps[n]-h.steps[n-third]; last >= uneven*first {
		h.evenOut(n)
	}
}

// evenOut sets the clock of work to run evenly through n steps.
func (h *histories) evenOut(n int) {
	begin, each := h.steps[0], float64(h.end.work-h.steps[0])/float64(n)
	even := func(work int32) int32 { return int32(h.even(int(work), n, each)) }
	for _, id := range h.order {
		site := h.sites[id]
		for i := range site.levels {
			site.levels[i].work = even(site.levels[i].work)
		}
		for i, f := range site.freed { // as many as lifetimes
			site.lifetimes[i] = even(f.work) - even(h.borns[f.buffer])
		}
	}
	for i := range h.borns {
		h.borns[i] = even(h.borns[i])
	}
	for k := range h.steps {
		h.steps[k] = begin + int(each*float64(k))
	}
	h.end.work = begin + int(each*float64(n))
}

// even returns an amount of work on a clock that runs evenly through n steps, each of
// as much work as given.
func (h *histories) even(work, n int, each float64) int {
	begin := h.steps[0]
	if work <= begin {
		return work
	}
	k := min(sort.Search(n, func(i int) bool { return h.steps[i+1] >= work }), n-1)
	from, to := h.steps[k], h.steps[k+1]
	part := 1.0
	if to > from {
		part = float64(work-from) / float64(to-from)
	}
	return begin + int(each*(float64(k)+part))
}

// stepOf returns the step that an amount of work was done in, from 1; 0 before the
// first.
func (h *histories) stepOf(work int) int {
	return sort.Search(len(h.steps), func(k int) bool { return h.steps[k] > work })
}

// replaced returns how many buffers of the sizes of kept, of unknown origin, may
// have made room for those of a site. Frees before the site allocated a second time
// do not count: these buffers were in flight when the window opened.
func (h *histories) replaced(s *lifetime.Space, hist *history, kept []int) int64 {
	if len(hist.buffers) < 2 {
		return 0
	}
	from := s.Buffers[hist.buffers[1]].Begin
	n := int64(0)
	seen := map[int64]bool{}
	for _, i := range kept {
		size := s.Buffers[i].Requested
		if seen[size] {
			continue
		}
		seen[size] = true
		for _, t := range h.unknown[size] {
			if t > from {
				n++
			}
		}
	}
	return n
}

// lag is the age, in work, up to which a live buffer of the site may still be
// freed in time.
func (h *history) lag() int {
	return int(patience * float64(h.quantile(usual)))
}

// quantile returns the age, in work, that a share of the freed buffers of the site
// did not exceed; 0 where none was freed.
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

// rises returns the moments at which the floor rises, in order: once for each
// buffer that it rises by. The floor at a moment is the lowest level from then
// to the end.
func (h *history) rises() []moment {
	var at []moment
	floor := 0
	if n := len(h.levels); n > 0 {
		floor = int(h.levels[n-1].alive)
	}
	for i := len(h.levels) - 1; i >= 0; i-- {
		for ; floor > int(h.levels[i].alive); floor-- {
			// The step from there to the level after it is one that lasts.
			at = append(at, h.levels[i+1].at())
		}
	}
	for ; floor > h.older; floor-- {
		at = append(at, h.levels[0].at())
	}
	slices.Reverse(at)
	return at
}

// age returns how much work was done since a buffer was allocated.
func (h *histories) age(buffer int) int { return h.end.work - int(h.borns[buffer]) }

// allocatedBefore returns how many buffers of the space began before an instant.
func allocatedBefore(s *lifetime.Space, t int64) int {
	return sort.Search(len(s.Buffers), func(i int) bool { return s.Buffers[i].Begin >= t })
}
