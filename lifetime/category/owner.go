package category

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// backwardModules gives the buffers of backward passes the modules whose forward passes made the nodes that allocate
// them. Nothing records that in snapshots. But nodes run in the reverse order of the forward pass, and each lets go of
// what it has kept: of what the pass kept and that is alive, the node that runs uses the latest, and the first
// allocation after that is of the operation that made the node.
func (a *analysis) backwardModules() {
	var kept []int // of forward passes, in order; those that ended are dropped when they become the last
	modules := a.nextModules()
	first, forward := textID(0), false // module of the first allocation of the pass
	for i := range a.s.Buffers {
		b, p := &a.s.Buffers[i], &a.out[i]
		if b.Edge&lifetime.BeginUnseen != 0 {
			continue
		}
		if p.Phase == purpose.Forward {
			if !forward {
				first = p.Module
			}
			if a.flags[i]&heldByGraph != 0 {
				kept = append(kept, i)
			}
		}
		forward = p.Phase == purpose.Forward || forward && p.Phase == purpose.OtherPhase
		if p.Phase != purpose.Backward || p.Module != 0 {
			continue
		}
		for len(kept) > 0 && a.s.Buffers[kept[len(kept)-1]].End <= b.Begin {
			kept = kept[:len(kept)-1]
		}
		module := first
		if n := len(kept); n > 0 {
			module = modules[kept[n-1]]
			if a.keptBySelf(kept[n-1], b.Begin) {
				module = a.out[kept[n-1]].Module
			}
		}
		a.setModule(i, module)
	}
}

// nextModules returns, for each buffer of a forward pass, the module of the next allocation of the pass, or its own if
// it is the last.
func (a *analysis) nextModules() []textID {
	modules := make([]textID, len(a.s.Buffers))
	next, pass := textID(0), int32(-1)
	for i := len(a.s.Buffers) - 1; i >= 0; i-- {
		if a.out[i].Phase != purpose.Forward || a.s.Buffers[i].Edge&lifetime.BeginUnseen != 0 {
			continue
		}
		if a.next[i] != pass {
			next, pass = a.out[i].Module, a.next[i]
		}
		modules[i] = next
		next = a.out[i].Module
	}
	return modules
}

// keptBySelf reports whether the operation that allocated a buffer keeps it, as a normalization keeps its statistics:
// its result, which it allocated just before, is gone at t.
func (a *analysis) keptBySelf(i int, t int64) bool {
	b := &a.s.Buffers[i]
	for k := i - 1; k >= max(0, i-2); k-- {
		other := &a.s.Buffers[k]
		held := other.Edge&lifetime.BeginUnseen == 0 && a.flags[k]&heldByGraph != 0
		if held && other.Site == b.Site && other.End <= t && other.Size > b.Size {
			return true
		}
	}
	return false
}

// owners gives parameters and states the modules that own them: those of the gradients of the same size. Parameters and
// states are made in the order of the modules, gradients in the reverse order of the forward pass.
func (a *analysis) owners() {
	gradients := a.gradientModules()
	if len(gradients) == 0 {
		return
	}
	owned := map[purpose.Category]map[int64][]int{purpose.ModelParameter: {}, purpose.OptimizerState: {}}
	for i := range a.s.Buffers {
		p, b := &a.out[i], &a.s.Buffers[i]
		if of := owned[p.Category]; of != nil && gradients[b.Requested] != nil && b.Edge&lifetime.EndOpen != 0 {
			of[b.Requested] = append(of[b.Requested], i)
		}
	}
	for category, bySize := range owned {
		for size, buffers := range bySize {
			modules := gradients[size]
			if len(buffers)%len(modules) != 0 {
				continue
			}
			slices.SortStableFunc(buffers, a.byAge)
			each := len(buffers) / len(modules) // states of a parameter follow each other
			if category == purpose.ModelParameter {
				buffers, each = buffers[:len(modules)], 1 // copies of the model follow it, and have no gradients
			}
			for k, i := range buffers {
				a.setModule(i, modules[k/each])
			}
		}
	}
}

func (a *analysis) setModule(i int, module textID) {
	a.out[i].Module, a.out[i].ModuleInferred = module, module != 0
}

// byAge orders buffers by their allocation, those from before the window by address.
func (a *analysis) byAge(x, y int) int {
	p, q := &a.s.Buffers[x], &a.s.Buffers[y]
	if p.Edge&q.Edge&lifetime.BeginUnseen != 0 {
		return cmp.Compare(p.Addr, q.Addr)
	}
	return cmp.Compare(p.Begin, q.Begin)
}

// gradientModules returns the modules of the gradients of each size, in the order of the forward pass, of the backward
// pass that makes most.
func (a *analysis) gradientModules() map[int64][]textID {
	best, most, count, pass := int32(-1), 0, 0, int32(-1)
	a.eachGradient(func(i int) {
		if in := a.passOf(i); in != pass {
			count, pass = 0, in
		}
		if count++; count > most {
			best, most = pass, count
		}
	})
	made := map[int64][]textID{}
	a.eachGradient(func(i int) {
		if a.passOf(i) == best {
			size := a.s.Buffers[i].Requested
			made[size] = append(made[size], a.out[i].Module)
		}
	})
	for _, modules := range made {
		slices.Reverse(modules)
	}
	return made
}

// eachGradient calls take with the gradients that backward passes allocated, in order.
func (a *analysis) eachGradient(take func(i int)) {
	for i := range a.s.Buffers {
		p := &a.out[i]
		if p.Category == purpose.Gradient && p.Phase == purpose.Backward && a.s.Buffers[i].Edge&lifetime.BeginUnseen == 0 {
			take(i)
		}
	}
}
