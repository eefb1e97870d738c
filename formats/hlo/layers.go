package hlo

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/compiled"
)

// layers finds the layers of a forward pass that the program repeats without a loop. All that is later in a stream of data depends on what a cut makes:
// jax.checkpoint around each layer keeps that. The stretches between cuts that come from one call are the layers.
type layers struct {
	*planner
	steps []step   // by instruction of the entry computation
	lines []string // of the calls, by layer from 1
}

// step is an instruction of the forward pass.
type step struct {
	from                       []int32 // what it reads, whatever passes it on
	back, forward, useful, cut bool    // useful: the end of its stream depends on it
	depth                      int     // of the longest way to it
	stream, stretch, layer     int32   // from 1; 0: of none
}

// layered returns the peak if jax.checkpoint were around each layer. Compilers for other devices than TPUs may merge what is computed again with
// what was computed first.
func (x *planner) layered() (c compiled.Change, ok bool) {
	l := layers{planner: x, lines: []string{""}}
	if !x.graph.backward || !x.p.tiled() {
		return c, false
	}
	l.cuts(l.link())
	l.name()
	return l.peaks()
}

// handsOn reports whether the result of an instruction is its operand, or a copy or a part of it.
func handsOn(op *operation) bool {
	return len(op.operands) == 1 && (op.opcode == "copy" || passes(op.opcode) && op.opcode != "tuple" && len(op.called) == 0)
}

// made returns what made a value, whatever handed it on.
func (l *layers) made(p use) use {
	for op := &l.main.ops[p.op]; handsOn(op) && l.d.budget > 0; op = &l.main.ops[p.op] {
		l.d.budget--
		if p.op = op.operands[0]; op.opcode == "get-tuple-element" {
			p.path = int32(op.number)
		}
	}
	return p
}

// readers calls visit for each instruction that reads a value, also where others hand it on.
func (l *layers) readers(p use, depth int, visit func(int32)) {
	for _, u := range l.d.users[p.op] {
		if l.d.budget--; l.d.budget < 0 || depth > maxFlowPath {
			return
		}
		if !handsOn(&l.main.ops[u]) {
			visit(u)
			continue
		}
		for _, next := range l.d.through(p, u) {
			l.readers(next, depth+1, visit)
		}
	}
}

// link finds the instructions of the forward pass, what they read, and their streams: where ways join, that of the longest. Operands come before their users.
func (l *layers) link() map[int32][]int32 {
	l.steps = make([]step, len(l.main.ops))
	streams := map[int32][]int32{}
	for i := range l.steps {
		s, op := &l.steps[i], &l.main.ops[i]
		s.back, s.forward = op.transposed, op.forward
		for _, o := range op.operands {
			s.back, s.forward = s.back || l.steps[o].back, s.forward || l.steps[o].forward
		}
		if s.forward = s.forward && !s.back; !s.forward || handsOn(op) {
			continue
		}
		s.stream = int32(i + 1)
		for _, o := range op.operands {
			if l.d.budget -= 1 + len(s.from); l.d.budget < 0 {
				return nil
			}
			of := l.made(use{o, wholeResult}).op
			if l.steps[of].forward && !slices.Contains(s.from, of) {
				s.from = append(s.from, of)
			}
			if l.steps[of].forward && l.steps[of].depth >= s.depth {
				s.depth, s.stream = l.steps[of].depth+1, l.steps[of].stream
			}
		}
		streams[s.stream] = append(streams[s.stream], int32(i))
	}
	return streams
}

// cuts divides streams into stretches.
func (l *layers) cuts(streams map[int32][]int32) {
	last := int32(0)
	for _, id := range slices.Sorted(maps.Keys(streams)) {
		if len(streams[id]) > 1 {
			last = l.stretches(streams[id], last+1)
		}
	}
	for i := len(l.steps) - 1; i >= 0; i-- {
		for _, o := range l.steps[i].from {
			if len(streams[l.steps[o].stream]) == 1 { // what a layer makes of its arguments alone
				l.steps[o].stretch = l.steps[i].stretch
			}
		}
	}
}

// stretches numbers the stretches of a stream from n on, and returns the last.
func (l *layers) stretches(stream []int32, n int32) int32 {
	end, open := slices.MaxFunc(stream, func(a, b int32) int { return l.steps[a].depth - l.steps[b].depth }), 0
	last := map[int32]int32{end: end} // that reads an instruction on a way to the end
	for _, i := range slices.Backward(stream) {
		_, l.steps[i].useful = last[i]
		for _, o := range l.steps[i].from {
			if _, found := last[o]; l.steps[i].useful && !found && l.steps[o].stream == l.steps[i].stream {
				last[o] = i
			}
		}
	}
	for _, i := range stream {
		s := &l.steps[i]
		s.stretch = n
		for _, o := range s.from {
			switch of := &l.steps[o]; {
			case of.stream != s.stream:
			case s.useful && last[o] == i:
				open--
			case !s.useful: // only the backward pass reads it
				if s.stretch = of.stretch; of.cut {
					s.stretch++
				}
			}
		}
		if s.useful {
			if open++; open == 1 && i != end {
				s.cut = true
				n++
			}
		}
	}
	return n
}

// call is a line of the program: its instructions in each stretch, with 0 for those in a fusion of another line, and what it calls.
type call struct {
	stretches map[int32]int
	own       int // sum of them
	inner     []int64
}

// name finds the calls whose inner calls are in the same stretches, and numbers these as layers.
func (l *layers) name() {
	all, ends, of := map[int64]*call{0: {stretches: map[int32]int{}}}, map[int32]int64{}, map[int32]int32{}
	add := func(op *operation, stretch int32, n int) {
		inner := int64(0)
		for _, id := range append(l.names.calls(op.frame, &l.d.budget), 0) {
			if all[id] == nil {
				all[id] = &call{stretches: map[int32]int{}}
			}
			c := all[id]
			c.own += n
			if c.stretches[stretch] += n; inner != 0 && !slices.Contains(c.inner, inner) {
				c.inner = append(c.inner, inner)
			}
			l.d.budget -= 1 + len(c.inner)
			inner = id
		}
	}
	for i := range l.steps {
		s, op := &l.steps[i], &l.main.ops[i]
		if !s.useful || op.frame <= 0 || l.d.budget < 0 {
			continue
		}
		add(op, s.stretch, 1)
		if s.cut {
			ends[s.stretch] = op.frame
		}
		if in := l.inner(op); in != nil && op.opcode == "fusion" {
			for k := 0; k < len(in.ops) && l.d.budget >= 0; k++ {
				add(&in.ops[k], s.stretch, 0)
			}
		}
	}
	named := map[int64]bool{}
	for _, id := range slices.Sorted(maps.Keys(all)) { // calls have higher numbers than their callers
		c, n, most, least, outer := all[id], 0, 0, len(l.steps), l.names.calls(id, &l.d.budget)
		if l.d.budget < 0 {
			return
		}
		for _, inner := range c.inner { // what is only in fusions of other lines does not count, unless the call has all of the forward pass
			if all[inner].own > 0 || c.own == all[0].own {
				n, most, least = n+1, max(most, len(all[inner].stretches)), min(least, len(all[inner].stretches))
			}
		}
		if id == 0 || n == 1 || least < 2 || 2*least < most || slices.ContainsFunc(outer, func(id int64) bool { return named[id] }) {
			continue
		}
		named[id] = true
		mine := slices.DeleteFunc(slices.Sorted(maps.Keys(c.stretches)), func(s int32) bool { return 2*c.stretches[s] < all[0].stretches[s] })
		times, last := map[int64]int{}, int64(-1) // layers end in the line that most stretches end in
		for _, s := range mine {
			if times[ends[s]]++; times[ends[s]] >= times[last] && slices.Contains(l.names.calls(ends[s], &l.d.budget), id) {
				last = ends[s]
			}
		}
		if len(c.inner) == 0 && len(outer) > 1 && len(all[outer[1]].stretches) == len(c.stretches) { // a line: what calls it
			id = outer[1]
		}
		for k, s := range mine {
			if k == 0 || ends[mine[k-1]] == last {
				l.lines = append(l.lines, l.names.frame(id).Place())
			}
			of[s] = int32(len(l.lines) - 1)
		}
	}
	for i := range l.steps {
		l.steps[i].layer = of[l.steps[i].stretch]
	}
}

// peaks returns the peak if each layer kept only what later ones read: at most, the backward pass computes the rest of a layer at once when it begins to
// read it, at least as a part of what reads it, so that it is never in memory.
func (l *layers) peaks() (c compiled.Change, ok bool) {
	at := slices.Repeat([]int64{math.MaxInt64}, len(l.steps)+1) // positions in the heap trace, by those in the schedule
	made := make([]use, len(l.blocks))
	for i := range l.blocks {
		of, _ := l.p.itemOf(&l.p.values[l.blocks[i].value])
		in, known := l.executor(of.place)
		if made[i] = useOf(of); !known {
			return c, false
		} else if in != of.place { // in a round of a loop
			made[i].op = l.main.root
		}
		at[l.d.pos[in.op]] = min(at[l.d.pos[in.op]], l.blocks[i].begin)
	}
	for i := len(at) - 2; i >= 0; i-- {
		at[i] = min(at[i], at[i+1])
	}
	held := map[int32][]span{} // memory of a layer that only the backward pass reads after it, from then on
	again := map[int32]int64{} // when the backward pass begins to read a layer
	for i, u := range made {
		k, v, layer := &l.blocks[i], &l.p.values[l.blocks[i].root], l.steps[l.made(u).op].layer
		if a := &l.p.allocations[v.allocation]; a.color != l.color || a.uses.Whole() || layer == 0 || l.steps[u.op].back {
			continue
		}
		read, used := len(l.steps), l.d.pos[u.op]
		l.readers(u, 0, func(r int32) {
			if l.steps[r].useful {
				used = max(used, l.d.pos[r])
			} else {
				read = min(read, l.d.pos[r])
			}
		})
		l.readers(l.made(u), 0, func(r int32) {
			if l.steps[r].useful && l.steps[r].layer != layer { // a later layer reads it
				read = len(l.steps)
			}
		})
		if read < len(l.steps) {
			held[layer] = append(held[layer], span{min(at[used+1], k.end), k.end, v.size})
			again[layer] = min(cmp.Or(again[layer], math.MaxInt64), at[read])
		}
	}
	lines := map[string]int{} // with the number of their layers
	for layer := range held {
		lines[l.lines[layer]]++
	}
	maps.DeleteFunc(lines, func(_ string, n int) bool { return n < 2 })
	var less, least, more []span
	largest := int64(0)
	for _, layer := range slices.Sorted(maps.Keys(held)) {
		for _, h := range held[layer] {
			if lines[l.lines[layer]] > 0 {
				less = append(less, span{h.begin, max(h.begin, min(again[layer], h.end)), -h.bytes})
				least = append(least, span{h.begin, h.end, -h.bytes})
				largest = max(largest, h.bytes)
			}
		}
	}
	for i := range l.p.values { // what the backward pass makes in faster memory
		v := &l.p.values[i]
		if in, _ := l.p.itemOf(v); in.in == l.main && v.allocation >= 0 && l.p.allocations[v.allocation].color == fasterMemory && l.steps[in.op].back && !handsOn(in.operation()) {
			more = append(more, span{at[l.d.pos[in.op]], at[min(l.d.lastUse(useOf(in), 0)+1, len(l.steps))], v.size})
		}
	}
	now := l.p.heapPeak(l.color, l.blocks, nil)
	c = compiled.Change{Kind: compiled.Layers, What: strings.Join(slices.Sorted(maps.Keys(lines)), ", "), Low: l.p.heapPeak(l.color, l.blocks, nil, least...),
		High: units.AddSat(l.p.heapPeak(l.color, l.blocks, nil, append(less, more...)...), largest)}
	return c, l.d.budget >= 0 && len(lines) > 0 && c.High < now-now/leastSaved
}

// leastSaved is the share of the peak below which a change is not worth it. Programs that were changed and compiled again needed at most one value of a layer
// more than the arithmetic, with what the backward pass makes in faster memory.
const leastSaved = 50
