package whatif

import (
	"slices"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// isSixteenBits is why the precision of a program is not changed.
const isSixteenBits = "passes make buffers of half the size of most weights, so the program likely already computes in 16 bits"

// weightCopies returns copies of weights in half precision that autocast makes: buffers of an operation before its result, half as large as
// a parameter. Its input may be copied to the same size, before the weight. What the program's own line makes before a result, such as the
// factors of a product of activations, is not a weight. The result of a normalization before its statistics is not one either. Autocast copies the
// weights of all products, so where most parameters have no copies, none are: a temporary may happen to be half as large as one of them.
func (m *model) weightCopies() map[int32]bool {
	isWeight := func(b *buffer) bool {
		return isParameter(b) || b.isOlder() && b.category == purpose.UnknownCategory // perhaps one that no gradient shows
	}
	parameters := m.sizes(isWeight)
	copies, halves := map[int32]bool{}, map[int64]bool{}
	for k := range m.passes {
		var result *buffer // of the operation
		var sizes []int64
		for _, b := range slices.Backward(m.computed(k)) {
			switch {
			case result == nil || m.stack(b) != m.stack(result):
				result, sizes = b, nil
			case parameters[2*b.size] && b.size > smallest && !slices.Contains(sizes, b.size) && !m.paths.IsUser(b.site) && !m.isNorm(b):
				copies[b.like], halves[b.size] = true, true
				sizes = append(sizes, b.size)
			}
		}
	}
	weights, copied := map[purpose.Category]int{}, map[purpose.Category]int{}
	for _, b := range m.buffers {
		if isWeight(b) && b.size > 2*smallest {
			weights[b.category]++
			if halves[b.size/2] {
				copied[b.category]++
			}
		}
	}
	known := purpose.ModelParameter
	if weights[known] == 0 {
		known = purpose.UnknownCategory
	}
	if 2*copied[known] < weights[known] {
		return nil
	}
	return copies
}

// readNumbers returns what is read from stores and has other numbers than floats, as it is cast at once, or later to four times its size, and whether the largest is: then
// stores likely have numbers.
func (m *model) readNumbers() (numbers map[int32]bool, largest bool) {
	numbers = map[int32]bool{}
	var last *buffer // the largest that is read
	for i, b := range m.buffers {
		if last != nil && m.does(b, program.OpCast) && b.size == 4*last.size && b.begin.compare(last.end) < 0 {
			numbers[last.like], largest = true, true
		}
		if m.isRead(b) && m.op(b) != "" {
			numbers[b.like] = m.op(b) == "index" && i+1 < len(m.buffers) && m.does(m.buffers[i+1], program.OpCast)
			if last == nil || b.size >= last.size {
				last, largest = b, numbers[b.like]
			}
		}
	}
	return numbers, largest
}

// halve has two bytes for what has four. Inputs are taken for indices, unless what made them tells, and buffers of an operation that are a quarter of its next one for
// masks.
func (m *model) halve() string {
	if len(m.weightCopies()) > 0 {
		return isSixteenBits
	}
	if !m.any(func(b *buffer) bool { return isParameter(b) && b.size > smallest }) {
		return "no parameter is known"
	}
	m.attend()
	hasBytes := sizeOf(m.states(0)) < sizeOf(filter(m.buffers, isParameter))*3/4 // states of 8 bits
	numbers, ofNumbers := m.readNumbers()
	var whole, half []int // what may be halved, and what may not be
	for i, b := range m.buffers {
		isMask := false
		if stack := m.stack(b); i+1 < len(m.buffers) && stack >= 0 {
			next := m.buffers[i+1]
			isMask = next.size == 4*b.size && m.stack(next) == stack
		}
		isFloat := m.op(b) == "randn" || m.op(b) == "rand" || m.op(b) == "normal_"
		isNumber := b.category == purpose.Input && !isFloat || m.op(b) == "arange" || m.op(b) == "randint"
		isOfStore := b.isStore() || m.isRead(b) && m.op(b) == "index"
		switch {
		case numbers[b.like]:
		case isOfStore && ofNumbers:
			whole = append(whole, i)
		case isOfStore:
			half = append(half, i)
			b.size /= 2
		case isNumber && b.category == purpose.Input && m.op(b) != "randint_low" && b.size > smallest: // it may be of floats
			whole = append(whole, i)
		case isCounted(m.buffers, i): // sums add in 32 bits
		case b.size <= smallest || isMask || isNumber || b.category == purpose.Workspace || hasBytes && b.category == purpose.OptimizerState:
		case b.category == purpose.UnknownCategory && b.isOlder():
			m.widen(b.size/2, 0)
		default:
			b.size /= 2
		}
	}
	for _, b := range m.failed() {
		b.size /= 2
	}
	m.halved = true
	m.leaveOpen(m.times(whole, .5), m.times(half, 2))
	m.keepRoots()
	return ""
}

// times returns a program with other sizes of some buffers.
func (m *model) times(which []int, factor float64) *model {
	other := m.clone()
	for _, i := range which {
		other.buffers[i].size = int64(float64(other.buffers[i].size) * factor)
	}
	return other
}

// keepRoots widens the range up to where normalizations of the program, which show a root, compute in 32 bits: up to two copies of what they take are
// saved. Such casts change nothing in 32 bits, and are not recorded.
func (m *model) keepRoots() {
	casts := m.clone()
	for i, b := range m.buffers[:len(m.buffers)-1] {
		if next := m.buffers[i+1]; m.op(b) == "rsqrt" && b.saved && m.paths.IsUser(b.site) && next.size > b.size {
			casts.add(b, b.begin, b.end, 2*2*next.size)
		}
	}
	if len(casts.buffers) > len(m.buffers) {
		m.leaveOpen(casts)
	}
}
