package whatif

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// autocast computes under torch.autocast: weights, gradients and states keep their 32 bits, products have 16 bits and copies of weights, which live
// until their gradients, and of operands, which the products save in place of these.
func (m *model) autocast() string {
	switch {
	case len(m.weightCopies()) > 0:
		return isSixteenBits
	case !m.any(func(b *buffer) bool { return b.phase == purpose.Forward && m.op(b) != "" }):
		return noOperators
	case m.any(func(b *buffer) bool { return m.does(b, program.OpOverTime) }):
		return "what a whole recurrent layer casts is not recorded"
	}
	m.attend()
	var all []*autocaster
	var last []*buffer // backward pass that makes gradients
	whole := autocaster{
		m: m, isContribution: m.contributions(), added: m.sizes(func(b *buffer) bool { return b.phase == purpose.Backward && m.op(b) == "index_select" }),
		frozen: slices.Sorted(maps.Keys(m.sizes(isParameter))), constants: slices.Sorted(maps.Keys(m.sizes(is(purpose.ModelBuffer)))),
	}
	for k := range m.passes {
		if !m.passes[k].trains() {
			continue
		}
		a := whole.ofPass(k)
		if slices.ContainsFunc(a.backward, isGradient) {
			last = a.backward
		} else if slices.EqualFunc(last, a.backward, func(x, y *buffer) bool { return x.site == y.site && x.size == y.size }) {
			for q, b := range a.backward { // they are added to gradients which are kept
				b.category = last[q].category
			}
		}
		if refused := a.cast(); refused != "" {
			return refused
		}
		all = append(all, a)
	}
	if all == nil {
		return "no backward pass was recorded, and which buffers are weights is not known"
	}
	half := map[*buffer]bool{}
	for _, a := range all {
		a.apply()
		maps.Copy(half, a.half)
	}
	if slices.ContainsFunc(all, (*autocaster).hasFormulas) {
		m.doubt(offOwn)
	}
	m.doubt(offAutocast)
	halved := m.clone() // also what no backward pass runs over, where which buffers are weights is not known, earlier rows of a result, and casts to its type
	for i, b := range halved.buffers {
		isOwnCast := m.isComputed(b) && m.paths.IsUser(b.site) && !b.added && m.does(b, program.OpCast)
		if (isOwnCast || b.saved && m.op(b) == "index") && !half[m.buffers[i]] || b.pass >= 0 && !m.passes[b.pass].trains() && m.isComputed(b) && b.category != purpose.Input {
			b.size /= 2
		}
	}
	m.leaveOpen(halved)
	return ""
}

// hasFormulas reports whether a pass has formulas of its own that compute in 32 bits, beside a loss: what they cast themselves is not recorded.
func (a *autocaster) hasFormulas() bool {
	n := 0
	for i := range a.operations {
		if does := a.operations[i].does; does.Is(program.OpFloat) && !does.Is(program.OpNorm|program.OpSoftmax|program.OpEmbedding|program.OpNumbers) {
			n++
		}
	}
	return n > 1
}

const noOperators = "which operators run is not recorded: record with stacks=\"all\""

// autocaster changes one pass.
type autocaster struct {
	m *model

	isContribution func(b *buffer) bool
	added          map[int64]bool // sizes of rows that are added to a buffer
	frozen         []int64        // sizes of weights without gradients
	constants      []int64        // sizes of buffers of the model that operations may take

	pass     int
	uses     map[*buffer]moment
	backward []*buffer
	softmax  []*buffer // of backward, of losses
	dead     []int
	input    *buffer               // the largest one
	half     map[*buffer]bool      // has 16 bits
	moved    map[*buffer][2]moment // begins and ends elsewhere

	operations []operation
	producers  map[*buffer]*operation // by result
	saved      []*buffer              // by end
	indexed    map[*operation]int64   // size of what is indexed
	scaled     map[*operation]int64   // size of what it takes, which is less; of a parameter: smallest
	parts      map[int64]int          // of gradients of weights that are used several times
	recent     map[int64][]*buffer    // the last results, by size
	ends       []moment               // by operation: when the last of what is made later ends, that is saved
	of         map[*buffer]*operation // by the gradient of its weight
	casts      map[*buffer]bool       // gradients of weights whose product copies its operand
	losses     map[int64]bool         // sizes of what losses take in 16 bits
}

// ofPass returns what changes pass k of a program.
func (whole autocaster) ofPass(k int) *autocaster {
	a, m, made := whole, whole.m, whole.m.ofPass(k)
	a.pass, a.uses, a.backward, a.dead = k, m.lastUses(k, nil), m.backward(k), m.deaths(k)
	a.half, a.moved, a.casts, a.losses = map[*buffer]bool{}, map[*buffer][2]moment{}, map[*buffer]bool{}, map[int64]bool{}
	a.producers, a.of, a.parts, a.recent = map[*buffer]*operation{}, map[*buffer]*operation{}, map[int64]int{}, map[int64][]*buffer{}
	a.scaled, a.indexed = map[*operation]int64{}, map[*operation]int64{}
	a.saved = filter(made, func(b *buffer) bool { return b.saved })
	slices.SortStableFunc(a.saved, func(x, y *buffer) int { return x.end.compare(y.end) })
	a.softmax = filter(a.backward, func(b *buffer) bool { return m.op(b) == logSoftmaxBackward })
	for _, b := range made {
		if b.category == purpose.Input && b.size > smallest && (a.input == nil || b.size > a.input.size) {
			a.input = b
		}
	}
	return &a
}

// operation is what one operator makes in a forward pass.
type operation struct {
	unit
	op       string
	does     program.Operator
	result   *buffer
	gradient *buffer // of its weight; nil = not known
	index    int
}

func (a *autocaster) apply() {
	for b := range a.half {
		b.size = max(b.size/2, 1)
	}
	for b, at := range a.moved {
		b.begin, b.end, b.requestFree = at[0], at[1], noEvent
		b.saved = b.saved && b.end.event > a.m.passes[a.pass].backward
	}
	a.m.moved = true
}

// put adds a copy that is like a buffer. What forward makes and backward frees is saved, as in recordings of such programs.
func (a *autocaster) put(like *buffer, size int64, begin, end moment) {
	if c := a.m.addTemporary(like, begin, end, size); c != nil {
		back := a.m.passes[a.pass].backward
		c.saved, c.dropped = begin.event < back && end.compare(at(back)) > 0, like.dropped
	}
}

// done returns when the node that makes a gradient has ended: with what it saved, or with the gradient if it saved nothing.
func (a *autocaster) done(gradient *buffer) moment {
	end := a.m.passes[a.pass].end
	if event := consumed(a.dead, gradient.begin.event, end); event < end {
		return at(event)
	}
	return after.at(gradient.begin.event)
}

func (a *autocaster) cast() string {
	var gradients []*buffer // of matrices, last first
	for _, b := range a.backward {
		isBias := a.m.does(b, program.OpConv) && a.m.biases()[b.size]
		if isGradient(b) && a.m.does(b, program.OpProduct) && !isBias || a.isContribution(b) && a.m.op(b) == "mm" {
			gradients = append(gradients, b)
		}
	}
	mayCast := func(b *buffer) bool { return a.m.op(b) == "" || a.m.does(b, program.OpHalf) }
	switch {
	case len(gradients) == 0 && slices.ContainsFunc(a.m.computed(a.pass), mayCast):
		return "no gradient of a matrix is known"
	case len(gradients) == 0: // nothing in it has 16 bits, such as in the pass of a temperature
		return ""
	}
	if a.readOperations(); len(a.operations) == 0 {
		return "what a forward pass makes was not recorded, though its backward pass was"
	}
	a.matchWeights(gradients)
	a.castForward()
	a.castBackward()
	return ""
}

func (a *autocaster) readOperations() {
	m := a.m
	for _, b := range m.computed(a.pass) {
		op, n := m.op(b), len(a.operations)
		if n > 0 && op != "linear" && m.sameOperation(b, a.operations[n-1].first()) {
			a.operations[n-1].unit = append(a.operations[n-1].unit, b)
		} else {
			a.operations = append(a.operations, operation{unit: unit{b}, op: op, does: m.paths.Sites[b.site].Does})
		}
	}
	for i := range a.operations {
		of := &a.operations[i]
		for _, b := range of.unit {
			isKept := i+1 == len(a.operations) || b.end.compare(a.operations[i+1].first().begin) > 0 // not only inside, as columns of a convolution
			if b.size > smallest && !a.isIndices(b) && (of.result == nil || isKept && (of.op == "rms_norm" || !m.isNorm(b))) {
				of.result = b
			}
		}
		a.producers[of.result], of.index = of, i
	}
	last := moment{}
	a.ends = make([]moment, len(a.operations))
	for i, of := range slices.Backward(a.operations) {
		for _, b := range of.unit {
			if b.saved {
				last = last.later(b.end)
			}
		}
		a.ends[i] = last
	}
}

// matchWeights tells which operation has which weight, and adds copies of weights: nodes run in the reverse order of operations. Where there are not as many
// gradients, an operation has the next one of its kind for which what is freed with it is an operand.
func (a *autocaster) matchWeights(gradients []*buffer) {
	var weighted, products []*operation
	for i := range a.operations {
		switch o := &a.operations[i]; {
		case o.does.Is(program.OpWeight):
			weighted, products = append(weighted, o), append(products, o)
		case o.op == "matmul":
			products = append(products, o)
		}
	}
	isOf, parts := numbersOf(filter(gradients, isGradient)), numbersOf(gradients)
	next := len(products)
	for size, n := range parts {
		if isOf[size] == 0 {
			a.parts[size] = n
		}
	}
	defer a.findScaled()
	for i, g := range gradients {
		of := &a.operations[0]
		if len(weighted) == len(gradients) {
			of = weighted[len(gradients)-1-i]
			of.gradient, a.of[g] = g, of
		} else if k := a.matching(g, products[max(0, next-mostMatched):next]); k > 0 {
			next -= k
			of = products[next]
			of.gradient, a.of[g] = g, of
		}
		switch end := freesWeightCopy.at(a.done(g).event); {
		case isOf[g.size] == parts[g.size]:
			a.put(of.first(), g.size/2, castsWeight.at(of.first().begin.event), end)
		case isGradient(g):
			a.put(a.operations[0].first(), g.size/2, castsWeight.at(a.operations[0].first().begin.event), end)
		case isOf[g.size] == 0:
			if parts[g.size]--; parts[g.size] == 0 {
				a.put(of.first(), g.size/2, castsWeight.at(of.first().begin.event), end)
			}
		}
	}
}

// findScaled finds the sums and products that take a parameter element by element: its gradient is a sum, and not of the node of a matrix.
func (a *autocaster) findScaled() {
	next := len(a.operations) // the operation whose node ran last
	var last *buffer          // that is no sum
	for _, b := range a.backward {
		if o := a.of[b]; o != nil {
			next = o.index
		}
		if a.m.op(b) != sumOp {
			if b.size > smallest {
				last = b
			}
			continue
		}
		if last == nil || a.m.does(last, program.OpProduct) || last.size < b.size || b.size <= smallest {
			continue
		}
		isProduct, size := a.m.op(last) == "mul", b.size
		if isGradient(b) {
			size = smallest
		} else if !isProduct {
			continue
		}
		for k := next - 1; k >= max(0, next-mostMatched) && a.operations[k].gradient == nil; k-- {
			o := &a.operations[k]
			if o.result != nil && o.result.size == last.size && (isProduct && o.op == "mul" || !isProduct && (o.op == "add" || o.op == "sub")) && a.scaled[o] == 0 {
				a.scaled[o] = size
				break
			}
		}
		last = nil // scratch of the sum
	}
}

// mostMatched are how many products are looked at for the gradient of a weight.
const mostMatched = 64

// matching returns how many products from the end there are to that with a gradient; 0 = it is not known.
func (a *autocaster) matching(g *buffer, products []*operation) int {
	isConv, done := a.m.does(g, program.OpConv), a.done(g).event
	j, _ := slices.BinarySearchFunc(a.saved, g.begin, func(b *buffer, at moment) int { return b.end.compare(at) })
	for k, o := range slices.Backward(products) {
		if o.does.Is(program.OpConv) != isConv {
			continue
		}
		if isConv {
			return len(products) - k
		}
		for _, b := range a.saved[j:] {
			if b.end.event > done+mostFreed {
				break
			}
			if b.begin.compare(o.first().begin) < 0 && takes(o, g.size, b) {
				return len(products) - k
			}
		}
	}
	return 0
}

// mostFreed are events in which a node frees what it saved.
const mostFreed = 6

// freedWith returns what the node frees that frees something at an event, of what is saved, in order of its end.
func freedWith(saved []*buffer, event int) []*buffer {
	since := func(event int) int {
		i, _ := slices.BinarySearchFunc(saved, event, func(b *buffer, event int) int { return b.end.event - event })
		return i
	}
	return saved[since(event-mostFreed):since(event+mostFreed+1)]
}

// castForward changes the forward pass.
func (a *autocaster) castForward() {
	var prev *operation           // the last one with a result
	sums := map[int64][]*buffer{} // results of 32 bits that a sum may take, by size
	isHalfOf := map[int64]bool{}  // has the last result of a size 16 bits?
	a.findConstants()
	a.findIndexed()
	for i := range a.operations {
		o := &a.operations[i]
		first, isHalf := o.first(), prev != nil && a.half[prev.result]
		switch {
		case o.does.Is(program.OpHalf):
			if !a.attend(o) {
				a.multiply(o, prev)
			}
			a.halve(o)
		case o.op == "cross_entropy_loss":
			if isHalf && first.size > smallest {
				a.castLoss(first)
			}
		case o.does.Is(program.OpFloat):
			if a.castFloat(o, prev) && o.op == "rms_norm" { // it has the type of what it takes again
				a.half[o.result] = true
			}
		case o.op == "":
		case o.does.Is(program.OpStores) && !o.does.Is(program.OpElements) && !(strings.HasSuffix(o.op, "_like") && isHalfOf[first.size]):
			if isHalf && a.added[prev.result.size] { // rows are added to it, which have its type
				a.put(prev.result, prev.result.size, castsOperand.at(first.begin.event), prev.result.end.later(hasCast.at(first.begin.event)))
			}
		case a.isHalfResult(i, prev, sums):
			a.halve(o)
		}
		if operand := a.operandOf(o, prev); operand != nil && operand.size == o.result.size && !o.does.Is(program.OpNorm|program.OpHalf) { // a function of one: x + f(x) rather has a product or a normalization
			sums[operand.size] = slices.DeleteFunc(sums[operand.size], func(b *buffer) bool { return b == operand })
		}
		if b := o.result; b != nil {
			prev, isHalfOf[b.size], a.recent[b.size] = o, a.half[b], lastOf(append(a.recent[b.size], b))
			if !a.half[b] {
				sums[b.size] = lastOf(append(sums[b.size], b))
			}
		}
	}
}

// lastOf returns the last results that may be taken.
func lastOf(all []*buffer) []*buffer {
	const most = 16
	return all[max(0, len(all)-most):]
}

// finds reports whether the program, and not only autograd, holds a result when an operation begins.
func (o *operation) finds(b *buffer) bool {
	return b.end.compare(o.first().begin) > 0
}

// last returns the last result of a size that is there when an operation begins; nil = none is.
func (a *autocaster) last(size int64, o *operation) *buffer {
	for _, b := range slices.Backward(a.recent[size]) {
		if o.finds(b) {
			return b
		}
	}
	return nil
}

func isBinary(o *operation) bool {
	return o.op == "mul" || o.op == "add" || o.op == "sub" || o.op == "div"
}

// findIndexed finds what is indexed: backward makes zeros of its size, and puts gradients into them.
func (a *autocaster) findIndexed() {
	var zeros []*buffer
	for q, b := range a.backward[:max(0, len(a.backward)-1)] {
		if a.m.op(b) == "new_zeros" && a.m.op(a.backward[q+1]) == "_index_put_impl_" {
			zeros = append(zeros, b)
		}
	}
	var all []*operation
	for i := range a.operations {
		if o := &a.operations[i]; o.op == "index" {
			all = append(all, o)
		}
	}
	for i, b := range zeros {
		if len(all) == len(zeros) {
			a.indexed[all[len(all)-1-i]] = b.size
		}
	}
}

// findConstants keeps the sizes of weights and of buffers of the model that operations may take: a running mean is only of a normalization. Of two that fit, the larger
// weight comes first.
func (a *autocaster) findConstants() {
	trained := numbersOf(a.backward)
	a.frozen = slices.DeleteFunc(slices.Clone(a.frozen), func(size int64) bool { return size <= smallest || trained[size] > 0 })
	slices.Reverse(a.frozen)
	hasRunning := slices.ContainsFunc(a.operations, func(o operation) bool { return o.op == "batch_norm" })
	a.constants = slices.DeleteFunc(slices.Clone(a.constants), func(size int64) bool { return size <= smallest || hasRunning && size <= largestBias })
	a.constants = a.constants[:min(len(a.constants), mostConstants)]
}

const mostConstants = 16

// over returns when the next operation begins.
func (a *autocaster) over(o *operation) moment {
	if i := o.index + 1; i < len(a.operations) {
		return a.operations[i].first().begin
	}
	return at(a.m.passes[a.pass].backward)
}

// operandOf returns what an operation that computes element by element takes: the result before it, or the last one of its size.
func (a *autocaster) operandOf(o, prev *operation) *buffer {
	if o.result == nil || prev == nil {
		return nil
	}
	takes := o.result.size
	if o.does.Is(program.OpFloat) { // its result may be of rows
		for _, b := range o.unit {
			takes = max(takes, b.size)
		}
	}
	if size := a.indexed[o]; size > 0 {
		return a.last(size, o)
	}
	if o.does.Is(program.OpReduces) || o.finds(prev.result) && prev.result.end.compare(a.over(o)) <= 0 {
		return prev.result
	}
	if last := a.last(takes, o); prev.result.size != takes && last != nil {
		return last
	}
	return prev.result
}

// isHalfResult reports whether operation i, of the kind that has the widest type of what it takes, has a result of 16 bits.
func (a *autocaster) isHalfResult(i int, prev *operation, sums map[int64][]*buffer) bool {
	o := &a.operations[i]
	operand := a.operandOf(o, prev)
	switch {
	case prev == nil || o.result == nil:
		return prev != nil && a.half[prev.result]
	case !isBinary(o):
		return a.half[operand]
	case !a.half[operand] || !a.half[prev.result] || a.scaled[o] == smallest:
		return false
	case a.scaled[o] > 0:
		by := a.last(a.scaled[o], o)
		return by == nil || a.half[by]
	case o.op == "add" && slices.ContainsFunc(sums[o.result.size], func(b *buffer) bool { return o.finds(b) }):
		return false
	case a.m.runs(o.result, "fast_set_up"): // with another one of its size
		isOther := func(b *buffer) bool { return b != operand && o.finds(b) }
		return o.op != "mul" || !slices.ContainsFunc(a.recent[o.result.size], isOther) || slices.ContainsFunc(a.recent[o.result.size], func(b *buffer) bool { return a.half[b] && isOther(b) })
	}
	isScore := i+1 < len(a.operations) && a.operations[i+1].does.Is(program.OpOfActivations|program.OpSoftmax)
	takesConstant := slices.ContainsFunc(a.constants, func(size int64) bool { return size < o.result.size && o.result.size%size == 0 })
	return !takesConstant || o.op == "div" || o.op == "mul" && isScore
}

// castFloat adds the copy of 32 bits that an operation takes which computes in 32: its node keeps it if it needs its operand.
func (a *autocaster) castFloat(o, prev *operation) bool {
	operand := a.operandOf(o, prev)
	isOfSize := func(b *buffer) bool { return b.size == operand.size }
	switch {
	case operand == nil || !a.half[operand] || o.does.Is(program.OpNumbers|program.OpEmbedding):
	case strings.Contains(o.op, "loss") || o.does.Is(program.OpSavesOperand) && slices.ContainsFunc(o.unit, isOfSize):
		a.castOperand(o, a.producers[operand], operand, operand.size)
	case slices.ContainsFunc(o.unit, isOfSize):
		a.put(o.first(), operand.size, castsOperand.at(o.first().begin.event), hasCast.at(o.last().begin.event))
	}
	return operand != nil && a.half[operand]
}

func (a *autocaster) isIndices(b *buffer) bool {
	return a.m.isIndices(firstFrom(a.m.buffers[:a.m.sorted], b.begin.event))
}

// halve has 16 bits for what an operation makes, but masks.
func (a *autocaster) halve(o *operation) {
	for i, b := range o.unit {
		isMask := i+1 < len(o.unit) && o.unit[i+1].size == 4*b.size
		if !isMask && !a.isIndices(b) && b.size > smallest {
			a.half[b] = true
		}
	}
}

// castLoss has 16 bits for what a loss takes, until the gradient of its softmax, and a copy of 32.
func (a *autocaster) castLoss(b *buffer) {
	a.half[b], a.losses[b.size] = true, true
	end := b.end
	if i := firstFrom(a.softmax, b.end.event); i > 0 {
		end = freesHalfLoss.at(a.softmax[i-1].begin.event)
	}
	a.put(b, b.size, hasCast.at(b.begin.event), end)
}

// multiply adds a copy of what a product takes: what the node of its weight frees, or the result of the operation before, if a product of it can have this
// size: else an earlier one of floats of which one can.
func (a *autocaster) multiply(o, before *operation) {
	g := o.gradient
	var last *buffer
	if before != nil {
		last = before.result
	}
	operand := last
	if g != nil {
		ends := func(b *buffer, at moment) int { return b.end.compare(at) }
		if j, _ := slices.BinarySearchFunc(a.saved, g.begin, ends); j < len(a.saved) && a.saved[j].begin.event < o.first().begin.event {
			operand = a.saved[j]
		}
		switch fits := func(b *buffer) bool { return b != nil && b.end.compare(g.begin) > 0 && takes(o, g.size, b) }; {
		case !o.does.Is(program.OpLinear) || fits(operand) || len(a.recent) > mostSizes:
		case fits(last): // it may have 16 bits
			operand = last
		default:
			for _, of := range a.recent {
				if !takes(o, g.size, of[0]) { // they have one size
					continue
				}
				for _, b := range of {
					isBetter := !fits(operand) || a.half[operand] && !a.half[b] || a.half[operand] == a.half[b] && b.begin.compare(operand.begin) > 0
					if isBetter && fits(b) {
						operand = b
					}
				}
			}
		}
		if in := a.input; operand == nil && in != nil && in.begin.compare(o.first().begin) < 0 { // the first product of a pass
			a.put(o.first(), in.size/2, castsOperand.at(o.first().begin.event), at(a.done(g).event))
		}
	}
	if operand != nil && !a.half[operand] {
		a.casts[g] = g != nil
		a.castOperand(o, a.producers[operand], operand, operand.size/2)
	}
	if g == nil && o.does.Is(program.OpWeight) {
		a.castFrozen(o, operand)
	}
}

// castFrozen adds the copy of a weight without a gradient: autocast keeps none, and each product that hands a gradient on saves its own, at least until the nodes of
// what is made after it have run.
func (a *autocaster) castFrozen(o *operation, operand *buffer) {
	if operand == nil || !o.does.Is(program.OpLinear) || len(a.frozen) > mostConstants {
		return
	}
	if i := slices.IndexFunc(a.frozen, func(size int64) bool { return takes(o, size, operand) }); i >= 0 {
		a.put(o.first(), a.frozen[i]/2, castsWeight.at(o.first().begin.event), a.ends[o.index].later(hasCast.at(o.last().begin.event)))
	}
}

// attend adds copies of what attention, or a product of two activations, takes in 32 bits: it ends with what the operation saves itself. It reports whether that
// is known.
func (a *autocaster) attend(o *operation) bool {
	end := never
	for _, b := range o.unit {
		if b.saved && b != o.result {
			end = end.earlier(b.end)
		}
	}
	if end == never || !o.does.Is(program.OpAttention|program.OpOfActivations) || o.gradient != nil {
		return false
	}
	for _, b := range freedWith(a.saved, end.event) {
		if p := a.producers[b]; p != nil && p.index < o.index && !a.half[b] {
			a.castOperand(o, p, b, b.size/2)
		}
	}
	return true
}

// castOperand adds a copy of what an operation takes, in another precision: its node keeps it in place of the operand.
func (a *autocaster) castOperand(o, producer *operation, operand *buffer, size int64) {
	end := hasCast.at(o.last().begin.event)
	if operand.saved {
		end = operand.end
	}
	a.put(o.first(), size, castsOperand.at(o.first().begin.event), end)
	keepsResult := producer != nil && producer.does.Is(program.OpSavesOwn)
	if use, isUsed := a.uses[operand]; isUsed && operand.saved && operand.category != purpose.Input && !keepsResult {
		a.moved[operand] = [2]moment{operand.begin, use.later(freesOperand.at(o.last().begin.event))}
	}
}

// takes reports whether the product of an operand and a weight of a size can have the size of the result: rows, columns and their sum of products are whole numbers.
func takes(o *operation, weight int64, operand *buffer) bool {
	isSquare := func(x, y *buffer) bool {
		n := math.Sqrt(float64(x.size) / float64(y.size) * float64(weight) / 4)
		return math.Abs(n-math.Round(n)) < 1e-6
	}
	isRows := func(b *buffer) bool {
		columns := int64(math.Round(math.Sqrt(float64(b.size) / float64(o.result.size) * float64(weight) / 4)))
		return columns > 0 && b.size%(4*columns) == 0
	}
	return o.result != nil && isSquare(operand, o.result) && isSquare(o.result, operand) && isRows(operand)
}

var isGradient = is(purpose.Gradient)

const logSoftmaxBackward = "_log_softmax_backward_data"

// castIncoming adds the copy of a gradient of 32 bits which the node of a product takes, that makes buffer q of the backward pass first. The gradient is the one
// before another buffer, such as of the sum of a bias that was added.
func (a *autocaster) castIncoming(made, q int) bool {
	gradient := a.backward[made-1]
	const within = 3 // buffers of a node to the gradient of its weight
	next := a.backward[q].begin.event
	for _, b := range a.backward[q:min(q+within, len(a.backward))] {
		if o := a.of[b]; o != nil && o.result.size == gradient.size && gradient.end.event > next {
			done := at(a.done(b).event)
			a.put(gradient, gradient.size/2, castsWeight.at(a.backward[made].begin.event), done)
			if gradient.end.compare(done) <= 0 {
				a.moved[gradient] = [2]moment{gradient.begin, castsOperand.at(next)}
			}
			return true
		}
	}
	return false
}

// kind is what operators of a name make, of a size.
type kind struct {
	op   string
	size int64
}

// made returns how many results of a kind have 32 bits, and how many 16.
func (a *autocaster) made() map[kind][2]int {
	all := map[kind][2]int{}
	for i := range a.operations {
		if o := &a.operations[i]; o.result != nil {
			of, width := all[kind{o.op, o.result.size}], 0
			if a.half[o.result] {
				width = 1
			}
			of[width]++
			all[kind{o.op, o.result.size}] = of
		}
	}
	return all
}

// castBackward mirrors in the backward pass what was done in the forward pass.
func (a *autocaster) castBackward() {
	m := a.m
	made := a.made()
	isHalf := false      // the last gradient
	var gradient *buffer // of the node, if it makes that of a weight first
	afterLast := 0       // index after the last gradient
	for q, b := range a.backward {
		op := m.op(b)
		forward, isNode := strings.CutSuffix(strings.TrimPrefix(op, "native_"), "_backward")
		of := made[kind{strings.Replace(forward, "threshold", "relu", 1), b.size}]
		if m.does(b, program.OpProduct) && !isHalf && afterLast > 0 {
			isHalf = a.castIncoming(afterLast, q)
		}
		if op != sumOp && b.size > smallest {
			afterLast = q + 1
		}
		switch isProduct := m.does(b, program.OpProduct); {
		case b.category == purpose.Workspace || b.size <= smallest:
		case a.isContribution(b) && !isGradient(b) && isProduct:
			if a.parts[b.size] != 1 { // they are added in 16 bits
				a.half[b] = true
			} else {
				a.put(b, b.size/2, b.begin, after.at(b.begin.event))
			}
			isHalf = true
		case a.isContribution(b) && op == "add" && a.parts[b.size] > 1:
			if a.parts[b.size]--; a.parts[b.size] > 1 {
				a.half[b] = true
			}
		case isGradient(b) && isProduct:
			done := a.done(b).event
			a.put(b, b.size/2, b.begin, freesHalfGradient.at(done))
			a.moved[b] = [2]moment{castsGradient.at(done), b.end.later(leastGradient.at(done))} // it may be added to another one at once
			isHalf, gradient = !a.casts[b], b
		case isGradient(b):
		case op == logSoftmaxBackward && !a.losses[b.size]:
			isHalf = false
		case op == "nll_loss_backward" && a.losses[b.size]: // it has 32 bits, and a copy of 16 for the softmax before it
			if i := slices.IndexFunc(a.backward[q+1:min(q+1+mostMatched, len(a.backward))], func(next *buffer) bool { return next.size == b.size }); i >= 0 {
				next := a.backward[q+1+i].begin.event
				a.put(b, b.size/2, castsWeight.at(next), b.end)
				a.moved[b] = [2]moment{b.begin, castsOperand.at(next)}
			}
		case isProduct, op == logSoftmaxBackward:
			a.half[b], isHalf = true, !isProduct || !a.casts[gradient]
		case m.does(b, program.OpAttention) && !m.does(b, program.OpSoftmax):
			a.half[b], isHalf = true, true
		case of[0] > 0 && of[1] == 0:
			isHalf = false
		case isNode && of[1] > 0 && of[0] == 0:
			a.half[b], isHalf = true, true
		case m.does(b, program.OpNorm|program.OpFloat):
			isHalf = isHalf && op == sumOp
		case isHalf:
			a.half[b] = true
		}
	}
}
