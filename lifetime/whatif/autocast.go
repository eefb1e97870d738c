package whatif

import (
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
		return "which operators run is not recorded: record with stacks=\"all\""
	case m.any(func(b *buffer) bool { return m.does(b, program.OpOverTime) }):
		return "what a whole recurrent layer casts is not recorded"
	}
	most := m.clone()
	if refused := m.castPasses(false); refused != "" {
		return refused
	}
	peak := m.doubt(offAutocast)
	if most.castPasses(true) == "" {
		m.more += max(0, most.peak()-peak)
	}
	return ""
}

// castPasses changes all passes. most: operands of products that are not known are copied, and kept.
func (m *model) castPasses(most bool) string {
	var all []*autocaster
	var first []*buffer // of the first backward pass that makes gradients
	for k := range m.passes {
		if !m.passes[k].trains() {
			continue
		}
		a := &autocaster{
			m: m, pass: k, most: most, uses: m.lastUses(k, m.blocks(k)), backward: m.backward(k), dead: m.deaths(k),
			half: map[*buffer]bool{}, moved: map[*buffer][2]moment{}, terms: map[*buffer]bool{},
		}
		switch {
		case slices.ContainsFunc(a.backward, a.isGradient):
			if first == nil {
				first = a.backward
			}
		case slices.EqualFunc(first, a.backward, func(x, y *buffer) bool { return x.site == y.site && x.size == y.size }):
			for q, b := range a.backward {
				a.terms[b] = a.isGradient(first[q])
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
	return ""
}

// autocaster changes one pass.
type autocaster struct {
	m        *model
	pass     int
	most     bool
	uses     map[*buffer]moment
	backward []*buffer
	dead     []int
	half     map[*buffer]bool      // has 16 bits
	moved    map[*buffer][2]moment // begins and ends elsewhere
	terms    map[*buffer]bool      // that are added to gradients which are kept, as a pass that makes these shows

	operations []operation
	gradientOf map[*operation]*buffer // of the weight of an operation
	copied     map[*buffer]bool       // gradients whose product copied its operand
	sums       map[*buffer]*buffer    // gradients whose product has its result added: that result
}

// operation is what one operator makes in a forward pass.
type operation struct {
	op     string
	does   program.Operator
	made   []*buffer
	result *buffer
}

func (o *operation) first() *buffer { return o.made[0] }
func (o *operation) last() *buffer  { return o.made[len(o.made)-1] }

// multiplies reports whether autocast runs an operation in 16 bits.
func (o *operation) multiplies() bool { return o.does.Is(program.OpHalf) }

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

// isGradient reports whether a buffer is a gradient, or is added to one.
func (a *autocaster) isGradient(b *buffer) bool { return b.category == purpose.Gradient || a.terms[b] }

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
		if a.isGradient(b) && (a.m.does(b, program.OpProduct) || a.isClone(q)) {
			gradients = append(gradients, b)
		}
	}
	if len(gradients) == 0 {
		return "no gradient of a matrix is known"
	}
	if a.readOperations(); len(a.operations) == 0 {
		return "what a forward pass makes was not recorded, though its backward pass was"
	}
	a.matchWeights(gradients)
	f := a.newForward()
	for i := range a.operations {
		f.cast(i)
	}
	b := backwardCaster{autocaster: a, ofHalf: map[string]bool{}, last: map[int64]*buffer{}, nextOf: map[*buffer]*buffer{}}
	b.cast()
	return ""
}

func (a *autocaster) readOperations() {
	m := a.m
	for _, b := range m.computed(a.pass) {
		op, n := m.op(b), len(a.operations)
		if n > 0 && op == a.operations[n-1].op && op != "linear" && m.stack(b) == m.stack(a.operations[n-1].first()) {
			a.operations[n-1].made = append(a.operations[n-1].made, b)
		} else {
			a.operations = append(a.operations, operation{op: op, does: m.paths.Sites[b.site].Does, made: []*buffer{b}})
		}
	}
	for i := range a.operations {
		of := &a.operations[i]
		for _, b := range of.made {
			if b.size > smallest && (of.result == nil || !m.isNorm(b)) {
				of.result = b
			}
		}
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
	a.gradientOf, a.copied, a.sums = map[*operation]*buffer{}, map[*buffer]bool{}, map[*buffer]*buffer{}
	isKnown := len(weighted) == len(gradients)
	for i, g := range gradients {
		of := &a.operations[0]
		if isKnown {
			of = weighted[len(gradients)-1-i]
			a.gradientOf[of] = g
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

// halve has 16 bits for what an operation makes, but masks.
func (a *autocaster) halve(o *operation) {
	for i, b := range o.made {
		isMask := i+1 < len(o.made) && o.made[i+1].size == 4*b.size
		if !isMask && b.size > smallest {
			a.half[b] = true
		}
	}
}

// forwardCaster changes a forward pass.
type forwardCaster struct {
	*autocaster
	saved     []*buffer              // by end
	producers map[*buffer]*operation // by result
	input     *buffer                // the largest one; nil = not known
	ofLoss    []*buffer              // gradients of softmax before a loss
	floats    map[int64]moment       // last ends of results of 32 bits, by size
	prev      *operation             // the last one with a result
	shared    *buffer                // operand of 32 bits that the last product copied
}

func (a *autocaster) newForward() *forwardCaster {
	f := &forwardCaster{autocaster: a, producers: map[*buffer]*operation{}, floats: map[int64]moment{}}
	for _, b := range a.m.ofPass(a.pass) {
		if b.saved {
			f.saved = append(f.saved, b)
		}
	}
	slices.SortStableFunc(f.saved, func(x, y *buffer) int { return x.end.compare(y.end) })
	for _, b := range a.m.during(a.pass) {
		if b.category == purpose.Input && (f.input == nil || b.size > f.input.size) {
			f.input = b
		}
	}
	for i := range a.operations {
		f.producers[a.operations[i].result] = &a.operations[i]
	}
	f.ofLoss = filter(a.backward, func(b *buffer) bool { return a.m.op(b) == logSoftmaxBackward })
	return f
}

func (f *forwardCaster) cast(i int) {
	o := &f.operations[i]
	isHalf := f.prev != nil && f.half[f.prev.result]
	switch {
	case o.multiplies():
		f.multiply(o)
		if g := f.gradientOf[o]; g != nil && i+1 < len(f.operations) && f.operations[i+1].op == "add" {
			f.sums[g] = o.result
		}
		f.halve(o)
	case o.op == "cross_entropy_loss":
		if b := o.first(); isHalf && b.size > smallest {
			f.half[b] = true
			end := b.end
			before := func(x *buffer, at moment) int { return x.begin.compare(at) }
			if k, _ := slices.BinarySearchFunc(f.ofLoss, b.end, before); k > 0 {
				end = freesHalfLoss.at(f.ofLoss[k-1].begin.event)
			}
			f.put(b, b.size, hasCast.at(b.begin.event), end)
		}
	case o.op == "softmax" && isHalf:
		f.put(o.first(), o.first().size, castsOperand.at(o.first().begin.event), hasCast.at(o.first().begin.event))
	case o.does.Is(program.OpFloat) || o.op == "":
	case isHalf && f.most && !o.does.Is(program.OpFollows) && o.op != "add": // with what may have 32 bits
	case isHalf && (o.op != "add" || o.result == nil || f.floats[o.result.size].compare(o.result.begin) <= 0): // no operand has 32 bits
		f.halve(o)
	}
	if b := o.result; b != nil {
		f.prev = o
		if !f.half[b] {
			f.floats[b.size] = f.floats[b.size].later(b.end)
		}
	}
}

// operandOf returns the operand of a product, and what made it; nil if that is not known.
func (f *forwardCaster) operandOf(o *operation) (operand *buffer, producer *operation) {
	if producer = f.prev; producer != nil {
		operand = producer.result
	}
	if g := f.gradientOf[o]; g != nil {
		ends := func(b *buffer, at moment) int { return b.end.compare(at) }
		if j, _ := slices.BinarySearchFunc(f.saved, g.begin, ends); j < len(f.saved) && f.saved[j].begin.event < o.first().begin.event {
			operand, producer = f.saved[j], f.producers[f.saved[j]]
		}
	}
	if operand == nil {
		operand = f.input
	}
	return operand, producer
}

// multiply adds copies of what a product takes.
func (f *forwardCaster) multiply(o *operation) {
	operand, producer := f.operandOf(o)
	if operand == nil {
		return
	}
	g, first := f.gradientOf[o], o.first()
	begin := castsOperand.at(first.begin.event)
	isKept := operand.saved || operand.category == purpose.Input
	if f.half[operand] {
		if isKnown := g != nil && f.prev != nil && operand == f.prev.result; f.most && !isKnown && f.shared != nil && o.op != "matmul" {
			end := f.shared.end
			if g != nil {
				end = f.done(g)
			}
			f.put(first, f.shared.size/2, begin, end)
		}
		return
	}
	if isKept {
		f.shared = operand
	}
	end := hasCast.at(o.last().begin.event)
	switch {
	case g != nil && isKept:
		end = f.done(g)
	case operand.saved && o.op == "matmul" && first.saved:
		end = first.end
	case operand.saved:
		end = operand.end
	}
	f.put(first, operand.size/2, begin, end)
	keepsResult := producer != nil && producer.does.Is(program.OpSavesOwn)
	use, isUsed := f.uses[operand]
	if isUsed && (g != nil || !f.most) && operand.saved && operand.category != purpose.Input && !keepsResult {
		f.moved[operand] = [2]moment{operand.begin, use.later(freesOperand.at(o.last().begin.event))}
	}
	if g != nil {
		f.copied[g] = true
	}
}

const logSoftmaxBackward = "_log_softmax_backward_data"

// backwardCaster mirrors in the backward pass what was done in the forward pass.
type backwardCaster struct {
	*autocaster
	ofHalf map[string]bool     // operators whose forward result has 16 bits
	nextOf map[*buffer]*buffer // of losses: the next buffer of their size
	last   map[int64]*buffer   // by size
	isHalf bool                // the last gradient
}

func (a *backwardCaster) cast() {
	m := a.m
	for b := range a.half {
		a.ofHalf[m.op(b)] = true
	}
	next := map[int64]*buffer{} // by size
	for _, b := range slices.Backward(a.backward) {
		if m.op(b) == "nll_loss_backward" {
			a.nextOf[b] = next[b.size]
		}
		next[b.size] = b
	}
	for q, b := range a.backward {
		source := a.last[b.size]
		a.last[b.size] = b
		switch isProduct := m.does(b, program.OpProduct); {
		case b.category == purpose.Workspace || b.size <= smallest:
		case a.isGradient(b) && isProduct:
			a.castGradient(q, b)
		case a.isGradient(b) && a.isClone(q):
			a.put(b, b.size, castsClone.at(b.begin.event), freesClone.at(b.begin.event))
		case a.isGradient(b):
		case isProduct:
			a.isHalf = true
			if _, isMoved := a.moved[b]; !isMoved {
				a.half[b] = true
			}
		default:
			a.castOther(b, source)
		}
	}
}

// castGradient casts gradient q of a weight, and that of its operand.
func (a *backwardCaster) castGradient(q int, b *buffer) {
	done := a.done(b).event
	a.put(b, b.size/2, b.begin, freesHalfGradient.at(done))
	a.moved[b] = [2]moment{castsGradient.at(done), b.end.later(leastGradient.at(done))} // it may be added to another one at once
	var input *buffer                                                                   // gradient of the operand
	for _, j := range [...]int{q - 1, q + 1} {
		if j >= 0 && j < len(a.backward) && a.m.does(a.backward[j], program.OpProduct) && !a.isGradient(a.backward[j]) {
			input = a.backward[j]
			break
		}
	}
	begin := b.begin.event
	if input != nil {
		begin = min(begin, input.begin.event)
	}
	if sum := a.sums[b]; sum != nil {
		a.put(sum, sum.size/2, castsWeight.at(begin), freesSum.at(done))
	}
	if input != nil && a.copied[b] {
		a.put(input, input.size/2, input.begin, freesHalfInput.at(done))
		a.moved[input] = [2]moment{castsInputGradient.at(done), input.end.later(leastInputGradient.at(done))}
	}
	a.isHalf = input == nil || !a.copied[b]
}

// castOther casts what is neither a gradient of a parameter nor a product. source is the buffer of its size before it.
func (a *backwardCaster) castOther(b, source *buffer) {
	op := a.m.op(b)
	switch {
	case op == "nll_loss_backward": // it has 32 bits, and a copy of 16 for the softmax before it
		if next := a.nextOf[b]; next != nil {
			a.put(b, b.size/2, castsWeight.at(next.begin.event), b.end)
			a.moved[b] = [2]moment{b.begin, castsOperand.at(next.begin.event)}
		}
	case op == logSoftmaxBackward:
		a.half[b], a.isHalf = true, true
	case op == "_softmax_backward_data":
		if source != nil && a.m.op(source) != op && a.half[source] {
			a.put(b, b.size, castsWeight.at(b.begin.event), source.end)
			a.moved[source] = [2]moment{source.begin, castsOperand.at(b.begin.event)}
		}
		a.isHalf = true // it is copied back
	case a.m.does(b, program.OpNorm|program.OpFloat):
		a.isHalf = a.isHalf && op == sumOp
	case strings.HasSuffix(op, "_backward"):
		name := strings.TrimSuffix(strings.TrimPrefix(op, "native_"), "_backward")
		if name == "threshold" {
			name = "relu"
		}
		if a.ofHalf[name] || a.isHalf {
			a.half[b], a.isHalf = true, true
		}
	case a.isHalf && !a.most:
		a.half[b] = true
	}
}
