package whatif

import (
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
	fixed, all, last := m.ofWeights(), []*autocaster(nil), []*buffer(nil) // backward pass that makes gradients
	for k := range m.passes {
		if !m.passes[k].trains() {
			continue
		}
		a := &autocaster{
			m: m, pass: k, uses: m.lastUses(k, nil), backward: m.backward(k), dead: m.deaths(k), half: map[*buffer]bool{}, fixed: fixed, moved: map[*buffer][2]moment{},
			producers: map[*buffer]*operation{}, saved: filter(m.ofPass(k), func(b *buffer) bool { return b.saved }),
		}
		slices.SortStableFunc(a.saved, func(x, y *buffer) int { return x.end.compare(y.end) })
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
	for _, a := range all {
		a.apply()
	}
	m.doubt(offAutocast)
	halved := m.clone() // also what no backward pass runs over, where which buffers are weights is not known, earlier rows of a result, and casts to its type
	for i, b := range halved.buffers {
		isOwnCast := m.isComputed(b) && m.paths.IsUser(b.site) && !b.added && m.does(b, program.OpCast)
		isHalf := func(a *autocaster) bool { return a.half[m.buffers[i]] }
		if (isOwnCast || b.saved && m.op(b) == "index") && !slices.ContainsFunc(all, isHalf) || b.pass >= 0 && !m.passes[b.pass].trains() && m.isComputed(b) && b.category != purpose.Input {
			b.size /= 2
		}
	}
	m.leaveOpen(halved)
	return ""
}

const noOperators = "which operators run is not recorded: record with stacks=\"all\""

// autocaster changes one pass.
type autocaster struct {
	m        *model
	pass     int
	uses     map[*buffer]moment
	backward []*buffer
	dead     []int
	fixed    map[int32]origin
	half     map[*buffer]bool      // has 16 bits
	moved    map[*buffer][2]moment // begins and ends elsewhere

	operations []operation
	producers  map[*buffer]*operation // by result
	saved      []*buffer              // by end
}

// operation is what one operator makes in a forward pass.
type operation struct {
	unit
	op       string
	does     program.Operator
	result   *buffer
	gradient *buffer // of its weight; nil = not known
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
	for q, b := range a.backward {
		if isGradient(b) && (a.m.does(b, program.OpProduct) || a.isClone(q)) {
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
			if b.size > smallest && (of.result == nil || isKept && !m.isNorm(b)) {
				of.result = b
			}
		}
		a.producers[of.result] = of
	}
}

// matchWeights tells which operation has which weight, if there are as many as gradients, and adds copies of weights.
func (a *autocaster) matchWeights(gradients []*buffer) {
	var weighted []*operation
	for i := range a.operations {
		if a.operations[i].does.Is(program.OpWeight) {
			weighted = append(weighted, &a.operations[i])
		}
	}
	for i, g := range gradients {
		of := &a.operations[0]
		if len(weighted) == len(gradients) {
			of = weighted[len(gradients)-1-i]
			of.gradient = g
		}
		a.put(of.first(), g.size/2, castsWeight.at(of.first().begin.event), freesWeightCopy.at(a.done(g).event))
	}
}

// isClone reports whether gradient q of the backward pass is a copy, in another order, of what a product just made.
func (a *autocaster) isClone(q int) bool {
	const within = 3 // buffers that a node makes from a product to the copy of its result, at most
	for j := q - 1; j >= max(0, q-within); j-- {
		if x := a.backward[j]; x.size == a.backward[q].size && a.m.does(x, program.OpProduct) {
			return x.category == purpose.TemporaryData && x.end.compare(a.backward[q].begin) > 0
		}
	}
	return false
}

// castForward changes the forward pass.
func (a *autocaster) castForward() {
	var prev *operation           // the last one with a result
	floats := map[int64]*buffer{} // results of 32 bits that end last, by size
	isHalfOf := map[int64]bool{}  // has the last result of a size 16 bits?
	added := a.m.sizes(func(b *buffer) bool { return b.phase == purpose.Backward && a.m.op(b) == "index_select" })
	for i := range a.operations {
		o := &a.operations[i]
		first, isHalf := o.first(), prev != nil && a.half[prev.result]
		switch {
		case o.does.Is(program.OpHalf):
			a.multiply(o, prev, floats)
			a.halve(o)
		case o.op == "cross_entropy_loss":
			if isHalf && first.size > smallest {
				a.castLoss(first)
			}
		case isHalf && o.does.Is(program.OpFloat) && o.does.Is(program.OpNorm) && !o.does.Is(program.OpPerToken): // of groups
			a.castOperand(o, prev, prev.result, prev.result.size)
		case o.does.Is(program.OpFloat):
		case i > 1 && o.op == "mul" && isHalf && prev.does.Is(program.OpHalf) && a.fixed[a.operations[i-2].first().like] != 0: // by scales of 32 bits
		case o.op == "":
		case o.does.Is(program.OpStores) && !o.does.Is(program.OpElements) && !(strings.HasSuffix(o.op, "_like") && isHalfOf[first.size]):
			if isHalf && added[prev.result.size] { // rows are added to it, which have its type
				a.put(prev.result, prev.result.size, castsOperand.at(first.begin.event), prev.result.end.later(hasCast.at(first.begin.event)))
			}
		case isHalf && (o.op != "add" || o.result == nil || floats[o.result.size] == nil || floats[o.result.size].end.compare(o.result.begin) <= 0): // no operand has 32 bits
			a.halve(o)
		}
		if b := o.result; b != nil {
			prev, isHalfOf[b.size] = o, a.half[b]
			if last := floats[b.size]; !a.half[b] && (last == nil || last.end.compare(b.end) < 0) {
				floats[b.size] = b
			}
		}
	}
}

// halve has 16 bits for what an operation makes, but masks.
func (a *autocaster) halve(o *operation) {
	for i, b := range o.unit {
		isMask := i+1 < len(o.unit) && o.unit[i+1].size == 4*b.size
		if !isMask && b.size > smallest {
			a.half[b] = true
		}
	}
}

// castLoss has 16 bits for what a loss takes, until the gradient of its softmax, and a copy of 32.
func (a *autocaster) castLoss(b *buffer) {
	a.half[b] = true
	end := b.end
	for _, g := range a.backward {
		if a.m.op(g) == logSoftmaxBackward && g.begin.compare(b.end) < 0 {
			end = freesHalfLoss.at(g.begin.event)
		}
	}
	a.put(b, b.size, hasCast.at(b.begin.event), end)
}

// multiply adds a copy of what a product takes: what the node of its weight frees, or the result of the operation before, if a product of it can have this
// size: else an earlier one of floats of which one can.
func (a *autocaster) multiply(o, before *operation, floats map[int64]*buffer) {
	g, producer := o.gradient, before
	var last, operand *buffer
	if before != nil {
		last = before.result
	}
	operand = last
	if g != nil {
		ends := func(b *buffer, at moment) int { return b.end.compare(at) }
		if j, _ := slices.BinarySearchFunc(a.saved, g.begin, ends); j < len(a.saved) && a.saved[j].begin.event < o.first().begin.event {
			operand, producer = a.saved[j], a.producers[a.saved[j]]
		}
		switch fits := func(b *buffer) bool { return b != nil && b.end.compare(g.begin) > 0 && takes(o, b) }; {
		case !o.does.Is(program.OpLinear) || fits(operand) || len(floats) > mostSizes:
		case fits(last): // it may have 16 bits
			operand, producer = last, before
		default:
			for _, b := range floats {
				if fits(b) && (!fits(operand) || b.begin.compare(operand.begin) > 0) {
					operand, producer = b, a.producers[b]
				}
			}
		}
	}
	if operand != nil && !a.half[operand] {
		a.castOperand(o, producer, operand, operand.size/2)
	}
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

// takes reports whether the product of an operand and the weight can have the size of the result: rows, columns and their sum of products are whole numbers.
func takes(o *operation, operand *buffer) bool {
	isSquare := func(x, y *buffer) bool {
		n := math.Sqrt(float64(x.size) / float64(y.size) * float64(o.gradient.size) / 4)
		return math.Abs(n-math.Round(n)) < 1e-6
	}
	return o.result != nil && isSquare(operand, o.result) && isSquare(o.result, operand)
}

var isGradient = is(purpose.Gradient)

const logSoftmaxBackward = "_log_softmax_backward_data"

// castBackward mirrors in the backward pass what was done in the forward pass.
func (a *autocaster) castBackward() {
	m := a.m
	ofHalf := map[string]bool{} // operators whose forward result has 16 bits
	for b := range a.half {
		ofHalf[m.op(b)] = true
	}
	isHalf := false // the last gradient
	for q, b := range a.backward {
		op := m.op(b)
		forward, isNode := strings.CutSuffix(strings.TrimPrefix(op, "native_"), "_backward")
		switch isProduct := m.does(b, program.OpProduct); {
		case b.category == purpose.Workspace || b.size <= smallest:
		case isGradient(b) && isProduct:
			done := a.done(b).event
			a.put(b, b.size/2, b.begin, freesHalfGradient.at(done))
			a.moved[b] = [2]moment{castsGradient.at(done), b.end.later(leastGradient.at(done))} // it may be added to another one at once
			isHalf = true
		case isGradient(b) && a.isClone(q):
			a.put(b, b.size, castsClone.at(b.begin.event), freesClone.at(b.begin.event))
		case isGradient(b):
		case op == "nll_loss_backward": // it has 32 bits, and a copy of 16 for the softmax before it
			if i := slices.IndexFunc(a.backward[q+1:], func(next *buffer) bool { return next.size == b.size }); i >= 0 {
				next := a.backward[q+1+i].begin.event
				a.put(b, b.size/2, castsWeight.at(next), b.end)
				a.moved[b] = [2]moment{b.begin, castsOperand.at(next)}
			}
		case isProduct, op == logSoftmaxBackward:
			a.half[b], isHalf = true, true
		case m.does(b, program.OpNorm|program.OpFloat):
			isHalf = isHalf && op == sumOp
		case isHalf, isNode && ofHalf[forward]:
			a.half[b], isHalf = true, true
		}
	}
}
