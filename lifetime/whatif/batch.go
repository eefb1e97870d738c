package whatif

import (
	"math"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

var batchKind = Kind{
	Name: "batch", Values: "FACTOR", Doc: "multiply the batch", check: isFactor, adds: isGrowth, off: offBatch,
	apply: func(m *model, v string) string { return m.scale(number(v)) },
}

// perSample tells how what passes make grows with the batch.
type perSample struct {
	m          *model
	parameters map[int64]bool
	copies     map[int32]bool // of weights
	embedded   int64          // the largest result of an embedding
	pairs      map[int64]bool // sizes of the scores of a loss whose classes are its numbered samples, as of pairs of a batch: may grow with the square
	scratch    map[int64]bool // sizes of scratch of convolutions: it may be that of one sample
}

func (m *model) perSample() perSample {
	g := perSample{m: m, parameters: m.sizes(isParameter), copies: m.weightCopies()}
	for size := range m.sizes(g.isEmbedding) {
		g.embedded = max(g.embedded, size)
	}
	numbers := m.sizes(func(b *buffer) bool { return b.phase == purpose.Forward && m.op(b) == "arange" }) // of samples, perhaps
	g.pairs = m.sizes(func(b *buffer) bool {
		n := int64(math.Sqrt(float64(b.size / 4)))
		isSquare := b.size > smallest && b.size == 4*n*n && numbers[8*n]
		return isSquare && b.phase == purpose.Forward && (m.op(b) == "log_softmax" || m.hasCall(b, "cross_entropy"))
	})
	g.scratch = m.sizes(func(b *buffer) bool { return b.phase == purpose.Forward && g.isOfConv(b) && b.size > smallest })
	return g
}

func (g *perSample) isEmbedding(b *buffer) bool {
	return b.phase == purpose.Forward && g.m.op(b) == "embedding"
}

func (g *perSample) isOfConv(b *buffer) bool {
	return b.category == purpose.TemporaryData && g.m.does(b, program.OpConv)
}

// resize multiplies the sizes of m, a program equal to that of g, by a factor, or by others for pairs and scratch.
func (g *perSample) resize(m *model, factor, ofPairs, ofScratch float64) string {
	return m.resize(func(b *buffer) float64 {
		isOfPositions := g.isEmbedding(b) && g.parameters[b.size] && b.size < g.embedded
		switch {
		case g.copies[b.like] || isOfPositions || m.op(b) == "arange":
			return 1
		case g.pairs[b.size]:
			return ofPairs
		case g.scratch[b.size] && g.isOfConv(b):
			return ofScratch
		}
		return factor
	})
}

// scale multiplies the sizes of what grows with the batch: inputs, activations and temporaries of both passes.
func (m *model) scale(factor float64) string {
	g := m.perSample()
	var others []*model
	if len(g.pairs) > 0 {
		others = append(others, m.clone())
		g.resize(others[0], factor, factor*factor, factor)
	}
	if len(g.scratch) > 0 {
		others = append(others, m.clone())
		g.resize(others[len(others)-1], factor, factor, 1)
	}
	refused := g.resize(m, factor, factor, factor)
	for _, other := range others {
		m.leaveOpen(other)
	}
	return refused
}

// smallest is the size up to which buffers are scalars.
const smallest = 64

// resize multiplies the sizes of inputs, activations and temporaries of both passes by factors.
func (m *model) resize(factor func(b *buffer) float64) string {
	parameters := m.sizes(isParameter)
	forward := m.sizes(func(b *buffer) bool { return b.phase == purpose.Forward })
	grown := 0
	for b := range m.requests {
		switch b.category {
		case purpose.ModelParameter, purpose.ModelBuffer, purpose.Gradient, purpose.OptimizerState, purpose.Workspace,
			purpose.Bucket, purpose.Cache:
			continue
		}
		isOfPass := b.phase == purpose.Forward || b.phase == purpose.Backward || b.phase == purpose.OtherPhase
		// a contribution to the gradient of a weight that is used several times
		isContribution := b.phase == purpose.Backward && parameters[b.size] && !forward[b.size]
		switch {
		case b.isOlder() && b.isFreed() && b.size > smallest: // perhaps of a pass that began before the recording
			by := int64(float64(b.size)*factor(b)) - b.size
			b.size, m.less, m.more = max(1, b.size+by), m.less+max(0, by), m.more+max(0, -by)
		case isOfPass && !isContribution && b.part != purpose.Setup && !b.isOlder() && b.size > smallest:
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
	groups       = 16              // for 1,024 rows
	bytesOfGroup = 4 * 128         // for each element of the result
	mostScratch  = 2368 * 64 << 10 // on a device of 148 multiprocessors
	largestBias  = 512 << 10
)

// biases returns the sizes of biases: each follows its matrix.
func (m *model) biases() map[int64]bool {
	all, weight := map[int64]bool{}, int64(0)
	for _, b := range m.buffers {
		if isParameter(b) {
			if b.size < weight && b.size <= largestBias && weight%b.size == 0 {
				all[b.size] = true
			}
			weight = b.size
		}
	}
	return all
}

// sumMore widens the range by what sums over times as many rows may need, of those gradients of biases whose sums need nothing as recorded: how
// many rows they have is not known.
func (m *model) sumMore(times float64) {
	biases, element := m.biases(), int64(4)
	if m.halved {
		element = 2
	}
	var more *model
	n := len(m.buffers)
	for i, b := range m.buffers {
		isAdded := b.category == purpose.TemporaryData && (m.op(b) == "sum" || m.op(b) == "") // to the gradient of a pass before
		if b.category != purpose.Gradient && !isAdded || b.phase != purpose.Backward || !biases[b.size] {
			continue
		}
		group := max(b.size/element, 1) * bytesOfGroup
		if i+2 < n {
			next := m.buffers[i+1]
			if next.end.compare(m.buffers[i+2].begin) < 0 && m.h.SizeOf(int(next.like))%group == 0 {
				continue // it needs some, which grows
			}
		}
		if more == nil {
			more = m.clone()
		}
		size, scratch := min(int64(times*groups*float64(group)), mostScratch), sums.at(b.begin.event)
		more.add(b, scratch, scratch.by(1), size).category = purpose.TemporaryData
	}
	if more != nil {
		m.sums = more.buffers[n:]
		m.leaveOpen(more)
	}
}
