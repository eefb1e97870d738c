package hlo

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/compiled"
)

// planner finds what a program would need after changes that its data flow proves possible.
type planner struct {
	*origins
	names  *sites
	d      *donor // the schedule, and what reads what
	color  int64
	blocks []block
	stacks map[int64][]stack // that loops fill, by the instruction of the loop
	order  []int64           // of these instructions
	unsure bool              // the compiler makes something of a stack that the program does not know
}

// stack is memory that a loop fills, a part in each round.
type stack struct {
	value  int32
	memory item  // of it
	path   int64 // in the state of the loop
	stored item  // what a round stores
	bytes  int64
	rounds int64
	end    int64 // when it is freed
	named  bool  // a fusion with a name makes it: on CPU the program does, such as for results of a scan, not the compiler
}

// changes returns the peaks that a memory space would have.
func (p *program) changes(color int64, blocks []block, names *sites) (all []compiled.Change) {
	d := &donor{origins: &names.origins, budget: p.graph.budget, color: color, uses: map[use]int{}, values: map[use]int32{}}
	add := func(c compiled.Change, ok bool) {
		if ok {
			all = append(all, c)
		}
	}
	scheduled := d.read()
	if scheduled {
		add(d.donation(blocks, names))
	}
	x := planner{origins: &names.origins, names: names, d: d, color: color, blocks: blocks, stacks: map[int64][]stack{}}
	x.find()
	for _, id := range x.order {
		add(x.inPlace(p.graph.places[id], x.stacks[id]))
		add(x.checkpoint(p.graph.places[id], x.stacks[id]))
	}
	if d.budget, d.uses = p.graph.budget, map[use]int{}; scheduled {
		add(x.layered())
	}
	return all
}

// find finds the stacks among the buffers of the heap trace.
func (x *planner) find() {
	for _, k := range x.blocks {
		v := &x.p.values[k.root]
		if a := &x.p.allocations[v.allocation]; a.color != x.color || a.uses.Whole() {
			continue
		}
		at, ok := x.p.itemOf(v)
		if !ok || len(at.path) > 0 {
			continue
		}
		memory := at
		if at.operation().opcode == "copy" { // on CPU each loop fills a copy of the same zeros
			memory, _ = x.operand(at, 0, nil)
		}
		if memory.in == nil || !x.isEmpty(memory.operation()) {
			continue
		}
		loop, ok := x.filler(at)
		shape, _ := x.p.shapeAt(at.operation().shape)
		if !ok || loop.operation().opcode != "while" || len(loop.path) == 0 || len(shape.dimensions) == 0 || shape.dimensions[0] < 2 {
			continue
		}
		body := x.bodyOf(loop.operation())
		stored, ok := x.stores(item{place{body, body.root}, loop.path})
		if !ok {
			continue
		}
		of := loop.operation().id
		if x.stacks[of] == nil {
			x.order = append(x.order, of)
		}
		x.stacks[of] = append(x.stacks[of], stack{k.root, at, loop.path[0], stored, v.size, shape.dimensions[0], k.end, memory.operation().named && memory.operation().opcode == "fusion"})
	}
}

// stores returns the update that makes a part of the next state of a loop.
func (x *planner) stores(v item) (item, bool) {
	v = x.follow(v, func(v item) (item, bool) {
		switch op := v.operation(); op.opcode {
		case "fusion", "call":
			return x.result(op, v.path)
		case "get-tuple-element", "tuple", "copy", "bitcast", "copy-done", "copy-start":
			return x.before(v)
		}
		return v, false
	})
	if v.operation().opcode != "dynamic-update-slice" {
		return item{}, false
	}
	return x.operand(v, 1, nil)
}

// inside returns the part of the state that v is in a round of a loop, or else what makes it there.
func (x *planner) inside(v item, body *computation) item {
	return x.follow(v, func(v item) (item, bool) {
		switch op := v.operation(); op.opcode {
		case "dynamic-update-slice", "dynamic-slice", "while":
			return v, false
		case "fusion":
			root, ok := x.result(op, v.path)
			return root, ok && strings.HasPrefix(root.operation().opcode, "dynamic-")
		case "parameter": // of a fusion
			if v.in == body {
				return v, false
			}
			return x.argument(v)
		}
		return x.before(v)
	})
}

// changing reports whether a part of a loop's state is not the same in each round.
func (x *planner) changing(body *computation, path []int64) bool {
	end := x.inside(item{place{body, body.root}, path}, body)
	return !x.isState(end, body, path)
}

// inPlace returns the peak if a loop carried what it reads from an array, changes and stores into another one of the same shape.
func (x *planner) inPlace(loop place, stacks []stack) (c compiled.Change, ok bool) {
	body := x.bodyOf(loop.operation())
	without, parts := map[int32]int64{}, int64(0)
	var names []string
	for _, s := range stacks {
		set := x.inside(s.stored, body)
		if set.operation().opcode != "dynamic-update-slice" {
			continue
		}
		from, _ := x.operand(set, 0, nil)
		if from.in == nil {
			continue
		}
		if from = x.inside(from, body); from.operation().opcode != "dynamic-slice" {
			continue
		}
		if from, ok = x.operand(from, 0, nil); !ok {
			continue
		}
		read := x.inside(from, body)
		if !x.isState(read, body, read.path) || len(read.path) != 1 || read.path[0] == s.path || x.changing(body, read.path) {
			continue
		}
		start := item{loop, read.path}
		if start, ok = x.operand(start, 0, read.path); !ok || x.shapeOf(s.memory) == "" || x.shapeOf(x.raw(start)) != x.shapeOf(s.memory) {
			continue
		}
		without[s.value] = 0
		parts += s.bytes / s.rounds
		names = append(names, x.names.label(x.of(start).place))
	}
	if len(without) == 0 {
		return c, false
	}
	high := x.p.heapPeak(x.color, x.blocks, without)
	for _, k := range x.blocks { // at best a round needs no memory of its own
		if at, _ := x.p.itemOf(&x.p.values[k.root]); at.in == body {
			without[k.root] = 0
		}
	}
	low := x.p.heapPeak(x.color, x.blocks, without) - parts
	return compiled.Change{Kind: compiled.InPlace, What: strings.Join(names, ", "), Low: max(low, 0), High: high}, true
}

// checkpoint returns the peak if the backward pass computed again what a round of a loop of the forward pass makes. The loop then saves what it
// carries, and a round of the backward pass has the rest.
func (x *planner) checkpoint(loop place, stacks []stack) (c compiled.Change, ok bool) {
	op, body := loop.operation(), x.bodyOf(loop.operation())
	if !op.forward || op.transposed || op.recomputed {
		return c, false
	}
	size := map[int32]int64{}
	round, end, carried := int64(0), int64(math.MaxInt64), false
	var first int32 = -1
	x.unsure = false
	for _, s := range stacks {
		if !x.onlyBackward(loop, s.path) || s.named {
			continue
		}
		if v := x.inside(s.stored, body); v.in == body && v.operation().opcode == "parameter" && len(v.path) > 0 && x.changing(body, v.path) {
			carried = true
			continue
		}
		if of := x.of(s.stored).operation(); of.recomputed || of.transposed {
			continue
		}
		if size[s.value] = 0; first < 0 {
			first = s.value
		}
		round, end = round+s.bytes/s.rounds, min(end, s.end)
	}
	for k, o := range body.ops[body.root].operands { // on CPU the compiler may convert a whole stack to a wider type
		if s, err := x.p.shapeAt(body.ops[max(o, 0)].shape); err == nil && len(s.dimensions) > 1 && s.dimensions[0] == stacks[0].rounds {
			x.onlyBackward(loop, int64(k))
		}
	}
	if first < 0 || x.unsure {
		return c, false
	}
	if !carried {
		size[first] = x.carry(loop, body, stacks)
	}
	if x.p.tiled() { // on TPU 9 programs had at most 43 % of a round at once: the rest is computed where it is read
		round /= 2
	}
	again := append(x.inputs(loop, body, end), span{x.backward(end), end, round})
	high := x.p.heapPeak(x.color, x.blocks, size, again...)
	low, faster := x.least(size, round, again[:len(again)-1])
	if low = min(low, high); high-low <= faster/2 { // so little moves to it: 7 programs of 7
		high = low
	}
	return compiled.Change{Kind: compiled.Checkpoint, What: x.names.label(loop), Low: low, High: high}, true
}

// inputs returns the memory of what a loop reads and does not change, from where it is freed to a position.
func (x *planner) inputs(loop place, body *computation, end int64) (all []span) {
	read := map[place]bool{}
	for k := range body.ops[body.root].operands {
		path := []int64{int64(k)}
		if from, ok := x.operand(item{loop, path}, 0, path); ok && !x.changing(body, path) {
			read[x.raw(from).place] = true
		}
	}
	for _, k := range x.blocks {
		if at, _ := x.p.itemOf(&x.p.values[k.root]); at.in != nil && read[at.place] && k.end < end && !x.p.allocations[x.p.values[k.root].allocation].uses.Whole() {
			all = append(all, span{k.end, end, x.p.values[k.root].size})
		}
	}
	return all
}

// backward returns when the loops of the backward pass begin that read what is freed at a position.
func (x *planner) backward(end int64) int64 {
	from := end - 1
	for _, k := range x.blocks {
		of, _ := x.p.itemOf(&x.p.values[k.root])
		if at, ok := x.executor(of.place); ok && at.operation().opcode == "while" && at.operation().transposed {
			from = min(from, k.begin)
		}
	}
	return from
}

// least returns the peak if values had other sizes, and the compiler then put those that fit into faster memory, as much of it as it uses now, and those bytes. What a
// round makes comes before them: it is read and written in each.
func (x *planner) least(size map[int32]int64, round int64, read []span) (peak, faster int64) {
	without := maps.Clone(size)
	for i := range x.p.allocations {
		if a := &x.p.allocations[i]; a.color == fasterMemory {
			faster = units.AddSat(faster, a.size)
		}
	}
	peak = x.p.heapPeak(x.color, x.blocks, size, slices.Clone(read)...)
	if round >= faster {
		return peak, faster
	}
	for _, k := range x.blocks {
		bytes, ok := size[k.root]
		if !ok {
			bytes = x.p.values[k.root].size
		}
		if bytes <= faster {
			without[k.root] = 0
		}
	}
	return max(peak-faster, x.p.heapPeak(x.color, x.blocks, without, read...)), faster
}

const fasterMemory = 1 // the color of it on TPU

// carry returns the bytes of a stack of what a loop carries.
func (x *planner) carry(loop place, body *computation, stacks []stack) (bytes int64) {
	root := body.ops[body.root]
	for k := range root.operands {
		path := []int64{int64(k)}
		if _, stores := x.stores(item{place{body, body.root}, path}); stores || root.operands[k] < 0 || !x.changing(body, path) {
			continue
		}
		if of := x.inside(item{place{body, body.root}, path}, body).operation(); of.opcode == "dynamic-slice" || x.isEmpty(of) {
			continue // fetched for the next round, or without content
		}
		if a, _ := x.p.array(body.ops[root.operands[k]].shape); a.rank > 0 && a.known {
			bytes = units.AddSat(bytes, a.unpadded*stacks[0].rounds)
		}
	}
	return bytes
}

// onlyBackward reports whether only the backward pass reads a part of a loop's result.
func (x *planner) onlyBackward(loop place, path int64) bool {
	found := false
	var all func(v item, depth int) bool
	all = func(v item, depth int) bool {
		for _, u := range v.in.usersOf()[v.op] {
			to := item{place{v.in, u}, v.path}
			x.budget--
			switch op := to.operation(); {
			case x.budget < 0 || op.opcode == "get-tuple-element" && len(v.path) == 0:
				return false
			case op.opcode == "get-tuple-element":
				if op.number != v.path[0] {
					continue
				}
				to.path = v.path[1:]
			case op.opcode == "tuple":
				to.path = append([]int64{int64(slices.Index(op.operands, v.op))}, v.path...)
			case op.transposed && op.opcode != "opt-barrier":
				found = true
				continue
			case !passes(op.opcode) && op.opcode != "copy" || op.opcode == "while":
				root, ok := x.result(op, nil)
				x.unsure = x.unsure || !op.named && ok && root.operation().opcode == "convert"
				return false
			}
			if u == v.in.root && v.in == x.main || depth >= maxFlowPath || len(to.path) == 0 && to.operation().opcode == "tuple" || !all(to, depth+1) {
				return false
			}
		}
		return true
	}
	return all(item{loop, []int64{path}}, 0) && found
}

// shapeOf returns the shape of a value without its layout; "" if it has none.
func (x *planner) shapeOf(v item) string {
	at, ok, err := x.names.part(v.operation().shape, v.path)
	if a, failed := x.p.array(at); ok && err == nil && failed == nil {
		return a.plain
	}
	return ""
}
