package whatif

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/purpose"
)

// What autocast does with operators: products have 16 bits, and so do copies of their operands; some have 32 bits always, or make their
// result of what has; others have what their operand has. A sum may have either.
var (
	inHalf = map[string]bool{
		"linear": true, "matmul": true, "mm": true, "mv": true, "addmm": true, "bmm": true, "baddbmm": true, "addbmm": true, "einsum": true,
		"scaled_dot_product_attention": true, "lstm_cell": true, "gru_cell": true, "_thnn_fused_lstm_cell": true,
	}
	inFloat = map[string]bool{
		"softmax": true, "log_softmax": true, "layer_norm": true, "native_layer_norm": true, "group_norm": true, "embedding": true, "sum": true,
		"exp": true, "log": true, "pow": true, "rsqrt": true, "cumsum": true, "norm": true, "softplus": true, "mse_loss": true, "nll_loss": true, "arange": true,
	}
	keepResult = map[string]bool{"softmax": true, "relu": true, "tanh": true, "sigmoid": true, "exp": true, "log_softmax": true}
	ofOne      = map[string]bool{ // operand
		"relu": true, "gelu": true, "silu": true, "tanh": true, "sigmoid": true, "elu": true, "leaky_relu": true, "hardtanh": true, "dropout": true,
		"clone": true, "contiguous": true, "reshape": true, "amax": true, "mean": true, "max_pool2d": true, "avg_pool2d": true, "softmax": true,
	}
	ofProducts  = map[string]bool{"mm": true, "addmm": true, "bmm": true, "baddbmm": true, "convolution_backward": true}
	withWeights = map[string]bool{"linear": true, "addmm": true, "mm": true}
)

const logSoftmaxBackward = "_log_softmax_backward_data"

// isConvolution reports whether an operator is a convolution of either direction.
func isConvolution(op string) bool {
	return strings.HasPrefix(op, "conv") && op != "convolution_backward"
}

// operation is what one operator makes in a forward pass.
type operation struct {
	op     string
	made   []*buffer
	result *buffer
}

// autocaster changes one pass.
type autocaster struct {
	m     *model
	pass  int
	uses  map[*buffer]float64
	half  map[*buffer]bool // has 16 bits
	moved map[*buffer][2]pos
	added []buffer
	saved []*buffer // by end
	dead  []float64
	most  bool
	terms map[*buffer]bool // that are added to gradients which are kept, as a pass that makes these shows
}

// done returns when the node that makes a gradient has ended: with what it saved, or with the gradient if it saved nothing.
func (a *autocaster) done(gradient *buffer) float64 {
	end := a.m.passes[a.pass].end
	if n := consumed(a.dead, gradient.begin.n, end); n < end {
		return n
	}
	return gradient.begin.n + after
}

// autocast computes under torch.autocast: weights, gradients and states keep their 32 bits, products have 16 bits and copies of weights, which live
// until their gradients, and of operands, which the products save in place of these.
func (m *model) autocast() string {
	if len(m.weightCopies()) > 0 {
		return "the program already computes in 16 bits"
	}
	if !slices.ContainsFunc(m.buffers, func(b buffer) bool { return b.phase == purpose.Forward && m.places[b.place].op != "" }) {
		return "which operators run is not recorded: record with stacks=\"all\""
	}
	if slices.ContainsFunc(m.buffers, func(b buffer) bool { return layersOverTime[m.places[b.place].op] }) {
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

// layersOverTime are operations that run many products inside, and cast for each.
var layersOverTime = map[string]bool{"lstm": true, "gru": true, "rnn_tanh": true, "rnn_relu": true}

// castPasses changes all passes. most: operands of products that are not known are copied, and kept.
func (m *model) castPasses(most bool) string {
	var all []*autocaster
	var first []*buffer // of the first backward pass that makes gradients
	for k := range m.passes {
		if p := &m.passes[k]; p.back < p.end {
			a := &autocaster{
				m: m, pass: k, most: most, uses: m.lastUses(k, m.units(k)), half: map[*buffer]bool{}, moved: map[*buffer][2]pos{}, terms: map[*buffer]bool{},
			}
			switch backward := m.ofPass(k, purpose.Backward); {
			case slices.ContainsFunc(backward, a.isGradient):
				if first == nil {
					first = backward
				}
			case slices.EqualFunc(first, backward, func(x, y *buffer) bool { return x.place == y.place && x.size == y.size }):
				for q, b := range backward {
					if a.isGradient(first[q]) {
						a.terms[b] = true
					}
				}
			}
			if refused := a.cast(); refused != "" {
				return refused
			}
			all = append(all, a)
		}
	}
	if all == nil {
		return "no backward pass was recorded, and which buffers are weights is not known"
	}
	var added []buffer
	for _, a := range all {
		for b := range a.half {
			b.size = max(b.size/2, 1)
		}
		for b, at := range a.moved {
			b.begin, b.end, b.requestFree = at[0], at[1], noEvent
			b.saved = b.saved && b.end.n > m.passes[a.pass].back
		}
		added = append(added, a.added...)
	}
	m.buffers, m.moved = append(m.buffers, added...), true
	return ""
}

// isGradient reports whether a buffer is a gradient, or is added to one.
func (a *autocaster) isGradient(b *buffer) bool { return b.category == purpose.Gradient || a.terms[b] }

// put adds a copy that is like a buffer. What forward makes and backward frees is saved, as in recordings of such programs.
func (a *autocaster) put(like *buffer, size int64, begin, end pos) {
	if begin.compare(end) >= 0 {
		return
	}
	c, back := *like, a.m.passes[a.pass].back
	c.begin, c.end, c.size, c.requestFree, c.category, c.added, c.start = begin, end, size, noEvent, purpose.TemporaryData, true, false
	c.saved = begin.n < back && end.n > back
	a.added = append(a.added, c)
}

// operations returns the operations of the forward pass.
func (a *autocaster) operations() (all []operation) {
	m := a.m
	for _, b := range m.forward(a.pass) {
		if b.category == purpose.Workspace {
			continue
		}
		op := m.places[b.place].op
		if n := len(all); n > 0 && op == all[n-1].op && op != "linear" && m.pieceOf(b).stack == m.pieceOf(all[n-1].made[0]).stack {
			all[n-1].made = append(all[n-1].made, b)
		} else {
			all = append(all, operation{op: op, made: []*buffer{b}})
		}
	}
	for i := range all {
		of := &all[i]
		for _, b := range of.made {
			if b.size > smallest && (of.result == nil || !m.isNorm(b)) {
				of.result = b
			}
		}
	}
	return all
}

// cast changes the pass.
func (a *autocaster) cast() string {
	m := a.m
	of := m.inPass(a.pass)
	for i := range of {
		if b := &of[i]; int(b.pass) == a.pass && b.saved {
			a.saved = append(a.saved, b)
		}
	}
	slices.SortStableFunc(a.saved, func(x, y *buffer) int { return x.end.compare(y.end) })
	backward := m.ofPass(a.pass, purpose.Backward)
	var gradients []*buffer // of matrices, last first
	for q, b := range backward {
		if a.isGradient(b) && (ofProducts[m.places[b.place].op] || a.isClone(backward, q)) {
			gradients = append(gradients, b)
		}
	}
	if len(gradients) == 0 {
		return "no gradient of a matrix is known"
	}
	all := a.operations()
	if len(all) == 0 {
		return "what a forward pass makes was not recorded, though its backward pass was"
	}
	var weighted []int
	for i := range all {
		if withWeights[all[i].op] || isConvolution(all[i].op) {
			weighted = append(weighted, i)
		}
	}
	gradientOf := map[int]*buffer{} // of the weight of an operation
	if len(weighted) == len(gradients) {
		for j, i := range weighted {
			gradientOf[i] = gradients[len(gradients)-1-j]
		}
	}
	a.dead = m.deaths(a.pass)
	uses := map[*buffer]*buffer{} // of gradients: what the operation of their weight makes first
	for i, g := range gradientOf {
		uses[g] = all[i].made[0]
	}
	for _, g := range gradients { // cached copies of weights
		of, ok := uses[g]
		if !ok {
			of = all[0].made[0]
		}
		a.put(of, g.size/2, pos{of.begin.n, -.4, 0, 0}, pos{a.done(g), .5, 0, 0})
	}
	producers := map[*buffer]*operation{}
	for i := range all {
		producers[all[i].result] = &all[i]
	}
	input := a.input()
	var ofLoss []*buffer // gradients of softmax before a loss
	for _, b := range backward {
		if m.places[b.place].op == logSoftmaxBackward {
			ofLoss = append(ofLoss, b)
		}
	}
	floats := map[int64]pos{}    // last ends of results of 32 bits, by size
	copied := map[*buffer]bool{} // gradients whose product copied its operand
	sums := map[*buffer]*buffer{}
	var prev *operation
	var shared *buffer // operand of 32 bits that the last product copied
	for i := range all {
		o := &all[i]
		isHalf := prev != nil && prev.result != nil && a.half[prev.result]
		switch {
		case inHalf[o.op] || isConvolution(o.op):
			var operand *buffer
			producer := prev
			if prev != nil {
				operand = prev.result
			}
			g := gradientOf[i]
			if g != nil {
				if j, _ := slices.BinarySearchFunc(a.saved, g.begin, func(b *buffer, p pos) int { return b.end.compare(p) }); j < len(a.saved) && a.saved[j].begin.n < o.made[0].begin.n {
					operand = a.saved[j]
					producer = producers[operand]
				}
			}
			if operand == nil {
				operand = input
			}
			if operand != nil && !a.half[operand] && (operand.saved || operand.category == purpose.Input) {
				shared = operand
			}
			if known := g != nil && prev != nil && operand == prev.result; a.most && !known && operand != nil && a.half[operand] && shared != nil && o.op != "matmul" {
				end := shared.end
				if g != nil {
					end = at(a.done(g))
				}
				a.put(o.made[0], shared.size/2, pos{o.made[0].begin.n, -.3, 0, 0}, end)
			}
			if operand != nil && !a.half[operand] {
				begin, end := pos{o.made[0].begin.n, -.3, 0, 0}, pos{o.made[len(o.made)-1].begin.n, .3, 0, 0}
				switch {
				case g != nil && (operand.saved || operand.category == purpose.Input):
					end = at(a.done(g))
				case operand.saved && o.op == "matmul" && o.made[0].saved:
					end = o.made[0].end
				case operand.saved:
					end = operand.end
				}
				a.put(o.made[0], operand.size/2, begin, end)
				if use, ok := a.uses[operand]; ok && (g != nil || !a.most) && operand.saved && operand.category != purpose.Input && (producer == nil || !keepResult[producer.op]) {
					a.moved[operand] = [2]pos{operand.begin, at(max(use, o.made[len(o.made)-1].begin.n+.1))}
				}
				if g != nil {
					copied[g] = true
				}
			}
			if g != nil && i+1 < len(all) && all[i+1].op == "add" {
				sums[g] = o.result
			}
			a.halve(o)
		case o.op == "cross_entropy_loss":
			if b := o.made[0]; isHalf && b.size > smallest {
				a.half[b] = true
				end := b.end
				if k, _ := slices.BinarySearchFunc(ofLoss, b.end, func(x *buffer, p pos) int { return x.begin.compare(p) }); k > 0 {
					end = pos{ofLoss[k-1].begin.n, -.5, 0, 0}
				}
				a.put(b, b.size, pos{b.begin.n, .3, 0, 0}, end)
			}
		case o.op == "softmax" && isHalf:
			b := o.made[0]
			a.put(b, b.size, pos{b.begin.n, -.3, 0, 0}, pos{b.begin.n, .3, 0, 0})
		case inFloat[o.op] || o.op == "":
		case isHalf && a.most && !ofOne[o.op] && o.op != "add": // with what may have 32 bits
		case isHalf && !(o.op == "add" && o.result != nil && floats[o.result.size].compare(o.result.begin) > 0): // with an operand of 32 bits
			a.halve(o)
		}
		if b := o.result; b != nil {
			prev = o
			if !a.half[b] && b.end.compare(floats[b.size]) > 0 {
				floats[b.size] = b.end
			}
		}
	}
	a.castBackward(backward, copied, sums)
	return ""
}

// isClone reports whether gradient q of a backward pass is a copy, in another order, of what a product just made.
func (a *autocaster) isClone(backward []*buffer, q int) bool {
	for j := q - 1; j >= max(0, q-cloneWithin); j-- {
		if x := backward[j]; x.size == backward[q].size && ofProducts[a.m.places[x.place].op] {
			return x.category == purpose.TemporaryData && x.end.compare(backward[q].begin) > 0
		}
	}
	return false
}

// cloneWithin is the most buffers that a node makes from a product to the copy of its result.
const cloneWithin = 3

// input returns the largest input of the pass; nil if none is known.
func (a *autocaster) input() (largest *buffer) {
	of := a.m.inPass(a.pass)
	for i := range of {
		if b := &of[i]; b.category == purpose.Input && (largest == nil || b.size > largest.size) {
			largest = b
		}
	}
	return largest
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

// castBackward mirrors what was done in the forward pass.
func (a *autocaster) castBackward(backward []*buffer, copied map[*buffer]bool, sums map[*buffer]*buffer) {
	m := a.m
	opOf := func(b *buffer) string { return m.places[b.place].op }
	ofHalf := map[string]bool{} // operators whose forward result has 16 bits
	for b := range a.half {
		ofHalf[opOf(b)] = true
	}
	nextOf, later := map[*buffer]*buffer{}, map[int64]*buffer{} // of losses: the next buffer of their size
	for _, b := range slices.Backward(backward) {
		if opOf(b) == "nll_loss_backward" {
			nextOf[b] = later[b.size]
		}
		later[b.size] = b
	}
	last := map[int64]*buffer{} // by size
	isHalf := false
	for q, b := range backward {
		src := last[b.size]
		last[b.size] = b
		if b.category == purpose.Workspace || b.size <= smallest {
			continue
		}
		op := opOf(b)
		switch {
		case a.isGradient(b) && ofProducts[op]:
			done := a.done(b)
			a.put(b, b.size/2, b.begin, pos{done, .7, 0, 0})
			a.moved[b] = [2]pos{{done, .6, 0, 0}, b.end.later(pos{done, .65, 0, 0})} // it may be added to another one at once
			var input *buffer                                                        // gradient of the operand
			for _, j := range [...]int{q - 1, q + 1} {
				if j >= 0 && j < len(backward) && ofProducts[opOf(backward[j])] && !a.isGradient(backward[j]) {
					input = backward[j]
					break
				}
			}
			begin := b.begin.n
			if input != nil {
				begin = min(begin, input.begin.n)
			}
			if sum := sums[b]; sum != nil {
				a.put(sum, sum.size/2, pos{begin, -.4, 0, 0}, pos{done, .2, 0, 0})
			}
			if input != nil && copied[b] {
				a.put(input, input.size/2, input.begin, pos{done, .4, 0, 0})
				a.moved[input] = [2]pos{{done, .3, 0, 0}, input.end.later(pos{done, .35, 0, 0})}
			}
			isHalf = input == nil || !copied[b]
		case a.isGradient(b) && a.isClone(backward, q):
			a.put(b, b.size, pos{b.begin.n, -.2, 0, 0}, pos{b.begin.n, .2, 0, 0})
		case a.isGradient(b):
		case ofProducts[op]:
			isHalf = true
			if _, ok := a.moved[b]; !ok {
				a.half[b] = true
			}
		case op == "nll_loss_backward": // it has 32 bits, and a copy of 16 for the softmax before it
			if x := nextOf[b]; x != nil {
				a.put(b, b.size/2, pos{x.begin.n, -.4, 0, 0}, b.end)
				a.moved[b] = [2]pos{b.begin, {x.begin.n, -.3, 0, 0}}
			}
		case op == logSoftmaxBackward:
			a.half[b], isHalf = true, true
		case op == "_softmax_backward_data":
			if src != nil && opOf(src) != op && a.half[src] {
				a.put(b, b.size, pos{b.begin.n, -.4, 0, 0}, src.end)
				a.moved[src] = [2]pos{src.begin, {b.begin.n, -.3, 0, 0}}
			}
			isHalf = true // it is copied back
		case strings.Contains(op, "norm") || inFloat[op]:
			if op != sumOp {
				isHalf = false
			}
		case strings.HasSuffix(op, "_backward"):
			name := strings.TrimSuffix(strings.TrimPrefix(op, "native_"), "_backward")
			if name == "threshold" {
				name = "relu"
			}
			if ofHalf[name] || isHalf {
				a.half[b], isHalf = true, true
			}
		case isHalf && !a.most:
			a.half[b] = true
		}
	}
}
