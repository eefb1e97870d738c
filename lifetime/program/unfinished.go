package program

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// waiting are the passes of a space whose backward pass may still come.
type waiting struct {
	passes []interval // forward passes
	first  int        // index in passes of the first that waits; len(passes) = none
	runs   []int      // first buffers of backward passes
	all    bool       // nothing tells passes of PyTorch apart, and several operators retain most of what they allocated, or no step is known
}

// Settled returns the live buffers of a line without those that the program may still drop: what a forward pass keeps
// for a backward pass that has not come, as the recording ends in a pass, or before its backward pass; and the
// gradients of the last backward pass, which the next step clears. They stay if earlier passes left buffers of the line
// too.
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
