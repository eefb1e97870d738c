package whatif

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime/purpose"
)

// unit is the forward buffers of one call of a block that repeats, in order.
type unit []*buffer

// what a unit consists of.
type piece struct {
	stack int32
	op    string
	size  int64
}

func (m *model) pieceOf(b *buffer) piece {
	p := &m.places[b.place]
	return piece{p.stack(), p.op, b.size}
}

// enough is the share of the bytes that the best candidate has with which a deeper one is still preferred.
const enough = 0.85

// blocks returns the units of pass k, after what edits changed.
func (m *model) blocks(k int) []unit {
	m.settle()
	return m.units(k)
}

// units returns the blocks of pass k that repeat: below one function that is called in a loop, the sequence of stacks, operators and
// sizes has a period.
func (m *model) units(k int) []unit {
	var all []*buffer
	for _, b := range m.forward(k) {
		if b.category != purpose.Workspace && !b.added {
			all = append(all, b)
		}
	}
	type prefix struct{ caller, where int32 }
	type candidate struct {
		depth int
		all   []*buffer
	}
	number := map[prefix]int{}
	var candidates []candidate
	for _, b := range all {
		p := &m.places[b.place]
		caller := int32(-1)
		for depth, c := range p.calls {
			key := prefix{caller, m.calls[c].where}
			n, ok := number[key]
			if !ok {
				n = len(candidates)
				number[key] = n
				candidates = append(candidates, candidate{depth: depth + 1})
			}
			candidates[n].all = append(candidates[n].all, b)
			caller = p.paths[depth]
		}
	}
	type found struct {
		bytes  int64
		depth  int
		period int
		all    []*buffer
	}
	var fits []found
	most := int64(0)
	for _, c := range candidates {
		if n := periodOf(m, c.all); n > 0 {
			f := found{depth: c.depth, period: n, all: c.all}
			for _, b := range c.all {
				f.bytes += b.size
			}
			fits, most = append(fits, f), max(most, f.bytes)
		}
	}
	best := found{depth: -1}
	for _, f := range fits {
		if float64(f.bytes) >= enough*float64(most) && cmp.Or(cmp.Compare(f.depth, best.depth), cmp.Compare(f.bytes, best.bytes)) > 0 {
			best = f
		}
	}
	var units []unit
	for i := 0; i < len(best.all); i += best.period {
		units = append(units, unit(best.all[i:i+best.period]))
	}
	return units
}

// leastRepeated is the least number of buffers in which a period is looked for.
const leastRepeated = 4

// periodOf returns the smallest period of at least two buffers; 0 if there is none.
func periodOf(m *model, all []*buffer) int {
	n := len(all)
	if n < leastRepeated {
		return 0
	}
	pieces := make([]piece, n)
	for i, b := range all {
		pieces[i] = m.pieceOf(b)
	}
	for p := 2; p <= n/2; p++ {
		if n%p == 0 && slices.Equal(pieces[:n-p], pieces[p:]) {
			return p
		}
	}
	return 0
}
