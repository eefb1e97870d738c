package whatif

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/replay"
)

// checkpoint keeps only the outputs of blocks that are chosen, or of calls of modules with some names, and computes each again in the backward
// pass, up to the last buffer that it saves.
func (m *model) checkpoint(modules string, chosen func(block int) bool) string {
	if modules != "" && !m.recordsModules() {
		return "modules are not recorded: record with memlane.record(modules=True)"
	}
	for i := range m.buffers {
		if b := &m.buffers[i]; b.part == purpose.Recomputation && b.phase == purpose.Forward && !b.added {
			return "the program already computes parts of its forward pass again"
		}
	}
	if m.neverTrains() {
		return "no backward pass runs over what the forward passes keep: use no_grad"
	}
	type change struct {
		b   *buffer
		end pos
	}
	var changes []change
	var added []buffer
	found := 0
	var open []buffer // computed again after the recording
	for k := range m.passes {
		p := m.passes[k]
		blocks := m.blocks(k)
		units := blocks
		if modules != "" {
			units = m.modules(k, modules)
		}
		if len(units) == 0 {
			continue
		}
		if found = len(units); modules == "" && !m.holdMost(k, units) {
			return "what repeats holds less than half of what is saved meanwhile: larger blocks are not known"
		}
		uses, unpacked, all := m.lastUses(k, blocks), m.unpacked(k), m.forward(k)
		var ran []redone // units that are chosen and save something
		for j, u := range units {
			if r := m.redoneOf(k, u, all); chosen(j) && r.last != 0 {
				ran = append(ran, r)
			}
		}
		var most []buffer // what one unit computes again of those that a failed request kept the backward pass from
		// of those: the last one, if the backward pass came to it
		current := len(ran) > 0 && !slices.ContainsFunc(all, func(b *buffer) bool {
			return b.saved && b.size > smallest && b.begin.n > ran[len(ran)-1].out.begin.n && b.end.n > p.end
		})
		computed := int64(0)
		for _, r := range slices.Backward(ran) {
			anchor, reached := p.end, p.back < p.end && (!p.cut || r.dies < p.end || current)
			current = current && r.dies < p.end
			if reached {
				anchor = m.backwardBegins(k, r.unit, r.dies)
			}
			var again []buffer
			for _, b := range r.all {
				c := *b
				c.begin, c.end = pos{anchor, 1, b.begin.n, 0}, unpacked(b.end)
				switch {
				case b == r.out:
					continue
				case b.saved:
					changes = append(changes, change{b, pos{min(r.end, uses[b]), -1, b.begin.n, 0}})
				case b.end != never && b.end.n < p.back && b.begin.n < r.last:
					c.end = pos{anchor, 1, min(b.end.n, r.last+1), 0}
				default:
					continue
				}
				if end := (pos{p.end, after, 0, 0}); reached && p.cut && c.end.compare(end) > 0 {
					c.end = end
				}
				c.added, c.saved, c.part, c.requestFree = true, false, purpose.Recomputation, noEvent
				again = append(again, c)
			}
			switch {
			case reached:
				added, computed = append(added, again...), computed+int64(len(again))
			case sizeOf(again) > sizeOf(most):
				most = again
			}
		}
		if most != nil && (m.open(k) || p.cut) { // a backward pass does it at some time, after what uses the last unit
			added, computed = append(added, most...), computed+int64(len(most))
			open = most
			last := ran[len(ran)-1].out
			pass := m.inPass(k)
			for i := range pass {
				b := &pass[i]
				isOver := b.saved && b.begin.n > last.begin.n || b.phase == purpose.Backward && b.category == purpose.TemporaryData
				if int(b.pass) == k && isOver && b.end.n > p.end {
					changes = append(changes, change{b, pos{p.end, after, 0, 0}})
				}
			}
		}
		m.recomputed = max(m.recomputed, computed)
	}
	switch {
	case found == 0 && modules != "":
		return "no module that ran forward has such a name; memlane peak --by layer shows where they are"
	case found == 0:
		return "no block of the program repeats"
	case changes == nil && modules != "":
		return "these modules save nothing but their results"
	case changes == nil:
		return fmt.Sprintf("the change names none of the %d blocks of the program, or these save nothing", found)
	}
	for _, c := range changes {
		m.until(c.b, c.end)
	}
	m.buffers, m.moved = append(m.buffers, added...), true
	m.less += sizeOf(open) / 2 // when it is computed again is not known
	return ""
}

// redone is a unit that a backward pass computes again.
type redone struct {
	unit unit
	out  *buffer   // what it hands on
	all  []*buffer // everything that the pass makes from its first to its last buffer, in order
	end  float64   // the next buffer of the pass begins
	dies float64   // what it saves is freed from here on
	last float64   // what it saves last begins; 0 if it saves nothing but out
}

// redoneOf returns what is computed again of a unit of pass k. all are the buffers of its forward pass.
func (m *model) redoneOf(k int, u unit, all []*buffer) redone {
	r := redone{unit: u, out: m.output(u), end: m.passes[k].back, dies: math.Inf(1)}
	first, ends := u[0], u[len(u)-1]
	for _, b := range all {
		switch {
		case b.begin.n > ends.begin.n:
			r.end = min(r.end, b.begin.n)
		case b.begin.n < first.begin.n:
		default:
			r.all = append(r.all, b)
			if b.saved && b != r.out {
				r.dies, r.last = min(r.dies, b.end.n), b.begin.n
			}
		}
	}
	return r
}

// sizeOf returns the bytes of buffers.
func sizeOf(all []buffer) (bytes int64) {
	for i := range all {
		bytes += all[i].size
	}
	return bytes
}

// backwardBegins returns when the backward pass of a unit of pass k begins, whose first saved buffer dies at an event: after the last death
// of what later units save. Nodes that saved nothing may still run then, such as those of indexes, so it is right before the node that frees the first
// ones if it has the name of their operation.
func (m *model) backwardBegins(k int, u unit, dies float64) float64 {
	begins, out := m.passes[k].back, u[len(u)-1]
	const together = 3 // buffers that a node saves
	var ops []string   // of what the first node saved
	pass := m.inPass(k)
	for i := range pass {
		b := &pass[i]
		if int(b.pass) != k || !b.saved {
			continue
		}
		switch {
		case b.end.n >= dies && b.end.n < dies+together:
			ops = append(ops, m.places[b.place].op)
		case b.begin.n >= out.begin.n && b.end.n < dies:
			begins = max(begins, b.end.n)
		}
	}
	if dies <= begins || dies >= m.passes[k].end {
		return begins
	}
	for _, b := range m.between(begins, dies) {
		isNode := func(op string) bool { return op != "" && strings.Contains(m.places[b.place].op, op) }
		if b.phase == purpose.Backward && slices.ContainsFunc(ops, isNode) {
			return max(begins, b.begin.n-1)
		}
	}
	return begins
}

// offload keeps what autograd saves on the host. Each buffer comes back for the operation that uses it, and so do weights.
func (m *model) offload(units func(k int) []unit) string {
	type change struct {
		b   *buffer
		end float64
	}
	var changes []change
	var added []buffer
	for k := range m.passes {
		p := &m.passes[k]
		if p.back == p.end && !p.cut {
			continue
		}
		uses, unpacked, dead := m.lastUses(k, units(k)), m.unpacked(k), m.deaths(k)
		var backward []float64
		for _, b := range m.ofPass(k, purpose.Backward) {
			backward = append(backward, b.begin.n)
		}
		// node returns the first allocation of backward after the previous end of what was saved.
		node := func(n float64) float64 {
			j, _ := slices.BinarySearch(dead, n)
			since := p.back - 1
			if j > 0 {
				since = dead[j-1]
			}
			i, ok := slices.BinarySearch(backward, since)
			if ok {
				i++
			}
			if i < len(backward) && backward[i] < n {
				return backward[i]
			}
			return n
		}
		copied := int64(0)
		pass := m.inPass(k)
		for i := range pass {
			b := &pass[i]
			if int(b.pass) != k {
				continue
			}
			switch {
			case b.saved:
				c := *b
				c.begin, c.end = pos{node(b.end.n) - after, 0, b.begin.n, 0}, unpacked(b.end)
				if !p.cut || b.end.n < p.end { // else its backward pass did not come
					added = append(added, c)
				}
				changes = append(changes, change{b, uses[b]})
				copied += 2 * b.size
			case b.category == purpose.Gradient && b.size > smallWeight:
				c := *b
				then := at(consumed(dead, b.begin.n, p.end))
				end := unpacked(then)
				if end == then {
					end.a = after
				}
				c.begin, c.end, c.category = pos{node(b.begin.n+after) - after, 1, b.begin.n, 0}, end, purpose.TemporaryData
				added = append(added, c)
				copied += 2 * b.size
			}
		}
		m.copied = max(m.copied, copied)
	}
	if changes == nil {
		return "no backward pass was recorded that uses what the forward pass saved"
	}
	for _, c := range changes {
		m.until(c.b, at(c.end))
	}
	for _, c := range added {
		if c.begin.compare(c.end) >= 0 {
			continue
		}
		c.added, c.saved, c.phase, c.requestFree = true, false, purpose.Backward, noEvent
		m.buffers = append(m.buffers, c)
	}
	return ""
}

// smallWeight is the size up to which weights do not count: biases and scales are not used in products.
const smallWeight = 64 << 10

// noGrad runs forward passes alone: all, or those over which no backward pass runs.
func (m *model) noGrad(units func(k int) []unit, all bool) string {
	type change struct {
		b   *buffer
		end float64
	}
	var changes []change
	for k := range m.passes {
		uses := m.lastUses(k, units(k))
		pass := m.inPass(k)
		for i := range pass {
			if b := &pass[i]; int(b.pass) == k && (b.dropped || all && b.saved) {
				changes = append(changes, change{b, min(b.end.n, uses[b])})
			}
		}
	}
	switch {
	case changes == nil && all:
		return "nothing is saved for a backward pass"
	case changes == nil:
		return "a backward pass runs over all that forward passes keep"
	}
	for _, c := range changes {
		m.until(c.b, at(c.end))
		c.b.saved = false
	}
	if !all {
		return ""
	}
	m.drop(func(b *buffer) bool {
		return b.phase == purpose.Backward || b.phase == purpose.OptimizerPhase || b.category == purpose.Gradient ||
			b.category == purpose.OptimizerState
	})
	return ""
}

// neverTrains reports whether no backward pass runs over what forward passes keep.
func (m *model) neverTrains() bool {
	dropped := false
	for i := range m.buffers {
		if b := &m.buffers[i]; b.saved {
			return false
		} else if b.dropped {
			dropped = true
		}
	}
	return dropped
}

// scale multiplies the sizes of what grows with the batch: inputs, activations and temporaries of both passes. Where the classes of a
// loss are its numbered samples, as of pairs of a batch, both may grow. Scratch of a convolution may not.
func (m *model) scale(f float64) string {
	parameters := m.sizes(func(b *buffer) bool { return b.category == purpose.ModelParameter })
	isEmbedding := func(b *buffer) bool { return b.phase == purpose.Forward && m.places[b.place].op == "embedding" }
	embedded := int64(0)
	for size := range m.sizes(isEmbedding) {
		embedded = max(embedded, size)
	}
	copies := m.weightCopies()
	numbers := m.sizes(func(b *buffer) bool { return b.phase == purpose.Forward && m.places[b.place].op == "arange" }) // of samples, perhaps
	pairs := m.sizes(func(b *buffer) bool {
		isLoss := m.places[b.place].op == "log_softmax" || m.hasCall(b, "cross_entropy")
		n := int64(math.Sqrt(float64(b.size / 4)))
		return b.phase == purpose.Forward && isLoss && b.size > smallest && b.size == 4*n*n && numbers[8*n]
	})
	isOfConv := func(b *buffer) bool {
		return b.category == purpose.TemporaryData && strings.Contains(m.places[b.place].op, "conv")
	}
	// The scratch of a convolution may be that of one sample.
	scratch := m.sizes(func(b *buffer) bool { return b.phase == purpose.Forward && isOfConv(b) && b.size > smallest })
	resize := func(m *model, ofPairs, ofScratch float64) string {
		return m.resize(func(b *buffer) float64 {
			ofPositions := isEmbedding(b) && parameters[b.size] && b.size < embedded
			switch {
			case copies[b.like] || ofPositions || m.places[b.place].op == "arange":
				return 1
			case pairs[b.size]:
				return ofPairs
			case scratch[b.size] && isOfConv(b):
				return ofScratch
			}
			return f
		})
	}
	var others []*model
	for _, of := range []struct {
		is                 bool
		ofPairs, ofScratch float64
	}{{len(pairs) > 0, f * f, f}, {len(scratch) > 0, f, 1}} {
		if of.is {
			others = append(others, m.clone())
			resize(others[len(others)-1], of.ofPairs, of.ofScratch)
		}
	}
	refused := resize(m, f, f)
	for _, other := range others {
		m.leaveOpen(other)
	}
	return refused
}

// Scratch of the sums of a gradient over more rows than fit a group of threads: each group writes a partial sum for each of its threads. Over
// fewer than 1,024 rows there is none. (aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig and global_memory_size)
const (
	groups       = 16              // for 1,024 rows
	bytesOfGroup = 4 * 128         // for each element of the result
	mostScratch  = 2368 * 64 << 10 // on a device of 148 multiprocessors
	largestBias  = 512 << 10
)

// sumMore widens the range by what sums over f times as many rows may need, of those gradients of biases whose sums need nothing as recorded: how
// many rows they have is not known.
func (m *model) sumMore(f float64) {
	biases, weight := map[int64]bool{}, int64(0)
	for i := range m.buffers { // a bias follows its matrix
		if b := &m.buffers[i]; b.category == purpose.ModelParameter {
			if b.size < weight && b.size <= largestBias && weight%b.size == 0 {
				biases[b.size] = true
			}
			weight = b.size
		}
	}
	element := int64(4)
	if m.halved {
		element = 2
	}
	var more *model
	n := len(m.buffers)
	for i := range n {
		b := &m.buffers[i]
		op := m.places[b.place].op
		isAdded := b.category == purpose.TemporaryData && (op == "sum" || op == "") // to the gradient of a pass before
		if b.category != purpose.Gradient && !isAdded || b.phase != purpose.Backward || !biases[b.size] {
			continue
		}
		group := max(b.size/element, 1) * bytesOfGroup
		if i+2 < n {
			if next := &m.buffers[i+1]; next.end.compare(m.buffers[i+2].begin) < 0 && m.h.SizeOf(int(next.like))%group == 0 {
				continue // it needs some, which grows
			}
		}
		if more == nil {
			more = m.clone()
		}
		size := min(int64(f*groups*float64(group)), mostScratch)
		more.add(b, pos{b.begin.n, after, 0, 0}, pos{b.begin.n, after, 1, 0}, size).category = purpose.TemporaryData
	}
	if more != nil {
		m.sums = more.buffers[n:]
		m.leaveOpen(more)
	}
}

// leaveOpen widens the range of the peak up to that of another program.
func (m *model) leaveOpen(other *model) {
	by := other.peak() - m.peak()
	m.less, m.more = m.less+max(0, -by), m.more+max(0, by)
}

// scaleCache multiplies the size of the cache of keys and values. What else grows with it is not recorded: attention over a longer context
// makes more of it, over more requests each pass does. The range goes to where all that passes make grows, and scores with the square.
func (m *model) scaleCache(f float64) string {
	any := false
	for i := range m.buffers {
		if b := &m.buffers[i]; b.category == purpose.Cache && b.size > smallest {
			b.size, any = max(1, int64(float64(b.size)*f)), true
		}
	}
	if !any {
		return "no cache of keys and values is known"
	}
	all := m.clone()
	isScore := func(b *buffer) bool {
		op := m.places[b.place].op
		return op == "" || strings.Contains(op, "softmax") || strings.Contains(op, "attention")
	}
	scores := m.sizes(isScore)
	all.resize(func(b *buffer) float64 {
		if scores[b.size] {
			return f * f
		}
		return f
	})
	m.leaveOpen(all)
	return ""
}

// weightCopies returns copies of weights in half precision that autocast makes: buffers of an operation before its result, half as large as
// a parameter. Its input may be copied to the same size, before the weight. What the program's own line makes before a result, such as the
// factors of a product of activations, is not a weight. The result of a normalization before its statistics is not one either. Autocast copies the
// weights of all products, so where most parameters have no copies, none are: a temporary may happen to be half as large as one of them.
func (m *model) weightCopies() map[int32]bool {
	isParameter := func(b *buffer) bool {
		return b.category == purpose.ModelParameter || b.start && b.category == purpose.UnknownCategory // perhaps one that no gradient shows
	}
	parameters := m.sizes(isParameter)
	copies, halves := map[int32]bool{}, map[int64]bool{}
	for k := range m.passes {
		var of *buffer // result of the operation
		var sizes []int64
		for _, b := range slices.Backward(m.forward(k)) {
			switch {
			case b.category == purpose.Workspace:
			case of == nil || m.pieceOf(b).stack != m.pieceOf(of).stack:
				of, sizes = b, nil
			case parameters[2*b.size] && b.size > smallest && !slices.Contains(sizes, b.size) && !m.byUser(b) && !m.isNorm(b):
				copies[b.like], halves[b.size] = true, true
				sizes = append(sizes, b.size)
			}
		}
	}
	weights, copied := map[purpose.Category]int{}, map[purpose.Category]int{}
	for i := range m.buffers {
		if b := &m.buffers[i]; isParameter(b) && b.size > 2*smallest {
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

// byUser reports whether the program itself calls the operation that made a buffer, not a module of a library.
func (m *model) byUser(b *buffer) bool {
	c := m.innermost(&m.places[b.place])
	return c != nil && c.user
}

// lengthen multiplies the sizes of what grows with the length of sequences. Scores of attention grow with its square: they have the size of
// a result of softmax, or of exp in a block, where the program computes it itself.
func (m *model) lengthen(f float64) string {
	isForward := func(b *buffer) bool {
		return b.phase == purpose.Forward && b.category != purpose.Workspace && b.size > smallest
	}
	scores := m.sizes(func(b *buffer) bool {
		op := m.places[b.place].op
		return isForward(b) && strings.Contains(op, "softmax") && !strings.Contains(op, "log_softmax") && !m.hasCall(b, "cross_entropy")
	})
	for k := range m.passes {
		exps := slices.DeleteFunc(m.forward(k), func(b *buffer) bool { return m.places[b.place].op != "exp" || b.size <= smallest })
		if len(exps) == 0 {
			continue
		}
		units := m.blocks(k)
		if len(units) == 0 {
			return "whether a result of exp has scores of attention is not known, as no block of the program repeats"
		}
		first, last := units[0], units[len(units)-1]
		for _, b := range exps {
			if b.begin.n >= first[0].begin.n && b.begin.n <= last[len(last)-1].begin.n {
				scores[b.size] = true
			}
		}
	}
	masks := m.sizes(func(b *buffer) bool { return isForward(b) && scores[4*b.size] && compares[m.places[b.place].op] }) // of scores
	others := m.sizes(func(b *buffer) bool { return isForward(b) && linear[m.places[b.place].op] })
	known := slices.ContainsFunc(m.buffers, func(b buffer) bool { return isForward(&b) && m.places[b.place].op != "" })
	if !known {
		return "scores of attention grow with the square, and operators tell which they are: record with stacks=\"all\""
	}
	for size := range scores {
		if others[size] {
			return "scores of attention have the size of other activations; record another length, for memlane tune --scale"
		}
	}
	copies := m.weightCopies()
	return m.resize(func(b *buffer) float64 {
		switch {
		case copies[b.like]:
			return 1
		case scores[b.size], masks[b.size] && compares[m.places[b.place].op]:
			return f * f
		}
		return f
	})
}

// hasSequences reports whether an operation tells that the program has sequences: a look-up of tokens, attention, a recurrent layer.
func (m *model) hasSequences() bool {
	return slices.ContainsFunc(m.buffers, func(b buffer) bool {
		op := m.places[b.place].op
		return strings.Contains(op, "embedding") || strings.Contains(op, "attention") || layersOverTime[strings.TrimSuffix(op, "_cell")]
	})
}

// compares are operations whose results are masks.
var compares = map[string]bool{"eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true, "logical_not": true, "bitwise_not": true}

// halve has two bytes for what has four. Inputs are taken for indices, and buffers of an operation that are a quarter of its next one for
// masks.
func (m *model) halve() string {
	if len(m.weightCopies()) > 0 {
		return "the program already computes in 16 bits"
	}
	total := map[purpose.Category]int64{}
	for i := range m.buffers {
		total[m.buffers[i].category] += m.buffers[i].size
	}
	bytes := total[purpose.OptimizerState] < total[purpose.ModelParameter]*3/4 // states of 8 bits
	any := false
	for i := range m.buffers {
		b := &m.buffers[i]
		isMask := false
		if stack := m.pieceOf(b).stack; i+1 < len(m.buffers) && stack >= 0 {
			next := &m.buffers[i+1]
			isMask = next.size == 4*b.size && m.pieceOf(next).stack == stack
		}
		switch op := m.places[b.place].op; {
		case b.size <= smallest || isMask || bytes && b.category == purpose.OptimizerState || b.category == purpose.Workspace || b.category == purpose.Input || op == "arange" || op == "randint":
		case b.category == purpose.UnknownCategory && b.start:
			m.less += b.size / 2
		default:
			b.size, any = b.size/2, any || b.category == purpose.ModelParameter
		}
	}
	for b := range m.failed {
		b.size /= 2
	}
	if !any {
		return "no parameter is known"
	}
	m.halved = true
	return ""
}

// linear are operations whose results grow with the length alone.
var linear = map[string]bool{"embedding": true, "layer_norm": true, "native_layer_norm": true, "linear": true, "gelu": true, "relu": true, "silu": true}

// sizes returns the sizes of buffers.
func (m *model) sizes(which func(b *buffer) bool) map[int64]bool {
	all := map[int64]bool{}
	for i := range m.buffers {
		if b := &m.buffers[i]; which(b) {
			all[b.size] = true
		}
	}
	return all
}

// resize multiplies the sizes of inputs, activations and temporaries of both passes by factors.
func (m *model) resize(factor func(b *buffer) float64) string {
	parameters := m.sizes(func(b *buffer) bool { return b.category == purpose.ModelParameter })
	forward := m.sizes(func(b *buffer) bool { return b.phase == purpose.Forward })
	grown := 0
	for b := range m.requests {
		switch b.category {
		case purpose.ModelParameter, purpose.ModelBuffer, purpose.Gradient, purpose.OptimizerState, purpose.Workspace,
			purpose.Bucket, purpose.Cache:
			continue
		}
		switch {
		case b.start && b.end != never && b.size > smallest: // perhaps of a pass that began before the recording
			by := int64(float64(b.size)*factor(b)) - b.size
			b.size, m.less, m.more = max(1, b.size+by), m.less+max(0, by), m.more+max(0, -by)
		case b.phase == purpose.OptimizerPhase || b.phase == purpose.UnknownPhase || b.part == purpose.Setup || b.start || b.size <= smallest:
		case b.phase == purpose.Backward && parameters[b.size] && !forward[b.size]:
			// a contribution to the gradient of a weight that is used several times
		default:
			b.size = max(1, int64(float64(b.size)*factor(b)))
			grown++
		}
	}
	if grown == 0 {
		return "no buffer is known to be an activation; record stacks"
	}
	return ""
}

// smallest is the size up to which buffers are scalars.
const smallest = 64

// chunkLoss computes the loss and the product before it in n parts under checkpointing.
func (m *model) chunkLoss(n int) string {
	var added []buffer
	weights := m.sizes(func(b *buffer) bool { return b.category == purpose.ModelParameter })
	gone, bigs, cut := map[*buffer]bool{}, map[int64]bool{}, false
	for k := range m.passes {
		p := &m.passes[k]
		all := m.forward(k)
		from, to := -1, -1
		var big int64
		for i, b := range all {
			if m.hasCall(b, "cross_entropy") {
				if from < 0 {
					from = i
				}
				to, big = i, max(big, b.size)
			}
		}
		if p.cut && p.back == p.end {
			cut = m.chunkCut(k, all, int64(n)) || cut
			continue
		}
		if from < 0 || p.back == p.end {
			continue
		}
		if !slices.ContainsFunc(all[from:to+1], func(b *buffer) bool { return b.end.n > p.back }) {
			return "what the loss keeps for the backward pass is not on the device"
		}
		isBig := func(size int64) bool { return size == big || size == big/2 } // half under autocast
		if from > 0 && isBig(all[from-1].size) {                               // the product whose result the loss takes
			from--
		}
		bigs[big], bigs[big/2] = true, true
		added = append(added, m.chunkPass(k, all[from:to+1], isBig, weights, float64(n), gone)...)
	}
	if added == nil && !cut {
		return "no cross entropy with a backward pass is on a stack"
	}
	for b := range m.failed {
		if bigs[b.size] {
			b.size /= int64(n)
		}
	}
	kept := m.buffers[:0:0]
	for i := range m.buffers {
		if !gone[&m.buffers[i]] {
			kept = append(kept, m.buffers[i])
		}
	}
	m.buffers, m.moved = append(kept, added...), true
	return ""
}

// chunkCut is chunkPass for pass k if the loss itself was cut off: there is nothing yet but one chunk.
func (m *model) chunkCut(k int, all []*buffer, parts int64) bool {
	i := slices.IndexFunc(m.others, func(o other) bool { return o.kind == replay.Fail && o.at.n == m.passes[k].end })
	if i < 0 || !m.hasCall(&m.others[i].failed, "cross_entropy") {
		return false
	}
	failed := &m.others[i].failed
	big := failed.size
	failed.size /= parts
	for _, b := range slices.Backward(all) {
		if b.size != big && b.size != big/2 && !m.hasCall(b, "cross_entropy") {
			break
		}
		b.size = max(b.size/parts, 1)
	}
	return true
}

// chunkPass returns what takes the place of the loss of pass k, and adds what that was to gone.
func (m *model) chunkPass(k int, forward []*buffer, isBig func(size int64) bool, weights map[int64]bool, parts float64, gone map[*buffer]bool) (added []buffer) {
	p := m.passes[k]
	var loss []buffer
	last := 0.0
	for _, b := range forward {
		if b.category == purpose.Workspace {
			continue
		}
		loss = append(loss, *b)
		gone[b] = true
		if b.end != never {
			last = max(last, b.end.n)
		}
	}
	var products []buffer         // of backward, of the product's size
	var gradient, operand *buffer // of the weight of the product
	backward := m.ofPass(k, purpose.Backward)
	if i := slices.IndexFunc(backward, func(b *buffer) bool {
		op := m.places[b.place].op
		isAdded := b.category == purpose.TemporaryData && weights[b.size] && (op == "" || ofProducts[op]) // to one that is kept
		return b.begin.n >= last && (b.category == purpose.Gradient || isAdded)
	}); i >= 0 {
		gradient = backward[i]
		for _, b := range backward[:i] { // under autocast its 16 bits are summed
			if b.begin.n >= last && b.size == (gradient.size+1)/2 {
				gradient = b
			}
		}
	}
	for _, b := range backward {
		switch {
		case b.begin.n < last && isBig(b.size):
			products = append(products, *b)
			gone[b] = true
		case gradient != nil && operand == nil && b.begin.n > gradient.begin.n && b.category == purpose.TemporaryData:
			operand = b
		}
	}
	first := loss[0].begin.n
	put := func(like buffer, begin, end pos, size int64) {
		like.begin, like.end, like.size, like.added, like.saved, like.requestFree = begin, end, size, true, false, noEvent
		added = append(added, like)
	}
	const all = 1e15 // after everything of a part
	end := func(b *buffer) float64 {
		if b.saved || b.end == never {
			return all
		}
		return b.end.n
	}
	for c := 0.0; c < parts; c++ {
		for i := range loss {
			if b := &loss[i]; b.size >= smallest {
				put(*b, pos{first, 1, c, b.begin.n}, pos{first, 1, c, end(b)}, int64(float64(b.size)/parts))
			}
		}
		off := func(n float64) pos { return pos{p.back, 1, c, n} }
		for i := range loss {
			if b := &loss[i]; b.size >= smallest {
				again := *b
				again.phase = purpose.Backward
				put(again, off(b.begin.n), off(b.end.n), int64(float64(b.size)/parts))
			}
		}
		for i := range products {
			b := &products[i]
			e := b.end.n
			if gradient != nil && e > gradient.begin.n {
				e = gradient.begin.n + 0.6
			}
			put(*b, off(b.begin.n), off(e), int64(float64(b.size)/parts))
		}
		if gradient != nil {
			// the first two contributions are added into a third buffer, later ones into that
			g := *gradient
			g.category = purpose.TemporaryData
			put(g, off(g.begin.n), pos{p.back, 1, max(c, 1), g.begin.n + 0.8}, g.size)
			if c == 1 {
				put(*gradient, off(g.begin.n+0.7), gradient.end, gradient.size)
				added[len(added)-1].added = false
				gone[gradient] = true
			}
			if operand != nil {
				put(*operand, off(g.begin.n+after), pos{p.back, 2, 0, 0}, int64(float64(operand.size)/parts))
			}
		}
	}
	return added
}
