package whatif

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

func isLora(v string) error {
	rank, names, _ := strings.Cut(v, ":")
	if n, err := strconv.Atoi(rank); err != nil || n < 1 || n > maxCount || names == "" {
		return fmt.Errorf("use a rank and names, such as 8:*.q_proj.weight|*.v_proj.weight")
	}
	return nil
}

// lora trains two factors of a rank beside each matrix with some names, and freezes all parameters, as peft's LoRA without dropout does.
func (m *model) lora(v string) string {
	ranks, globs, _ := strings.Cut(v, ":")
	rank := int64(number(ranks))
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
	for _, w := range matrices {
		if refused := m.addFactors(w, rank); refused != "" {
			return refused
		}
	}
	gone := map[*buffer]bool{} // gradients of matrices
	for k := range m.passes {
		if refused := m.adaptPass(k, matrices, rank, gone); refused != "" {
			return refused
		}
	}
	m.drop(func(b *buffer) bool { return gone[b] })
	m.settle()
	return m.optimizer(per, temporaries)
}

// matrices returns the parameters with two dimensions whose names match one of globs, and the others.
func (m *model) matrices(globs string) (matrices, rest []*buffer, named bool) {
	matched, rest, named := m.named(globs)
	for _, w := range matched {
		if len(m.shapeOf(w)) == 2 {
			matrices = append(matrices, w)
		} else {
			rest = append(rest, w)
		}
	}
	return matrices, rest, named
}

// factors returns the bytes of both factors of a matrix: the one of its input, and the one of its result.
func factors(shape []int64, rank, size int64) [2]int64 {
	return [2]int64{size / shape[0] * rank, size / shape[1] * rank}
}

func (m *model) addFactors(w *buffer, rank int64) (refused string) {
	shape := m.shapeOf(w)
	if bias := m.biasOf(w); bias != nil && bias.size != w.size/shape[1] {
		return "the module of a matrix is no Linear: its bias does not have the length of its first dimension"
	}
	for i, size := range factors(shape, rank, w.size) {
		m.addReal(w, addsFactors.at(max(w.begin.event, 0)).by(i), w.end, size)
	}
	return ""
}

// addReal is add of what counts as recorded for further edits.
func (m *model) addReal(like *buffer, begin, end moment, size int64) *buffer {
	b := m.add(like, begin, end, size)
	b.added, b.late = false, like.late
	return b
}

// adaptPass adds what factors of matrices need in pass k. gone gets the gradients of the matrices.
func (m *model) adaptPass(k int, matrices []*buffer, rank int64, gone map[*buffer]bool) (refused string) {
	backward := m.backward(k)
	of := m.gradientsOf(backward, matrices)
	for _, w := range matrices {
		y, g := m.resultOf(k, w), of[w]
		switch {
		case g == nil && !m.passes[k].trains():
		case y == nil || g == nil || m.op(y) != "" && !m.does(y, program.OpLinear):
			return "the module of a matrix is no Linear, or runs several times in a pass, never, or in 16 bits"
		default:
			gone[g] = true
			m.adapt(backward, w, y, g, rank)
		}
	}
	return ""
}

// statesLike returns the states of the recorded optimizer, and its temporaries; nil if they do not have the sizes of parameters.
func (m *model) statesLike() (per states, of temporaries) {
	parameters, _ := m.trained()
	bytes := sizeOf(parameters)
	kept := sizeOf(m.states(scalar))
	if bytes == 0 || kept%bytes != 0 {
		return nil, none
	}
	if m.stepsOnAll() {
		of = forEach
	}
	return copies(int(kept / bytes)), of
}

// resultOf returns what the module of a parameter makes last in pass k; nil if it runs several times, never, or on copies in 16 bits.
func (m *model) resultOf(k int, w *buffer) (result *buffer) {
	_, path, _ := strings.Cut(strings.TrimSuffix(m.nameOf(w), ".weight"), ".")
	calls := m.modules(k, func(name string) bool {
		_, of, _ := strings.Cut(name, ".")
		return of == path
	})
	if len(calls) != 1 || slices.ContainsFunc(calls[0][:len(calls[0])-1], func(b *buffer) bool { return 2*b.size == w.size }) {
		return nil
	}
	return calls[0].last()
}

// biasOf returns the bias that the module of a weight adds; nil if it adds none.
func (m *model) biasOf(w *buffer) *buffer {
	bias := strings.TrimSuffix(m.nameOf(w), "weight") + "bias"
	for _, b := range m.weights() {
		if m.nameOf(b) == bias {
			return b
		}
	}
	return nil
}

// adapt adds what factors of a rank need in a pass in which matrix w makes y and gets gradient g:
//   - forward: the input times both factors, scaled; its sum with y takes the place of y;
//   - backward: the gradients of both factors, and a further one of the input, which is added to the recorded one.
func (m *model) adapt(backward []*buffer, w, y, g *buffer, rank int64) {
	shape := m.shapeOf(w)
	inner, input := y.size/shape[0]*rank, y.size/shape[0]*shape[1]
	_, ofInput, end := m.nodeOf(backward, w, g)
	node, hasInput := g.begin.event, ofInput != nil && ofInput.size == input
	if hasInput {
		node = min(node, ofInput.begin.event)
	}

	of := y.begin.event
	m.addReal(y, makesInner.at(of), freesInner.at(node), inner).saved = true
	m.addReal(y, makesResult.at(of), freesResult.at(of), y.size)
	m.addReal(y, scales.at(of), freesScaled.at(of), y.size)
	m.addReal(y, addsResult.at(of), y.end, y.size).saved = y.saved

	bytes := factors(shape, rank, w.size)
	m.addReal(g, gradientOfSecond.at(node), g.end, bytes[1])
	m.addReal(g, gradientOfFirst.at(node), g.end, bytes[0])
	m.addReal(g, gradientOfScaled.at(node), freesScaledGradient.at(node), y.size).category = purpose.TemporaryData
	m.addReal(g, gradientOfInner.at(node), freesInnerGradient.at(node), inner).category = purpose.TemporaryData
	if hasInput {
		both := ofInput.begin.event
		m.addReal(g, gradientOfInput.at(node), freesInputGradient.at(both), input).category = purpose.TemporaryData
		m.addReal(g, addsInputGradients.at(both), freesInputSum.at(both), input).category = purpose.TemporaryData
	}
	for _, b := range m.buffers[:m.sorted] {
		if b != y && b.saved && b.begin.event < of && b.diesWithin(g.begin.event, end) {
			m.until(b, freesInput.at(node))
		}
	}
	y.saved = false
	m.until(y, freesRecorded.at(of))
}
