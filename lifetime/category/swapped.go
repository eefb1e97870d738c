package category

import "github.com/memlane/memlane/lifetime"

// swappedOf finds copies of parameters that become the parameters: a line copies all of them in each step, and a copy is still
// alive in the backward pass after the next copy was made, but not in that after the one after it. Sharpness-aware minimization does
// so: it puts the weights of before its first step back. States that a step replaces are gone by then; copies of the best weights
// are, too, or they are kept.
func (a *analysis) swappedOf(z *sizes) {
	counts, buffers := a.bySite(func(v *view) bool {
		return !v.unseen && v.outlives && !v.byGraph && (v.phase == lifetime.OptimizerPhase || v.phase == lifetime.OtherPhase)
	})
	for site, of := range counts {
		if ratio, ok := sameSizes(of, z.gradientsOf); !ok || ratio[0] != ratio[1] {
			continue
		}
		made := map[int64][]int{}
		for _, i := range buffers[site] {
			size := a.s.Buffers[i].Requested
			made[size] = append(made[size], i)
		}
		for size, copies := range made {
			if a.takesOver(copies, z.gradientsOf[size]) {
				z.mark(swapped, copies)
				z.swapped[size] = true
			}
		}
	}
}

// takesOver reports whether copies, of which each step makes some, live until the step after the next copies.
func (a *analysis) takesOver(copies []int, each int) bool {
	if each == 0 {
		return false
	}
	does, all := 0, 0
	for k := each; k < len(copies); k++ {
		end := a.s.Buffers[copies[k-each]].End
		crosses := func(next int) bool { return a.crosses(int(a.next[copies[next]]), end, lifetime.Backward) > 0 }
		all++
		if crosses(k) && (k+each >= len(copies) || !crosses(k+each)) {
			does++
		}
	}
	return does > 0 && does*4 >= all*3
}
