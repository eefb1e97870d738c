package program

import (
	"cmp"
	"sort"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Work is what a program did between its set-up and the end of the recording: rounds, and passes in them. All intervals are half open.
type Work struct {
	Rounds  []Round
	Passes  []Pass
	PassOf  []int32 // by buffer: the pass that made it; -1 = none
	Paths   *CallPaths
	Cuts    []int64 // instants of requests that failed and ended what the program did, as an exception does
	Closure bool    // an optimizer calls the passes of its round, as with Lightning
}

// Round is what leads to a run of an optimizer, and that run: a step, or a part of one if nets take turns.
type Round struct {
	Begin, Optimizer, End int64 // the optimizer runs from Optimizer to End

	Step int  // index of the step that it is of, or was going to be; that of the round if no step is known
	Open bool // no optimizer is known to run
}

// Pass is a forward pass and the backward pass over it.
type Pass struct {
	Begin, Backward, End int64 // Backward == End: there was no backward pass

	Round int
	Cut   bool // it is one of Cuts that ended it
}

// Work returns what the program did, as the memory of a space tells.
func (p *Program) Work(s *lifetime.Space) *Work {
	w := &Work{PassOf: make([]int32, len(s.Buffers)), Paths: CallPathsOf(&p.Tables)}
	p.findCuts(s, w)
	p.findRounds(s, w)
	p.findPasses(s, w, p.againOf(s, w))
	return w
}

// line is what allocates in a pass: the innermost call and the operator.
type line struct {
	of Call
	op string
}

const (
	leastAlike = 8       // buffers that are compared to tell that a pass begins again
	mostKept   = 1 << 10 // bytes of what a pass that is over leaves, such as a loss
)

// againOf returns the buffers with which the sequence of lines of a forward pass begins again, though no backward pass ran: what it made until
// then is gone, as in an evaluation. In a loop over blocks or time steps, what the last one made is still there. Programs that only run forward have
// no other passes than their rounds.
func (p *Program) againOf(s *lifetime.Space, w *Work) map[int]bool {
	all, paths, trains := map[int]bool{}, w.Paths, false
	var made []int // since the pass began
	var end int64  // of these
	lineOf := func(i int) line {
		of := line{op: paths.Sites[s.Buffers[i].Site].Op}
		if c := paths.Innermost(int32(s.Buffers[i].Site)); c != nil {
			of.of = *c
		}
		return of
	}
	isMade := func(is purpose.Purpose) bool {
		return is.Phase == purpose.Forward && is.Part != purpose.Recomputation && is.Category != purpose.Workspace
	}
	begins := func(i int) bool { // made again, with buffer i
		n := 0
		for ; i < len(s.Buffers) && n < leastAlike; i++ {
			switch is := p.purposeIn(s, i); {
			case isMade(is) && lineOf(i) != lineOf(made[n]), is.Phase == purpose.Backward:
				return false
			case isMade(is):
				n++
			}
		}
		return n == leastAlike
	}
	for i := range s.Buffers {
		b, is := &s.Buffers[i], p.purposeIn(s, i)
		switch {
		case is.Phase == purpose.Backward || is.Phase == purpose.OptimizerPhase:
			made, trains = nil, trains || is.Phase == purpose.Backward
			continue
		case !isMade(is):
			continue
		case len(made) >= leastAlike && lineOf(i) == lineOf(made[0]) && end <= b.Begin && begins(i):
			all[i], made = true, nil
		}
		if made == nil {
			end = 0
		}
		made = append(made, i)
		if b.Size > mostKept {
			end = max(end, b.End)
		}
	}
	if !trains {
		return nil
	}
	return all
}

func (p *Program) purposeIn(s *lifetime.Space, i int) purpose.Purpose {
	return p.Purpose(s.PurposeOf(i))
}

// after returns the first buffer of a space that was allocated after an instant.
func after(s *lifetime.Space, t int64) int {
	return sort.Search(len(s.Buffers), func(i int) bool { return s.Buffers[i].Begin > t })
}

// Outlives reports whether memory of a category is there for longer than a step, if the program does not free it.
func Outlives(c purpose.Category) bool {
	switch c {
	case purpose.ModelParameter, purpose.ModelBuffer, purpose.OptimizerState, purpose.Workspace, purpose.Cache, purpose.Bucket:
		return true
	}
	return false
}

// findCuts finds the requests that failed and ended what the program did: most of the memory that was allocated since the one before is
// freed until the next request, or nothing is ever requested again.
func (p *Program) findCuts(s *lifetime.Space, w *Work) {
	since := after(s, s.Begin)
	for _, m := range s.Marks {
		if m.Kind != lifetime.OOM {
			continue
		}
		next := after(s, m.Begin)
		held, freed := int64(0), int64(0)
		for i := since; i < next; i++ {
			b := &s.Buffers[i]
			category := p.purposeIn(s, i).Category
			isFreed := b.Edge&lifetime.EndOpen == 0
			if isFreed && b.End <= m.Begin || Outlives(category) || category == purpose.Gradient {
				continue
			}
			held += b.Requested
			if isFreed && next < len(s.Buffers) && b.End <= s.Buffers[next].Begin {
				freed += b.Requested
			}
		}
		if next == len(s.Buffers) || 2*freed > held {
			w.Cuts, since = append(w.Cuts, m.Begin), next
		}
	}
}

type optimizerRun struct{ begin, end int64 }

// optimizerRuns returns when an optimizer runs: at the end of each annotated step, else as PyTorch annotates it, else by what they allocate. A
// run begins when the last backward pass in it is over.
func (p *Program) optimizerRuns(s *lifetime.Space, steps *Steps) (runs []optimizerRun, closure bool) {
	last, turns := -1, cmp.Or(steps.turns, steps)
	for _, m := range s.Marks {
		if !strings.HasPrefix(m.Text, OptimizerStep) || m.End <= m.Begin {
			continue
		}
		turn := turns.At(m.Begin)
		if turns.Source == Annotated && turn >= 0 && m.Begin < turns.Ends[turn] {
			if turn > last {
				runs = append(runs, optimizerRun{m.Begin, turns.Ends[turn]})
			}
			last = max(last, turn)
			continue
		}
		runs = append(runs, optimizerRun{m.Begin, m.End})
	}
	if runs == nil {
		runs = p.allocatingRuns(s)
	}
	for k := range runs {
		run := &runs[k]
		for i := after(s, run.begin-1); i < len(s.Buffers) && s.Buffers[i].Begin < run.end; i++ {
			if phase := p.purposeIn(s, i).Phase; phase == purpose.Forward || phase == purpose.Backward {
				run.begin, closure = s.Buffers[i].Begin+1, true
			}
		}
	}
	return runs, closure
}

func (p *Program) allocatingRuns(s *lifetime.Space) (runs []optimizerRun) {
	goesOn := false
	for i := after(s, s.Begin); i < len(s.Buffers); i++ {
		begin := s.Buffers[i].Begin
		switch p.purposeIn(s, i).Phase {
		case purpose.OptimizerPhase:
			if !goesOn {
				runs, goesOn = append(runs, optimizerRun{begin: begin}), true
			}
			runs[len(runs)-1].end = begin + 1
		case purpose.Forward, purpose.Backward:
			goesOn = false
		}
	}
	return runs
}

// findRounds finds the rounds. The first one begins after the set-up: with the last parameter before the first run of an optimizer.
func (p *Program) findRounds(s *lifetime.Space, w *Work) {
	steps := p.Steps(s)
	runs, closure := p.optimizerRuns(s, steps)
	w.Closure = closure
	begin, last := s.Begin+1, int64(0) // last event
	for i := range s.Buffers {
		b := &s.Buffers[i]
		last = max(last, b.Begin)
		if b.Edge&lifetime.EndOpen == 0 {
			last = max(last, b.End)
		}
		is := p.purposeIn(s, i)
		isSetUp := is.Category == purpose.ModelParameter && is.Phase != purpose.Forward && is.Phase != purpose.Backward // none that a pass gathers
		if b.Begin >= begin && isSetUp && (len(runs) == 0 || b.Begin < runs[0].begin) {
			begin = b.Begin + 1
		}
	}
	for _, m := range s.Marks {
		if m.Kind == lifetime.OOM {
			last = max(last, m.Begin)
		}
	}
	for _, run := range runs {
		if run.begin >= begin {
			end := max(run.begin, run.end)
			w.Rounds = append(w.Rounds, Round{Begin: begin, Optimizer: run.begin, End: end})
			begin = end
		}
	}
	open := func(end int64) {
		w.Rounds = append(w.Rounds, Round{Begin: begin, Optimizer: end, End: end, Open: true})
		begin = end
	}
	for _, next := range steps.Begins {
		if next > begin && next <= last {
			open(next)
		}
	}
	if begin <= last {
		open(s.End + 1)
	}
	for k := range w.Rounds {
		r := &w.Rounds[k]
		if r.Step = steps.At(r.End - 1); r.Step >= 0 && r.Begin >= steps.Ends[r.Step] {
			r.Step++
		}
		if len(steps.Begins) == 0 {
			r.Step = k
		}
	}
}

// findPasses finds the passes of all rounds: the next one begins with the first forward allocation after a backward pass, or with one of again.
func (p *Program) findPasses(s *lifetime.Space, w *Work, again map[int]bool) {
	cuts, round, open := w.Cuts, 0, false
	last := func() *Pass { return &w.Passes[len(w.Passes)-1] }
	cut := func(until int64) { // ends the pass that goes on at a request that failed before an allocation
		for ; len(cuts) > 0 && cuts[0] < until; cuts = cuts[1:] {
			if open && last().Begin <= cuts[0] && cuts[0] < w.Rounds[last().Round].Optimizer {
				end := cuts[0] + 1
				last().Backward, last().End, last().Cut, open = min(last().Backward, end), end, true, false
			}
		}
	}
	begin := func(at int64) {
		end := w.Rounds[round].Optimizer
		w.Passes, open = append(w.Passes, Pass{Begin: at, Backward: end, End: end, Round: round}), true
	}
	for i := range s.Buffers {
		b := &s.Buffers[i]
		cut(b.Begin)
		for round < len(w.Rounds) && b.Begin >= w.Rounds[round].End {
			round, open = round+1, false
		}
		w.PassOf[i] = -1
		if b.Begin == s.Begin || round == len(w.Rounds) || b.Begin < w.Rounds[round].Begin || b.Begin >= w.Rounds[round].Optimizer {
			continue
		}
		is := p.purposeIn(s, i)
		switch {
		case !open && len(w.Passes) > 0 && last().Round == round: // the one before was cut off
			begin(b.Begin)
		case !open:
			begin(w.Rounds[round].Begin)
		case again[i], is.Phase == purpose.Forward && is.Part != purpose.Recomputation && last().Backward < last().End:
			last().End, last().Backward = b.Begin, min(last().Backward, b.Begin)
			begin(b.Begin)
		}
		if is.Phase == purpose.Backward {
			last().Backward = min(last().Backward, b.Begin)
		}
		w.PassOf[i] = int32(len(w.Passes) - 1)
	}
	cut(s.End + 1)
}
