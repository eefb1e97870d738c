package whatif

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// lastUses returns where each buffer that autograd keeps in pass k would end if nothing kept it:
//   - an inner buffer of an operation ends with it; the same buffers several times in a row are as many operations, as in a loop;
//   - a result ends when the next operation has its buffers; if that is in a deeper function of the program, the result is an argument, and
//     ends when that function returns;
//   - a sum lives until the same statement makes the next one.
func (m *model) lastUses(k int) map[*buffer]moment {
	all, returns := filter(m.forward(k), func(b *buffer) bool { return b.category != purpose.Workspace || b.isScratch() }), at(m.passes[k].backward)
	uses := map[*buffer]moment{}
	ends, product := m.operations(all), 0
	for q, b := range all {
		if !b.saved && !b.dropped {
			continue
		}
		next := ends[q] // the first buffer of the next operation
		if next == len(all) {
			uses[b] = returns
			continue
		}
		if m.isInner(all, ends, q) {
			uses[b] = before.at(all[next].begin.event)
			if m.does(b, program.OpAttention) && !m.runs(b, "repeat_interleave") {
				for product = max(product, q+1); product < next && !m.runs(all[product], "::bmm"); {
					product++
				}
				if product < next { // it takes it
					uses[b] = after.at(all[product].begin.event)
				}
			}
			continue
		}
		uses[b] = after.at(all[ends[next]-1].begin.event)
		if depth := m.paths.Deeper(b.site, all[next].site); depth > 0 {
			last := next // in that function
			for last+1 < len(all) && m.paths.Below(all[last+1].site, all[next].site, depth) && !m.paths.Again(all[last+1].site, all[last].site, all[next].site, depth) {
				last++
			}
			uses[b] = returns
			if last+1 < len(all) {
				uses[b] = before.at(all[last+1].begin.event)
			}
		}
	}
	m.keepSums(all, uses)
	return uses
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
	for len(ends) < len(all) {
		begin := len(ends)
		end := begin + 1
		isOver := func() bool { return all[end-1].size <= smallest && all[end].size > smallest }
		for end < len(all) && m.sameOperation(all[end], all[begin]) && !isOver() {
			end++
		}
		run := all[begin:end]
		period, least := 1, 3 // two equal buffers may be of one operation
		for period < len(run) && (len(run)%period != 0 || len(run)/period < least || !repeatSizes(run, period)) {
			period, least = period+1, 2
		}
		for i := range run {
			ends = append(ends, begin+(i/period+1)*period)
		}
	}
	return ends
}

func repeatSizes(all []*buffer, period int) bool {
	return slices.EqualFunc(all[:len(all)-period], all[period:], func(x, y *buffer) bool { return x.size == y.size })
}

// holdResults keeps results of statements of the program until the function that they are in returns, or they run again: a variable may hold them.
func (m *model) holdResults(k int, uses map[*buffer]moment) {
	all := m.computed(k)
	ends := m.operations(all)
	functions := m.paths.Returns(len(all), func(i int) int32 { return all[i].site })
	again, later := map[int32]moment{}, map[int32]moment{} // of the last operation of the statement, by stack: when it runs, and the next time
	for q, b := range slices.Backward(all) {
		isLast := ends[q] == len(all) || !m.paths.SameStatement(b.site, all[ends[q]].site)
		if isLast && q+1 == ends[q] {
			if next, isAgain := again[m.stack(b)]; isAgain {
				later[m.stack(b)] = next
			}
			again[m.stack(b)] = b.begin
		}
		use, isUsed := uses[b]
		if !isUsed || !isLast || q+1 < ends[q] && !m.isNorm(b) {
			continue
		}
		end := at(m.passes[k].backward)
		if j := functions[q]; j < len(all) {
			end = before.at(all[j].begin.event)
		}
		if next, isAgain := later[m.stack(b)]; isAgain {
			end = end.earlier(after.at(next.event))
		}
		uses[b] = use.later(end)
	}
}

// keepSums keeps sums that a function of the program makes, or the forward of a module, until the same statement makes the next one, or a later one of
// the function does.
func (m *model) keepSums(all []*buffer, uses map[*buffer]moment) {
	last := map[int32]moment{} // of the next one, by stack
	var before *buffer         // the sum after this one
	for _, b := range slices.Backward(all) {
		c := m.paths.Innermost(b.site)
		isSum := m.op(b) == "add" || m.op(b) == "" && m.longest
		if !isSum || !m.paths.IsUser(b.site) && (c == nil || c.Function != "forward") {
			continue
		}
		next, isKnown := last[m.stack(b)]
		if before != nil && before.size == b.size {
			if d := m.paths.Innermost(before.site); d.Function == c.Function && d.File == c.File && d.Line > c.Line {
				next = before.begin
			}
		}
		if isKnown && b.saved {
			uses[b] = uses[b].later(after.at(next.event))
		}
		last[m.stack(b)], before = b.begin, b
	}
}

// unpacked returns a function that tells where a buffer that hooks brought back ends, if it ended at a moment when autograd itself kept
// it: before the gradient of a bias is reduced.
func (m *model) unpacked(k int) func(end moment) moment {
	const nearby = 16 // events between a reduction and the end of what its node saved, with sums of contributions, at most
	all, biases := m.backward(k), m.biases()
	isSum := func(b *buffer, end moment) bool { // or scratch of one
		return m.op(b) == sumOp || m.apart && m.op(b) == "" && (biases[b.size] || b.end.compare(end) < 0)
	}
	isAdded := func(b *buffer) bool { return m.op(b) == "add" && b.category == purpose.Gradient } // to an earlier contribution
	return func(end moment) moment {
		j, _ := slices.BinarySearchFunc(all, end.event, func(b *buffer, event int) int { return cmp.Compare(b.begin.event, event) })
		var sum *buffer
		for j--; j >= 0 && (isSum(all[j], end) || sum == nil && isAdded(all[j])); j-- {
			if !isAdded(all[j]) {
				sum = all[j]
			}
		}
		if sum != nil && j >= 0 && end.event-sum.begin.event < nearby {
			return before.at(sum.begin.event)
		}
		return end
	}
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

// isProduct reports whether buffer i of a backward pass is a product of two activations that ends before an event.
func (m *model) isProduct(backward []*buffer, i, next int) bool {
	return i >= 0 && m.op(backward[i]) == "mul" && backward[i].end.event < next
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
