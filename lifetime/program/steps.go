package program

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Source is how steps are known, best first.
type Source uint8

// Sources of steps.
const (
	NoSteps    Source = iota
	Marked            // the program marks them
	Annotated         // PyTorch annotates the steps of an optimizer
	Phases            // allocations tell the steps of an optimizer
	Recurrence        // call sites allocate equally often
)

// Steps are the iterations of the loop of a program. All memory IDs of a process have the same.
type Steps struct {
	Begins, Ends []int64
	Names        []string // of the marks; nil if nothing marks them
	Source       Source
	Lost         int    // marked steps before these, whose events the ring buffer dropped
	turns        *Steps // of optimizers that step in turns; nil = each step is one turn
}

// Inferred reports whether neither the program nor PyTorch recorded the steps.
func (s *Steps) Inferred() bool { return s.Source >= Phases }

// At returns the index of the last step that begins at or before an instant; -1 before the first.
func (s *Steps) At(t int64) int {
	return sort.Search(len(s.Begins), func(i int) bool { return s.Begins[i] > t }) - 1
}

// Name returns the name of a step; "" if nothing marks it.
func (s *Steps) Name(step int) string {
	if s.Names == nil {
		return ""
	}
	return s.Names[step]
}

func (s *Steps) add(begin, end int64) {
	s.Begins, s.Ends = append(s.Begins, begin), append(s.Ends, end)
}

// OptimizerStep is the prefix of an annotation that PyTorch records in each iteration; the class of the optimizer
// follows. (torch/optim/optimizer.py, profile_hook_step)
const OptimizerStep = "Optimizer.step#"

// ClearsGradients is the prefix of the annotation of zero_grad. (torch/optim/optimizer.py, _zero_grad_profile_name)
const ClearsGradients = "Optimizer.zero_grad#"

// Steps returns the steps of the process that a space belongs to, from any of its devices: marked steps, else those
// that end with annotated steps of an optimizer, else those between annotated calls of zero_grad, else those that end with
// steps of an optimizer that allocations tell, else those of the call sites that allocate equally often. Nothing is known of a space without a history.
func (p *Program) Steps(s *lifetime.Space) *Steps {
	if p.steps[s] == nil {
		group := p.processOf(s)
		steps := p.stepsOf(group)
		for _, of := range group {
			p.steps[of] = steps
		}
	}
	return p.steps[s]
}

// processOf returns the spaces of a process on one clock, that with most allocations first, bystanders' left out.
func (p *Program) processOf(s *lifetime.Space) []*lifetime.Space {
	group := p.processes[process{s.Source, s.Host, s.Process}]
	if !slices.Contains(group, s) {
		return []*lifetime.Space{s}
	}
	slices.SortStableFunc(group, func(x, y *lifetime.Space) int {
		return p.historyOf(y).allocatedBetween(y.Begin, y.End) - p.historyOf(x).allocatedBetween(x.Begin, x.End)
	})
	return group
}

// process is what the spaces of a process have in common.
type process struct {
	source        int
	host, process string
}

// stepsOf returns the steps of a process by the best evidence.
func (p *Program) stepsOf(group []*lifetime.Space) *Steps {
	if group[0].Axis == lifetime.ProgramOrder {
		return noSteps
	}
	end := slices.MaxFunc(group, func(x, y *lifetime.Space) int { return cmp.Compare(x.End, y.End) }).End
	marked := func(s *lifetime.Space) *Steps { return markedSteps(s, end) }
	annotated := func(s *lifetime.Space) *Steps { return p.annotatedSteps(s, end, group) }
	cleared := func(s *lifetime.Space) *Steps { return p.clearedSteps(s, end, group) }
	for _, find := range []func(*lifetime.Space) *Steps{marked, annotated, cleared, p.phaseSteps, p.recurrentSteps} {
		best := noSteps
		for _, s := range group {
			if found := find(s); len(found.Begins) > len(best.Begins) {
				best = found
			}
			if best.Inferred() {
				return best // of the busiest device
			}
		}
		if best != noSteps {
			best.Lost = p.lostSteps(group, best.Begins)
			before := best.Lost
			if before == 0 { // marks may be older than the window
				begin := slices.MinFunc(group, func(x, y *lifetime.Space) int { return cmp.Compare(x.Begin, y.Begin) }).Begin
				before = max(0, sort.Search(len(best.Begins), func(i int) bool { return best.Begins[i] > begin })-1)
			}
			best.drop(before)
			return best
		}
	}
	return noSteps
}

var noSteps = &Steps{}

// markedSteps returns the steps that a program marks, if they begin before the end of its history.
func markedSteps(s *lifetime.Space, end int64) *Steps {
	steps := &Steps{Source: Marked}
	for i := range s.Marks {
		m := &s.Marks[i]
		if n := len(steps.Ends); m.Kind == lifetime.Step && m.Begin < end &&
			(n == 0 || m.End > steps.Ends[n-1] && m.Begin > steps.Begins[n-1]) {
			steps.add(m.Begin, m.End)
			steps.Names = append(steps.Names, m.Text)
		}
	}
	return steps
}

// annotatedSteps returns the steps that end with annotated steps of an optimizer. The first one begins with the first
// pass. Between the ends of two steps the process, on any of its devices, allocates something else than a backward pass or
// an optimizer does: an optimizer for each parameter, also if hooks of the backward pass call it, makes one step.
func (p *Program) annotatedSteps(s *lifetime.Space, end int64, group []*lifetime.Space) (steps *Steps) {
	if len(s.Marks) == 0 {
		return noSteps
	}
	first, others := end, []int64(nil) // when they are allocated
	for _, s := range group {
		h := p.historyOf(s)
		for i := range s.Buffers {
			at, begin := p.Purpose(s.PurposeOf(i)), s.Buffers[i].Begin
			if h.begins(i) && at.Phase != purpose.UnknownPhase && at.Part != purpose.Setup {
				first = min(first, begin)
			}
			if h.begins(i) && at.Phase != purpose.Backward && at.Phase != purpose.OptimizerPhase {
				others = append(others, begin)
			}
		}
	}
	slices.Sort(others)
	for _, calls := range []bool{false, true} { // each call is a step, if nothing tells them apart
		steps = &Steps{Source: Annotated}
		for i := range s.Marks {
			m, n := &s.Marks[i], len(steps.Ends)
			if !strings.HasPrefix(m.Text, OptimizerStep) || n > 0 && m.Begin < steps.Ends[n-1] {
				continue
			}
			begin := min(first, m.Begin)
			if n > 0 {
				begin = steps.Ends[n-1]
			}
			if begin >= end { // an optimizer may allocate nothing after the last pass
				break
			}
			at, _ := slices.BinarySearch(others, begin)
			if n > 0 && !calls && (at == len(others) || others[at] >= m.End) {
				steps.Ends[n-1] = max(m.End, m.Begin+1)
				continue
			}
			steps.add(begin, max(m.End, m.Begin+1))
		}
		if len(steps.Begins) > 1 {
			break
		}
	}
	steps, _ = p.inTurn(p.historyOf(group[0]), steps)
	return steps
}

// clearedSteps returns the steps between annotated calls of zero_grad, as of a program whose optimizer does not step: each call begins one, or
// ends one if nothing is allocated after the last. Calls without an allocation between them are one. Most allocations are in the steps.
func (p *Program) clearedSteps(s *lifetime.Space, end int64, group []*lifetime.Space) *Steps {
	between := func(from, to int64) (n int) {
		for _, s := range group {
			n += p.historyOf(s).allocatedBetween(from, to)
		}
		return n
	}
	steps := &Steps{Source: Annotated}
	for _, m := range s.Marks {
		if n := len(steps.Ends); strings.HasPrefix(m.Text, ClearsGradients) && (n == 0 || between(steps.Ends[n-1], m.Begin) > 0) {
			steps.add(m.Begin, m.Begin)
		}
	}
	n := len(steps.Begins)
	if n < 2 {
		return noSteps
	}
	switch {
	case between(steps.Begins[n-1], end+1) > 0:
		steps.Ends = append(steps.Ends[1:], end)
	case between(s.Begin, steps.Begins[0]) > 0:
		steps.Begins = append([]int64{s.Begin}, steps.Begins[:n-1]...)
	default:
		n--
		steps.Begins, steps.Ends = steps.Begins[:n], steps.Ends[1:]
	}
	if from, to := steps.Begins[0], steps.Ends[n-1]; 2*between(from, to+1) < between(min(from, s.Begin), end+1) {
		return noSteps
	}
	return steps
}

// inTurn joins turns of optimizers that make one step, as nets are trained in turns, or one optimizer calls several passes: the
// program comes from the lines of each again after so many turns, first of all from those of the first. ok is false if it does not.
func (p *Program) inTurn(h *history, turns *Steps) (steps *Steps, ok bool) {
	n, k, computes, through := len(turns.Begins), 0, p.computing(h), map[PathID][]int{} // turns
	closure := slices.ContainsFunc(h.order, func(site lifetime.SiteID) bool {
		return p.At(site).Has(InOptimizer) && p.PhaseOf(site) == purpose.Forward
	})
	for i := range h.s.Buffers {
		b, f := &h.s.Buffers[i], p.At(h.s.Buffers[i].Site)
		for k < n && b.Begin >= turns.Ends[k] {
			k++
		}
		if k == n || b.Begin < turns.Begins[k] || !h.begins(i) || !computes[f.Thread] || closure && p.phase(h.s, i) == purpose.OptimizerPhase {
			continue
		}
		if of := through[f.Path]; of == nil || of[len(of)-1] < k {
			through[f.Path] = append(of, k)
		}
	}
	period, again, off := n, make([]bool, n), 0
	for _, of := range through {
		if of[0] == 0 && len(of) > 1 {
			period = min(period, of[1])
		}
	}
	for _, of := range through {
		for _, k := range of {
			_, found := slices.BinarySearch(of, k-period)
			again[k] = again[k] || found
		}
	}
	for _, found := range again[period:] {
		if !found {
			off++
		}
	}
	if period == n || period == 1 || off > 0 {
		return turns, period == n || period == 1 && off <= max(2, n/10) // what is done once on other lines is a turn like others
	}
	steps = &Steps{Source: turns.Source, turns: turns}
	for k := 0; k < n; k += period {
		steps.add(turns.Begins[k], turns.Ends[min(k+period, n)-1])
	}
	return steps, true
}

// phaseSteps returns the steps that end with steps of an optimizer that allocate, after a backward pass. They have
// about as many backward passes each, and contain most allocations: an optimizer may allocate only in its first step.
func (p *Program) phaseSteps(s *lifetime.Space) *Steps {
	steps := &Steps{Source: Phases}
	begin, backward, h := int64(0), 0, p.historyOf(s)
	spans := slices.DeleteFunc(phaseSpans(&p.Tables, s, h.Evidence), func(span PhaseSpan) bool { return span.Part == purpose.Setup })
	var passes []int64 // when backward passes begin
	for i, span := range spans {
		if i == 0 {
			begin = span.Begin
		}
		if span.Phase == purpose.Backward && (backward == 0 || spans[i-1].Phase != purpose.OptimizerPhase) {
			// not of an optimizer within it
			passes, backward = append(passes, span.Begin), backward+1
		}
		last := i+1 == len(spans) || spans[i+1].Phase != purpose.OptimizerPhase && spans[i+1].Phase != purpose.Backward
		if span.Phase == purpose.OptimizerPhase && backward > 0 && last {
			steps.add(begin, span.End)
			begin, backward = span.End, 0
		}
	}
	steps, ok := p.inTurn(h, steps)
	n := len(steps.Begins)
	if !ok || n == 0 {
		return noSteps
	}
	of := make([]int, n) // passes of each step
	for _, at := range passes[:len(passes)-backward] {
		of[steps.At(at)]++
	}
	if n == 1 && of[0] > 1 || slices.Max(of) > 2*slices.Min(of) || backward > slices.Max(of) ||
		2*h.allocatedBetween(steps.Begins[0], begin) < h.allocatedBetween(steps.Begins[0], s.End) {
		return noSteps
	}
	return steps
}

// lostSteps returns how many steps ended before the history begins, if a ring buffer dropped its beginning: marks are
// kept elsewhere and may reach back further. Rates count only the steps that the history covers.
func (p *Program) lostSteps(group []*lifetime.Space, begins []int64) int {
	if !slices.ContainsFunc(p.Losses, func(l loss.Loss) bool { return l.Reason == loss.RingOverflow }) {
		return 0
	}
	first := int64(math.MaxInt64)
	for _, s := range group {
		if s.Facts&lifetime.History == 0 {
			continue
		}
		for i := range s.Buffers {
			switch b := &s.Buffers[i]; {
			case b.Edge&lifetime.BeginUnseen == 0:
				first = min(first, b.Begin)
			case b.Edge&(lifetime.EndOpen|lifetime.EndInferred) == 0:
				first = min(first, b.End)
			}
		}
	}
	if first == math.MaxInt64 {
		return 0
	}
	// The history begins in the last step that begins before its first event.
	return max(0, sort.Search(len(begins), func(i int) bool { return begins[i] > first })-1)
}

func (s *Steps) drop(n int) {
	s.Begins, s.Ends = s.Begins[n:], s.Ends[n:]
	if s.Names != nil {
		s.Names = s.Names[n:]
	}
}

// allocatedBetween returns the number of buffers that began in the window at or after from, and before to, without bystanders'.
func (h *history) allocatedBetween(from, to int64) (n int) {
	for i := after(h.s, from-1); i < len(h.s.Buffers) && h.s.Buffers[i].Begin < to; i++ {
		if h.begins(i) {
			n++
		}
	}
	return n
}

// measured says for how many programs the inferred number of steps was right, and for how many it was given: for programs of testdata, and for others,
// whose steps were recorded too (see TestMeasured). Each program counts once, and is right if all of its captures are.
var measured = map[Source][2][2]int{
	Phases:     {{52, 52}, {51, 56}},
	Recurrence: {{31, 31}, {4, 6}},
}

// Confidence returns the expected share of programs whose number of steps is right: 1 if steps were recorded, 0 if none is known.
func (s *Steps) Confidence() float64 {
	switch {
	case len(s.Begins) == 0:
		return 0
	case s.Inferred():
		return confidenceOf(s.Source)
	}
	return 1
}

// confidenceOf returns (right + 1) / (all + 2).
func confidenceOf(source Source) float64 {
	n := measured[source]
	return float64(n[0][0]+n[1][0]+1) / float64(n[0][1]+n[1][1]+2)
}

// Timeline is what a program did while a memory ID was recorded, as its allocations tell.
type Timeline struct {
	Spans []PhaseSpan // in order of time, each one up to the next; none if no phase is known
	Steps *Steps
}

// PhaseSpan is a run of allocations of one phase.
type PhaseSpan struct {
	Begin, End int64 // first allocation; that of the next span, or the end of the window
	Phase      purpose.Phase
	Part       purpose.Part   // the only one of its allocations, or of those that have one; Recomputation is none
	How        purpose.How    // of what its allocations tell
	Step       int            // index of the step in which it begins; -1 = none
	Peak       lifetime.Level // highest level of occupied bytes in it
	Left       int64          // bytes that it allocated and that were alive at its end
}

// Timeline returns the phases and steps of a space by the purposes of its buffers. It costs as much as Peak. The space may
// be on another axis than in the capture.
func (p *Program) Timeline(s *lifetime.Space) Timeline {
	if !slices.Contains(p.Spaces, s) {
		p = p.Part(s)
	}
	line := Timeline{Spans: PhasesOf(&p.Tables, s), Steps: p.Steps(s)}
	for i := range line.Spans {
		span := &line.Spans[i]
		if k := line.Steps.At(span.Begin); k >= 0 && span.Begin < line.Steps.Ends[k] {
			span.Step = k
		}
	}
	return line
}

// PhasesOf returns the phases of a space, of no step.
func PhasesOf(t *lifetime.Tables, s *lifetime.Space) []PhaseSpan {
	spans := phaseSpans(t, s, Evidence{})
	measure(s, spans)
	return spans
}

// phaseSpans returns the runs of phases, as the buffers that are evidence tell them.
func phaseSpans(t *lifetime.Tables, s *lifetime.Space, e Evidence) (spans []PhaseSpan) {
	if s.Purposes == nil || s.Axis == lifetime.ProgramOrder {
		return nil
	}
	for i := range s.Buffers {
		b := &s.Buffers[i]
		p := t.Purpose(s.PurposeOf(i))
		if b.Edge&lifetime.BeginUnseen != 0 || p.Phase == purpose.UnknownPhase || !e.Has(i) {
			continue
		}
		part := p.Part
		if part == purpose.Recomputation { // it takes turns with the backward pass
			part = purpose.UnknownPart
		}
		if n := len(spans); n > 0 {
			last := &spans[n-1]
			if last.Phase == p.Phase && (part == last.Part || part == purpose.UnknownPart || last.Part == purpose.UnknownPart) {
				last.Part, last.How = cmp.Or(last.Part, part), min(last.How, p.PhaseHow)
				continue
			}
			if last.Begin == b.Begin { // the clock does not tell the order
				continue
			}
			last.End = b.Begin
		}
		spans = append(spans, PhaseSpan{Begin: b.Begin, End: s.End, Phase: p.Phase, Part: part, How: p.PhaseHow, Step: -1})
	}
	return spans
}

func measure(s *lifetime.Space, spans []PhaseSpan) {
	k, level := 0, int64(0)
	for l := range s.Levels(lifetime.Occupied) {
		for k < len(spans) && l.At >= spans[k].End {
			k++
			if k < len(spans) {
				spans[k].Peak = lifetime.Level{At: spans[k].Begin, Bytes: level}
			}
		}
		if level = l.Bytes; k < len(spans) && l.At >= spans[k].Begin && level > spans[k].Peak.Bytes {
			spans[k].Peak = l
		}
	}
	k = 0
	for i := range s.Buffers {
		b := &s.Buffers[i]
		for k < len(spans) && b.Begin >= spans[k].End {
			k++
		}
		if k < len(spans) && b.Edge&lifetime.BeginUnseen == 0 && b.Begin >= spans[k].Begin &&
			(b.End > spans[k].End || b.Edge&lifetime.EndOpen != 0) {
			spans[k].Left = units.AddSat(spans[k].Left, b.Size)
		}
	}
}
