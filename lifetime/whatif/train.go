package whatif

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// trained returns the parameters that get gradients in any step, and the first step that has some. The nets of a program may take turns, each
// with an optimizer of its own, or only some layers may be trained at first.
func (m *model) trained() (all []buffer, first int) {
	first = -1
	need := map[int64]int{}
	for k, in := range m.gradients() {
		if len(in) > 0 && first < 0 {
			first = k
		}
		for size, n := range in {
			need[size] = max(need[size], n)
		}
	}
	m.withStates(need)
	return m.parametersOf(need), first
}

// gradients returns how many gradients of each size each step has. Those from before the recording are of all steps.
func (m *model) gradients() []map[int64]int {
	steps, older := make([]map[int64]int, len(m.steps)), map[int64]int{}
	for i := range m.buffers {
		b := &m.buffers[i]
		switch {
		case b.category != purpose.Gradient:
		case b.start:
			older[b.size]++
		case b.step >= 0:
			if steps[b.step] == nil {
				steps[b.step] = map[int64]int{}
			}
			steps[b.step][b.size]++
		}
	}
	for k, in := range steps {
		if in == nil {
			steps[k] = older
			continue
		}
		for size, n := range older {
			in[size] += n
		}
	}
	return steps
}

// withStates adds to the parameters that need gradients in a step those that take turns with others of their size: the optimizers keep states for
// all.
func (m *model) withStates(need map[int64]int) {
	states, each := map[int64]int{}, math.MaxInt
	for i := range m.buffers {
		if b := &m.buffers[i]; b.category == purpose.OptimizerState && b.size > scalar {
			states[b.size]++
		}
	}
	for size, n := range need {
		if size > scalar {
			each = min(each, states[size]/n)
		}
	}
	if each == 0 || each == math.MaxInt { // not for each
		return
	}
	for size, n := range states {
		if n%each == 0 {
			need[size] = max(need[size], n/each)
		}
	}
}

// parametersOf returns parameters of the given sizes.
func (m *model) parametersOf(need map[int64]int) (all []buffer) {
	need = maps.Clone(need)
	for i := range m.buffers {
		if b := &m.buffers[i]; b.category == purpose.ModelParameter && need[b.size] > 0 {
			need[b.size]--
			all = append(all, *b)
		}
	}
	return all
}

// states returns the sizes of what an optimizer keeps of a parameter.
type states func(parameter *buffer) []int64

// What an optimizer does, in order, before the first event that follows the begin of its step.
const (
	makesStates = -3
	steps       = -2
	stepped     = -1
)

// optimizer replaces the states of an optimizer, and the temporaries of its steps.
func (m *model) optimizer(per states, temporaries int) string {
	parameters, first := m.trained()
	if len(parameters) == 0 {
		return "no gradient of a parameter is known"
	}
	gradients := m.gradients()
	kept := per == nil
	mid := false // states were made before the recording
	has := false
	for i := range m.buffers {
		if b := &m.buffers[i]; b.category == purpose.OptimizerState {
			mid, has = mid || b.start, true
		}
	}
	switch {
	case kept && !has:
		return "no state of an optimizer is known"
	case !kept && !has && m.mayHaveStates(parameters, m.steps[first].optimizer):
		return "what the optimizer keeps is not known"
	}
	m.drop(func(b *buffer) bool {
		return b.category == purpose.OptimizerState && !kept || b.phase == purpose.OptimizerPhase && b.part != purpose.Clipping &&
			(b.category == purpose.TemporaryData || b.category == purpose.Workspace ||
				b.category == purpose.UnknownCategory)
	})
	if per != nil && m.steps[first].open {
		return "when its optimizer steps is not known"
	}
	made := pos{m.steps[first].optimizer, makesStates, 0, 0}
	if mid {
		made = pos{0, -1, 0, 0}
	}
	for q := range parameters {
		p := &parameters[q]
		if !kept {
			for j, size := range per(p) {
				b := m.add(p, pos{made.n, made.a, float64(q), float64(j)}, never, size)
				b.category, b.phase, b.step, b.pass = purpose.OptimizerState, purpose.OptimizerPhase, -1, -1
			}
		}
	}
	for k, in := range gradients {
		trained := parameters
		if len(in) > 0 {
			trained = m.parametersOf(in)
		}
		for q := range trained {
			m.addTemporaries(temporaries, &trained[q], float64(q), k)
		}
	}
	return ""
}

// mayHaveStates reports whether the optimizer keeps states, and nothing tells which of the buffers in the sizes of parameters are them: a program
// read them from a checkpoint before the first step, at a time.
func (m *model) mayHaveStates(parameters []buffer, first float64) bool {
	keeps := func(of lifetime.Mark) bool {
		name, ok := strings.CutPrefix(of.Text, program.OptimizerStep)
		return ok && !strings.HasPrefix(name, "SGD")
	}
	if !slices.ContainsFunc(m.s.Marks, keeps) {
		return false
	}
	all, sizes := int64(0), map[int64]bool{}
	for i := range parameters {
		all += parameters[i].size
		sizes[parameters[i].size] = true
	}
	unknown := int64(0)
	for i := range m.buffers {
		if b := &m.buffers[i]; b.category == purpose.UnknownCategory && b.end == never && (b.start || b.begin.n < first) && sizes[b.size] {
			unknown += b.size
		}
	}
	return unknown >= all-all/10
}

// adam8bit is an optimizer with states of 8 bits. Parameters of two bytes have twice as many elements.
func (m *model) adam8bit() string {
	of := func(bytes int64) states { return func(p *buffer) []int64 { return adam8bit(4 * p.size / bytes) } }
	if m.halved {
		return m.optimizer(of(2), none)
	}
	half := m.clone()
	refused := m.optimizer(of(4), none)
	if refused == "" && half.optimizer(of(2), none) == "" {
		m.leaveOpen(half)
	}
	return refused
}

// addTemporaries adds those of a step of an optimizer for parameter q.
func (m *model) addTemporaries(kind int, p *buffer, q float64, k int) {
	s := m.steps[k]
	t := *p
	t.category, t.phase, t.step, t.pass = purpose.TemporaryData, purpose.OptimizerPhase, int32(k), -1
	switch {
	case kind == forEach && !s.open:
		m.add(&t, pos{s.optimizer, steps, q, 0}, pos{s.optimizer, stepped, 0, 0}, p.size)
	case kind == forLoop && s.optimizer < s.end: // the second one lives until the next parameter has its own
		m.add(&t, pos{s.optimizer, steps, q, 0}, pos{s.optimizer, steps, q, 2}, p.size)
		m.add(&t, pos{s.optimizer, steps, q, 1}, pos{s.optimizer, steps, q + 1, 1.5}, p.size)
	case kind == inCall && s.optimizer < s.end:
		m.add(&t, pos{s.optimizer, steps, q, 0}, pos{s.optimizer, steps, q, 2}, p.size)
		m.add(&t, pos{s.optimizer, steps, q, 1}, pos{s.optimizer, steps, q, 3}, p.size)
	case kind == chained && s.optimizer < s.end:
		m.add(&t, pos{s.optimizer, steps, q, 0}, pos{s.optimizer, steps, q + 1, .5}, p.size)
	}
}

// adafactor keeps a number for each row and each column of a parameter, as PyTorch's does, and all of a vector. One parameter after the
// other gets a temporary of its size. The range has what the reductions to rows and columns need, which depends on kernels: at most two parameters were seen.
func (m *model) adafactor() string {
	parameters, _ := m.trained()
	reductions := int64(0)
	for i := range parameters {
		p := &parameters[i]
		kept := m.factored(p)
		if kept == nil {
			return "it depends on the shapes of parameters, which are not recorded: record with memlane.record"
		}
		need := 2 * p.size
		for _, size := range kept {
			need += 2 * size
		}
		reductions = max(reductions, need)
	}
	m.more += reductions
	return m.optimizer(m.factored, chained)
}

// factored returns the bytes of the rows and of the columns of a parameter, or of a vector; nil if its shape is not recorded.
func (m *model) factored(p *buffer) []int64 {
	shape := m.shapeOf(p)
	switch n := len(shape); {
	case n == 0:
		return nil
	case n == 1:
		return []int64{p.size}
	default:
		return []int64{p.size / shape[n-1], p.size / shape[n-2]}
	}
}

// shapeOf returns the shape that was recorded of a buffer: of "float32 [512, 256]"; nil if none was.
func (m *model) shapeOf(b *buffer) (shape []int64) {
	h := m.t.HolderOf(m.s, int(b.like))
	if h == nil {
		return nil
	}
	_, text, _ := strings.Cut(strings.TrimSuffix(h.Tensor, "]"), " [")
	for part := range strings.SplitSeq(text, ", ") {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n < 1 {
			return nil
		}
		shape = append(shape, n)
	}
	return shape
}

// halveStates has two bytes for what an optimizer keeps in four.
func (m *model) halveStates() string {
	any := false
	for i := range m.buffers {
		if b := &m.buffers[i]; b.category == purpose.OptimizerState && b.size > smallest {
			b.size, any = b.size/2, true
		}
	}
	if !any {
		return "no state of an optimizer is known"
	}
	return ""
}

// lineOf names a line as edits do: "train.py:31".
func lineOf(file string, line int) string { return fmt.Sprintf("%s:%d", path.Base(file), line) }

// dropSite removes what a line or a function allocated.
func (m *model) dropSite(name string) string {
	found := false
	m.drop(func(b *buffer) bool {
		is := slices.ContainsFunc(m.places[b.place].calls, func(i int32) bool {
			c := &m.calls[i]
			return c.function == name || lineOf(c.file, c.line) == name
		})
		found = found || is
		return is
	})
	if !found {
		return "no stack has this line or function"
	}
	return ""
}

// stepsOnAll reports whether a step of an optimizer on all parameters at once was recorded.
func (m *model) stepsOnAll() bool {
	all := program.StacksOf(m.t)
	defer all.Done()
	return slices.ContainsFunc(m.buffers, func(b buffer) bool {
		return b.phase == purpose.OptimizerPhase && b.category == purpose.TemporaryData &&
			all.Of(m.t.Sites[b.place].Stack).All&program.ForEach != 0
	})
}

// foreach steps the optimizer one parameter after the other, or with one kernel that needs no temporaries.
func (m *model) foreach(how string) string {
	switch {
	case !m.stepsOnAll():
		return "no step of an optimizer on all parameters at once was recorded"
	case how == "off":
		return m.optimizer(nil, forLoop)
	}
	if refused := m.optimizer(nil, none); refused != "" {
		return refused
	}
	m.settle()
	return m.addScalars()
}

// addScalars adds the number of steps, which a fused optimizer keeps on the device for each parameter.
func (m *model) addScalars() string {
	parameters, first := m.trained()
	for q := range parameters {
		b := m.add(&parameters[q], pos{m.steps[first].optimizer, makesStates, float64(q), 0}, never, scalar)
		b.category, b.phase, b.step, b.pass = purpose.OptimizerState, purpose.OptimizerPhase, -1, -1
	}
	return ""
}

const scalar = 4 // bytes

// ofVariables are the categories of what a variable holds until it has the next one.
var ofVariables = map[purpose.Category]bool{
	purpose.Input: true, purpose.Activation: true, purpose.TemporaryData: true, purpose.UnknownCategory: true,
}

// accumulate runs n passes for each step of the optimizer.
func (m *model) accumulate(n int) string {
	any, whole, elsewhere := false, -1, false
	perStep := map[int32]int{}
	for k := range m.passes {
		if !m.passes[k].cut {
			perStep[m.passes[k].step]++
		}
	}
	var added []buffer
	held := map[*buffer]pos{}
	type likes struct {
		place int32
		size  int64
	}
	ends := map[likes]float64{} // when the next step drops what a variable holds
	for k := range m.steps {
		s := m.steps[k]
		pass := slices.IndexFunc(m.passes, func(p pass) bool { return int(p.step) == k && p.back < p.end && !p.cut })
		if pass < 0 || perStep[int32(k)] > 1 {
			continue
		}
		any, whole = true, k
		dead := m.deathsOfStep(k)
		elsewhere = elsewhere || m.isElsewhere(k, dead)
		tail, anchor := s.optimizer, m.passes[pass].back
		found := false
		of := m.inStep(k)
		for i := range of {
			b := &of[i]
			if int(b.step) != k || b.category == purpose.Gradient || b.end == never {
				continue
			}
			if b.end.n < s.end {
				if !found {
					tail, found = b.end.n, true
				}
				tail = max(tail, b.end.n)
			}
			if b.end.n < s.optimizer {
				anchor = max(anchor, b.end.n)
			}
		}
		until := noEvent // the end of the next step
		if k+1 < len(m.steps) {
			until = m.steps[k+1].end
		}
		// What a variable holds into the next step, it holds into the next pass. In the last step it does as in those before.
		for i := range of {
			b := &of[i]
			like := likes{b.place, b.size}
			if int(b.step) != k || !ofVariables[b.category] || b.end.n < s.end {
				continue
			}
			if b.end != never && b.end.n < until {
				ends[like] = b.end.n - s.end
			} else if b.end != never {
				continue
			}
			if long, ok := ends[like]; ok {
				held[b] = pos{anchor, 1, s.begin + long, 0}
			}
		}
		for r := 1; r < n; r++ {
			for i := range of {
				b := &of[i]
				if int(b.step) != k || b.category == purpose.Workspace && b.end.n > s.end { // libraries keep it
					continue
				}
				c := *b
				c.added, c.requestFree = true, noEvent
				c.begin = pos{anchor, float64(r), b.begin.n, 0}
				switch {
				case b.category == purpose.Gradient:
					c.end, c.category = pos{anchor, float64(r), consumed(dead, b.begin.n, s.optimizer), after}, purpose.TemporaryData
				case b.end != never && b.end.n <= max(anchor, tail):
					c.end = pos{anchor, float64(r), b.end.n, 0}
				default:
					if end, ok := held[b]; ok && r+1 < n {
						end.a = float64(r + 1)
						c.end = end
					}
				}
				added = append(added, c)
			}
		}
	}
	if !any {
		return "no step with one forward and one backward pass was recorded"
	}
	cut := false
	for k := range m.passes {
		if m.passes[k].cut {
			cut, added = true, append(added, m.accumulated(k, whole)...)
		}
	}
	for b, end := range held {
		m.until(b, end)
	}
	m.buffers, m.moved = append(m.buffers, added...), true
	if cut {
		m.doubt(offCut)
	}
	if elsewhere {
		m.doubt(offElsewhere)
	}
	if m.closure { // what it calls between the passes may free more before the backward pass
		m.doubt(offClosure)
	}
	return ""
}

// accumulated returns the gradients that passes before pass k made in its step, which is cut off: those of a whole step. Its own are added to
// them.
func (m *model) accumulated(k, whole int) (all []buffer) {
	p, dead := m.passes[k], m.deaths(k)
	for _, g := range m.inStep(whole) {
		if g.category == purpose.Gradient && int(g.step) == whole {
			g.begin, g.end, g.requestFree, g.added = pos{p.begin, before, g.begin.n, 0}, pos{p.end, after, 0, 0}, noEvent, true
			all = append(all, g)
		}
	}
	own := m.inPass(k)
	for i := range own {
		if g := &own[i]; g.category == purpose.Gradient {
			m.until(g, pos{consumed(dead, g.begin.n, p.end), after, 0, 0})
		}
	}
	return all
}

// deathsOfStep is deaths of all passes of a step, also of what is computed again.
func (m *model) deathsOfStep(k int) (all []float64) {
	for _, b := range m.inStep(k) {
		if int(b.step) == k && (b.saved || b.part == purpose.Recomputation) && b.end != never {
			all = append(all, b.end.n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// keepGradients is zero_grad(set_to_none=False): the first gradients stay, later ones are added to them.
func (m *model) keepGradients() string {
	any, elsewhere, seen, dead := false, false, int32(-1), map[int][]float64{}
	for i := range m.buffers {
		b := &m.buffers[i]
		if b.category != purpose.Gradient || b.step < 0 || b.added {
			continue
		}
		if seen < 0 {
			seen = b.step
		}
		any = true
		if b.step == seen {
			m.until(b, never)
			continue
		}
		k := int(b.step)
		if dead[k] == nil {
			dead[k] = m.deathsOfStep(k)
			elsewhere = elsewhere || m.isElsewhere(k, dead[k])
		}
		m.until(b, pos{consumed(dead[k], b.begin.n, m.steps[k].optimizer), after, 0, 0})
	}
	if !any {
		return "no gradient of a parameter is known"
	}
	if elsewhere {
		m.doubt(offElsewhere)
	}
	return ""
}

// isElsewhere reports whether a step keeps what autograd saves on the host: dead are ends of what it saves on the device, which tell when gradients
// are added.
func (m *model) isElsewhere(k int, dead []float64) bool {
	gradients := 0
	for _, b := range m.inStep(k) {
		if b.category == purpose.Gradient {
			gradients++
		}
	}
	return 2*len(dead) < gradients
}

// freeGradients is zero_grad(set_to_none=True) after each step: gradients end with it. Of one that was kept, the contribution of each later
// step is the gradient of that step: that which has the same number among the buffers of its size that the backward passes of a step make.
func (m *model) freeGradients() string {
	byStep := make([]map[int64][]*buffer, len(m.steps)) // of backward, by size
	for i := range m.buffers {
		if b := &m.buffers[i]; b.step >= 0 && b.phase == purpose.Backward {
			if byStep[b.step] == nil {
				byStep[b.step] = map[int64][]*buffer{}
			}
			byStep[b.step][b.size] = append(byStep[b.step][b.size], b)
		}
	}
	any, forwards := false, m.forwards()
	for i := range m.buffers {
		b := &m.buffers[i]
		switch {
		case b.category != purpose.Gradient || b.added:
			continue
		case b.start && b.end == never:
			return "gradients are older than the recording"
		case b.step < 0:
			continue
		}
		if next, _ := slices.BinarySearch(forwards, m.steps[b.step].end); next == len(forwards) || b.end.n < forwards[next] {
			continue
		}
		kept := b.end == never
		m.until(b, pos{m.steps[b.step].end, -1, b.begin.n, 0})
		any = true
		number := slices.Index(byStep[b.step][b.size], b)
		for k := int(b.step) + 1; kept && number >= 0 && k < len(m.steps); k++ {
			if of := byStep[k][b.size]; number < len(of) && !m.steps[k].open {
				m.until(of[number], pos{m.steps[k].end, -1, b.begin.n, 0})
				of[number].category = purpose.Gradient
			}
		}
	}
	if !any {
		return "no gradient is kept after the step"
	}
	return ""
}
