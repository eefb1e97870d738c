package whatif

import (
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime/purpose"
)

// shard divides the states of the optimizer, and the temporaries of its steps, over ranks: ZeRO 1. With parameters it also divides these
// and their gradients, as PyTorch's FSDP2 does with each block that repeats and the rest as units, and with gradients as it does if it
// does not shard again after the forward pass (ZeRO 2):
//   - the parameters of a block are whole while it runs, those of the rest from the first forward to the end of the backward pass;
//   - what the last block gathered is freed when the next one has its own, and in the backward pass the next block is gathered ahead;
//   - gradients are whole until the backward pass of their unit ends, and what is reduced is freed when the next unit reduces its own.
func (m *model) shard(ranks int64, what string) string {
	part := func(size int64) int64 { return (size + ranks - 1) / ranks }
	states := false
	for i := range m.buffers {
		b := &m.buffers[i]
		switch isState := b.category == purpose.OptimizerState; {
		case b.size <= smallest || !isState && (b.phase != purpose.OptimizerPhase || b.category != purpose.TemporaryData):
		default:
			b.size, states = part(b.size), states || isState
		}
	}
	if what == "optimizer" {
		if !states {
			return "no state of an optimizer is known"
		}
		return ""
	}
	weights := m.weights()
	var added []buffer
	reduced := map[*buffer]pos{} // when gradients are
	put := func(like *buffer, begin, end pos, size int64) {
		if size > 0 && begin.compare(end) < 0 {
			c := *like
			c.begin, c.end, c.size = begin, end, size
			added = append(added, c)
		}
	}
	sum := func(of []*buffer) (bytes int64) {
		for _, b := range of {
			bytes += b.size
		}
		return bytes
	}
	for k := range m.passes {
		p := m.passes[k]
		units := m.units(k)
		first, period := blocksOf(weights, len(units))
		if period == 0 {
			return "which parameters belong to the blocks that repeat is not known"
		}
		begins, ends := make([]float64, len(units)), make([]float64, len(units))
		last := p.back // end of the backward pass of the blocks
		for j, u := range units {
			dies := math.Inf(1)
			for _, b := range u[:len(u)-1] {
				if b.saved {
					dies, last = min(dies, b.end.n), max(last, b.end.n)
				}
			}
			begins[j] = m.backwardBegins(k, u, dies)
		}
		for j := range units {
			ends[j] = last
			if j > 0 {
				ends[j] = begins[j-1]
			}
		}
		rest := slices.Concat(weights[:first], weights[first+period*len(units):])
		block := func(j int) []*buffer { return weights[first+j*period : first+(j+1)*period] }
		starts := units[0][0].begin.n
		if all := m.forward(k); len(all) > 0 {
			starts = all[0].begin.n
		}
		for _, b := range rest {
			put(b, pos{starts, -2, b.begin.n, 0}, pos{p.end, -2, 0, 0}, b.size)
		}
		for j, u := range units {
			of := block(j)
			next := p.back // the next block is gathered
			if j+1 < len(units) {
				next = units[j+1][0].begin.n
			}
			put(of[0], pos{u[0].begin.n, -3, 0, 0}, pos{next, -1, 0, 0}, sum(of))
			ahead, done := begins[j], p.end // in the backward pass: gathered ahead, reduced
			if j+1 < len(units) {
				ahead = begins[j+1]
			}
			if j > 0 {
				done = ends[j-1]
			}
			if p.back < p.end && what == "parameters" {
				put(of[0], pos{ahead, .6, 0, 0}, pos{begins[j], .8, 0, 0}, sum(of))
			}
			if p.back < p.end {
				put(of[0], pos{ends[j], .4, 0, 0}, pos{done, .39, 0, 0}, sum(of))
			}
			for _, b := range of {
				switch whole := (pos{u[0].begin.n, -2, b.begin.n, 0}); {
				case p.back < p.end && what == "gradients":
					put(b, whole, pos{ends[j], .5, 0, 0}, b.size)
				case p.back < p.end:
					put(b, pos{begins[j], .7, b.begin.n, 0}, pos{ends[j], .5, 0, 0}, b.size)
					fallthrough
				default:
					put(b, whole, pos{next, -2, 0, 0}, b.size)
				}
			}
		}
		pass := m.inPass(k)
		for i := range pass {
			b := &pass[i]
			if int(b.pass) != k || b.category != purpose.Gradient {
				continue
			}
			whole := p.end // end of its unit's backward pass
			if size := b.size; slices.ContainsFunc(block(0), func(w *buffer) bool { return w.size == size }) {
				for j := range units {
					if b.begin.n > begins[j] && b.begin.n <= ends[j] {
						whole = ends[j]
					}
				}
			}
			put(b, b.begin, pos{whole, .42, b.begin.n, 0}, b.size)
			reduced[b] = pos{whole, .41, b.begin.n, 0}
		}
	}
	for b, begin := range reduced {
		b.size = part(b.size)
		if begin.compare(b.end) < 0 {
			b.begin = begin
		}
	}
	for _, b := range weights {
		b.size = part(b.size)
	}
	for _, c := range added {
		c.added, c.saved, c.dropped, c.start, c.requestFree = true, false, false, false, noEvent
		switch c.category {
		case purpose.ModelParameter:
			c.category, c.phase = purpose.TemporaryData, purpose.Forward
		case purpose.Gradient:
			c.category = purpose.TemporaryData
		}
		m.buffers = append(m.buffers, c)
	}
	m.moved = true
	return ""
}

// blocksOf returns where the parameters of n blocks begin, and how many each has: the longest part whose sizes repeat n times; 0 = none.
func blocksOf(weights []*buffer, n int) (first, period int) {
	if n < 2 {
		return 0, 0
	}
	for per := len(weights) / n; per > 0; per-- {
		same := 0
		for i := per; i < len(weights); i++ {
			if same++; weights[i].size != weights[i-per].size {
				same = 0
			}
			if same == per*(n-1) {
				return i + 1 - per*n, per
			}
		}
	}
	return 0, 0
}
