package whatif

import (
	"slices"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/replay"
)

func (m *model) isOfLoss(b *buffer) bool { return m.hasCall(b, "cross_entropy") }

// lossChunker computes losses in parts.
type lossChunker struct {
	m       *model
	parts   int
	weights map[int64]bool   // sizes
	scores  map[int64]bool   // sizes of what losses take
	lines   map[int32]bool   // of the program, that compute losses which train
	gone    map[*buffer]bool // parts take its place
	done    bool
}

// chunkLoss computes the loss and the product before it in parts under checkpointing.
func (m *model) chunkLoss(parts int) string {
	c := lossChunker{m: m, parts: parts, weights: m.sizes(isParameter), scores: map[int64]bool{}, lines: map[int32]bool{}, gone: map[*buffer]bool{}}
	for k := range m.passes {
		if refused := c.pass(k); refused != "" {
			return refused
		}
	}
	for k := range m.passes {
		c.evaluation(k)
	}
	if !c.done {
		return "no cross entropy with a backward pass is on a stack"
	}
	for _, b := range m.failed() {
		if c.scores[b.size] {
			b.size /= int64(parts)
		}
	}
	m.drop(func(b *buffer) bool { return c.gone[b] })
	return ""
}

// pass computes the loss of pass k in parts.
func (c *lossChunker) pass(k int) (refused string) {
	m, p := c.m, &c.m.passes[k]
	all := m.forward(k)
	first, from, to, size := 0, -1, -1, int64(0)
	for i, b := range all {
		switch {
		case m.isOfLoss(b):
			if size, to = max(size, b.size), i; from < 0 && b.end.event > p.backward && !b.dropped && b.size > smallest && b.category != purpose.Workspace {
				from = first
			}
		case from < 0: // an evaluation before has a loss, too
			first, size = i+1, 0
		}
	}
	switch {
	case p.cut && !p.trains():
		c.cutOff(k, all)
		return ""
	case to < 0 || !p.trains():
		return ""
	case from < 0:
		return "what the loss keeps for the backward pass is not on the device"
	}
	isScore := func(b *buffer) bool { return b.size == size || b.size == size/2 } // half under autocast
	c.scores[size], c.scores[size/2], c.done = true, true, true
	loss := withProduct(all[:to+1], from, isScore)
	c.lines[m.paths.UserCall(loss[len(loss)-1].site)] = true
	back := c.backwardOf(k, loss, isScore)
	c.compute(k, loss, &back)
	if p.cut && m.isUnnamed() { // nothing tells when its backward pass ends
		m.widen(size, 0)
	}
	return ""
}

// evaluation computes the losses of pass k that do not train in parts, too, if the same lines compute them.
func (c *lossChunker) evaluation(k int) {
	m, all := c.m, c.m.forward(k)
	isPart := func(b *buffer) bool { return m.isOfLoss(b) && !c.gone[b] && c.lines[m.paths.UserCall(b.site)] }
	isScore := func(b *buffer) bool { return c.scores[b.size] && !isOfLibrary(b) }
	for begin, end := 0, 0; begin < len(all); begin = end + 1 {
		for end = begin; end < len(all) && isPart(all[end]); {
			end++
		}
		if from := slices.IndexFunc(all[begin:end], isScore); from >= 0 {
			c.compute(k, withProduct(all[:end], begin+from, isScore), nil)
		}
	}
}

func isOfLibrary(b *buffer) bool { return b.category == purpose.Workspace || b.isScratch() }

// withProduct returns the buffers of a loss from one on, but for those of libraries, and before them the product whose result it takes.
func withProduct(all []*buffer, from int, isScore func(b *buffer) bool) []*buffer {
	for from > 0 && isOfLibrary(all[from-1]) {
		from--
	}
	if from > 0 && isScore(all[from-1]) {
		from--
	}
	return filter(all[from:], func(b *buffer) bool { return !isOfLibrary(b) })
}

// cutOff is pass if the loss itself was cut off: there is nothing yet but one part.
func (c *lossChunker) cutOff(k int, all []*buffer) {
	m := c.m
	i := slices.IndexFunc(m.others, func(o other) bool { return o.kind == replay.Fail && o.at.event == m.passes[k].end })
	if i < 0 || !m.isOfLoss(&m.others[i].failed) {
		return
	}
	failed, parts := &m.others[i].failed, int64(c.parts)
	size := failed.size
	failed.size /= parts
	for _, b := range slices.Backward(all) {
		if b.size != size && b.size != size/2 && !m.isOfLoss(b) {
			break
		}
		b.size = max(b.size/parts, 1)
	}
	c.done = true
}

// lossBackward is what the backward pass of a loss makes.
type lossBackward struct {
	products          []*buffer // of the size of what the loss takes
	gradient, operand *buffer   // of the weight of the product; nil = not known
	scratch           []*buffer // of the sum of the gradient of its bias, and the bytes and rows of that
	bias, rows        int64
}

// backwardOf returns what the backward pass k makes of a loss.
func (c *lossChunker) backwardOf(k int, loss []*buffer, isScore func(b *buffer) bool) (made lossBackward) {
	m, backward, last := c.m, c.m.backward(k), 0
	for _, b := range loss {
		if b.size > smallest && b.isFreed() && (b.saved || b.end.event < m.passes[k].end) { // a variable may hold others
			last = max(last, b.end.event)
		}
	}
	i := slices.IndexFunc(backward, func(b *buffer) bool {
		isProduct := m.op(b) == "" || m.does(b, program.OpProduct)
		isAdded := b.category == purpose.TemporaryData && c.weights[b.size] && isProduct // to one that is kept
		return b.begin.event >= last && (b.category == purpose.Gradient || isAdded)
	})
	if i >= 0 {
		made.gradient = backward[i]
		for _, b := range backward[:i] { // under autocast its 16 bits are summed
			if b.begin.event >= last && b.size == (made.gradient.size+1)/2 {
				made.gradient = b
			}
		}
	}
	for _, b := range backward {
		if b.begin.event < last && isScore(b) {
			made.products = append(made.products, b)
		}
	}
	g := slices.Index(backward, made.gradient)
	if g < 0 {
		return made
	}
	next := m.skipSums(backward, g+1, 1)
	if next == g+1 && next+1 < len(backward) && m.op(made.gradient) == "" && backward[next].category != purpose.TemporaryData {
		next = m.skipSums(backward, next+1, 1) // of a bias that is not known to follow its matrix
	}
	if n := len(made.products); n > 0 && next > g+2 {
		made.scratch, made.bias = backward[g+2:next], backward[g+1].size
		made.rows = made.products[n-1].size / made.bias
	}
	if g > 0 && next > g+1 && m.isOfInput(backward[g-1], made.gradient) { // addmm makes the gradient of its input first
		made.operand = backward[g-1]
	} else if k := slices.IndexFunc(backward[next:], is(purpose.TemporaryData)); k >= 0 {
		made.operand = backward[next+k]
	}
	return made
}

// compute puts parts in the place of a loss of pass k, and of what its backward pass makes; nil = it has none.
func (c *lossChunker) compute(k int, loss []*buffer, back *lossBackward) {
	m, forwards, backwards := c.m, loss[0].begin.event, c.m.passes[k].backward
	part := func(b *buffer, begin, end moment) *buffer {
		return m.add(b, begin, end, int64(float64(b.size)/float64(c.parts)))
	}
	for n := range c.parts {
		in := func(event, of int, after rank) moment {
			in := repeats.at(event).in(n, of)
			in.innerRank = after
			return in
		}
		for _, b := range loss {
			c.gone[b] = true
			if b.size < smallest {
				continue
			}
			end := b.end.event
			if b.saved {
				end = noEvent // of the part
			}
			part(b, in(forwards, b.begin.event, itself), in(forwards, end, itself))
			if back != nil {
				part(b, in(backwards, b.begin.event, itself), in(backwards, b.end.event, itself)).phase = purpose.Backward
			}
		}
		if back == nil {
			continue
		}
		for _, b := range back.products {
			c.gone[b] = true
			end := in(backwards, b.end.event, itself)
			if g := back.gradient; g != nil && b.end.event > g.begin.event {
				end = in(backwards, g.begin.event, freesProduct)
			}
			part(b, in(backwards, b.begin.event, itself), end)
		}
		g := back.gradient
		if g == nil {
			continue
		}
		// The first two contributions are added into a third buffer, later ones into that.
		freed := in(backwards, g.begin.event, freesContribution)
		freed.round = max(freed.round, 1)
		m.add(g, in(backwards, g.begin.event, itself), freed, g.size).category = purpose.TemporaryData
		if n == 1 {
			m.repeat(g, in(backwards, g.begin.event, addsContribution), g.end).added = false
			c.gone[g] = true
		}
		for _, b := range back.scratch {
			c.gone[b] = true
			size := min(b.size, scratchOf(back.rows/int64(c.parts), back.bias, m.halved))
			m.add(b, in(backwards, g.begin.event, after), in(backwards, g.begin.event, freesProduct), max(1, size))
		}
		if back.operand != nil {
			part(back.operand, in(backwards, g.begin.event, after), operandOfParts.at(backwards))
		}
	}
}
