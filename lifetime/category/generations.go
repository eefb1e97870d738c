package category

import (
	"cmp"
	"hash/maphash"
	"maps"
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/region"
)

// generations are the buffers from before the window that have sizes of gradients, in the order of their addresses: of
// each size, first the parameters that nothing else tells, then as many as gradients, and so on. Addresses tell the
// order of allocations only within reserved memory without gaps: a device may give any for the next region.
type generations struct {
	a      *analysis
	memory extent          // that of the parameters; what lies outside comes after it
	model  map[int64]int   // parameters of each size
	old    map[int64][]int // buffers of each size, in order
	all    []int           // all buffers from before the window, in order
	rank   map[int]int     // generation by buffer, from 0
	each   int             // generations after the parameters, the same number for nearly all; 0 if they differ

	firstPass    uint64 // place of the first workspace of a library; 0 = none
	hasFirstStep bool   // the optimizer made its states in the window: the rest is older
}

// generationsOf divides old buffers. models is how many of each size are parameters or have gradients. inOrder is whether
// the first ones are the parameters and copies: so it is in one part of the reserved memory.
func (a *analysis) generationsOf(z *sizes, models map[int64]int, old map[int64][]int) (found *generations, inOrder bool) {
	for _, m := range a.reserved() {
		has, all, model := int64(0), int64(0), int64(0)
		for size := range models {
			n, inside := z.untold(models, size), 0
			for _, i := range old[size] {
				if m.has(a.s.Buffers[i].Addr) {
					inside++
				}
			}
			has, all, model = has+size*int64(min(n, inside)), all+size*int64(min(n, len(old[size]))), model+size*int64(n)
		}
		if float64(has) < nearly*float64(all) || float64(all) < small*float64(model) { // the others were dropped
			continue
		}
		g := a.generationsIn(m, z, models, old)
		if is := g.areFirst(g.copies()) && (g.each > 1 || g.areInside()); is && inOrder {
			return g, false // of two, one is of states
		} else if is || found == nil {
			found, inOrder = g, is
		}
	}
	if found == nil {
		found = a.generationsIn(extent{}, z, models, old)
	}
	return found, inOrder
}

// extent is a range of addresses.
type extent struct{ from, to uint64 }

func (e extent) has(addr uint64) bool { return e.from <= addr && addr < e.to }

// reserved returns the parts of the reserved memory without gaps, in order.
func (a *analysis) reserved() (all []extent) {
	for _, r := range slices.SortedFunc(slices.Values(a.s.Regions), func(x, y lifetime.Region) int { return cmp.Compare(x.Addr, y.Addr) }) {
		end := r.Addr + uint64(r.Size)
		if n := len(all); n > 0 && r.Addr <= all[n-1].to {
			all[n-1].to = max(all[n-1].to, end)
		} else {
			all = append(all, extent{r.Addr, end})
		}
	}
	return all
}

func (a *analysis) generationsIn(memory extent, z *sizes, models map[int64]int, old map[int64][]int) *generations {
	g := &generations{a: a, memory: memory, model: models, old: map[int64][]int{}, rank: map[int]int{}}
	inOrder := func(x, y int) int { return cmp.Compare(g.at(x), g.at(y)) }
	for size, of := range old {
		g.old[size] = slices.SortedFunc(slices.Values(of), inOrder)
	}
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen == 0 {
			continue
		}
		g.all = append(g.all, i)
		if at := g.at(i); a.out[i].Category == purpose.Workspace && memory.has(b.Addr) && (g.firstPass == 0 || at < g.firstPass) {
			g.firstPass = at
		}
	}
	slices.SortFunc(g.all, inOrder)
	made := a.together(purpose.OptimizerState)
	if g.hasFirstStep = g.nearlyAll(func(size int64, n int) bool { return made[size] >= n }); g.hasFirstStep {
		g.firstPass = math.MaxUint64
	}
	g.count(z)
	return g
}

// nearlyAll reports whether something holds for nearly all bytes of the model.
func (g *generations) nearlyAll(holds func(size int64, n int) bool) bool {
	same, all := int64(0), int64(0)
	for size, n := range g.model {
		if all += size * int64(n); holds(size, n) {
			same += size * int64(n)
		}
	}
	return same > 0 && float64(same) >= nearly*float64(all)
}

func (g *generations) count(z *sizes) {
	rest := func(size int64) int { return max(0, len(g.old[size])-z.untold(g.model, size)) }
	most := 0
	for size, n := range g.model {
		most = max(most, rest(size)/n)
	}
	for each := most; each > 0 && g.each == 0; each-- {
		if g.nearlyAll(func(size int64, n int) bool { return rest(size) == each*n }) {
			g.each = each
		}
	}
	for size, n := range g.model {
		for k, i := range g.old[size] {
			of := max(0, k-len(g.old[size])+rest(size)+n) / n
			if of > 0 {
				of += max(0, g.each-rest(size)/n) // a part of the model has no copy
			}
			g.rank[i] = of
		}
	}
}

// isLarge reports whether a buffer lies in PyTorch's pool of large buffers. Its region says that; without a region, its size does.
func (g *generations) isLarge(i int) bool {
	if g.a.regions == nil {
		g.a.regions = region.OfBuffers(g.a.s)
	}
	if r := g.a.regions[i]; r >= 0 {
		return !g.a.s.Regions[r].Small
	}
	return g.a.s.Buffers[i].Requested > lowMiB
}

func (g *generations) at(i int) uint64 { return g.a.s.Buffers[i].Addr - g.memory.from }

// areInside reports whether no generation lies elsewhere. A single state for each parameter lies as these do, several lie between each other.
func (g *generations) areInside() bool {
	for i := range g.rank {
		if !g.memory.has(g.a.s.Buffers[i].Addr) {
			return false
		}
	}
	return true
}

// sumUp marks the buffers of sizes that have all generations: one is of the parameters, and the order does not tell which.
func (g *generations) sumUp(z *sizes, states []int) {
	if g.each == 0 {
		return
	}
	z.sum = purpose.ParametersAndCopies
	if !g.hasFirstStep && slices.Contains(states, g.each) {
		z.sum = purpose.ParametersAndStates
	}
	for size, buffers := range g.old {
		if n := g.model[size]; n > 0 && z.untold(g.model, size) == n && len(buffers) == (1+g.each)*n {
			z.mark(ofSum, buffers)
		}
	}
}

// untold is the number of parameters of a size that nothing else tells.
func (z *sizes) untold(models map[int64]int, size int64) int {
	return max(0, models[size]-z.parametersOf[size])
}

// before returns the share of the bytes of a generation that lies below the first workspace, which the first product
// of matrices allocates: states of optimizers come later. Or only of its large buffers.
func (g *generations) before(generation int, onlyLarge bool) float64 {
	below, all := int64(0), int64(0)
	for i, of := range g.rank {
		if size := g.a.s.Buffers[i].Requested; of == generation && (!onlyLarge || g.isLarge(i)) {
			if all += size; g.at(i) < g.firstPass {
				below += size
			}
		}
	}
	return float64(below) / float64(max(all, 1))
}

// wholly is the share of the bytes of buffers that were allocated together, one after another.
const wholly = 0.98

// earlier returns how many generations in a row were there before the first pass. A state that is as early, as one that was read from a
// checkpoint, looks alike.
func (g *generations) earlier(onlyLarge bool) (n int) {
	for n <= g.each && g.before(n, onlyLarge) >= wholly {
		n++
	}
	return n
}

// areFirst reports whether the generations up to one lie below all others, without holes: they were allocated before
// anything was freed. What is freed earlier leaves holes, into which states may fall.
func (g *generations) areFirst(last int) bool {
	regions := map[uint64]bool{}
	for _, r := range g.a.s.Regions {
		regions[r.Addr] = true
	}
	all, first, adjacent, below := int64(0), int64(0), int64(0), int64(0)
	for _, large := range []bool{false, true} { // PyTorch has two pools
		pool := slices.DeleteFunc(slices.Clone(g.all), func(i int) bool { return g.isLarge(i) != large })
		need, end, isLater := int64(0), uint64(0), false
		for _, i := range pool {
			b := &g.a.s.Buffers[i]
			if of, ok := g.rank[i]; ok && of <= last {
				need += b.Requested
				if g.at(i) < g.firstPass {
					below += b.Requested
				}
				if regions[b.Addr] || b.Addr == end && !isLater {
					adjacent += b.Requested
				}
			}
			end, isLater = b.Addr+uint64(b.Size), g.rank[i] > last
		}
		all += need
		for _, i := range pool {
			of, ok := g.rank[i]
			if !ok || need <= 0 {
				continue
			}
			size := g.a.s.Buffers[i].Requested
			if need -= size; of <= last {
				first += size
			}
		}
	}
	share := func(n int64) float64 { return float64(n) / float64(max(all, 1)) }
	return all == 0 || share(first) >= wholly && (share(adjacent) >= nearly || share(below) >= mostly)
}

// mostly is the share of the bytes of a model below the first workspace: one that others freed may lie between its parameters.
const mostly = 0.8

// copies returns how many generations after the parameters are copies of the model: they were there before the first pass, and the optimizer keeps as many
// states as there are generations after them. A workspace lies among large buffers: it may fall beside those of the model, below the memory of small ones.
func (g *generations) copies() int {
	for _, onlyLarge := range []bool{false, true} {
		n := g.earlier(onlyLarge) - 1
		isKnown := n > 0 && (g.hasFirstStep || n < g.each && g.mayBeStates(g.each-n)) && g.areFirst(n)
		for k := 0; isKnown && onlyLarge && k < n; k++ {
			isKnown = g.areFirst(k)
		}
		if isKnown {
			return n
		}
	}
	return 0
}

// mayBeStates reports whether an optimizer keeps n states for each parameter, with its options only if nothing
// of the generations was freed: what a program drops is a copy.
func (g *generations) mayBeStates(n int) bool {
	isKept := true
	for i := range g.rank {
		isKept = isKept && g.a.s.Buffers[i].Edge&lifetime.EndOpen != 0
	}
	return slices.ContainsFunc(g.a.names, func(name string) bool {
		s, ok := statesOf[name]
		return ok && (n == s.least && n > 0 || n <= s.most && n > s.least && isKept)
	})
}

// isModule reports whether copies of the weights are modules: other buffers, such as those of modules, lie
// among them as among the parameters, and not only among these, or the program also calls the same modules without a graph.
func (g *generations) isModule(copies int) bool {
	if g.a.runsWithoutGraph() {
		return true
	}
	var first []uint64 // places of the first copy, in the pool of small buffers
	var others []int64 // sizes that other buffers have, too
	for size, of := range g.old {
		switch n := g.model[size]; {
		case size == counter || len(of) > 0 && g.isLarge(of[0]):
		case len(of) != (1+g.each)*n:
			others = append(others, size)
		default:
			for _, i := range of[n : 2*n] {
				first = append(first, g.at(i))
			}
		}
	}
	if len(first) == 0 {
		return false
	}
	slices.Sort(first)
	from := first[len(first)/10] // some fall into holes between parameters
	among, copied := 0, 0
	for _, size := range others {
		among, copied = among-g.model[size], copied-copies*g.model[size]
		for _, i := range g.old[size] {
			switch at := g.at(i); {
			case at < from:
				among++
			case at < g.firstPass:
				copied++
			}
		}
	}
	return among > 0 && copied*2 >= among*copies
}

// runsWithoutGraph reports whether lines of modules that allocate in forward passes with a graph also do so in calls of
// which a graph keeps nothing but the result: those of a teacher, a reference or an average.
func (a *analysis) runsWithoutGraph() bool {
	keeps, lines := make([]bool, len(a.spans)), map[int]map[uint64]bool{} // by span
	inCall := func(i int) bool {
		return a.out[i].Phase == purpose.Forward && a.next[i] > 0 && a.at(&a.s.Buffers[i]).within == program.InModule &&
			a.before[purpose.Backward][a.next[i]] < a.before[purpose.Backward][len(a.spans)]
	}
	var sum maphash.Hash
	for i := range a.s.Buffers {
		if !inCall(i) {
			continue
		}
		span, f := int(a.next[i])-1, a.at(&a.s.Buffers[i])
		keeps[span] = keeps[span] || a.flags[i]&heldByGraph != 0 && !a.lasts[i]
		sum.Reset()
		for at := f.path; at != f.rootCall && at != 0; {
			callers, line := a.r.Callers(at)
			maphash.WriteComparable(&sum, line)
			at = callers
		}
		if lines[span] == nil {
			lines[span] = map[uint64]bool{}
		}
		lines[span][sum.Sum64()] = true
	}
	trained := map[uint64]bool{}
	for span, of := range lines {
		if keeps[span] {
			maps.Copy(trained, of)
		}
	}
	for span, of := range lines {
		both := 0
		for line := range of {
			if trained[line] {
				both++
			}
		}
		if !keeps[span] && both*2 > len(of) {
			return true
		}
	}
	return false
}
