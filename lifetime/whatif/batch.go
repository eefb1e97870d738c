package whatif

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// scale multiplies the sizes of what grows with the batch: inputs, activations and temporaries of both passes. Scores of a loss whose classes are its
// numbered samples, as of pairs of a batch, may grow with the square.
func (m *model) scale(factor float64) string {
	numbers := m.sizes(func(b *buffer) bool { return b.phase == purpose.Forward && m.op(b) == "arange" }) // of samples, perhaps
	pairs := m.sizes(func(b *buffer) bool {
		n := int64(math.Sqrt(float64(b.size / 4)))
		isSquare := b.size > smallest && b.size == 4*n*n && numbers[8*n]
		return isSquare && b.phase == purpose.Forward && (m.op(b) == "log_softmax" || m.isOfLoss(b))
	})
	fixed, slots, stores := m.ofWeights(), m.slots(), m.readWhole()
	by := func(ofPairs, ofSlots, ofLikely, ofOpen, ofStores float64) func(b *buffer) float64 {
		return exceptWeights(fixed, ofLikely, ofOpen, func(b *buffer) float64 {
			switch {
			case stores[b.like]:
				return ofStores
			case m.op(b) == "arange":
				return 1
			case pairs[b.size]:
				return ofPairs
			case slots[b.size]:
				return ofSlots
			}
			return factor
		})
	}
	square := factor * factor
	return m.resizeOr(by(factor, square, 1, factor, factor), by(square, square, 1, factor, factor), by(factor, factor, 1, factor, factor),
		by(factor, square, factor, factor, factor), by(factor, square, 1, 1, factor), by(factor, square, 1, factor, 1))
}

// isStore reports whether a program made a buffer before its passes, of which nothing is known: it may be read from.
func (b *buffer) isStore() bool {
	return b.part == purpose.Setup && b.category == purpose.UnknownCategory && !b.isOlder() && b.size > smallest
}

// isRead reports whether a buffer may be rows that are read from a store.
func (m *model) isRead(b *buffer) bool {
	return b.pass >= 0 && b.phase == purpose.OtherPhase && (m.op(b) == "index" || m.op(b) == "stack" || m.op(b) == "" && b.category == purpose.Input)
}

// readWhole returns the recorded stores that passes read whole in parts of one size, as of a rollout, perhaps but for a last row, of which as many are made:
// they likely grow with the batch, and count as of a pass. So do all, if the largest does. What passes only sample from has the size it has.
func (m *model) readWhole() map[int32]bool {
	isWritten := func(b *buffer) bool { return m.does(b, program.OpCast) || m.op(b) == "" }
	all, parts, rows := map[int32]bool{}, numbersOf(filter(m.buffers, m.isRead)), numbersOf(filter(m.buffers, isWritten))
	if len(parts) > mostSizes {
		return all
	}
	isWhole := func(b *buffer) bool {
		for part, n := range parts {
			row := b.size % part
			isRest := row == 0 || b.size%row == 0 && b.size/row <= int64(rows[row])+1
			if b.size > part && isRest && b.size/part <= int64(n) {
				return true
			}
		}
		return false
	}
	stores := filter(m.buffers, (*buffer).isStore)
	isRollout := len(stores) > 0 && isWhole(slices.MaxFunc(stores, func(x, y *buffer) int { return cmp.Compare(x.size, y.size) }))
	for _, b := range stores {
		if isRollout || isWhole(b) {
			all[b.like], b.part = true, purpose.UnknownPart
		}
	}
	return all
}

// mostSizes are more sizes than results of a program have that are tried with each other one.
const mostSizes = 1000

// slots returns the sizes of masks that give each row a slot of an expert, where there are up to twice as many slots as rows, or where rows are counted up for
// each expert, as their capacity is a share of them: slots grow with the batch as rows do.
func (m *model) slots() map[int64]bool {
	const number = 8 // bytes
	all, made := map[int64]bool{}, m.sizes(m.isComputed)
	of := func(ops ...string) map[int64]bool {
		return m.sizes(func(b *buffer) bool { return m.isComputed(b) && slices.Contains(ops, m.op(b)) })
	}
	rows, chosen, counted := of("max", "argmax", "topk"), of("one_hot"), of("cumsum")
	if len(rows) > mostSizes || len(chosen) > mostSizes/10 {
		return all
	}
	for size := range chosen {
		for row := range rows {
			if n, slots := row/number, size/max(row, 1); size%row == 0 && slots >= n && slots <= 2*n {
				all[size], all[size/2] = true, true // and as floats
			}
		}
		for experts := range chosen {
			if experts >= size || !counted[experts] && !counted[experts/2] {
				continue
			}
			all[size], all[size/2] = true, true
			n := int64(math.MaxInt64) // experts: the least number that explains a mask; what is known of a row may be of one expert or of two
			for row := range rows {
				for _, perhaps := range [...]int64{experts / max(row, 1), 2 * experts / max(row, 1)} {
					if perhaps > 1 && perhaps < n && made[size/2*perhaps] {
						n = perhaps
					}
				}
			}
			if n < math.MaxInt64 {
				all[size/2*n], all[size/number*n] = true, true // the slots of each expert, and which are taken
			}
		}
	}
	return all
}

// resizeOr is resize with a range that goes to what other factors give.
func (m *model) resizeOr(factor func(b *buffer) float64, others ...func(b *buffer) float64) string {
	recorded := m.clone()
	refused := m.resize(factor)
	for _, other := range others {
		if recorded.any(func(b *buffer) bool { return factor(b) != other(b) }) {
			open := recorded.clone()
			open.resize(other)
			m.leaveOpen(open)
		}
	}
	return refused
}

// origin is what is known of a buffer that a pass may make of a weight alone.
type origin int8

const (
	isProved origin = iota + 1 // it is of a weight
	isLikely                   // it may not be
	isOpen                     // it may be
)

// exceptWeights returns a factor, but for what passes make of weights alone: that stays if it is proved, and grows by likely or open if not.
func exceptWeights(fixed map[int32]origin, likely, open float64, factor func(b *buffer) float64) func(b *buffer) float64 {
	of := map[origin]float64{isProved: 1, isLikely: likely, isOpen: open}
	return func(b *buffer) float64 {
		if by, isOf := of[fixed[b.like]]; isOf {
			return by
		}
		return factor(b)
	}
}

// ofWeights returns what passes make of weights alone, such as weights that are dequantized or cast, by the recorded buffer. It has as many elements as
// a weight, and there are as many in a pass, or several times as many. What a pass saves of an activation has a gradient of its size, which the
// backward pass makes; what is of frozen weights has none.
func (m *model) ofWeights() map[int32]origin {
	all, weights, gradients := map[int32]origin{}, numbersOf(filter(m.buffers, isWeight)), m.sizes(is(purpose.Gradient))
	for like := range m.weightCopies() {
		all[like] = isProved
	}
	for _, b := range m.buffers {
		if m.isComputed(b) && m.hasCall(b, "get_parametrized") { // torch.nn.utils.parametrize
			all[b.like] = isProved
		}
	}
	for k := range m.passes {
		made, backs, masks := m.perSize(k)
		isBack := func(of elementwise) bool { return len(made[of].saved) > 0 && backs[of.size] > 0 }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(made)), isBack) {
			continue // gradients of activations are not known
		}
		for of, made := range made {
			isKnown, isTrained, isEach, n := false, false, false, len(made.saved)
			if made.isCast && n == 0 {
				n = len(made.all)
			}
			for _, element := range elements {
				weight := int64(float64(of.size) / element)
				if weights := weights[weight]; weights > 0 && n > 0 && (n%weights == 0 || len(made.all)%weights == 0) { // the first ones may not be saved
					isKnown, isTrained = true, isTrained || gradients[weight]
					isEach = made.isCast && weights > 1 && weights == len(made.all) && element > 1
				}
			}
			is := isProved
			switch back := backs[of.size]; {
			case !isKnown || masks[of.size] || back >= n && !made.isCast:
				continue
			case back > 0 && !made.isCast || m.passes[k].cut: // more may have come
				is = isOpen
			case back > 0 && !isEach || isTrained:
				is = isLikely
			}
			for _, b := range made.all {
				all[b.like] = is
			}
		}
	}
	return all
}

// elementwise are buffers of a pass of one size by an operator that computes element by element.
type elementwise struct {
	size int64
	op   string
}

type elementwiseMade struct {
	all, saved []*buffer
	isCast     bool // each is a cast, or made of one
}

// perSize returns what pass k makes element by element; by size how many buffers its backward pass makes, more than that if operators make others in the
// forward pass; and whether some of a size are masks of what the same operation makes.
func (m *model) perSize(k int) (made map[elementwise]*elementwiseMade, backs map[int64]int, masks map[int64]bool) {
	made, backs, masks = map[elementwise]*elementwiseMade{}, map[int64]int{}, map[int64]bool{}
	var last, before *buffer
	for _, b := range m.ofPass(k) {
		switch {
		case b.size <= smallest || b.category == purpose.Workspace || b.category == purpose.Gradient || b.category == purpose.Input:
			continue
		case b.phase == purpose.Backward:
			backs[b.size]++
			continue
		}
		isMade := before != nil && before.size == last.size && m.sameOperation(before, last) // of what has its size: no mask
		if last != nil && (b.size == 4*last.size || b.size == 2*last.size) && m.sameOperation(b, last) && !isMade {
			masks[last.size] = true
		}
		isCast := m.does(b, program.OpCast) || last != nil && last.size == b.size && m.does(last, program.OpCast) && m.stack(last) == m.stack(b)
		if before, last = last, b; m.op(b) != "" && !m.does(b, program.OpElements) {
			backs[b.size] += len(m.buffers)
			continue
		}
		of := elementwise{b.size, m.op(b)}
		if made[of] == nil {
			made[of] = &elementwiseMade{isCast: true}
		}
		made[of].all, made[of].isCast = append(made[of].all, b), made[of].isCast && isCast
		if b.saved {
			made[of].saved = append(made[of].saved, b)
		}
	}
	return made, backs, masks
}

// elements are how many times as many bytes what is made of a weight may have: 4 bits to 32.
var elements = [...]float64{.25, .5, 1, 2, 4, 8}

// smallest is the size up to which buffers are scalars.
const smallest = 64

// contributions returns whether a buffer is a contribution to the gradient of a weight that is used several times.
func (m *model) contributions() func(b *buffer) bool {
	parameters, forward := m.sizes(isParameter), m.sizes(func(b *buffer) bool { return b.phase == purpose.Forward })
	return func(b *buffer) bool { return b.phase == purpose.Backward && parameters[b.size] && !forward[b.size] }
}

// resize multiplies the sizes of inputs, activations and temporaries of both passes by factors.
func (m *model) resize(factor func(b *buffer) float64) string {
	isContribution, grown := m.contributions(), 0
	for _, b := range slices.Concat(m.buffers, m.failed()) {
		switch b.category {
		case purpose.ModelParameter, purpose.ModelBuffer, purpose.Gradient, purpose.OptimizerState, purpose.Workspace,
			purpose.Bucket, purpose.Cache:
			continue
		}
		isOfPass := b.phase == purpose.Forward || b.phase == purpose.Backward || b.phase == purpose.OtherPhase
		switch {
		case b.isOlder() && b.isFreed() && b.size > smallest: // perhaps of a pass that began before the recording
			by := int64(float64(b.size)*factor(b)) - b.size
			b.size = max(1, b.size+by)
			m.widen(max(0, by), max(0, -by))
		case isOfPass && !isContribution(b) && b.part != purpose.Setup && !b.isOlder() && b.size > smallest:
			b.size = max(1, int64(float64(b.size)*factor(b)))
			grown++
		}
	}
	if grown == 0 {
		return "no buffer is known to be an activation; record stacks"
	}
	return ""
}

// Scratch of the sums of a gradient over more rows than fit a group of threads: each group writes a partial sum for each of its threads. Over
// fewer than 1,024 rows there is none. (aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig and global_memory_size)
const (
	fewestRows   = 1024            // with scratch
	groups       = 16              // for so many
	bytesOfGroup = 4 * 128         // for each element of the result
	mostScratch  = 2368 * 64 << 10 // on a device of 148 multiprocessors
	largestBias  = 512 << 10
)

// scratchOf returns the bytes of the scratch of a sum over rows for a bias of so many bytes.
func scratchOf(rows, bias int64, halved bool) int64 {
	switch {
	case rows < fewestRows:
		return 0
	case halved:
		bias *= 2
	}
	return rows * groups / fewestRows * max(bias/4, 1) * bytesOfGroup
}

// biases returns the sizes of biases: each follows its matrix.
func (m *model) biases() map[int64]bool {
	if m.ofBiases != nil {
		return m.ofBiases
	}
	all, weight := map[int64]bool{}, int64(0)
	for _, b := range m.buffers {
		if isParameter(b) {
			if b.size < weight && b.size <= largestBias && weight%b.size == 0 {
				all[b.size] = true
			}
			weight = b.size
		}
	}
	m.ofBiases = all
	return all
}

// sumMore widens the range by what sums over times as many rows may need, of those gradients of biases whose sums need nothing as recorded: how
// many rows they have is not known.
func (m *model) sumMore(times float64) {
	biases := m.biases()
	var more *model
	for i, b := range m.buffers {
		isAdded := b.category == purpose.TemporaryData && (m.op(b) == "sum" || m.op(b) == "") // to the gradient of a pass before
		if b.category != purpose.Gradient && !isAdded || b.phase != purpose.Backward || !biases[b.size] {
			continue
		}
		least := scratchOf(fewestRows, b.size, m.halved)
		if i+2 < len(m.buffers) && m.buffers[i+1].end.compare(m.buffers[i+2].begin) < 0 && m.h.SizeOf(int(m.buffers[i+1].like))%(least/groups) == 0 {
			continue // it needs some, which grows
		}
		if more == nil {
			more = m.clone()
		}
		size, scratch := min(int64(times*float64(least)), mostScratch), sums.at(b.begin.event)
		more.add(b, scratch, scratch.by(1), size).category = purpose.TemporaryData
	}
	if more != nil {
		m.leaveOpen(more)
	}
}

// lengthen multiplies the sizes of what grows with the length of sequences. Scores of attention grow with its square.
func (m *model) lengthen(factor float64) string {
	scores, inAttention, refused := m.scores()
	if refused != "" {
		return refused
	}
	isMask := func(b *buffer) bool { return m.does(b, program.OpCompares) }
	masks := m.sizes(func(b *buffer) bool { return m.isComputed(b) && scores[4*b.size] && isMask(b) }) // of scores
	others := m.sizes(func(b *buffer) bool { return m.isComputed(b) && m.does(b, program.OpPerToken) })
	for size := range inAttention {
		scores[size] = scores[size] || !others[size]
	}
	if !m.any(func(b *buffer) bool { return m.isComputed(b) && m.op(b) != "" }) {
		return "scores of attention grow with the square, and operators tell which they are: record with stacks=\"all\""
	}
	for size := range scores {
		if others[size] {
			return "scores of attention have the size of other activations: record another length"
		}
	}
	fixed := m.ofWeights()
	by := func(ofLikely, ofOpen float64) func(b *buffer) float64 {
		return exceptWeights(fixed, ofLikely, ofOpen, func(b *buffer) float64 {
			if scores[b.size] || masks[b.size] && isMask(b) {
				return factor * factor
			}
			return factor
		})
	}
	return m.resizeOr(by(1, factor), by(factor, factor), by(1, 1))
}

func (m *model) isComputed(b *buffer) bool {
	return b.phase == purpose.Forward && b.category != purpose.Workspace && b.size > smallest
}

// addScores adds the scores that a call of attention makes, by size, and their mask: at least two buffers of another size than its operands, of which
// there are more.
func addScores(scores map[int64]bool, inside map[int64]int) {
	operand := int64(0)
	for size, n := range inside {
		if n > 2 && (operand == 0 || size < operand) {
			operand = size
		}
	}
	for size, n := range inside {
		if operand > 0 && size != operand && (n >= 2 && size > smallest || inside[4*size] >= 2 && 4*size != operand) {
			scores[size] = true
		}
	}
}

// scores returns the sizes of scores of attention, and of what may be some inside a call of attention: they are those of results of softmax, or of exp of a product of two activations in a block, where the
// program computes its softmax itself.
func (m *model) scores() (scores, inAttention map[int64]bool, refused string) {
	scores = m.sizes(func(b *buffer) bool {
		isLoss := m.does(b, program.OpLogSoftmax) || m.isOfLoss(b)
		return m.isComputed(b) && m.does(b, program.OpSoftmax) && !isLoss
	})
	inAttention = map[int64]bool{}
	for k := range m.passes {
		products, inside := map[int64]bool{}, map[int64]int{} // of two activations; in one call of attention
		for i, b := range m.computed(k) {
			products[b.size] = products[b.size] || m.does(b, program.OpOfActivations)
			if i > 0 && m.op(b) == "scaled_dot_product_attention" {
				inside[b.size]++
				continue
			}
			addScores(inAttention, inside)
			clear(inside)
		}
		exps := filter(m.forward(k), func(b *buffer) bool { return m.op(b) == "exp" && b.size > smallest && products[b.size] })
		if len(exps) == 0 {
			continue
		}
		units, _ := m.blocks(k)
		if len(units) == 0 {
			return nil, nil, "whether a result of exp has scores of attention is not known, as no block of the program repeats"
		}
		begin, end := units[0].first().begin.event, units[len(units)-1].last().begin.event
		for _, b := range exps {
			if b.begin.event >= begin && b.begin.event <= end {
				scores[b.size] = true
			}
		}
	}
	return scores, inAttention, ""
}

// scaleCache multiplies the size of the cache of keys and values. What else grows with it is not recorded: attention over a longer context
// makes more of it, over more requests each pass does. The range goes to where all that passes make grows, and scores with the square.
func (m *model) scaleCache(factor float64) string {
	isCache := func(b *buffer) bool { return b.category == purpose.Cache && b.size > smallest }
	if !m.any(isCache) {
		return "no cache of keys and values is known"
	}
	for _, b := range m.buffers {
		if isCache(b) {
			b.size = max(1, int64(float64(b.size)*factor))
		}
	}
	all := m.clone()
	scores := m.sizes(func(b *buffer) bool { return m.op(b) == "" || m.does(b, program.OpSoftmax|program.OpAttention) })
	all.resize(func(b *buffer) float64 {
		if scores[b.size] {
			return factor * factor
		}
		return factor
	})
	m.leaveOpen(all)
	return ""
}
