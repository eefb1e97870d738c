package finding

import (
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
)

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

// stepClock runs evenly through the steps, and through the work within each. Work alone stands still if a leak retains
// all that would have been freed, and then the leak seems to have stopped. What was before the first step counts as a
// step.
type stepClock struct {
	begins []int64 // of the steps
	done   []int   // work at the beginning of each step, and at the end of the window
	step   int     // index in begins of the next step
	each   int     // duration of a step
}

func newStepClock(s *lifetime.Space, begins []int64, e program.Evidence) *stepClock {
	return &stepClock{begins, workAt(s, begins, e), 0, min(finest, math.MaxInt32/(len(begins)+1))}
}

// at returns the time at an instant at which an amount of work is done. Instants must not decrease. The time of a nil
// clock is work.
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

// workAt returns the work at several instants, which are sorted, and at the end of the window. Only
// evidence counts.
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

// newTimeline builds the histories of a space and finds its steps. Marked steps are the time. Inferred steps are the
// time only if work grows from step to step (a backward pass through all steps so far), so that an event of every step
// seems to get rare.
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
	clock := newStepClock(p.Space, p.steps.Begins, e)
	p.histories = newHistories(p.Space, p.Sites, clock, e)
	for k := range len(p.steps.Begins) + 1 {
		p.histories.steps = append(p.histories.steps, clock.each*(k+1))
	}
}

// areTime reports whether the steps are those of the loop of the program: the program marks them, and most allocations
// are in them.
func (p *Pass) areTime() bool {
	s, n := p.Space, len(p.steps.Begins)
	if n < leastLoop || p.steps.Source != program.Marked {
		return false
	}
	e, from, to := p.program.Evidence(s), allocatedBefore(s, p.steps.Begins[0]), allocatedBefore(s, slices.Max(p.steps.Ends))
	return float64(e.Between(from, to)) >= inLoop*float64(e.Between(0, len(s.Buffers)))
}
