package hlo

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/frame"
)

// layers finds the layers of a forward pass that the program repeats without a loop. All that is later in a stream of data depends on what a cut makes:
// jax.checkpoint around each layer keeps that. The stretches between cuts that come from one call are the layers.
type layers struct {
	*planner
	d     *donor   // the schedule, and what reads what
	steps []step   // by instruction of the entry computation
	lines []string // of the calls, by layer from 1
}

// step is an instruction of the forward pass.
type step struct {
	from, to                   []int32 // what it reads and what reads it, whatever passes the value on
	back, forward, useful, cut bool    // useful: the end of its stream depends on it
	height                     int32   // of the longest way to an end
	stream, stretch, layer     int32   // from 1; 0: of none
}

// layered returns the peak if jax.checkpoint were around each layer. Compilers for other devices than TPUs may merge what is computed again with
// what was computed first.
func (x *planner) layered() (c compiled.Change, ok bool) {
	l := layers{planner: x, d: &donor{graph: x.graph, budget: x.graph.budget, color: x.color, uses: map[use]int{}}, lines: []string{""}}
	if !x.graph.backward || !l.d.read() || !strings.Contains(l.d.shape(l.main.root), ":T(") {
		return c, false
	}
	l.link()
	l.cuts()
	l.name()
	return l.peaks()
}

// handsOn reports whether the result of an instruction is its operand, or a copy or a part of it.
func handsOn(op *operation) bool {
	return len(op.operands) == 1 && (op.opcode == "copy" || passes(op.opcode) && op.opcode != "tuple" && len(op.called) == 0)
}

// made returns what made a value, whatever handed it on.
func (l *layers) made(p use) use {
	for op := &l.main.ops[p.op]; handsOn(op); op = &l.main.ops[p.op] {
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

// link finds the instructions of the forward pass and what they read. Operands come before their users.
func (l *layers) link() {
	l.steps = make([]step, len(l.main.ops))
	for i := range l.steps {
		s, op := &l.steps[i], &l.main.ops[i]
		s.back, s.forward = op.transposed, op.forward
		for _, o := range op.operands {
			s.back, s.forward = s.back || l.steps[o].back, s.forward || l.steps[o].forward
		}
		if s.forward = s.forward && !s.back; !s.forward || handsOn(op) {
			continue
		}
		for _, o := range op.operands {
			if of := l.made(use{o, wholeResult}).op; l.steps[of].forward && !slices.Contains(s.from, of) {
				s.from, l.steps[of].to = append(s.from, of), append(l.steps[of].to, int32(i))
			}
		}
		l.d.budget -= len(op.operands) * len(s.from)
	}
}

// cuts divides the forward pass into streams, that with the longest way first, and them into stretches.
func (l *layers) cuts() {
	order, last := make([]int32, len(l.steps)), int32(0)
	for i := len(l.steps) - 1; i >= 0; i-- {
		order[i] = int32(i)
		for _, u := range l.steps[i].to {
			l.steps[i].height = max(l.steps[i].height, l.steps[u].height+1)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(l.steps[b].height, l.steps[a].height) })
	for k, source := range order {
		if l.steps[source].stream != 0 || l.steps[source].height == 0 {
			continue
		}
		stream := []int32{source}
		l.steps[source].stream = int32(k + 1)
		for i := 0; i < len(stream); i++ {
			for _, u := range l.steps[stream[i]].to {
				if l.steps[u].stream == 0 {
					l.steps[u].stream, stream = int32(k+1), append(stream, u)
				}
			}
		}
		slices.Sort(stream)
		last = l.stretches(stream, last+1)
	}
	for i := len(l.steps) - 1; i >= 0; i-- { // what a layer makes of its arguments alone
		if s := &l.steps[i]; len(s.from) == 0 && len(s.to) > 0 && s.stream != l.steps[s.to[0]].stream {
			s.stretch, s.useful = l.steps[s.to[0]].stretch, false
		}
	}
}

// stretches numbers the stretches of a stream from n on, and returns the last.
func (l *layers) stretches(stream []int32, n int32) int32 {
	end, open := stream[0], 0
	for to := l.steps[end].to; len(to) > 0; to = l.steps[end].to {
		end = slices.MaxFunc(to, func(a, b int32) int { return cmp.Compare(l.steps[a].height, l.steps[b].height) })
	}
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

// calls returns the lines of the program's own code that a call comes from, itself first.
func (l *layers) calls(id int64) (all []int64) {
	for frames := l.p.frames.frames; id > 0 && id <= int64(len(frames)) && l.d.budget > 0; id = frames[id-1].parent {
		l.d.budget--
		if l.names.frame(id).Kind == frame.User {
			all = append(all, id)
		}
		if frames[id-1].parent >= id { // a damaged file
			break
		}
	}
	return all
}

// call is a line of the program: its instructions in each stretch, with 0 for those in a fusion of another line, and what it calls.
type call struct {
	stretches map[int32]int
	inner     []int64
}

// name finds the calls whose inner calls are in the same stretches, and numbers these as layers.
func (l *layers) name() {
	all, ends, of := map[int64]*call{0: {stretches: map[int32]int{}}}, map[int32]int64{}, map[int32]int32{}
	add := func(op *operation, stretch int32, n int) {
		inner := int64(0)
		for _, id := range append(l.calls(op.frame), 0) {
			if all[id] == nil {
				all[id] = &call{stretches: map[int32]int{}}
			}
			c := all[id]
			if c.stretches[stretch] += n; inner != 0 && !slices.Contains(c.inner, inner) {
				c.inner = append(c.inner, inner)
			}
			l.d.budget -= len(c.inner)
			inner = id
		}
	}
	for i := range l.steps {
		s, op := &l.steps[i], &l.main.ops[i]
		if !s.useful || op.frame <= 0 {
			continue
		}
		add(op, s.stretch, 1)
		if s.cut {
			ends[s.stretch] = op.frame
		}
		if op.opcode == "fusion" && len(op.called) == 1 && l.computations[op.called[0]] != nil {
			for k := range l.computations[op.called[0]].ops {
				add(&l.computations[op.called[0]].ops[k], s.stretch, 0)
			}
		}
	}
	var find func(id, caller int64)
	find = func(id, caller int64) {
		c, most, least := all[id], 0, len(l.steps)
		for _, inner := range c.inner {
			n := len(all[inner].stretches)
			most, least = max(most, n), min(least, n)
		}
		if id == 0 || len(c.inner) == 1 || least < 2 || 2*least < most {
			for _, inner := range c.inner { // calls have higher numbers than their callers
				if inner > id {
					find(inner, id)
				}
			}
			return
		}
		if len(c.inner) == 0 && caller != 0 && len(all[caller].stretches) == len(c.stretches) { // a line: what calls it
			id = caller
		}
		mine := slices.DeleteFunc(slices.Sorted(maps.Keys(c.stretches)), func(s int32) bool { return 2*c.stretches[s] < all[0].stretches[s] })
		times, last := map[int64]int{}, int64(-1) // layers end in the line that most stretches end in
		for _, s := range mine {
			if times[ends[s]]++; times[ends[s]] >= times[last] {
				last = ends[s]
			}
		}
		for k, s := range mine {
			if k == 0 || ends[mine[k-1]] == last {
				l.lines = append(l.lines, l.names.frame(id).Place())
			}
			of[s] = int32(len(l.lines) - 1)
		}
	}
	find(0, 0)
	for i := range l.steps {
		l.steps[i].layer = of[l.steps[i].stretch]
	}
}

// held is memory that only the backward pass reads after the layer that makes it, and when: then the layer is computed again.
type held struct {
	layer             int32
	used, read, bytes int64
}

// peaks returns the peak if each layer kept only what later ones read: at least if a value is computed again when it is read, at most if all of a layer
// is at once with one value twice, and what the backward pass has in faster memory is not there.
func (l *layers) peaks() (c compiled.Change, ok bool) {
	made := make([]use, len(l.blocks))
	at := slices.Repeat([]int64{math.MaxInt64}, len(l.steps)+1) // positions in the heap trace, by those in the schedule
	for i := range l.blocks {
		id, path := l.d.definition(&l.p.values[l.blocks[i].root])
		in, known := l.executor(l.places[id])
		if made[i] = (use{in.op, path}); !known {
			return c, false
		} else if in != l.places[id] {
			made[i].path = inLoop
		}
		at[l.d.pos[in.op]] = min(at[l.d.pos[in.op]], l.blocks[i].begin)
	}
	for i := len(at) - 2; i >= 0; i-- {
		at[i] = min(at[i], at[i+1])
	}
	when := func(pos int) int64 { return at[min(pos, len(at)-1)] }
	var all []held
	again, forward, lines := map[int32]int64{}, map[int32][]span{}, map[string]map[int32]bool{}
	for i, u := range made {
		k, v := &l.blocks[i], &l.p.values[l.blocks[i].root]
		if a := &l.p.allocations[v.allocation]; a.color != l.color || a.uses.Whole() || l.steps[u.op].back {
			continue
		}
		layer, read, used, keeps := l.steps[l.made(u).op].layer, math.MaxInt, l.d.pos[u.op], false
		if u.path != inLoop {
			l.readers(u, 0, func(r int32) {
				if l.steps[r].useful {
					used = max(used, l.d.pos[r])
				} else {
					read = min(read, l.d.pos[r])
				}
			})
			l.readers(l.made(u), 0, func(r int32) { keeps = keeps || l.steps[r].useful && l.steps[r].layer != layer })
		}
		if layer == 0 || keeps {
			continue
		}
		if read == math.MaxInt {
			forward[layer] = append(forward[layer], span{k.begin, k.end, v.size})
			continue
		}
		forward[layer] = append(forward[layer], span{k.begin, math.MaxInt64, v.size})
		h := held{layer, min(when(used+1), k.end), min(when(read), k.end), v.size}
		if t, found := again[layer]; !found || h.read < t {
			again[layer] = h.read
		}
		if lines[l.lines[layer]] == nil {
			lines[l.lines[layer]] = map[int32]bool{}
		}
		lines[l.lines[layer]][layer] = true
		all = append(all, h)
	}
	maps.DeleteFunc(lines, func(_ string, of map[int32]bool) bool { return len(of) < 2 })
	var late, early []span
	sum, largest := map[int32]int64{}, int64(0)
	for _, h := range all {
		if lines[l.lines[h.layer]] != nil {
			late = append(late, span{h.used, max(h.used, h.read), -h.bytes})
			early = append(early, span{h.used, max(h.used, again[h.layer]), -h.bytes})
			sum[h.layer], largest = sum[h.layer]+h.bytes, max(largest, h.bytes)
		}
	}
	for layer, bytes := range sum { // what the layer needs besides
		early = append(early, span{again[layer], again[layer] + 1, max(highest(forward[layer])-bytes, 0)})
	}
	for i := range l.p.values {
		v := &l.p.values[i]
		id, path := l.d.definition(v)
		if at := l.places[id]; at.in == l.main && v.allocation >= 0 && l.p.allocations[v.allocation].color == fasterMemory && l.steps[at.op].back && !handsOn(at.operation()) {
			early = append(early, span{when(l.d.pos[at.op]), when(l.d.lastUse(use{at.op, path}, 0) + 1), v.size})
		}
	}
	low, high, now := l.p.heapPeak(l.color, l.blocks, nil, late...), l.p.heapPeak(l.color, l.blocks, nil, early...), l.p.heapPeak(l.color, l.blocks, nil)
	c = compiled.Change{Kind: compiled.Layers, What: strings.Join(slices.Sorted(maps.Keys(lines)), ", "), Low: low - low/layersBelow, High: units.AddSat(high, largest)}
	return c, l.d.budget >= 0 && len(lines) > 0 && c.High < now
}

// layersBelow is the part of the least peak that programs needed less when they were changed: 2 % at most. They had one value of a layer more at most.
const layersBelow = 20

// inLoop is the path of a value that a loop makes in its rounds.
const inLoop = -2
