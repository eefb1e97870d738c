package whatif

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/purpose"
)

func isShard(v string) error {
	ranks, what, _ := strings.Cut(v, ":")
	if err := isCount(ranks); err != nil {
		return err
	}
	return isOneOf("optimizer", "gradients", "parameters")(what)
}

// sharding divides a program over ranks.
type sharding struct {
	m       *model
	ranks   int64
	again   bool // parameters are sharded again after the forward pass
	weights []*buffer
	reduced map[*buffer]moment // when gradients are
}

// fewResults is how many parameters a program may have for each buffer that its passes make.
const fewResults = 4

func (s *sharding) part(size int64) int64 { return (size + s.ranks - 1) / s.ranks }

// shard divides the states of the optimizer, and the temporaries of its steps, over ranks: ZeRO 1. With parameters it also divides these
// and their gradients, as PyTorch's FSDP2 does with each block that repeats and the rest as units, and with gradients as it does if it
// does not shard again after the forward pass (ZeRO 2):
//   - the parameters of a block are whole while it runs, those of the rest from the first forward to the end of the backward pass;
//   - what the last block gathered is freed when the next one has its own, and in the backward pass the next block is gathered ahead;
//   - gradients are whole until the backward pass of their unit ends, and what is reduced is freed when the next unit reduces its own.
func (m *model) shard(v string) string {
	n, what, _ := strings.Cut(v, ":")
	s := sharding{m: m, ranks: int64(number(n)), again: what == "parameters", weights: m.weights(), reduced: map[*buffer]moment{}}
	hasStates := false
	for _, b := range m.buffers {
		isState := b.category == purpose.OptimizerState
		isOfStep := b.phase == purpose.OptimizerPhase && b.category == purpose.TemporaryData
		if b.size > smallest && (isState || isOfStep) {
			b.size, hasStates = s.part(b.size), hasStates || isState
		}
	}
	if what == "optimizer" {
		if !hasStates {
			return "no state of an optimizer is known"
		}
		return ""
	}
	few := len(m.passes)*len(s.weights) > fewResults*len(m.buffers) // a pass makes something with nearly all parameters, else it is a part of one
	for k := range m.passes {
		if few || !s.pass(k) {
			return "which parameters belong to the blocks that repeat is not known"
		}
	}
	for b, begin := range s.reduced {
		b.size = s.part(b.size)
		if begin.compare(b.end) < 0 {
			b.begin = begin
		}
	}
	for _, b := range s.weights {
		b.size = s.part(b.size)
	}
	m.moved = true
	return ""
}

// shardedUnit is a block of a pass.
type shardedUnit struct {
	stretch
	parameters   []*buffer
	ahead        int // in the backward pass: it is gathered
	freesReduced int // what it reduced is freed
}

// unitsOf returns the blocks of pass k, and the parameters of the rest; nil if these are not known.
func (s *sharding) unitsOf(k int) (units []shardedUnit, rest []*buffer) {
	m := s.m
	blocks, _ := m.blocks(k)
	first, period := blocksOf(s.weights, len(blocks))
	if period == 0 {
		return nil, nil
	}
	all, end := m.stretches(k, blocks), first
	for j, of := range all {
		u := shardedUnit{of, s.weights[end : end+period], of.back, m.passes[k].end}
		if j+1 < len(all) {
			u.ahead = all[j+1].back
		}
		if j > 0 {
			u.freesReduced = all[j-1].done
		}
		units, end = append(units, u), end+period
	}
	return units, slices.Concat(s.weights[:first], s.weights[end:])
}

// pass shards the parameters and gradients of pass k. ok is false if which parameters its blocks have is not known.
func (s *sharding) pass(k int) (ok bool) {
	m, p := s.m, s.m.passes[k]
	units, rest := s.unitsOf(k)
	if units == nil {
		return false
	}
	starts := units[0].begin
	if all := m.forward(k); len(all) > 0 {
		starts = all[0].begin.event
	}
	for _, b := range rest {
		s.put(b, unshards.at(starts).by(b.begin.event), unshards.at(p.end), b.size)
	}
	for j := range units {
		s.unit(&units[j], p.trains())
	}
	for _, b := range m.ofPass(k) {
		if b.category != purpose.Gradient {
			continue
		}
		whole, size := p.end, b.size // end of its unit's backward pass
		if slices.ContainsFunc(units[0].parameters, func(w *buffer) bool { return w.size == size }) {
			for _, u := range units {
				if u.backwards(b.begin.event) {
					whole = u.done
				}
			}
		}
		s.put(b, b.begin, freesWhole.at(whole).by(b.begin.event), b.size)
		s.reduced[b] = hasShard.at(whole).by(b.begin.event)
	}
	return true
}

// unit adds what a block needs while it runs.
func (s *sharding) unit(u *shardedUnit, trains bool) {
	first, all := u.parameters[0], sizeOf(u.parameters)
	s.put(first, gathers.at(u.begin), hasGathered.at(u.until), all)
	if trains && s.again {
		s.put(first, gathersAhead.at(u.ahead), hasGatheredAhead.at(u.back), all)
	}
	if trains {
		s.put(first, reduces.at(u.done), hasReduced.at(u.freesReduced), all)
	}
	for _, b := range u.parameters {
		whole := unshards.at(u.begin).by(b.begin.event)
		if trains && !s.again {
			s.put(b, whole, shardsAgain.at(u.done), b.size)
			continue
		}
		s.put(b, whole, unshards.at(u.until), b.size)
		if trains {
			s.put(b, unshardsAgain.at(u.back).by(b.begin.event), shardsAgain.at(u.done), b.size)
		}
	}
}

// put adds memory for parameters or gradients that are whole.
func (s *sharding) put(like *buffer, begin, end moment, size int64) {
	b := s.m.addTemporary(like, begin, end, size)
	if b != nil && like.category == purpose.ModelParameter {
		b.phase = purpose.Forward
	}
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
