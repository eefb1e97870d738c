package category

import (
	"cmp"
	"maps"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// sizes is what the sizes of buffers tell: gradients have the sizes of their parameters, and so have most states.
type sizes struct {
	marks                     []sizeMark // by buffer
	gradientsOf, parametersOf map[int64]int
	toldAtOnce                map[int64]int   // parameters that were alive at once
	older                     map[int64][]int // see oldBySize
	sum                       string          // name of what ofSum marks
}

type sizeMark uint16

const (
	inBucket   sizeMark = 1 << iota
	trained             // parameter, of memory from before the window or one that nothing else tells
	counted             // parameter from before the window, with exactly the states that the optimizer keeps
	stateSized          // such a state
	ownState            // the same, of an optimizer that is none of PyTorch's
	copied              // parameter of a copy of the model, from before the window
	noGradient          // weight from before the window
	byEngine            // without a stack, as the engine's threads are, while parameters have one
	weightCopy          // kept copy of all parameters
	ofSum               // its sum with others is known
	multiplied          // weight that the products of passes tell
)

// is reports whether the size of a buffer tells any of marks. Before the sizes are known, it is false.
func (z *sizes) is(i int, marks sizeMark) bool { return z != nil && z.marks[i]&marks != 0 }

func (z *sizes) mark(m sizeMark, buffers []int) {
	for _, i := range buffers {
		z.marks[i] |= m
	}
}

// statesOf is how many buffers with the size of the parameter an optimizer keeps for each, at least and with all options. (torch/optim, _init_group)
var statesOf = map[string]struct{ least, most int }{
	"Adam": {2, 3}, "AdamW": {2, 3}, "NAdam": {2, 2}, "RAdam": {2, 2}, "Adamax": {2, 2}, "SparseAdam": {2, 2}, "Adagrad": {1, 1},
	"Adadelta": {2, 2}, "Rprop": {2, 2}, "Lion": {1, 1}, "FusedAdam": {2, 2}, "RMSprop": {1, 3}, "SGD": {0, 1},
}

// measure compares sizes, after the rules that need no sizes.
func (a *analysis) measure() *sizes {
	z := &sizes{marks: make([]sizeMark, len(a.s.Buffers)), parametersOf: map[int64]int{}, toldAtOnce: a.together(purpose.ModelParameter)}
	z.gradientsOf = a.inOnePass()
	params := a.seenParameters()
	for _, size := range params {
		z.parametersOf[size]++
	}
	old := a.oldBySize(z.gradientsOf)
	if len(params) == 0 {
		models, _ := a.modelsOf(z, old)
		for size, n := range models {
			params = append(params, slices.Repeat([]int64{size}, min(n, len(old[size])))...)
		}
	}
	a.bucketsOf(z, params)
	a.weightCopiesOf(z, params)
	a.unaccounted(z)
	a.loadedStates(z, old)
	a.olderThanWindow(z, old)
	z.older = old
	a.replacedStates(z)
	a.weightsOfProducts(z)
	return z
}

// inOnePass returns how many gradients of each size a backward pass makes, or are alive at once: an optimizer that
// steps within the pass frees them one by one.
func (a *analysis) inOnePass() map[int64]int {
	most := a.together(purpose.Gradient)
	pass, made := int32(-1), map[int64]int{}
	for i := range a.s.Buffers {
		if a.out[i].Category != purpose.Gradient || a.out[i].Phase != purpose.Backward ||
			a.s.Buffers[i].Edge&lifetime.BeginUnseen != 0 || a.isReduced(i) {
			continue
		}
		if in := a.passOf(i); in != pass {
			pass = in
			clear(made)
		}
		size := a.s.Buffers[i].Requested
		made[size]++
		most[size] = max(most[size], made[size])
	}
	return most
}

// isReduced reports whether it is a whole gradient of which only a shard is kept, as of the parameter.
func (a *analysis) isReduced(i int) bool {
	f := a.freed(i)
	return f != nil && f.flags&program.ReducesGrads != 0
}

// passOf returns a number that all backward passes without another phase in between have in common.
func (a *analysis) passOf(i int) int32 { return a.next[i] - a.before[purpose.Backward][a.next[i]] }

// seenParameters returns the sizes of the parameters made in the window.
func (a *analysis) seenParameters() (all []int64) {
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if a.out[i].Category == purpose.ModelParameter && (b.Edge&lifetime.EndOpen != 0 || a.view(i).long) {
			all = append(all, b.Requested)
		}
	}
	return all
}

// together returns how many buffers of a category were alive at once, by size.
func (a *analysis) together(c purpose.Category) map[int64]int {
	begins, ends := map[int64][]int64{}, map[int64][]int64{}
	for i := range a.s.Buffers {
		if b := &a.s.Buffers[i]; a.out[i].Category == c && !a.isReduced(i) {
			begins[b.Requested] = append(begins[b.Requested], b.Begin)
			ends[b.Requested] = append(ends[b.Requested], b.End)
		}
	}
	most := map[int64]int{}
	for size, from := range begins {
		to, done := ends[size], 0
		slices.Sort(to)
		for n, t := range from { // Begin is in order
			for done < len(to) && to[done] <= t {
				done++
			}
			most[size] = max(most[size], n+1-done)
		}
	}
	return most
}

// oldBySize returns the buffers that were there before the window and are there after its last pass, by size and address: those that no forward pass made.
func (a *analysis) oldBySize(gradientsOf map[int64]int) map[int64][]int {
	old := map[int64][]int{}
	if a.trains && a.whole >= a.s.End {
		return old // they may be what the backward pass uses
	}
	next, _ := slices.BinarySearchFunc(a.spans, a.whole, func(s span, t int64) int { return cmp.Compare(s.begin, t) })
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		kept := b.Edge&lifetime.EndOpen != 0 || len(a.spans) > 0 && b.End > a.spans[len(a.spans)-1].end
		if a.trains && a.crosses(next, b.End, purpose.Forward) == 0 && gradientsOf[b.Requested] == 0 {
			continue // data of a step may live until the next one begins
		}
		if b.Edge&lifetime.BeginUnseen != 0 && kept && a.out[i].Category == purpose.UnknownCategory &&
			a.out[i].Phase != purpose.Forward {
			old[b.Requested] = append(old[b.Requested], i)
		}
	}
	for _, all := range old {
		slices.SortFunc(all, func(x, y int) int { return cmp.Compare(a.s.Buffers[x].Addr, a.s.Buffers[y].Addr) })
	}
	return old
}

// ratios are the quotients of the sizes of elements: 16 and 32 bits.
var ratios = [][2]int64{{1, 1}, {2, 1}, {1, 2}}

// sameSizes reports whether counts has nearly all sizes of all, as often, and few others.
func sameSizes(counts, all map[int64]int) bool {
	known, alike := 0, 0
	same, sum, others := int64(0), int64(0), int64(0)
	for size, n := range counts {
		others += size * int64(n)
	}
	for size, n := range all {
		sum += size * int64(n)
		if counts[size] >= n {
			known++
			alike = counts[size]
			same += size * int64(n)
		}
	}
	return same > 0 && same*10 >= sum*9 && same*10 >= others*9 && (known > 1 || alike > 3)
}

// bySite sums up the sizes of the buffers that fit, by the line that allocated them or, before the window, freed them.
func (a *analysis) bySite(fits func(v *view) bool) (counts map[lifetime.SiteID]map[int64]int, buffers map[lifetime.SiteID][]int) {
	counts, buffers = map[lifetime.SiteID]map[int64]int{}, map[lifetime.SiteID][]int{}
	for _, i := range a.candidates {
		v := a.look(i)
		site, f := v.b.Site, v.f
		if v.unseen && v.freed != nil {
			site, f = a.freeSite(i), v.freed
		}
		if f.within != program.NoPart || f.engine || !f.python || !fits(v) {
			continue
		}
		if counts[site] == nil {
			counts[site] = map[int64]int{}
		}
		counts[site][v.b.Requested]++
		buffers[site] = append(buffers[site], i)
	}
	return counts, buffers
}

// weightCopiesOf finds lines that copy all parameters after the first pass, and keep the copies.
func (a *analysis) weightCopiesOf(z *sizes, params []int64) {
	all := map[int64]int{}
	for _, size := range params {
		all[size]++
	}
	counts, buffers := a.bySite(func(v *view) bool {
		after := !v.sure || v.phase == purpose.OtherPhase && v.next > 0 && a.spans[v.next-1].phase == purpose.Forward
		kept := v.phase != purpose.Backward && (v.open || v.long) && !a.firstSpanAfter(v.b.Begin)
		return v.unseen && !v.open || !v.unseen && after && kept
	})
	for site, of := range counts {
		for _, model := range []map[int64]int{all, z.gradientsOf} {
			if sameSizes(of, model) {
				z.mark(weightCopy, buffers[site])
				for _, i := range buffers[site] {
					a.out[i].Phase = purpose.OtherPhase // and no part of a step
				}
			}
		}
	}
}

// optimizes reports whether an optimizer of PyTorch, or of a known library, ran.
func (a *analysis) optimizes() bool {
	return len(a.names) > 0 || a.before[purpose.OptimizerPhase][len(a.spans)] > 0
}

// unaccounted finds long-lived buffers with the size of a gradient whose parameter is not known.
func (a *analysis) unaccounted(z *sizes) {
	for _, i := range a.candidates {
		v := a.view(i)
		size := v.b.Requested
		_, inStep := a.stepAt(v.b.End - 1)
		isReplaced := a.replaced[i] && inStep
		if !v.unseen && (v.long || isReplaced) && v.f.within == program.NoPart && v.phase == purpose.OtherPhase &&
			!z.is(i, inBucket) && z.gradientsOf[size] > 0 && a.firstSpanAfter(v.b.Begin) {
			if z.parametersOf[size] < z.gradientsOf[size] {
				z.marks[i] |= trained
				z.parametersOf[size]++
				z.toldAtOnce[size]++
			} else if isReplaced || v.open && !a.optimizes() {
				z.marks[i] |= stateSized
			}
		}
	}
}

// loadedStates finds the states of an optimizer that made none in the window: what the program allocated before the first pass and kept, of nearly all
// sizes of gradients exactly as many as the optimizer keeps. So it is if a checkpoint is read to the device.
func (a *analysis) loadedStates(z *sizes, old map[int64][]int) {
	made, bySize := a.together(purpose.OptimizerState), map[int64][]int{}
	for _, i := range a.candidates {
		v := a.view(i)
		if size := v.b.Requested; !v.unseen && v.long && v.open && v.f.within == program.NoPart &&
			v.phase == purpose.OtherPhase && z.marks[i] == 0 &&
			z.gradientsOf[size] > 0 && z.parametersOf[size] >= z.gradientsOf[size] && made[size]+len(old[size]) == 0 &&
			a.firstSpanAfter(v.b.Begin) {
			bySize[size] = append(bySize[size], i)
		}
	}
	if states := a.statesOfOptimizers(z, bySize, true); len(states) == 1 && states[0] > 0 &&
		a.share(z, bySize, states) >= nearly {
		for size, buffers := range bySize {
			if len(buffers) == states[0]*z.gradientsOf[size] {
				z.mark(stateSized, buffers)
			}
		}
	}
}

// replacedStates finds states that a step of the optimizer did not make, in whose place it makes new ones: it drops as many of the size as
// it keeps, and others are left for the parameters. It returns them in order.
func (a *analysis) replacedStates(z *sizes) (all []int) {
	type place struct {
		span int
		size int64
	}
	made, dropped := map[place]int{}, map[place][]int{}
	for i := range a.s.Buffers {
		b, c := &a.s.Buffers[i], a.out[i].Category
		last, _ := a.around(b.End)
		switch {
		case b.Edge&lifetime.BeginUnseen == 0 && c == purpose.OptimizerState:
			made[place{int(a.next[i]) - 1, b.Requested}]++
		case c == purpose.UnknownCategory && a.out[i].Phase != purpose.OptimizerPhase && a.overPasses(i) && a.freedByStep(i) && last >= 0:
			dropped[place{last, b.Requested}] = append(dropped[place{last, b.Requested}], i)
		}
	}
	for at, of := range dropped {
		if g := z.gradientsOf[at.size]; g > 0 && len(of) == made[at] && len(z.older[at.size])+z.parametersOf[at.size] >= g {
			z.mark(stateSized, of)
			all = append(all, of...)
		}
	}
	slices.Sort(all)
	return all
}

// firstSpanAfter reports whether no pass ran before t.
func (a *analysis) firstSpanAfter(t int64) bool { return len(a.spans) == 0 || t < a.spans[0].begin }

// copiesOfEach returns the number that divides the counts of the most bytes: parameter, gradient and states of each size.
func (a *analysis) copiesOfEach(old map[int64][]int) int {
	best, most := 1, int64(0)
	for n := 2; n <= 5; n++ {
		bytes := int64(0)
		for size, buffers := range old {
			if len(buffers)%n == 0 {
				bytes += size * int64(len(buffers))
			}
		}
		if bytes > most || bytes == most && bytes > 0 && n > best {
			best, most = n, bytes
		}
	}
	return best
}

// bucketsOf finds buffers that no parameter explains and that have together exactly the bytes of all gradients.
func (a *analysis) bucketsOf(z *sizes, params []int64) {
	if !a.trains || len(params) < 2 {
		return
	}
	total := int64(0)
	isParameter := map[int64]bool{}
	for _, size := range params {
		total += size
		for _, ratio := range ratios {
			isParameter[size*ratio[0]/ratio[1]] = true
		}
	}
	isCandidate := func(v *view) bool {
		return !isParameter[v.b.Requested] && z.gradientsOf[v.b.Requested] == 0 && v.b.Requested > slices.Min(params) &&
			(v.unseen && v.open || !v.unseen && (v.f.within == program.NoPart || v.inRecomputation()) && v.phase != purpose.Forward)
	}
	candidates := map[int64]int{}
	for _, i := range a.candidates {
		if v := a.view(i); (v.long || v.unseen) && isCandidate(&v) {
			candidates[v.b.Requested]++
		}
	}
	used := map[int64]bool{}
	for _, ratio := range ratios {
		if used = subset(total*ratio[0]/ratio[1], candidates, len(params)-1); len(used) > 0 {
			break
		}
	}
	for _, i := range a.candidates {
		if v := a.view(i); used[v.b.Requested] && isCandidate(&v) {
			z.marks[i] |= inBucket
		}
	}
}

const maxSteps = 10000

// subset returns sizes of which all candidates, fewer than most, sum up to total; nil if there are none.
func subset(total int64, candidates map[int64]int, most int) map[int64]bool {
	sizes := slices.Sorted(maps.Keys(candidates))
	slices.Reverse(sizes)
	used := map[int64]bool{}
	steps := 0
	var from func(k int, left int64, most int) bool
	from = func(k int, left int64, most int) bool {
		if left == 0 {
			return true
		}
		if steps++; k == len(sizes) || most <= 0 || steps > maxSteps {
			return false
		}
		size, n := sizes[k], candidates[sizes[k]]
		if n <= most && int64(n) <= left/size {
			used[size] = true
			if from(k+1, left-int64(n)*size, most-n) {
				return true
			}
			delete(used, size)
		}
		return from(k+1, left, most)
	}
	if !from(0, total, most) {
		return nil
	}
	return used
}

// olderThanWindow divides the buffers of each size from before the window: parameters that nothing else tells were
// allocated first, and lie below the others if nothing was freed before. The rest are states only if they are exactly as
// many as the optimizer keeps: they may be gradients or copies of the model, too. Where the order tells nothing, the sum of all is known.
func (a *analysis) olderThanWindow(z *sizes, old map[int64][]int) {
	models, share := a.modelsOf(z, old)
	gens, inOrder := a.generationsOf(z, models, old)
	states := a.statesOfOptimizers(z, gens.old, gens.earlier(false) <= gens.each)
	if share == 1 {
		gens.sumUp(z, states)
	}
	copies := gens.copies()
	if open := a.notDropped(old); copies == 0 && open != nil {
		if kept, is := a.generationsOf(z, models, open); is && kept.copies() > 0 {
			gens, inOrder, copies = kept, true, kept.copies()
		}
	}
	if isNamed := len(a.names) > 0; !gens.hasFirstStep && gens.each > 0 && (slices.Contains(states, gens.each+1) || !isNamed) && !slices.Contains(states, gens.each) {
		inOrder = false // there may be only states
	}
	isModule := copies > 0 && gens.isModule(copies)
	areOwn := inOrder && copies == 0 && a.areStatesOfOwn(gens, z)
	for size, buffers := range gens.old {
		n, g := len(buffers), models[size]
		left := min(z.untold(models, size), n)
		params := buffers[:left]
		if share > 1 && len(models) == 1 {
			params = nil // one size may have as many by chance
		}
		// of two, one may be the gradient
		areStates := share > 2 && slices.Contains(states, share-1) || share == 1 && z.areStates(n, size, states)
		switch {
		case g == 0, z.is(buffers[0], inBucket), !inOrder && n > left: // or any of them may be a parameter
			continue
		case areStates, copies > 0 && n-left == (gens.each-copies)*g: // it was not copied
			z.mark(counted, params)
			z.mark(stateSized, buffers[left:])
		case areOwn && gens.ofOwn(z, size) > 0:
			z.mark(ownState, buffers[left:])
		case copies > 0 && n-left == gens.each*g:
			if isModule {
				z.mark(copied, buffers[left:left+copies*g])
			}
			z.mark(counted, params)
			z.mark(stateSized, buffers[left+copies*g:])
		}
		z.mark(trained, params)
	}
	a.otherPrecision(z, models, old)
	a.withoutGradient(z, old, a.trains && len(states) > 0 && a.share(z, old, states) >= nearly)
}

// areStatesOfOwn reports whether older buffers after the parameters are the states of an optimizer that is none of PyTorch's: it made them after the first
// pass, two for each parameter of some sizes, of which a step computes something that it drops. One alone may be a copy of the model, which would be
// among the two of others; a step that drops nothing of the size may add its only state to the parameter.
func (a *analysis) areStatesOfOwn(g *generations, z *sizes) bool {
	isOwn := slices.ContainsFunc(a.names, func(name string) bool { _, ok := statesOf[name]; return !ok })
	hasTwo, drops := false, map[int64]bool{}
	for i := range a.out {
		if p := &a.out[i]; p.Category == purpose.TemporaryData && p.Phase == purpose.OptimizerPhase {
			drops[a.s.Buffers[i].Requested] = true
		}
	}
	isNearly := g.nearlyAll(func(size int64, n int) bool {
		of := g.ofOwn(z, size)
		hasTwo = hasTwo || of == 2*n
		return of == n || of > 0 && drops[size]
	})
	return isOwn && isNearly && hasTwo && g.earlier(false) <= 1 && g.earlier(true) <= 1
}

// ofOwn returns how many buffers a size has after the parameters, if that is one or two for each of these and none was freed.
func (g *generations) ofOwn(z *sizes, size int64) int {
	of, n := g.old[size], g.model[size]
	rest := len(of) - z.untold(g.model, size)
	isFreed := func(i int) bool { return g.a.s.Buffers[i].Edge&lifetime.EndOpen == 0 }
	if rest != n && rest != 2*n || slices.ContainsFunc(of, isFreed) {
		return 0
	}
	return rest
}

// withoutGradient finds the older buffers of sizes that have no gradient: those of the engine, if parameters of the size have a stack, and
// frozen weights, if the states are counted.
func (a *analysis) withoutGradient(z *sizes, old map[int64][]int, counted bool) {
	told, through := map[int64]int{}, lifetime.BeginUnseen|lifetime.EndOpen // parameters from before the window that have a stack, by size
	for i := range a.s.Buffers {
		if b := &a.s.Buffers[i]; b.Edge&through == through && a.out[i].Category == purpose.ModelParameter {
			told[b.Requested]++
		}
	}
	hasStack := func(i int) bool { return a.at(&a.s.Buffers[i]).python || a.freed(i) != nil }
	for size, buffers := range old {
		switch {
		case size <= counter || z.gradientsOf[size] > 0 || z.marks[buffers[0]] != 0:
		case len(buffers) == told[size] && !slices.ContainsFunc(buffers, hasStack):
			z.mark(byEngine, buffers)
		case counted && len(buffers) > 1:
			z.mark(noGradient, buffers)
		}
	}
}

// otherPrecision finds states of 8 bits, or of 32 with a copy of the weights, of gradients of 32 and 16 bits: the same number for nearly all.
func (a *analysis) otherPrecision(z *sizes, models map[int64]int, old map[int64][]int) {
	for _, p := range []struct{ times, of, weights int64 }{{2, 1, 1}, {1, 4, 0}} {
		other := func(size int64) []int {
			if to := size * p.times / p.of; models[to] == 0 {
				return old[to]
			}
			return nil
		}
		bytes, all := map[int]int64{}, int64(0)
		for size, g := range models {
			all += size * int64(g)
			if n := len(other(size)); n%g == 0 {
				bytes[n/g] += size * int64(g)
			}
		}
		for each, same := range bytes {
			if each == 0 || float64(same) < nearly*float64(all) || !a.keepsOf(each, int(p.weights)) {
				continue
			}
			for size, g := range models {
				if of := other(size); len(of) == each*g {
					z.mark(stateSized, of)
				}
			}
		}
	}
}

// keepsOf reports whether an optimizer keeps n states of another precision than its gradients, weights of them copies of the weights. Others than
// those of PyTorch keep the two of Adam.
func (a *analysis) keepsOf(n, weights int) bool {
	return slices.ContainsFunc(a.names, func(name string) bool {
		s, ok := statesOf[name]
		return ok && s.least <= n && n <= s.least+weights || !ok && n == 2+weights
	})
}

// notDropped returns the buffers that are never freed, nil if that is all: a program may drop copies, or its optimizer, at its end.
func (a *analysis) notDropped(old map[int64][]int) map[int64][]int {
	open, all, left := map[int64][]int{}, 0, 0
	for size, of := range old {
		all += len(of)
		of = slices.DeleteFunc(slices.Clone(of), func(i int) bool { return a.s.Buffers[i].Edge&lifetime.EndOpen == 0 })
		if left += len(of); len(of) > 0 {
			open[size] = of
		}
	}
	if left == all {
		return nil
	}
	return open
}

// modelsOf returns how many parameters of each size there are from before the window: as many as gradients or, if backward passes leave none, an
// equal share of each size.
func (a *analysis) modelsOf(z *sizes, old map[int64][]int) (models map[int64]int, share int) {
	if len(z.gradientsOf) > 0 {
		return z.gradientsOf, 1
	}
	models, share = map[int64]int{}, a.copiesOfEach(old)
	for size, of := range old {
		if a.trains && share > 1 && len(of)%share == 0 && !z.is(of[0], inBucket) {
			models[size] = len(of) / share
		}
	}
	return models, share
}

// counter is the size of a counter of steps or batches.
const counter = 8

// nearly is the share of the bytes that is as good as all: sizes may agree by chance.
const nearly = 0.9

// share returns the share of the bytes of all gradients whose size has as many older buffers as parameters with some numbers of states.
func (a *analysis) share(z *sizes, old map[int64][]int, states []int) float64 {
	all, same := int64(0), int64(0)
	for size, g := range z.gradientsOf {
		bytes := size * int64(g)
		all += bytes
		if z.areStates(len(old[size]), size, states) {
			same += bytes
		}
	}
	return float64(same) / float64(max(all, 1))
}

// areStates reports whether n buffers of a size are all its parameters that are not known otherwise, and one of some numbers of states for each.
func (z *sizes) areStates(n int, size int64, states []int) bool {
	g := z.gradientsOf[size]
	all := n + min(g, z.parametersOf[size])
	return n > 0 && g > 0 && all%g == 0 && slices.Contains(states, all/g-1)
}

// statesOfOptimizers returns how many states for each parameter the optimizers keep; nil if that is not known. SGD
// keeps one with momentum; isLater says that the buffers came after the first pass, so they are not copies of the model.
func (a *analysis) statesOfOptimizers(z *sizes, old map[int64][]int, isLater bool) (states []int) {
	for _, name := range a.names {
		of, known := statesOf[name]
		if !known {
			return nil
		}
		states = append(states, of.least)
		if name == "SGD" && isLater && a.share(z, old, []int{1}) >= nearly {
			states = append(states, 1)
		}
	}
	return states
}
