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
	order []lifetime.SiteID // those that there are, sorted
	end   moment
	// unknown are the times of the frees of buffers that are older than the
	// window and were allocated by nobody knows whom, by requested size.
	unknown map[int64][]int64
	borns   []int32 // work at the beginning of each buffer

	steps []int // work at the beginning of each step, where they are known
}

// history is the live buffers of one site over the window.
type history struct {
	levels    []level // none where nothing of the site is alive at the end: then no floor rises
	holds     bool    // whether something is
	now       level   // while the window is walked through
	buffers   []int   // that began in the window, by index
	open      []int   // of them, those that are alive at its end
	freed     []freed
	lifetimes []int32 // of the freed ones, in work
	allocated int
	older     int // buffers of the site that are older than the window

	sorted    bool  // whether lifetimes are
	survivors []int // as Look.survivors tells, once it was asked
	asked     bool
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
	h.makeRoom(s)
	for c := range s.Changes() {
		b := &s.Buffers[c.Buffer]
		hist := h.sites[b.Site]
		now := &hist.now
		switch {
		case !c.Begin:
			now.alive--
			now.bytes = lifetime.AddSat(now.bytes, -b.Requested)
			if b.Edge&lifetime.BeginUnseen == 0 {
				hist.lifetimes = append(hist.lifetimes, int32(h.end.work-h.born(c.Buffer)))
				hist.freed = append(hist.freed, freed{int32(c.Buffer), int32(h.end.allocations), int32(h.end.work)})
			} else if b.Site == 0 {
				h.unknown[b.Requested] = append(h.unknown[b.Requested], c.T)
			}
		case b.Edge&lifetime.BeginUnseen != 0:
			now.alive++
			now.bytes = lifetime.AddSat(now.bytes, b.Requested)
			hist.older++
			continue // the floor starts there, it does not rise to it
		default:
			now.alive++
			now.bytes = lifetime.AddSat(now.bytes, b.Requested)
			hist.allocated++
			hist.buffers = append(hist.buffers, c.Buffer)
			h.borns[c.Buffer] = int32(h.end.work)
			h.end.allocations++
			if b.Edge&lifetime.EndOpen == 0 {
				h.end.work++
			} else {
				hist.open = append(hist.open, c.Buffer)
			}
		}
		if hist.holds {
			now.work, now.allocations = int32(h.end.work), int32(h.end.allocations)
			hist.levels = append(hist.levels, *now)
		}
	}
	return h
}

// uneven is how many times as much work the last third of the steps must do as the
// first one for work to be no measure of progress.
const uneven = 2

// settle tells the steps to the histories. Where each step does more than the one
// before, as a backward pass through all steps so far does, what happens once in
// a step seems to happen less and less often: the clock of work is then set to
// run evenly through the steps.
func (h *histories) settle(s *lifetime.Space, in *steps) {
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
	if first, last := h.steps[third]-h.steps[0], h.steps[n]-h.steps[n-third]; last < uneven*first {
		return
	}
	h.warp(n)
}

// warp sets the clock of work to run evenly through n steps.
func (h *histories) warp(n int) {
	begin, each := h.steps[0], float64(h.end.work-h.steps[0])/float64(n)
	even := func(work int) int {
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
	for _, site := range h.order {
		hist := h.sites[site]
		for i := range hist.levels {
			hist.levels[i].work = int32(even(int(hist.levels[i].work)))
		}
		hist.lifetimes = hist.lifetimes[:0]
		for _, f := range hist.freed {
			hist.lifetimes = append(hist.lifetimes, int32(even(int(f.work))-even(h.born(int(f.buffer)))))
		}
	}
	for i := range h.borns {
		h.borns[i] = int32(even(int(h.borns[i])))
	}
	for k := range h.steps {
		h.steps[k] = begin + int(each*float64(k))
	}
	h.end.work = begin + int(each*float64(n))
}

// stepOf returns the step that an amount of work was done in, from 1; 0 before the
// first.
func (h *histories) stepOf(work int) int {
	return sort.Search(len(h.steps), func(k int) bool { return h.steps[k] > work })
}

// replaced returns how many buffers of the sizes of kept, of unknown origin, may
// have made room for those of hist. What was freed before the site allocated a
// second time was in flight when the window opened.
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

// quantile returns the age, in work, that a share of the freed buffers of the
// site did not get beyond; 0 where none was freed.
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

// born returns how much work was done when a buffer was allocated.
func (h *histories) born(buffer int) int { return int(h.borns[buffer]) }

// allocatedBefore returns how many buffers of the space began before an instant.
func allocatedBefore(s *lifetime.Space, t int64) int {
	return sort.Search(len(s.Buffers), func(i int) bool { return s.Buffers[i].Begin >= t })
}
