package whatif

import (
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

var sequenceKind = Kind{
	Name: "sequence", Values: "FACTOR", Doc: "multiply the length of sequences", check: isFactor, adds: isGrowth, off: offSequence,
	apply: func(m *model, v string) string { return m.lengthen(number(v)) },
}

// lengthen multiplies the sizes of what grows with the length of sequences. Scores of attention grow with its square.
func (m *model) lengthen(factor float64) string {
	scores, refused := m.scores()
	if refused != "" {
		return refused
	}
	isMask := func(b *buffer) bool { return m.does(b, program.OpCompares) }
	masks := m.sizes(func(b *buffer) bool { return m.isComputed(b) && scores[4*b.size] && isMask(b) }) // of scores
	others := m.sizes(func(b *buffer) bool { return m.isComputed(b) && m.does(b, program.OpPerToken) })
	if !m.any(func(b *buffer) bool { return m.isComputed(b) && m.op(b) != "" }) {
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
		case scores[b.size], masks[b.size] && isMask(b):
			return factor * factor
		}
		return factor
	})
}

// isComputed reports whether a forward pass computed a buffer.
func (m *model) isComputed(b *buffer) bool {
	return b.phase == purpose.Forward && b.category != purpose.Workspace && b.size > smallest
}

// scores returns the sizes of scores of attention: they are those of results of softmax, or of exp in a block, where the program computes its
// softmax itself.
func (m *model) scores() (scores map[int64]bool, refused string) {
	scores = m.sizes(func(b *buffer) bool {
		isLoss := m.does(b, program.OpLogSoftmax) || m.hasCall(b, "cross_entropy")
		return m.isComputed(b) && m.does(b, program.OpSoftmax) && !isLoss
	})
	for k := range m.passes {
		exps := filter(m.forward(k), func(b *buffer) bool { return m.op(b) == "exp" && b.size > smallest })
		if len(exps) == 0 {
			continue
		}
		units := m.blocks(k)
		if len(units) == 0 {
			return nil, "whether a result of exp has scores of attention is not known, as no block of the program repeats"
		}
		begin, end := units[0].first().begin.event, units[len(units)-1].last().begin.event
		for _, b := range exps {
			if b.begin.event >= begin && b.begin.event <= end {
				scores[b.size] = true
			}
		}
	}
	return scores, ""
}

// hasSequences reports whether an operation tells that the program has sequences: a look-up of tokens, attention, a recurrent layer.
func (m *model) hasSequences() bool {
	return m.any(func(b *buffer) bool { return m.does(b, program.OpEmbedding|program.OpAttention|program.OpRecurrent) })
}
