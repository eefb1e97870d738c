package whatif

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/purpose"
)

// lora trains two factors of a rank beside each matrix with some names, and freezes all parameters, as peft's LoRA without dropout does.
func (m *model) lora(rank int64, globs string) string {
	matrices, rest, named := m.matrices(globs)
	per, temporaries := m.statesLike()
	switch {
	case !m.recordsModules():
		return "modules are not recorded: record with memlane.record(modules=True)"
	case !named:
		return unnamed
	case len(matrices) == 0:
		return "no matrix whose shape is recorded has such a name; memlane peak --by name lists them"
	case per == nil:
		return "the states of its optimizer do not have the sizes of parameters"
	}
	if len(rest) > 0 {
		if refused := m.freezeThese(rest); refused != "" {
			return refused
		}
		m.settle()
		matrices, _, _ = m.matrices(globs)
	}
	var added []buffer
	var gradients []*buffer
	for _, w := range matrices {
		shape := m.shapeOf(w)
		if bias := m.biasOf(w); bias != nil && bias.size != w.size/shape[1] {
			return "the module of a matrix is no Linear: its bias does not have the length of its first dimension"
		}
		for i, n := range factors(shape, rank, w.size) {
			f := *w
			f.begin.a, f.begin.b, f.size = 1, float64(i), n
			if w.start {
				f.begin.n, f.start = 0, false
			}
			added = append(added, f)
		}
	}
	for k := range m.passes {
		backward := m.ofPass(k, purpose.Backward)
		of := m.gradientsOf(backward, matrices)
		for _, w := range matrices {
			y, g := m.resultOf(k, w), of[w]
			switch {
			case g == nil && m.passes[k].back == m.passes[k].end:
			case y == nil || g == nil || !products[m.places[y.place].op]:
				return "the module of a matrix is no Linear, or runs several times in a pass, never, or in 16 bits"
			default:
				gradients = append(gradients, g)
				added = append(added, m.adapt(backward, w, y, g, rank)...)
			}
		}
	}
	m.buffers, m.moved = append(slices.DeleteFunc(m.buffers, func(b buffer) bool {
		return slices.ContainsFunc(gradients, func(g *buffer) bool { return g.like == b.like })
	}), added...), true
	m.settle()
	return m.optimizer(per, temporaries)
}

// matrices returns the parameters with two dimensions whose names match one of globs, and the others.
func (m *model) matrices(globs string) (matrices, rest []*buffer, named bool) {
	matched, rest, named := m.frozen(globs)
	for _, w := range matched {
		if len(m.shapeOf(w)) == 2 {
			matrices = append(matrices, w)
		} else {
			rest = append(rest, w)
		}
	}
	return matrices, rest, named
}

// products are the operations of a Linear; "" = not recorded.
var products = map[string]bool{"": true, "linear": true, "addmm": true, "mm": true, "matmul": true}

// factors returns the bytes of both factors of a matrix: the one of its input, and the one of its result.
func factors(shape []int64, rank, size int64) [2]int64 {
	return [2]int64{size / shape[0] * rank, size / shape[1] * rank}
}

// statesLike returns the states of the recorded optimizer, and its temporaries; nil if they do not have the sizes of parameters.
func (m *model) statesLike() (per states, temporaries int) {
	bytes, kept := int64(0), int64(0)
	parameters, _ := m.trained()
	for i := range parameters {
		bytes += parameters[i].size
	}
	for i := range m.buffers {
		if b := &m.buffers[i]; b.category == purpose.OptimizerState && b.size > scalar {
			kept += b.size
		}
	}
	if bytes == 0 || kept%bytes != 0 {
		return nil, none
	}
	if m.stepsOnAll() {
		temporaries = forEach
	}
	return func(p *buffer) []int64 { return slices.Repeat([]int64{p.size}, int(kept/bytes)) }, temporaries
}

// resultOf returns what the module of a parameter makes last in pass k; nil if it runs several times, never, or on copies in 16 bits.
func (m *model) resultOf(k int, w *buffer) (result *buffer) {
	_, path, _ := strings.Cut(m.t.HolderOf(m.s, int(w.like)).Name, ".")
	path = strings.TrimSuffix(path, ".weight")
	previous, calls := false, 0
	for _, b := range m.forward(k) {
		if b.category == purpose.Workspace {
			continue
		}
		_, of, _ := strings.Cut(m.t.Purpose(m.s.PurposeOf(int(b.like))).Module, ".")
		is := of == path
		if is && !previous {
			calls++
		}
		if is && result != nil && 2*result.size == w.size {
			return nil
		}
		if is {
			result = b
		}
		previous = is
	}
	if calls != 1 {
		return nil
	}
	return result
}

// biasOf returns the bias that the module of a weight adds; nil if it adds none.
func (m *model) biasOf(w *buffer) *buffer {
	bias := strings.TrimSuffix(m.t.HolderOf(m.s, int(w.like)).Name, "weight") + "bias"
	for _, b := range m.weights() {
		if h := m.t.HolderOf(m.s, int(b.like)); h != nil && h.Name == bias {
			return b
		}
	}
	return nil
}

// adapt returns what factors of a rank add to a pass in which matrix w makes y and gets gradient g:
//   - forward: the input times both factors, scaled; its sum with y takes the place of y;
//   - backward: the gradients of both factors, and a further one of the input, which is added to the recorded one.
func (m *model) adapt(backward []*buffer, w, y, g *buffer, rank int64) (added []buffer) {
	shape := m.shapeOf(w)
	put := func(like *buffer, begin, end pos, size int64) *buffer {
		b := *like
		b.begin, b.end, b.size, b.saved, b.requestFree = begin, end, size, false, noEvent
		added = append(added, b)
		return &added[len(added)-1]
	}
	i, input := slices.Index(backward, g), y.size/shape[0]*shape[1]
	last := i // of the node
	var ofInput *buffer
	near := i + 1 // addmm makes the gradient of its input first, mm that of its weight
	if m.biasOf(w) != nil {
		near = i - 1
	}
	if near >= 0 && near < len(backward) && backward[near].size == input && m.places[backward[near].place].op == m.places[g.place].op {
		ofInput, last = backward[near], max(i, near)
	}
	ends := never.n // of the node
	if last+1 < len(backward) {
		ends = backward[last+1].begin.n
	}
	begins := g.begin.n
	if ofInput != nil {
		begins = min(begins, ofInput.begin.n)
	}
	forward := func(a float64) pos { return pos{y.begin.n, a, 0, 0} }
	back := func(a float64) pos { return pos{begins, a, 0, 0} }
	inner := y.size / shape[0] * rank

	put(y, forward(1), back(-6), inner).saved = true
	put(y, forward(2), forward(4), y.size)            // times the second factor
	put(y, forward(3), forward(6), y.size)            // scaled
	put(y, forward(5), y.end, y.size).saved = y.saved // the sum
	of := factors(shape, rank, w.size)
	put(g, back(-8), g.end, of[1])
	put(g, back(-3), g.end, of[0])
	t := *g
	t.category = purpose.TemporaryData
	put(&t, back(-10), back(-7), y.size) // gradient of what was scaled
	put(&t, back(-9), back(-2), inner)
	if ofInput != nil {
		both := ofInput.begin.n
		put(&t, back(-4), pos{both, 3, 0, 0}, input)
		put(&t, pos{both, 1, 0, 0}, pos{both, 2, 0, 0}, input) // the sum of both
	}
	for i := range m.buffers {
		if b := &m.buffers[i]; b != y && b.saved && b.begin.n < y.begin.n && b.end.n > g.begin.n && b.end.n < ends {
			m.until(b, back(-1))
		}
	}
	y.saved = false
	m.until(y, forward(7))
	return added
}
