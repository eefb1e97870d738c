package leak

import (
	"slices"

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
	sites map[lifetime.SiteID]*history
	order []lifetime.SiteID // sorted
	end   moment
	// unknown are the times of the frees of buffers that are older than the
	// window and were allocated by nobody knows whom, by requested size.
	unknown map[int64][]int64
}

// history is the live buffers of one site over the window.
type history struct {
	levels    []level
	buffers   []int // that began in the window, by index
	lifetimes []int // of the freed ones, in work
	allocated int
	older     int // buffers of the site that are older than the window
}

// level is a number of live buffers from a moment on.
type level struct {
	at    moment
	alive int
}

func newHistories(s *lifetime.Space) *histories {
	h := &histories{sites: map[lifetime.SiteID]*history{}, unknown: map[int64][]int64{}}
	born := make([]int32, len(s.Buffers)) // work at the begin of each buffer
	alive := map[lifetime.SiteID]int{}
	for c := range s.Changes() {
		b := &s.Buffers[c.Buffer]
		hist := h.sites[b.Site]
		if hist == nil {
			hist = &history{}
			h.sites[b.Site] = hist
			h.order = append(h.order, b.Site)
		}
		switch {
		case !c.Begin:
			alive[b.Site]--
			if b.Edge&lifetime.BeginUnseen == 0 {
				hist.lifetimes = append(hist.lifetimes, h.end.work-int(born[c.Buffer]))
			} else if b.Site == 0 {
				h.unknown[b.Requested] = append(h.unknown[b.Requested], c.T)
			}
		case b.Edge&lifetime.BeginUnseen != 0:
			alive[b.Site]++
			hist.older++
			continue // the floor starts there, it does not rise to it
		default:
			alive[b.Site]++
			hist.allocated++
			hist.buffers = append(hist.buffers, c.Buffer)
			born[c.Buffer] = int32(h.end.work)
			h.end.allocations++
			if b.Edge&lifetime.EndOpen == 0 {
				h.end.work++
			}
		}
		hist.levels = append(hist.levels, level{h.end, alive[b.Site]})
	}
	slices.Sort(h.order)
	return h
}

// replaced returns how many buffers of the given sizes, of unknown origin, may
// have made room for those of hist. What was freed before the site allocated a
// second time was in flight when the window opened.
func (h *histories) replaced(s *lifetime.Space, hist *history, sizes map[int64]bool) int64 {
	if len(hist.buffers) < 2 {
		return 0
	}
	from := s.Buffers[hist.buffers[1]].Begin
	n := int64(0)
	for size := range sizes {
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
	if len(h.lifetimes) == 0 {
		return 0
	}
	slices.Sort(h.lifetimes)
	return int(patience * float64(h.lifetimes[int(usual*float64(len(h.lifetimes)-1))]))
}

// rises returns the moments at which the floor rises, in order: once for each
// buffer that it rises by. The floor at a moment is the lowest level from then
// to the end.
func (h *history) rises() []moment {
	var at []moment
	floor := 0
	if n := len(h.levels); n > 0 {
		floor = h.levels[n-1].alive
	}
	for i := len(h.levels) - 1; i >= 0; i-- {
		l := h.levels[i]
		for ; floor > l.alive; floor-- {
			// The step from l to the level after it is one that lasts.
			at = append(at, h.levels[i+1].at)
		}
	}
	for ; floor > h.older; floor-- {
		at = append(at, h.levels[0].at)
	}
	slices.Reverse(at)
	return at
}
