package whatif

import (
	"slices"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// lastUses returns where each buffer that autograd keeps in pass k would end if nothing kept it. Inner buffers of an operation end with it; the same buffers several times in
// a row are as many operations, as in a loop. A function of the program has the results that it makes, and those that functions that it calls make last and so return:
//   - a result that the same statement takes ends when the next operation has its buffers, or when the deeper function returns of which it is an argument;
//   - a variable holds one that another statement takes, until the function returns or the statement runs again, unless letsGo has its line: see lettingGo. If that is nil,
//     only sums are held, until the next one.
func (m *model) lastUses(k int, letsGo map[int32]bool) map[*buffer]moment {
	f, uses := m.flowOf(k), map[*buffer]moment{}
	f.letsGo = letsGo
	run, steps := 0, map[int64][]int{} // of an operation: the buffers of a size
	for q, b := range slices.Backward(f.all) {
		next := f.ends[q] // the first buffer of the next operation
		if run != next {
			run = next
			clear(steps)
		}
		of := steps[b.size]
		steps[b.size] = append(of, q)
		isUsed, use := b.saved || b.dropped, f.returns
		if m.isInner(f.all, f.ends, q) {
			switch {
			case m.op(b) == "" && len(of) >= fewSteps: // each step makes it again
				use = after.at(f.all[of[len(of)-1]].begin.event)
			case next < len(f.all):
				use = before.at(f.all[next].begin.event)
				if m.does(b, program.OpAttention) && !m.runs(b, "repeat_interleave") {
					product := q + 1 // takes it
					for product < next && !m.runs(f.all[product], "::bmm") {
						product++
					}
					if product < next {
						use = after.at(f.all[product].begin.event)
					}
				}
			}
		} else {
			held := f.hold(q, letsGo != nil)
			if use = f.takes(q); use.compare(held) < 0 {
				use = held
			}
		}
		if isUsed {
			uses[b] = use
		}
	}
	return uses
}

// fewSteps is how many more buffers of a size one call makes at least, if these are steps of a recurrence whose operators are not recorded.
const fewSteps = 8

// At most so many buffers does one round of a loop make, so many roots has a graph, and so many results of loops are looked at in a pass. Of captures with
// more, made to take time, less is read.
const mostOfBlock, mostRoots, mostLooked = 4096, 64, 1 << 22

// flow is how results of a pass go from function to function.
type flow struct {
	m       *model
	all     []*buffer // of the pass
	returns moment
	ends    []int // see operations
	first   []int // see firstUses
	spans   []program.Span
	within  []int32

	nearest, held map[statement]int // results: the next one, and the next one that a variable holds
	sums          map[int32]int     // the next sum of a function
	next, again   []int             // of the same statement: the next result, and that which it holds the next time it runs
	isHeld        []bool
	letsGo        map[int32]bool // see lettingGo
	looked        int            // results of loops
}

// statement is a line of a call of a function.
type statement struct{ span, line int32 }

func (m *model) flowOf(k int) *flow {
	all := filter(m.forward(k), func(b *buffer) bool { return b.category != purpose.Workspace || b.isScratch() })
	f := &flow{m: m, all: all, returns: at(m.passes[k].backward), ends: m.operations(all), first: m.firstUses(k, all),
		nearest: map[statement]int{}, held: map[statement]int{}, sums: map[int32]int{},
		next: make([]int, len(all)), again: make([]int, len(all)), isHeld: make([]bool, len(all))}
	f.spans, f.within = m.paths.Spans(len(all), func(i int) int32 { return all[i].site })
	return f
}

// takes returns when the next operation has taken result q: at the end of the function that it is an argument of.
func (f *flow) takes(q int) moment {
	used := max(f.ends[q], f.first[q])
	if used >= len(f.all) {
		return f.returns
	}
	end, of := 0, f.ownerOf(q, used)
	for s := f.within[used]; s >= 0 && s != of; s = f.spans[s].Caller {
		if f.spans[s].Holds {
			end = f.spans[s].End
		}
	}
	use := after.at(f.all[f.ends[used]-1].begin.event)
	switch {
	case end >= len(f.all):
		return f.returns
	case end > 0:
		return use.later(before.at(f.all[end].begin.event))
	}
	return use
}

// ownerOf returns the call that has result q when an operation takes it.
func (f *flow) ownerOf(q, used int) int32 {
	span := f.within[q]
	for span >= 0 && f.spans[span].Caller >= 0 && f.spans[span].End <= used {
		span = f.spans[span].Caller
	}
	return span
}

// callOf returns the number of the line of a call in which result q is made.
func (f *flow) callOf(q int, span int32) int32 {
	return f.m.paths.Sites[f.all[q].site].Calls[f.spans[span].Depth]
}

// lettingGo returns which lines let go of their results, as recorded in calls of which no backward pass needs anything, such as in an evaluation or for the
// target of a distillation: their function goes on to make something after they end. It is false for those that were seen to hold one.
func (m *model) lettingGo() map[int32]bool {
	lines := map[int32]bool{}
	for k := range m.passes {
		f := m.flowOf(k)
		keeps := make([]bool, len(f.spans))
		for q, b := range f.all {
			for s := f.within[q]; s >= 0 && !keeps[s] && (b.saved || b.dropped); s = f.spans[s].Caller {
				keeps[s] = true
			}
		}
		for q, b := range slices.Backward(f.all) {
			if m.isInner(f.all, f.ends, q) {
				continue
			}
			f.hold(q, true)
			used := max(f.ends[q], f.first[q])
			if !f.isHeld[q] || used >= len(f.all) || b.size <= smallest {
				continue
			}
			span := f.ownerOf(q, used)
			if keeps[span] {
				continue
			}
			if next := min(f.again[q], f.spans[span].End-1); next >= f.ends[used] {
				line := f.callOf(q, span)
				goes, isKnown := lines[line]
				lines[line] = b.end.event < f.all[next].begin.event && (goes || !isKnown)
			}
		}
	}
	return lines
}

// hold returns until when a variable holds result q, if one does.
func (f *flow) hold(q int, holds bool) (end moment) {
	b, n, used := f.all[q], len(f.all), max(f.ends[q], f.first[q])
	span := f.ownerOf(q, used)
	f.next[q], f.again[q] = n, n
	if span < 0 {
		return end
	}
	line := func(i int) int32 { return f.m.paths.Line(f.all[i].site, f.spans[span].Depth) }
	of := statement{span, line(q)}
	if i, isAgain := f.nearest[of]; isAgain {
		f.next[q] = i
	}
	if i, isAgain := f.held[of]; isAgain {
		if f.again[q] = i; i <= used {
			f.again[q] = f.again[i]
		}
	}
	f.nearest[of], f.isHeld[q] = q, (used >= n || line(used) != of.line) && !f.letsGo[f.callOf(q, span)]
	if !f.isHeld[q] {
		return end
	}
	f.held[of] = q
	then := f.again[q]
	c, isSum := f.m.paths.Innermost(b.site), f.m.op(b) == "add" || f.m.op(b) == "" && f.m.longest // of the program, or the forward of a module
	if isSum && c != nil && (c.User || c.Function == "forward") && !holds {
		if i, isMade := f.sums[span]; isMade && f.all[i].size == b.size {
			then = min(then, i)
		}
		f.sums[span] = q
	} else if !holds {
		return end
	}
	if end = f.returns; f.spans[span].End < n {
		end = before.at(f.all[f.spans[span].End].begin.event)
	}
	if used >= n || !holds && then == n {
		return moment{}
	}
	if then < n {
		end = end.earlier(after.at(f.all[then].begin.event))
	}
	// A loop takes it, and what it made before.
	for i, isMade := f.nearest[statement{span, line(f.ends[q])}]; isMade && i < min(n, f.ends[q]+mostOfBlock) && f.looked < mostLooked; i = f.next[i] {
		f.looked++
		if o := f.ends[i]; f.all[i].size == b.size && !f.isHeld[i] && o < n && f.m.pieceOf(f.all[o]) == f.m.pieceOf(f.all[f.ends[q]]) {
			return end.earlier(after.at(f.all[i].begin.event))
		}
	}
	return end
}

// isInner reports whether buffer q of a pass is not the result of its operation: of a normalization all but the first are its statistics.
func (m *model) isInner(all []*buffer, ends []int, q int) bool {
	if m.isNorm(all[q]) {
		return q > 0 && ends[q-1] == ends[q]
	}
	return slices.ContainsFunc(all[q+1:ends[q]], func(b *buffer) bool { return !b.isScratch() })
}

// operations returns for each buffer where the operation that made it has its last one: the index after it. A scalar is the last thing that an
// operation makes, such as the mean of a loss.
func (m *model) operations(all []*buffer) (ends []int) {
	sameSize := func(x, y *buffer) bool { return x.size == y.size }
	for len(ends) < len(all) {
		begin := len(ends)
		end := begin + 1
		isOver := func() bool { return all[end-1].size <= smallest && all[end].size > smallest }
		for end < len(all) && m.sameOperation(all[end], all[begin]) && !isOver() {
			end++
		}
		run := all[begin:end]
		period, least := 1, 3 // two equal buffers may be of one operation
		for period < len(run) && (len(run)%period != 0 || len(run)/period < least || !slices.EqualFunc(run[:len(run)-period], run[period:], sameSize)) {
			period, least = period+1, 2
		}
		for i := range run {
			ends = append(ends, begin+(i/period+1)*period)
		}
	}
	return ends
}

// firstUses returns for each buffer of a pass that autograd saves which is the last one that its first use is not before; else -1. Nodes of a graph run in the
// reverse order of operations, while the gradient of its root lives: no operation before one whose result they free later than a buffer saved that.
func (m *model) firstUses(k int, all []*buffer) []int {
	uses := make([]int, len(all))
	for q := range uses {
		uses[q] = -1
	}
	roots := filter(m.backward(k), func(b *buffer) bool {
		c := m.paths.Innermost(b.site)
		return c != nil && c.Function == "_make_grads"
	})
	for _, root := range roots[:min(len(roots), mostRoots)] {
		saved, last := []int{}, -1
		for q, b := range all {
			if b.saved && b.size > smallest && b.diesWithin(root.begin.event, root.end.event) {
				saved = append(saved, q)
			}
		}
		slices.SortFunc(saved, func(x, y int) int { return all[y].end.compare(all[x].end) })
		for _, q := range saved {
			uses[q] = last
			last = max(last, q)
		}
	}
	return uses
}

// unpacked returns a function that tells where a buffer that hooks brought back ends, if it ended at a moment when autograd itself kept
// it: before the gradient of a bias is reduced.
func (m *model) unpacked(k int) func(end moment) moment {
	all, biases := m.backward(k), m.biases()
	isSum := func(j int, end moment) bool { // or scratch of one
		b := all[j]
		return m.isSum(all, j) || m.isBiasOfMatrix(all, j) || m.apart && m.op(b) == "" && (biases[b.size] || b.end.compare(end) < 0)
	}
	isAdded := func(b *buffer) bool { return m.op(b) == "add" && b.category == purpose.Gradient } // to an earlier contribution
	return func(end moment) moment {
		var sum *buffer
		j := firstFrom(all, end.event) - 1
		for ; j >= 0 && (isSum(j, end) || sum == nil && isAdded(all[j])); j-- {
			if end.event-all[j].begin.event >= nearby {
				return end
			}
			if !isAdded(all[j]) {
				sum = all[j]
			}
		}
		if sum != nil && j >= 0 && (m.op(sum) != "" || m.apart || m.isBiasOfMatrix(all, j+1)) {
			return before.at(sum.begin.event)
		}
		return end
	}
}

// nearby is how many events are between a reduction and the end of what its node saved, with sums of contributions, at most.
const nearby = 16

// isBiasOfMatrix reports whether buffer i of a backward pass is the gradient of a bias right after that of its matrix, or a contribution to it: the
// engine reduces it when the node is over. Others may be reduced within their node.
func (m *model) isBiasOfMatrix(backward []*buffer, i int) bool {
	if m.isContribution == nil {
		m.isContribution = m.contributions()
	}
	biases := m.biases()
	isOfWeight := func(b *buffer) bool { return b.category == purpose.Gradient || m.isContribution(b) }
	return i > 0 && biases[backward[i].size] && !biases[backward[i-1].size] && isOfWeight(backward[i]) && isOfWeight(backward[i-1])
}

// sumOp reduces a gradient to that of a bias.
const sumOp = "sum"

// deaths returns the ends of what autograd saves in pass k, in order.
func (m *model) deaths(k int) []int {
	return endsOf(filter(m.ofPass(k), func(b *buffer) bool { return b.saved }))
}

// deathsOfRound is deaths of all passes of a round, also of what is computed again.
func (m *model) deathsOfRound(k int) []int {
	return endsOf(filter(m.ofRound(k), func(b *buffer) bool {
		return (b.saved || b.part == purpose.Recomputation) && b.isFreed()
	}))
}

func endsOf(of []*buffer) (all []int) {
	for _, b := range of {
		all = append(all, b.end.event)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// consumed returns when a gradient that backward makes at an event has been added to another one: with the next end of what was saved. dead has those
// ends; after the last one it is where the pass, or what runs before the optimizer, ends.
func consumed(dead []int, event, end int) int {
	i, _ := slices.BinarySearch(dead, event+1)
	if i == len(dead) {
		return max(end, event)
	}
	return dead[i]
}

// gradientsOf returns the gradients that a backward pass makes of parameters, by parameter: those of parameters of equal sizes come in reverse.
func (m *model) gradientsOf(backward, weights []*buffer) map[*buffer]*buffer {
	bySize := map[int64][]*buffer{}
	for _, b := range filter(backward, is(purpose.Gradient)) {
		bySize[b.size] = append(bySize[b.size], b)
	}
	of := map[*buffer]*buffer{}
	for _, w := range weights {
		if all := bySize[w.size]; len(all) > 0 {
			of[w], bySize[w.size] = all[len(all)-1], all[:len(all)-1]
		}
	}
	return of
}

// nodeOf returns which buffer of a backward pass gradient g of weight w is, the gradient of the input that its node makes, nil for none, and where
// the next node begins.
func (m *model) nodeOf(backward []*buffer, w, g *buffer) (i int, ofInput *buffer, end int) {
	i = slices.Index(backward, g)
	next := m.skipSums(backward, i+1, 1)
	switch isFirst := m.biasOf(w) != nil; { // addmm makes the gradient of its input first, mm that of its weight
	case isFirst && i > 0 && m.isOfInput(backward[i-1], g):
		ofInput = backward[i-1]
	case !isFirst && next < len(backward) && m.isOfInput(backward[next], g):
		ofInput = backward[next]
		next++
	}
	if next == len(backward) {
		return i, ofInput, noEvent
	}
	return i, ofInput, backward[next].begin.event
}

// isOfInput reports whether an operation made a temporary beside a gradient: the gradient of its input.
func (m *model) isOfInput(b, gradient *buffer) bool {
	return b.category == purpose.TemporaryData && m.op(b) == m.op(gradient)
}

// skipSums returns the first index from i on, in steps of by, of what is no sum; -1 or len(backward) if there is none.
func (m *model) skipSums(backward []*buffer, i, by int) int {
	for i >= 0 && i < len(backward) && m.isSum(backward, i) {
		i += by
	}
	return i
}

// isSum reports whether buffer i of a backward pass is a gradient of a bias, or scratch of its sum.
func (m *model) isSum(backward []*buffer, i int) bool {
	switch b := backward[i]; {
	case m.op(b) != "":
		return m.op(b) == sumOp
	case b.category == purpose.Gradient:
		return m.biases()[b.size]
	default:
		return b.isScratch() || isCounted(backward, i)
	}
}

// isCounted reports whether a buffer is scratch of a sum with counters of its groups, which have at least 64 bytes of it each.
func isCounted(all []*buffer, i int) bool {
	return i+1 < len(all) && all[i+1].size <= max(smallest, all[i].size/64) && all[i+1].isScratch() && all[i].end.event == all[i].begin.event+3
}
