package category

import (
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// flatOf finds programs whose parameters are views of one buffer, and gradients of another: no long-lived buffer has the size of a
// gradient, but one has exactly the bytes of all. States are then of these buffers, or of an equal part that this process steps.
// (megatron/core/distributed/param_and_grad_buffer.py)
func (a *analysis) flatOf(z *sizes) {
	total, count := int64(0), 0
	for size, n := range z.gradientsOf {
		total += size * int64(n)
		count += n
	}
	if count < minFlat {
		return
	}
	kept := a.keptBySize()
	if len(kept[total]) == 0 {
		return
	}
	for size, n := range z.gradientsOf {
		if size >= smallWeight && len(kept[size]) >= n {
			return
		}
	}
	states, _ := a.statesOfOptimizer()
	stepped := a.sizesOfStates()
	z.mark(flatParameter, kept[total][:1])
	kept[total] = kept[total][1:]
	gradients := int64(0)
	for _, ratio := range ratios {
		if size := total * ratio[0] / ratio[1]; len(kept[size]) > 0 && gradients == 0 {
			a.flatGradients(z, kept[size], states)
			gradients = size
		}
	}
	for size, buffers := range kept {
		older := len(buffers) > 0 && a.s.Buffers[buffers[0]].Edge&lifetime.BeginUnseen != 0
		// the weights in the optimizer's precision, and states
		if n := len(buffers); size != gradients && size >= smallWeight && (older && states > 0 && n == 1+states || n == 1 && stepped[size]) {
			z.mark(stateSized, buffers)
		}
	}
}

// minFlat is the number of gradients from which a buffer with exactly the bytes of all is unlikely to be a coincidence.
const minFlat = 4

// flatGradients divides buffers with the bytes of all gradients. Gradients are made with the parameters, the weights in the optimizer's
// precision after them. Older buffers may be these and the states that the optimizer keeps, and no gradients.
func (a *analysis) flatGradients(z *sizes, buffers []int, states int) {
	older := a.s.Buffers[buffers[0]].Edge&lifetime.BeginUnseen != 0
	if n := len(buffers); !older || states == 0 || n != states && n != states+1 {
		z.mark(flatGradient, buffers[:1])
		buffers = buffers[1:]
	}
	z.mark(stateSized, buffers)
}

// statesOfOptimizer returns how many states the optimizer keeps for each parameter, if that is known.
func (a *analysis) statesOfOptimizer() (states int, known bool) {
	if len(a.names) != 1 {
		return 0, false
	}
	states, known = statesOf[a.names[0]]
	return states, known
}

// sizesOfStates returns the sizes of the states that steps of the optimizer make.
func (a *analysis) sizesOfStates() map[int64]bool {
	sizes := map[int64]bool{}
	for i := range a.out {
		if a.out[i].Category == lifetime.OptimizerState {
			sizes[a.s.Buffers[i].Requested] = true
		}
	}
	return sizes
}

// keptBySize returns the buffers that the program makes outside of its modules before the first pass, and keeps, by size and age.
func (a *analysis) keptBySize() map[int64][]int {
	kept := map[int64][]int{}
	for _, i := range a.candidates {
		v := a.look(i)
		if v.unseen && v.open && a.out[i].Phase != lifetime.Forward || !v.unseen && v.long && v.f.within == noPart && v.phase == lifetime.OtherPhase && a.firstSpanAfter(v.b.Begin) {
			kept[v.b.Requested] = append(kept[v.b.Requested], i)
		}
	}
	for _, buffers := range kept {
		slices.SortStableFunc(buffers, a.byAge)
	}
	return kept
}
