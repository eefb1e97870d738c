package category

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// sizes is what the sizes of buffers tell: gradients have the sizes of their parameters, and so have most states.
type sizes struct {
	marks                               []sizeMark // by buffer
	gradientsOf, copiesOf, parametersOf map[int64]int
	swapped                             map[int64]bool // sizes of parameters that copies replace

	lowest, highest uint64 // addresses of the parameters from before the window
}

// sizeMark is a set of what the size of a buffer tells.
type sizeMark uint32

const (
	gradientCopy sizeMark = 1 << iota
	inBucket
	masterWeight
	trained       // parameter, of memory from before the window or one that nothing else tells
	stateSized    // as trained, with the size of a parameter
	gradSized     // gradient from before the window
	noGradient    // weight from before the window
	copied        // of a parameter
	counted       // with a number of parameters and states that is exactly that of the optimizer
	weightCopy    // kept copy of all parameters
	updateSized   // temporary of an update without an optimizer
	quantized     // weight that each pass converts to a larger type
	gathered      // weight that a pass puts together from shards
	swapped       // copy that becomes the parameter
	multiplied    // weight of a linear module, from before the window
	flatParameter // holds all parameters
	flatGradient  // holds all gradients
	layerCache    // one of one or two for each layer, from before the window
)

// is reports whether the size of a buffer tells any of marks. Before the sizes are known, it is false.
func (z *sizes) is(i int, marks sizeMark) bool { return z != nil && z.marks[i]&marks != 0 }

func (z *sizes) mark(m sizeMark, buffers []int) {
	for _, i := range buffers {
		z.marks[i] |= m
	}
}

// statesOf is the number of buffers with the size of the parameter that an optimizer keeps for each; optimizers with options
// that change it are left out. (torch/optim, _init_group)
var statesOf = map[string]int{
	"Adam": 2, "AdamW": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "SparseAdam": 2, "Adagrad": 1, "Adadelta": 2, "Rprop": 2, "Lion": 1, "FusedAdam": 2,
}

// measure compares sizes, after the rules that need no sizes.
func (a *analysis) measure() *sizes {
	z := &sizes{marks: make([]sizeMark, len(a.s.Buffers)), copiesOf: map[int64]int{}, parametersOf: map[int64]int{}, swapped: map[int64]bool{}}
	z.gradientsOf = a.inOnePass()
	params := a.seenParameters()
	for _, size := range params {
		z.parametersOf[size]++
	}
	old := a.oldBySize()
	a.copiedGradients(z)
	if len(params) == 0 {
		params = a.oldParameters(z, old)
	}
	a.bucketsOf(z, params)
	a.mastersOf(z, params)
	a.flatOf(z)
	a.weightCopiesOf(z, params)
	a.unaccounted(z)
	a.updatesOf(z)
	a.swappedOf(z)
	a.olderThanWindow(z, old)
	a.gatheredOf(z, params)
	return z
}

// inOnePass returns how many gradients of each size a backward pass makes, or are alive at once: an optimizer that steps within
// the pass frees them one by one.
func (a *analysis) inOnePass() map[int64]int {
	most := a.together(lifetime.Gradient)
	pass, made := int32(-1), map[int64]int{}
	for i := range a.s.Buffers {
		if a.out[i].Category != lifetime.Gradient || a.out[i].Phase != lifetime.Backward || a.s.Buffers[i].Edge&lifetime.BeginUnseen != 0 {
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

// passOf returns a number that all backward passes without another phase in between have in common.
func (a *analysis) passOf(i int) int32 { return a.next[i] - a.before[lifetime.Backward][a.next[i]] }

// seenParameters returns the sizes of the parameters made in the window, in order.
func (a *analysis) seenParameters() (all []int64) {
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if a.out[i].Category == lifetime.ModelParameter && (b.Edge&lifetime.EndOpen != 0 || a.view(i).long) {
			all = append(all, b.Requested)
		}
	}
	return all
}

// together returns how many buffers of a category were alive at once, by size.
func (a *analysis) together(c lifetime.Category) map[int64]int {
	ends := map[int64][]int64{}
	begins := map[int64][]int64{}
	for i := range a.s.Buffers {
		if b := &a.s.Buffers[i]; a.out[i].Category == c {
			begins[b.Requested] = append(begins[b.Requested], b.Begin)
			ends[b.Requested] = append(ends[b.Requested], b.End)
		}
	}
	most := map[int64]int{}
	for size, from := range begins {
		to := ends[size]
		slices.Sort(to)
		done := 0
		for n, t := range from { // Begin is in order
			for done < len(to) && to[done] <= t {
				done++
			}
			most[size] = max(most[size], n+1-done)
		}
	}
	return most
}

// oldBySize returns the buffers that were there before the window and are there at its end, by size and address: those that no
// forward pass made.
func (a *analysis) oldBySize() map[int64][]int {
	old := map[int64][]int{}
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen != 0 && b.Edge&lifetime.EndOpen != 0 && a.out[i].Category == lifetime.UnknownCategory && a.out[i].Phase != lifetime.Forward {
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

// sameSizes reports whether counts has the sizes of all, times a ratio: nearly all of them, and few others.
func sameSizes(counts, all map[int64]int) (ratio [2]int64, ok bool) {
	return sameSizesTimes(counts, all, ratios)
}

// sameSizesTimes is sameSizes for other ratios.
func sameSizesTimes(counts, all map[int64]int, ratios [][2]int64) (ratio [2]int64, ok bool) {
	if len(all) == 0 {
		return ratio, false
	}
	others := int64(0)
	for size, n := range counts {
		others += size * int64(n)
	}
	for _, ratio := range ratios {
		known, alike, bytes, have, sum := 0, 0, int64(0), int64(0), int64(0)
		for size, n := range all {
			sum += size * int64(n)
			if k := size * ratio[0] / ratio[1]; counts[k] >= n {
				known++
				alike = counts[k]
				bytes += size * int64(n)
				have += k * int64(counts[k])
			}
		}
		if have*10 >= others*9 && bytes*10 >= sum*9 && (known > 1 || alike > 3) {
			return ratio, true
		}
	}
	return ratio, false
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
		if f.within != noPart || f.engine || !f.python || !fits(v) {
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

// copiedGradients finds lines between backward pass and optimizer that allocate the sizes of all gradients.
func (a *analysis) copiedGradients(z *sizes) {
	counts, buffers := a.bySite(func(v *view) bool { return !v.unseen && v.phase == lifetime.OptimizerPhase && !v.sure && v.outlives })
	for site, of := range counts {
		if _, ok := sameSizes(of, z.gradientsOf); ok {
			for _, i := range buffers[site] {
				z.marks[i] |= gradientCopy
				z.copiesOf[a.s.Buffers[i].Requested] = 1
			}
		}
	}
}

// mastersOf finds copies of all parameters, in another precision, of which the optimizer keeps states.
func (a *analysis) mastersOf(z *sizes, params []int64) {
	all := map[int64]int{}
	for _, size := range params {
		all[size]++
	}
	states := a.together(lifetime.OptimizerState)
	counts, buffers := a.bySite(func(v *view) bool { return !v.unseen && v.long && v.phase == lifetime.OtherPhase })
	for site, of := range counts {
		ratio, ok := sameSizes(of, all)
		if !ok || ratio[0] == ratio[1] {
			continue
		}
		if stepped, other := statesWith(states, of), statesWith(states, all); stepped > other {
			for _, i := range buffers[site] {
				z.marks[i] |= masterWeight
			}
		}
	}
}

// weightCopiesOf finds lines that copy all parameters after the first pass, and keep the copies.
func (a *analysis) weightCopiesOf(z *sizes, params []int64) {
	all := map[int64]int{}
	for _, size := range params {
		all[size]++
	}
	counts, buffers := a.bySite(func(v *view) bool {
		return v.unseen && !v.open || !v.unseen && (!v.sure || v.phase == lifetime.OtherPhase && v.next > 0 && a.spans[v.next-1].phase == lifetime.Forward) && v.phase != lifetime.Backward && (v.open || v.long) && !a.firstSpanAfter(v.b.Begin)
	})
	for site, of := range counts {
		for _, model := range []map[int64]int{all, z.gradientsOf} {
			if ratio, ok := sameSizes(of, model); ok && ratio[0] == ratio[1] {
				z.mark(weightCopy, buffers[site])
			}
		}
	}
}

// update is what a line of the program's loop allocates.
type update struct {
	buffers []int
	sizes   map[int64]bool // of gradients
	others  bool           // it allocates before a backward pass, too
}

// updatesOf finds the lines of the program's loop, and what they call, that work on tensors of the sizes of gradients after a
// backward pass: an optimizer that is none of PyTorch's, and of a program without any optimizer its temporaries.
func (a *analysis) updatesOf(z *sizes) {
	all := int64(0)
	for size, n := range z.gradientsOf {
		all += size * int64(n)
	}
	loop := a.loopFunctions()
	updates := map[pathID]*update{}
	for _, i := range a.candidates {
		v := a.view(i)
		if v.unseen || v.f.within != noPart || v.f.path == 0 || v.sure && v.phase != lifetime.OtherPhase || z.marks[i] != 0 {
			continue
		}
		line := a.r.calledFrom(v.f.path, loop)
		u := updates[line]
		if u == nil {
			u = &update{sizes: map[int64]bool{}}
			updates[line] = u
		}
		u.buffers = append(u.buffers, i)
		if z.gradientsOf[v.b.Requested] > 0 {
			u.sizes[v.b.Requested] = true
		}
		u.others = u.others || v.next == 0 || a.spans[v.next-1].phase != lifetime.Backward
	}
	alone := !a.optimizes()
	for _, u := range updates {
		bytes := int64(0)
		for size := range u.sizes {
			bytes += size * int64(z.gradientsOf[size])
		}
		for _, i := range u.buffers {
			v := a.view(i)
			if !u.others && 2*bytes >= all && all > 0 ||
				alone && !v.outlives && z.gradientsOf[v.b.Requested] > 0 && v.next > 0 && a.spans[v.next-1].phase == lifetime.Backward {
				z.marks[i] |= updateSized
			}
		}
	}
}

// function is a function of a Python file.
type function struct{ file, name string }

// loopFunctions returns the functions that call, perhaps by others, both forward and backward passes.
func (a *analysis) loopFunctions() map[function]bool {
	var passes [2]map[function]bool
	for k := range passes {
		passes[k] = map[function]bool{}
	}
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		f, path := a.at(b), pathID(0)
		k := 0
		switch {
		case f.within == inModule && a.out[i].Phase == lifetime.Forward:
			path = f.rootCall
		case f.within == inBackwardCall:
			path, k = f.path, 1
		}
		for ; path != 0; path = a.r.callers[path] {
			name := a.r.functionOf(path)
			if passes[k][name] {
				break
			}
			passes[k][name] = true
		}
	}
	if len(passes[1]) == 0 { // the first gradient of a pass may have come with the call
		return passes[0]
	}
	for name := range passes[0] {
		if !passes[1][name] {
			delete(passes[0], name)
		}
	}
	return passes[0]
}

// functionOf returns the innermost function of a path.
func (r *reader) functionOf(path pathID) function {
	frame := &r.t.Frames[r.lines[path]]
	return function{frame.File, frame.Function}
}

// calledFrom returns the part of a path up to the innermost of some functions, or up to its outermost frame.
func (r *reader) calledFrom(path pathID, functions map[function]bool) pathID {
	outermost := path
	for ; path != 0; path = r.callers[path] {
		if functions[r.functionOf(path)] {
			return path
		}
		outermost = path
	}
	return outermost
}

// optimizes reports whether an optimizer of PyTorch, or of a known library, ran.
func (a *analysis) optimizes() bool {
	return len(a.names) > 0 || slices.ContainsFunc(a.spans, func(s span) bool { return s.phase == lifetime.OptimizerPhase })
}

// statesWith returns how many bytes of states have one of the sizes.
func statesWith(states, sizes map[int64]int) (bytes int64) {
	for size := range sizes {
		bytes += size * int64(states[size])
	}
	return bytes
}

// unaccounted finds long-lived buffers with the size of a gradient whose parameter is not known.
func (a *analysis) unaccounted(z *sizes) {
	for _, i := range a.candidates {
		v := a.view(i)
		size := v.b.Requested
		if !v.unseen && v.long && v.f.within == noPart && v.phase == lifetime.OtherPhase && !z.is(i, masterWeight|inBucket) &&
			z.gradientsOf[size] > 0 && a.firstSpanAfter(v.b.Begin) {
			if z.parametersOf[size] < z.gradientsOf[size] {
				z.marks[i] |= trained
				z.parametersOf[size]++
			} else if v.open && !a.optimizes() {
				z.marks[i] |= stateSized
			}
		}
	}
}

// firstSpanAfter reports whether no pass ran before t.
func (a *analysis) firstSpanAfter(t int64) bool { return len(a.spans) == 0 || t < a.spans[0].begin }

// oldParameters returns the sizes of parameters from before the window in the order of their addresses: those with the
// sizes of gradients or, if backward passes leave none, an equal share of each size.
func (a *analysis) oldParameters(z *sizes, old map[int64][]int) (params []int64) {
	type at struct {
		addr uint64
		size int64
	}
	var all []at
	share := 1
	if len(z.gradientsOf) == 0 {
		share = a.copiesOfEach(old)
	}
	for size, buffers := range old {
		n := z.gradientsOf[size]
		if len(z.gradientsOf) == 0 && len(buffers)%share == 0 {
			n = len(buffers) / share
		}
		for _, i := range buffers[:min(n, len(buffers))] {
			all = append(all, at{a.s.Buffers[i].Addr, size})
		}
	}
	slices.SortFunc(all, func(x, y at) int { return cmp.Or(cmp.Compare(x.addr, y.addr), cmp.Compare(x.size, y.size)) })
	for _, p := range all {
		params = append(params, p.size)
	}
	return params
}

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
		return !isParameter[v.b.Requested] && z.gradientsOf[v.b.Requested] == 0 && !z.is(v.i, masterWeight) && v.b.Requested > slices.Min(params) &&
			(v.unseen && v.open || !v.unseen && (v.f.within == noPart || v.inRecomputation()) && v.phase != lifetime.Forward)
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

// maxSteps bounds the search of subset.
const maxSteps = 10000

// subset returns sizes of which all candidates, fewer than most, sum up to total; nil if there are none.
func subset(total int64, candidates map[int64]int, most int) map[int64]bool {
	sizes := sortedBySize(candidates)
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

// olderThanWindow divides the buffers of each size from before the window: parameters were allocated first, so they have
// the lowest addresses, then gradients, then states.
func (a *analysis) olderThanWindow(z *sizes, old map[int64][]int) {
	k, known := a.statesOfOptimizer()
	buckets := slices.ContainsFunc(z.marks, func(m sizeMark) bool { return m&inBucket != 0 })
	whole := a.wholeBackward()
	persistent := whole && len(z.gradientsOf) == 0 // gradients are added to older ones
	share := a.copiesOfEach(old)
	sparse := slices.Contains(a.names, "SparseAdam")
	bytes := a.bytesOfStates(z, old)
	told := a.toldParameters()
	order := sortedBySize(countsOf(old))
	slices.SortStableFunc(order, func(x, y int64) int { // those with gradients first
		return cmp.Compare(min(1, z.gradientsOf[y]), min(1, z.gradientsOf[x]))
	})
	frozen := slices.ContainsFunc(order, func(size int64) bool { return z.gradientsOf[size] == 0 && size > 8 && len(old[size]) > 2 })
	for _, size := range order {
		buffers := old[size]
		if z.is(buffers[0], inBucket) {
			continue
		}
		n, g := len(buffers), z.gradientsOf[size]
		switch {
		case z.swapped[size]: // the parameters are younger
			z.mark(stateSized, buffers)
		case size > 8 && g == 0 && n == told[size]: // the engine's threads have no stacks
			z.mark(gradSized, buffers)
		case !a.trains: // see inferring; with an optimizer, no stack tells the passes
		case size <= 8 && g == 0: // counters of steps and batches
			if size == 4 && known {
				z.mark(stateSized, buffers)
			}
		case g == 0 && (z.copiesOf[size] > 0 || bytes[size]):
			z.mark(stateSized, buffers)
		case persistent && buckets && n%share == 0:
			z.mark(trained, buffers[:n/share])
			z.mark(stateSized, buffers[n/share:])
		case persistent && n%share == 0 && share > 1:
			z.mark(trained, buffers[:n/share])
			z.mark(gradSized, buffers[n/share:2*n/share])
			z.mark(stateSized, buffers[2*n/share:])
		case g == 0 && sparse && n%3 == 0:
			z.mark(trained, buffers[:n/3])
			z.mark(stateSized, buffers[n/3:])
		case g == 0 && (frozen || a.amongParameters(z, buffers)):
			z.mark(noGradient, buffers)
		case g == 0:
		default:
			z.mark(trained, buffers[:min(g, n)])
			rest := buffers[min(g, n):]
			states := len(rest)
			if known {
				states = min(states, k*g)
			}
			if known && n == g*(1+k) {
				z.mark(counted, buffers)
			}
			z.mark(copied, rest[:len(rest)-states])
			z.mark(stateSized, rest[len(rest)-states:])
		}
	}
	if !a.trains && !a.optimizes() && a.s.Facts&lifetime.History != 0 { // at one instant alone, a buffer may be anything
		a.inferring(z, old)
	}
}

// toldParameters returns how many parameters from before the window have a stack that tells it, by size.
func (a *analysis) toldParameters() map[int64]int {
	told := map[int64]int{}
	for i := range a.s.Buffers {
		if b := &a.s.Buffers[i]; b.Edge&lifetime.BeginUnseen != 0 && b.Edge&lifetime.EndOpen != 0 && a.out[i].Category == lifetime.ModelParameter {
			told[b.Requested]++
		}
	}
	return told
}

// elements are the sizes of elements of gradients.
var elements = []int64{4, 2}

// bytesOfStates returns the sizes of states of one byte for each element, if nearly all gradients have some from before the
// window: those of optimizers with 8 bits.
func (a *analysis) bytesOfStates(z *sizes, old map[int64][]int) map[int64]bool {
	for _, element := range elements {
		found, all, have := map[int64]bool{}, int64(0), int64(0)
		for size, n := range z.gradientsOf {
			if size < smallWeight*element { // small ones have states of 32 bits
				continue
			}
			all += size * int64(n)
			if state := size / element; len(old[state]) >= n && z.gradientsOf[state] == 0 {
				found[state] = true
				have += size * int64(n)
			}
		}
		if len(found) > 1 && have*10 >= all*9 {
			return found
		}
	}
	return nil
}

// poolRun is the number of buffers of one size in a row that may be the pools of a cache.
const poolRun = 4

// poolSizes returns the sizes of which several buffers in a row lie above all others of a program that infers. These may be caches
// that it allocates, one or two for each layer, when the weights are loaded, or weights of equal layers.
func (a *analysis) poolSizes(old map[int64][]int) map[int64]bool {
	pools := map[int64]bool{}
	var large []int
	for size, buffers := range old {
		if size > lowMiB { // smaller ones have segments of their own
			large = append(large, buffers...)
		}
	}
	slices.SortFunc(large, func(x, y int) int {
		return cmp.Or(cmp.Compare(a.s.Buffers[y].Addr, a.s.Buffers[x].Addr), cmp.Compare(x, y))
	})
	if len(large) == 0 {
		return pools
	}
	top := a.s.Buffers[large[0]].Requested
	run := slices.IndexFunc(large, func(i int) bool { return a.s.Buffers[i].Requested != top })
	if run < 0 {
		run = len(large)
	}
	if run >= poolRun && run == len(old[top]) {
		pools[top] = true
	}
	return pools
}

// amongParameters reports whether buffers lie between parameters: those of a model are allocated together. Embeddings come first in
// most models, and sparse gradients do not have the size of their table.
func (a *analysis) amongParameters(z *sizes, buffers []int) bool {
	if z.highest == 0 {
		for i, m := range z.marks {
			if m&trained == 0 {
				continue
			}
			addr := a.s.Buffers[i].Addr
			z.lowest, z.highest = min(cmp.Or(z.lowest, addr), addr), max(z.highest, addr)
		}
		if a.embeds() {
			z.lowest = 0
		}
	}
	return !slices.ContainsFunc(buffers, func(i int) bool { addr := a.s.Buffers[i].Addr; return addr < z.lowest || addr > z.highest })
}

// embeds reports whether a pass looks up rows of embeddings.
func (a *analysis) embeds() bool {
	return slices.ContainsFunc(a.r.stacks, func(f facts) bool { return f.flags&embeds != 0 })
}

func countsOf(buffers map[int64][]int) map[int64]int {
	counts := map[int64]int{}
	for size, of := range buffers {
		counts[size] = len(of)
	}
	return counts
}
