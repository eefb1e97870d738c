package whatif

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// temporaries are those of a step of an optimizer for each parameter: when one is made, how many parameters later it is freed, and when then.
type temporaries [][3]int

var (
	none    temporaries
	forLoop = temporaries{{0, 0, 3}, {1, 1, 2}} // two of one parameter at a time: the second one lives until the next parameter has its own
	forEach = temporaries{{0, 1 << 24, 0}}      // one of each parameter at once
	inCall  = temporaries{{0, 0, 2}, {1, 0, 3}} // two of one parameter, until its function returns
	chained = temporaries{{0, 1, 1}}            // one of one parameter, until the next one has its own
)

// states returns the sizes of what an optimizer keeps of a parameter.
type states func(parameter *buffer) []int64

// copies returns the states of an optimizer that keeps some of the size of the parameter.
func copies(n int) states {
	return func(p *buffer) []int64 { return slices.Repeat([]int64{p.size}, n) }
}

// optimizers are those with states of the size of the parameter.
var optimizers = map[string]struct {
	keeps       states
	temporaries temporaries
}{
	"sgd": {copies(0), none}, "momentum": {copies(1), none}, "adamw": {copies(2), forEach}, "lion": {copies(1), inCall},
}

func (m *model) withOptimizer(name string) string {
	switch name {
	case "adafactor":
		return m.adafactor()
	case "adam8bit":
		return m.adam8bit()
	}
	of, decays := optimizers[name], m.clone()
	refused := m.optimizer(of.keeps, of.temporaries)
	if of.temporaries == nil && refused == "" && decays.stepsOnAll() { // a step on all parameters with a decay copies their gradients
		decays.optimizer(of.keeps, forEach)
		m.leaveOpen(decays)
	}
	return refused
}

func (m *model) states(than int64) []*buffer {
	return filter(m.buffers, func(b *buffer) bool { return b.category == purpose.OptimizerState && b.size > than })
}

// trained returns the parameters that get gradients in any round, and the first round that has some. The nets of a program may take turns, each
// with an optimizer of its own, or only some layers may be trained at first.
func (m *model) trained() ([]*buffer, int) {
	need, first := m.mostGradients()
	m.withStates(need)
	trained, _ := parametersOf(filter(m.buffers, isParameter), need)
	return trained, first
}

// mostGradients returns how many gradients of each size a round has at most, and the first round that has some.
func (m *model) mostGradients() (most map[int64]int, first int) {
	most, first = map[int64]int{}, -1
	for k, in := range m.gradients() {
		if len(in) > 0 && first < 0 {
			first = k
		}
		for size, n := range in {
			most[size] = max(most[size], n)
		}
	}
	return most, first
}

// gradients returns how many gradients of each size each round has. Those from before the recording are of all rounds whose optimizer steps before their
// end.
func (m *model) gradients() []map[int64]int {
	rounds := make([]map[int64]int, len(m.rounds))
	for k := range rounds {
		rounds[k] = map[int64]int{}
	}
	for _, b := range filter(m.buffers, is(purpose.Gradient)) {
		if k := m.roundOf(b); k >= 0 && !b.isOlder() {
			rounds[k][b.size]++
		}
		for k := 0; b.isOlder() && k < len(rounds) && m.rounds[k].optimizer < b.end.event; k++ {
			rounds[k][b.size]++
		}
	}
	return rounds
}

// withStates adds to the parameters that need gradients in a round those that take turns with others of their size: the optimizers keep states for
// all.
func (m *model) withStates(need map[int64]int) {
	states, each := numbersOf(m.states(scalar)), math.MaxInt
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

// parametersOf returns the first of all parameters that have as many of each size as gradients are, and the others.
func parametersOf(all []*buffer, need map[int64]int) (found, others []*buffer) {
	need = maps.Clone(need)
	for _, b := range all {
		if need[b.size]--; need[b.size] >= 0 {
			found = append(found, b)
		} else {
			others = append(others, b)
		}
	}
	return found, others
}

// optimizer replaces the states of an optimizer, unless per is nil, and the temporaries of its steps.
func (m *model) optimizer(per states, of temporaries) string {
	parameters, first := m.trained()
	if len(parameters) == 0 {
		return "no gradient of a parameter is known"
	}
	gradients := m.gradients()
	areOlder := m.any(func(b *buffer) bool { return b.category == purpose.OptimizerState && b.isOlder() })
	switch has := m.any(is(purpose.OptimizerState)); {
	case per == nil && !has:
		return "no state of an optimizer is known"
	case per != nil && !has && m.mayHaveStates(parameters, m.rounds[first].optimizer):
		return "what the optimizer keeps is not known"
	case per != nil && m.rounds[first].open:
		return "when its optimizer steps is not known"
	}
	made := m.states(0) // their line makes other states
	m.drop(func(b *buffer) bool {
		isOfStep := b.category == purpose.TemporaryData || b.category == purpose.Workspace || b.category == purpose.UnknownCategory
		return b.category == purpose.OptimizerState && per != nil ||
			b.phase == purpose.OptimizerPhase && b.part != purpose.Clipping && isOfStep
	})
	if per != nil {
		left := parameters
		for k, in := range gradients { // nets that take turns step first in different rounds
			if now, later := parametersOf(left, in); !areOlder && !m.rounds[k].open {
				m.addStates(now, made, makesStates.at(m.rounds[k].optimizer), per)
				left = later
			}
		}
		m.addStates(left, made, before.at(0), per)
	}
	all := filter(m.buffers, isParameter)
	for k, in := range gradients {
		trained := parameters
		if len(in) > 0 {
			trained, _ = parametersOf(all, in)
		}
		for q, p := range trained {
			m.addTemporaries(of, p, q, k)
		}
	}
	return ""
}

// addStates adds what an optimizer keeps of parameters, at the line that made other states, if some are known.
func (m *model) addStates(parameters, others []*buffer, made moment, per states) {
	for q, p := range parameters {
		for j, size := range per(p) {
			b := m.add(p, made.in(q, j), never, size)
			if b.category, b.phase, b.pass = purpose.OptimizerState, purpose.OptimizerPhase, -1; len(others) > 0 {
				b.site = others[0].site
			}
		}
	}
}

// mayHaveStates reports whether the optimizer keeps states, and nothing tells which of the buffers in the sizes of parameters are them: a program
// read them from a checkpoint before the first step, at an event.
func (m *model) mayHaveStates(parameters []*buffer, first int) bool {
	keeps := func(of lifetime.Mark) bool {
		name, ok := strings.CutPrefix(of.Text, program.OptimizerStep)
		return ok && !strings.HasPrefix(name, "SGD")
	}
	if !slices.ContainsFunc(m.s.Marks, keeps) {
		return false
	}
	sizes := numbersOf(parameters)
	unknown := sizeOf(filter(m.buffers, func(b *buffer) bool {
		return b.category == purpose.UnknownCategory && !b.isFreed() && (b.isOlder() || b.begin.event < first) && sizes[b.size] > 0
	}))
	all := sizeOf(parameters)
	return unknown >= all-all/10
}

// addTemporaries adds those of a step of an optimizer for parameter q, in round k.
func (m *model) addTemporaries(of temporaries, p *buffer, q, k int) {
	if m.rounds[k].open {
		return
	}
	begin := steps.at(m.rounds[k].optimizer)
	for _, t := range of {
		b := m.add(p, begin.in(q, t[0]), begin.in(q+t[1], t[2]), p.size)
		b.category, b.phase, b.pass = purpose.TemporaryData, purpose.OptimizerPhase, -1
	}
}

// adam8bit is an optimizer with two states of a byte for each element of a parameter, each with a float for 256 of them. Parameters of two bytes have
// twice as many elements.
func (m *model) adam8bit() string {
	of := func(bytes int64) states {
		return func(p *buffer) []int64 {
			n := p.size / bytes
			return slices.Repeat([]int64{n, (n + 255) / 256 * 4}, 2)
		}
	}
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

// adafactor keeps a number for each row and each column of a parameter, as PyTorch's does, and all of a vector. One parameter after the
// other gets a temporary of its size. The range has what the reductions to rows and columns need, which depends on kernels: at most two parameters were seen.
func (m *model) adafactor() string {
	parameters, _ := m.trained()
	reductions := int64(0)
	for _, p := range parameters {
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
	m.widen(0, reductions)
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

const scalar = 4 // bytes

// stepsOnAll reports whether a step of an optimizer on all parameters at once was recorded.
func (m *model) stepsOnAll() bool {
	stacks := program.StacksOf(m.t)
	defer stacks.Done()
	return m.any(func(b *buffer) bool {
		return b.phase == purpose.OptimizerPhase && b.category == purpose.TemporaryData &&
			stacks.Of(m.t.Sites[b.site].Stack).All&program.ForEach != 0
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
	// A fused optimizer keeps the number of steps on the device for each parameter.
	parameters, first := m.trained()
	m.addStates(parameters, m.states(0), makesStates.at(m.rounds[first].optimizer), func(*buffer) []int64 { return []int64{scalar} })
	return ""
}

func (m *model) halveStates() string {
	kept := m.states(smallest)
	if len(kept) == 0 {
		return "no state of an optimizer is known"
	}
	for _, b := range kept {
		b.size /= 2
	}
	return ""
}
