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
// weights of all products, each, so where most parameters have no copies of their own, none are: a temporary may happen to be half as large as one of them.
func (m *model) weightCopies() map[int32]bool {
	parameters := m.sizes(isWeight)
	copies, most := map[int32]bool{}, map[int64]int{} // of a size in a pass
	for k := range m.passes {
		made := map[int64]int{}
		var result *buffer // of the operation
		var sizes []int64
		for _, b := range slices.Backward(m.computed(k)) {
			switch {
			case result == nil || m.stack(b) != m.stack(result):
				result, sizes = b, nil
			case parameters[2*b.size] && b.size > smallest && !slices.Contains(sizes, b.size) && !m.paths.IsUser(b.site) && !m.isNorm(b):
				copies[b.like], sizes = true, append(sizes, b.size)
				made[b.size]++
				most[b.size] = max(most[b.size], made[b.size])
			}
		}
	}
	weights, copied := map[purpose.Category]int{}, map[purpose.Category]int{}
	for _, b := range m.buffers {
		if isWeight(b) && b.size > 2*smallest {
			weights[b.category]++
			copied[b.category] += min(most[b.size/2], 1)
			most[b.size/2] = max(most[b.size/2]-1, 0)
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

// elementsOf returns how large the elements of inputs, of stores and of what is read of these are, by recorded buffer: 1, or 4 for floats. What has four times
// the size of one that lives and is cast, or made by the program's own line, before the first module of a pass makes something, is of bytes; what the pass
// makes first of its size computes it by element. What is read and cast at once is of bytes. The largest store is of what the largest of that is of.
func (m *model) elementsOf() map[int32]int64 {
	known, open := map[int32]int64{}, map[int64][]*buffer{} // those that are not known, by size
	learn := func(from *buffer, element int64) {
		for _, b := range open[from.size*element/4] {
			if b.end.compare(from.begin) > 0 {
				known[b.like] = element
			}
		}
		delete(open, from.size*element/4)
	}
	var store, read, last *buffer // the largest ones; what was read right before
	pass, isEarly := int32(-1), true
	for _, b := range m.buffers {
		if b.size <= smallest || b.category == purpose.Workspace {
			continue
		}
		isOwn, isCast := m.op(b) == "" && m.paths.IsUser(b.site), m.does(b, program.OpCast)
		isEarly = isEarly || b.pass != pass
		if pass = b.pass; isEarly && (isCast || isOwn) {
			learn(b, 1)
		}
		if isEarly && m.isComputed(b) {
			if m.op(b) == "" || m.does(b, program.OpElements) && !isCast {
				learn(b, 4)
			}
			isEarly = m.paths.IsUser(b.site)
		}
		if last != nil && isCast {
			known[last.like] = 1
		}
		if last = nil; m.isRead(b) {
			last = b
			if read == nil || b.size >= read.size {
				read = b
			}
		}
		if b.isStore() && (store == nil || b.size > store.size) {
			store = b
		}
		if b.category == purpose.Input || b.isStore() || m.isRead(b) {
			open[b.size] = append(open[b.size], b)
		}
	}
	for _, b := range m.buffers {
		if read != nil && b.isStore() && b.size == store.size && b.size > read.size && known[b.like] == 0 {
			known[b.like] = known[read.like]
		}
	}
	return known
}

// isWeight reports whether a buffer is of a model, or may be one that no gradient shows: it is older than the recording.
func isWeight(b *buffer) bool {
	return isParameter(b) || b.category == purpose.ModelBuffer || b.isOlder() && b.category == purpose.UnknownCategory
}

// quantized returns the sizes of frozen weights of 8 or 4 bits. Passes make four or eight times as many bytes of each, which have no gradients of their size
// as activations have, where others have some, or compute bits of each.
func (m *model) quantized() map[int64]bool {
	all, weights, trained := map[int64]bool{}, numbersOf(filter(m.buffers, isWeight)), m.sizes(is(purpose.Gradient))
	for k := range m.passes {
		made, backs, masks := m.perSize(k)
		for _, b := range m.backward(k) {
			if m.op(b) == "" && m.paths.IsUser(b.site) { // the program's own function makes it again
				backs[b.size]--
			}
		}
		for of, made := range made {
			n, isBits := len(made.all), program.OperatorOf(of.op).Is(program.OpBits)
			for _, times := range [...]int64{1, 4, 8} {
				size := of.size / times
				isMade := m.passes[k].trains() && len(trained) > 0 && backs[of.size] < n && (!masks[of.size] || len(made.saved) == 0) && weights[of.size] == 0
				isOf := isBits && times == 1 || times > 1 && isMade
				if weights[size] > 0 && n%weights[size] == 0 && !trained[size] && isOf {
					all[size] = true
				}
			}
		}
	}
	return all
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
	trained, _ := m.trained()
	hasBytes := sizeOf(m.states(0)) < sizeOf(trained)*3/4 // states of 8 bits
	elements, bytes := m.elementsOf(), m.quantized()
	losses := m.sizes(func(b *buffer) bool { return m.isComputed(b) && b.saved && m.isOfLoss(b) })
	isOfLoss := func(b *buffer) bool { // it has 32 bits where the program casts what its loss takes
		isBack := b.phase == purpose.Backward && b.category == purpose.TemporaryData && (m.op(b) == "" || m.op(b) == logSoftmaxBackward || m.op(b) == "nll_loss_backward")
		return losses[b.size] && (isBack || m.isOfLoss(b))
	}
	var whole, half, ofLoss []int // what may be halved, and what may not be
	for i, b := range m.buffers {
		isMask := false
		if stack := m.stack(b); i+1 < len(m.buffers) && stack >= 0 {
			next := m.buffers[i+1]
			isMask = next.size == 4*b.size && m.stack(next) == stack
		}
		isDrawn := m.op(b) == "randn" || m.op(b) == "rand" || m.op(b) == "normal_"
		isNumber := b.category == purpose.Input && !isDrawn || m.does(b, program.OpNumbers) || m.isIndices(i)
		isOfStore := b.isStore() || m.isRead(b) && m.op(b) == "index"
		switch {
		case elements[b.like] == 4:
		case elements[b.like] == 1, bytes[b.size] && isWeight(b):
			continue
		case isOfStore, b.category == purpose.ModelBuffer && b.size > smallest:
			half = append(half, i)
		case isNumber && b.category == purpose.Input && m.op(b) != "randint_low" && b.size > smallest: // it may be of floats
			whole = append(whole, i)
			continue
		case isCounted(m.buffers, i), // sums add in 32 bits
			b.size <= smallest || isMask || isNumber || b.category == purpose.Workspace || hasBytes && b.category == purpose.OptimizerState:
			continue
		case b.category == purpose.UnknownCategory && b.isOlder():
			m.widen(b.size/2, 0)
			continue
		case isOfLoss(b):
			ofLoss = append(ofLoss, i)
		}
		b.size /= 2
	}
	for _, b := range m.failed() {
		b.size /= 2
	}
	m.halved = true
	m.doubt(offHalves)
	m.leaveOpen(m.times(whole, .5), m.times(half, 2))
	m.castOwn(ofLoss, len(bytes) > 0)
	return ""
}

// isIndices reports whether buffer i is where the values of a result are that was made before it.
func (m *model) isIndices(i int) bool {
	b, values := m.buffers[i], m.buffers[max(i-1, 0)]
	c := m.paths.Innermost(b.site)
	hasIndices := m.does(b, program.OpIndices) || c != nil && program.OperatorOf(c.Function).Is(program.OpIndices)
	return hasIndices && m.sameOperation(b, values) && m.h.SizeOf(int(b.like)) == 2*m.h.SizeOf(int(values.like))
}

// times returns a program with other sizes of some buffers.
func (m *model) times(which []int, factor float64) *model {
	other := m.clone()
	for _, i := range which {
		other.buffers[i].size = int64(float64(other.buffers[i].size) * factor)
	}
	return other
}

// castOwn opens the range to casts that change nothing in 32 bits, and are not recorded: of programs whose weights are quantized, or with normalizations of
// their own, which show a root, mostly after a mean of its size. These keep a copy of what they scale, and losses compute in 32 bits. PyTorch's
// normalization by roots surely casts.
func (m *model) castOwn(ofLoss []int, isLikely bool) {
	casts, n := m.times(ofLoss, 2), len(m.buffers)-1
	for i := 3; i < n; i++ {
		b, next, mean, square := m.buffers[i], m.buffers[i+1], m.buffers[i-1], m.buffers[i-2]
		isMean, isOwn := mean.size == b.size, m.paths.IsUser(b.site) // which adds to it in another buffer
		isRoot := isOwn && (m.op(b) == "rsqrt" || m.op(b) == "" && isMean && square.size == b.size && m.buffers[i-3].size == next.size)
		isOfTorch := !isOwn && m.isNorm(b) && isMean && square.size == next.size && square.end.compare(next.begin) < 0 && m.sameOperation(b, next)
		if !b.saved || !isRoot && !isOfTorch || next.size <= b.size || b.size <= smallest {
			continue
		}
		more := 2 * next.size
		if isOfTorch && !next.saved { // the copy is saved in place of what it is of
			more = next.size
		}
		if casts.add(b, b.begin, b.end, more); isOfTorch {
			m.add(b, b.begin, b.end, more)
		}
		isLikely = isLikely || isRoot
	}
	if isLikely {
		m.leaveOpen(casts)
	}
}
