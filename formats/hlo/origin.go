package hlo

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime/compiled"
)

// item is a value: the result of an instruction, or the part of it at a path through tuples.
type item struct {
	place
	path []int64
}

// part is a part of the result of an instruction.
type part struct {
	place
	path int64
}

// maxSteps bounds the instructions that pass a value on.
const maxSteps = 1 << 10

// origins follow values to what they are, whatever the compiler made of them.
type origins struct {
	*graph
	loops  map[part]item // values of loops, by their first part; those in work have no place
	depth  int
	budget int // values that may still be looked at: the ways to a value may double with each instruction
}

// itemOf returns where a value is defined; ok is false if that is missing.
func (p *program) itemOf(v *value) (at item, ok bool) {
	at, err := p.definedAt(v)
	return at, err == nil && at.in != nil
}

// follow returns the last value to which next leads from v.
func (g *origins) follow(v item, next func(item) (item, bool)) item {
	for range maxSteps {
		earlier, ok := next(v)
		if g.budget--; !ok || g.budget < 0 {
			break
		}
		v = earlier
	}
	return v
}

// of returns the value that v is: the argument or the result that was copied, moved or handed through calls and loops. What a loop fills is
// what it stores there. A value that a loop replaces is the argument that it began as, else what the loop makes.
func (g *origins) of(v item) item {
	if g.depth++; g.depth <= maxFlowPath {
		v = g.follow(v, g.before)
	}
	g.depth--
	return v
}

// before returns the value that v was, one instruction earlier.
func (g *origins) before(v item) (item, bool) {
	op := v.operation()
	switch op.opcode {
	case "copy", "bitcast", "bitcast-convert", "opt-barrier", "add-dependency", "domain":
		from, ok := g.operand(v, 0, v.path)
		if ok && op.opcode == "copy" && g.isEmpty(from.operation()) { // each copy may be filled by another loop
			if filled, ok := g.filled(v); ok {
				return filled, true
			}
		}
		return from, ok
	case "copy-done":
		return g.operand(v, 0, []int64{0})
	case "copy-start": // its results are the copy, what is copied, and a flag
		if len(v.path) > 0 && v.path[0] < 2 {
			return g.operand(v, 0, v.path[1:])
		}
	case "get-tuple-element":
		return g.operand(v, 0, append([]int64{op.number}, v.path...))
	case "tuple":
		if len(v.path) > 0 {
			return g.operand(v, v.path[0], v.path[1:])
		}
	case "parameter":
		return g.argument(v)
	case "while":
		return g.loop(v)
	case "call", "fusion":
		if g.isEmpty(op) {
			return g.filled(v)
		}
		if root, ok := g.result(op, v.path); ok && (op.opcode == "call" || !op.named || root.operation().opcode == "dynamic-update-slice") {
			return root, true
		}
	case "dynamic-update-slice":
		return g.updated(v)
	case "custom-call", "broadcast":
		if g.isEmpty(op) {
			return g.filled(v)
		}
		if whole, ok := g.joined(v); ok {
			return whole, true
		}
	case "async-start": // its results are the operands, the value, and more
		if root, ok := g.result(op, nil); ok && len(v.path) > 0 && v.path[0] == 1 && (root.operation().opcode == "slice" || root.operation().opcode == "copy") {
			return g.operand(v, 0, v.path[1:])
		}
	case "async-done":
		return g.operand(v, 0, append([]int64{1}, v.path...))
	case "select": // zeros in the first round
		if len(op.operands) == 3 && !op.named && op.operands[1] >= 0 && op.operands[2] >= 0 {
			if g.isEmpty(&v.in.ops[op.operands[1]]) {
				return g.operand(v, 2, v.path)
			}
			if g.isEmpty(&v.in.ops[op.operands[2]]) {
				return g.operand(v, 1, v.path)
			}
		}
	case "convert", "reshape", "transpose", "slice", "reduce-precision", "async-update":
		if !op.named { // the compiler's own: a slice is fetched into faster memory
			return g.operand(v, 0, v.path)
		}
	}
	if from, ok := g.callers[v.in]; ok && !op.named && v.op == v.in.root && from.operation().opcode == "async-start" {
		return item{from, append([]int64{1}, v.path...)}, true // it has the name
	}
	return item{}, false
}

// joined returns the value whose parts the compiler puts together again.
func (g *origins) joined(v item) (whole item, ok bool) {
	op := v.operation()
	for k := range op.operands {
		part, known := g.operand(v, int64(k), nil)
		if !known || op.named || len(op.operands) < 2 || part.operation().opcode != "async-done" {
			return item{}, false
		}
		if part = g.of(part); k > 0 && part.place != whole.place {
			return item{}, false
		}
		whole = part
	}
	return whole, len(op.operands) > 0
}

// operand returns the part of an operand at a path.
func (g *origins) operand(v item, n int64, path []int64) (item, bool) {
	all := v.operation().operands
	if n < 0 || n >= int64(len(all)) || all[n] < 0 {
		return item{}, false
	}
	return item{place{v.in, all[n]}, path}, true
}

// result returns the part at a path of what the only computation that an instruction calls returns, before bitcasts.
func (g *origins) result(op *operation, path []int64) (item, bool) {
	c := g.inner(op)
	if c == nil || c.root < 0 {
		return item{}, false
	}
	return g.follow(item{place{c, c.root}, path}, func(v item) (item, bool) {
		if opcode := v.operation().opcode; opcode != "bitcast" && opcode != "tuple" {
			return v, false
		}
		return g.before(v)
	}), true
}

// argument returns what the caller of a computation passes.
func (g *origins) argument(v item) (item, bool) {
	from, ok := g.callers[v.in]
	if !ok {
		return item{}, false
	}
	caller := item{from, v.path}
	switch op := from.operation(); op.opcode {
	case "while":
		return g.loop(caller)
	case "fusion", "call", "async-start":
		return g.operand(caller, v.operation().number, v.path)
	case "conditional":
		for i, id := range op.called {
			if g.computations[id] == v.in {
				return g.operand(caller, int64(i)+1, v.path)
			}
		}
	}
	return item{}, false
}

// isArgument reports whether a value is one of the program.
func (g *graph) isArgument(v item) bool { return v.in == g.main && v.operation().opcode == "parameter" }

// isEmpty reports whether an instruction makes memory to be filled.
func (g *graph) isEmpty(op *operation) bool {
	if c := g.inner(op); op.opcode == "fusion" { // on CPU
		return c != nil && c.root >= 0 && c.ops[c.root].opcode == "broadcast" && (!op.named || len(c.ops) == 2) // of an argument of the fusion
	}
	return op.opcode == "custom-call" && len(op.operands) == 0 || op.opcode == "broadcast"
}

// loop returns what the part of a loop's state at a path is.
func (g *origins) loop(v item) (item, bool) {
	body := g.bodyOf(v.operation())
	if len(v.path) == 0 || body == nil {
		return item{}, false
	}
	key := part{v.place, v.path[0]}
	if known, ok := g.loops[key]; ok {
		return known, known.in != nil
	}
	start, ok := g.operand(v, 0, v.path)
	if !ok {
		return item{}, false
	}
	g.loops[key] = item{}
	first := g.of(start)
	if !g.isArgument(first) {
		if made := g.of(item{place{body, body.root}, v.path}); !g.isState(made, body, v.path) {
			first = made
		}
	}
	g.loops[key] = first
	return first, true
}

// isState reports whether a value is the part of the state with which a round of a loop begins.
func (g *origins) isState(v item, body *computation, path []int64) bool {
	return v.in == body && v.operation().opcode == "parameter" && slices.Equal(v.path, path)
}

// bodyOf returns the computation that a loop repeats: its condition returns no tuple.
func (g *graph) bodyOf(loop *operation) *computation {
	for _, id := range loop.called {
		if c := g.computations[id]; c != nil && c.root >= 0 {
			if s, err := g.p.shapeAt(c.ops[c.root].shape); err == nil && s.element == tupleType {
				return c
			}
		}
	}
	return nil
}

// updated returns what a value with a replaced part is: the argument that it was, or what is stored in empty memory.
func (g *origins) updated(v item) (item, bool) {
	to, ok := g.operand(v, 0, nil)
	if !ok {
		return item{}, false
	}
	to = g.of(to)
	if from, ok := g.callers[to.in]; ok && to.operation().opcode == "parameter" && from.operation().opcode == "while" { // its loop is in work
		if start, ok := g.operand(item{from, nil}, 0, to.path); ok {
			to = g.raw(start)
		}
	}
	switch {
	case g.isArgument(to):
		return to, true
	case g.isEmpty(to.operation()):
		return g.operand(v, 1, nil)
	}
	return item{}, false
}

// raw returns the value that v is a copy of, without what fills empty memory.
func (g *origins) raw(v item) item {
	return g.follow(v, func(v item) (item, bool) {
		if g.isEmpty(v.operation()) {
			return v, false
		}
		return g.before(v)
	})
}

// filled returns what fills empty memory.
func (g *origins) filled(memory item) (v item, ok bool) {
	if v, ok = g.filler(memory); ok && v.operation().opcode == "while" {
		v, ok = g.loop(v)
	}
	return v, ok && v.place != memory.place
}

// filler returns what fills empty memory: a part of a loop's state, or an update.
func (g *origins) filler(memory item) (v item, ok bool) {
	g.depth++
	defer func() { g.depth-- }()
	users := memory.in.usersOf()
	first := slices.Clone(users[memory.op]) // what fills the memory itself comes before what fills a copy of it
	isCopy := func(u int32) int { return map[bool]int{true: 1}[memory.in.ops[u].opcode == "copy"] }
	slices.SortStableFunc(first, func(u, v int32) int { return isCopy(u) - isCopy(v) })
	for _, u := range first {
		if g.budget--; g.budget < 0 || g.depth > maxFlowPath {
			return item{}, false
		}
		to := item{place{memory.in, u}, nil}
		switch op := to.operation(); op.opcode {
		case "copy", "bitcast", "opt-barrier", "copy-start", "copy-done":
			v, ok = g.filler(to)
		case "tuple":
			for _, loop := range users[u] {
				of := item{place{memory.in, loop}, []int64{int64(slices.Index(op.operands, memory.op))}}
				if !ok && of.operation().opcode == "while" && g.bodyOf(of.operation()) != nil {
					v, ok = of, true
				}
			}
		case "dynamic-update-slice":
			if op.operands[0] == memory.op {
				v, ok = g.operand(to, 1, nil)
			}
		case "fusion":
			if root, found := g.result(op, nil); found && root.operation().opcode == "dynamic-update-slice" {
				v, ok = root, true
			}
		}
		if ok {
			break
		}
	}
	return v, ok
}

// origin returns the site of a buffer whose value is v: what it is, with the instruction, shape and sharding of v. own is that of v alone. What the
// compiler made without a line has the line that it was made from or for.
func (s *sites) origin(v *value, own site) site {
	at, ok := s.p.itemOf(v)
	if !ok {
		return own
	}
	of := s.origins.of(at)
	moved := of.place != at.place && of.operation().named
	if !moved {
		of.place = at.place
	}
	line := of.place
	if op := of.operation(); op.opcode != "parameter" && !op.lined {
		line = s.origins.lined(of.place)
	}
	var d, from, near definition
	if !moved && line == at.place || s.define(&d, at.place) != nil || s.define(&from, of.place) != nil || s.define(&near, line) != nil {
		return own
	}
	if d.opName = from.opName; line != of.place {
		from.stack, from.source = s.scopes(&d, near.leaf), near.source
	}
	d.stack, d.source = from.stack, from.source
	if s.p.graph.isArgument(of) {
		d.role = cmp.Or(from.role, compiled.Copied)
	}
	made, err := s.make(&d, braced(at.path), at.path)
	if err != nil {
		return own
	}
	made.stack = made.stack && (d.opName != "" || line == of.place) // of its own
	return made
}

// lined returns the nearest instruction with a line: in what at executes, among what it is computed from, else of those that use it; at if none has.
func (g *origins) lined(at place) place {
	const most = 64
	near := []place{at}
	for i := 0; i < len(near) && i < most; i++ {
		op := near[i].operation()
		if g.budget -= len(op.operands); g.budget < 0 {
			return at
		}
		if op.lined {
			return near[i]
		}
		if c := g.inner(op); op.opcode == "fusion" && c != nil && c.root >= 0 {
			near = append(near, place{c, c.root})
		}
		for _, o := range op.operands {
			if o >= 0 {
				near = append(near, place{near[i].in, o})
			}
		}
	}
	for _, u := range at.in.usersOf()[at.op] {
		if at.in.ops[u].lined {
			return place{at.in, u}
		}
	}
	return at
}
