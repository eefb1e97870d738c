package hlo

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/formats/internal/wire"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/compiled"
)

// donor finds what a program would need if it donated more arguments to results, by the live ranges of its schedule.
//
// A result can use the memory of an argument from the last use of the argument on. If the compiler cannot order that
// before the result, it computes the result elsewhere and copies it. A compiler also lets other values use the memory
// of a result before the result is there: they keep needing memory.
type donor struct {
	*origins
	budget int
	color  int64
	pos    []int // positions in the schedule
	users  [][]int32
	uses   map[use]int // results of lastUse
	values map[use]int32
	ranges []memory // of values in memory that is not in use for the whole run
	whole  int64    // bytes that are
}

// use is the result of an instruction of main, or a part of it.
type use struct{ op, path int32 }

const wholeResult = -1

// memory is a range of an allocation that a value uses at positions from begin to end.
type memory struct {
	allocation, value int32
	from, to          uint64
	begin, end        int
}

// pair is an argument that is donated to a result.
type pair struct {
	argument int32
	result   tensor
	inTime   bool  // no copy is needed
	free     int   // position of the last use of the argument
	copied   int32 // value of a copy of the argument in the memory of the result; -1 if there is none
}

// tensor is an argument or a result.
type tensor struct {
	op                int32 // that defines it
	value, allocation int32
	shape             string
}

// donation returns what the memory space would need with more donated arguments; ok is false if that is
// not certain. blocks are those of the heap trace.
func (d *donor) donation(blocks []block, names *sites) (c compiled.Change, ok bool) {
	pairs, ok := d.pairs()
	if !ok || len(pairs) == 0 || !d.place() {
		return c, false
	}
	peak := d.p.heapPeak(d.color, blocks, nil)
	now, with := d.peak(nil, false), d.peak(pairs, false)
	if !d.p.tiled() { // on TPU the compiler decides on copies when the schedule is known
		with = max(with, d.peak(pairs, true))
	}
	if off := now - peak; d.budget < 0 || max(off, -off) > peak/uncertain {
		return c, false
	}
	if with >= now {
		return compiled.Change{Kind: compiled.Donate, Low: peak, High: peak}, true
	}
	var what []string
	low := peak // if the compiler orders the last use of each argument before its result
	for _, x := range pairs {
		what = append(what, names.label(place{d.main, x.argument}))
		low -= d.p.values[x.result.value].size
	}
	peak -= now - with
	return compiled.Change{Kind: compiled.Donate, What: strings.Join(what, ", "), Low: min(max(low, 0), peak, with), High: peak}, true
}

// tiled reports whether a program is compiled for a TPU: its arrays have tiles.
func (p *program) tiled() bool {
	g := &p.graph
	return g.main != nil && g.main.root >= 0 && strings.Contains(g.shape(g.main.root), ":T(")
}

// uncertain is the share of the peak by which live ranges and the heap trace may differ.
const uncertain = 100

// read reads the schedule of the entry computation. It reports whether all is there.
func (d *donor) read() bool {
	if d.main == nil || d.main.root < 0 {
		return false
	}
	var sequences []wire.Span
	err := wire.Read(d.p.proto, d.p.schedule, wire.Into{{scheduleSequences, &sequences}})
	order := map[int64]int{}
	for _, at := range sequences {
		key, sequence, ids := int64(0), wire.Span{}, []int64(nil)
		if err = cmp.Or(err, wire.Read(d.p.proto, at, wire.Into{{sequenceKey, &key}, {sequenceValue, &sequence}})); key == d.p.entryID && len(order) == 0 {
			err = cmp.Or(err, wire.Read(d.p.proto, sequence, wire.Into{{sequenceIDs, &ids}}))
			for i, id := range ids {
				order[id] = i
			}
		}
	}
	d.pos, d.users = make([]int, len(d.main.ops)), d.main.usersOf()
	for i := range d.main.ops {
		op, ok := &d.main.ops[i], false
		if d.pos[i], ok = order[op.id]; !ok || slices.Contains(op.operands, -1) {
			return false
		}
	}
	for i := range d.p.values {
		if v := &d.p.values[i]; v.allocation >= 0 && d.p.allocations[v.allocation].color == d.color {
			if at, _ := d.p.itemOf(v); at.in == d.main {
				d.values[useOf(at)] = int32(i)
			}
		}
	}
	return err == nil && d.budget >= 0
}

// place finds the ranges of memory of the values and when they are in use. It reports whether all are known.
func (d *donor) place() bool {
	for i := range d.p.allocations {
		a := &d.p.allocations[i]
		if a.color != d.color || a.uses&compiled.ForThreadLocal != 0 {
			continue
		}
		if a.uses.Whole() {
			d.whole = units.AddSat(d.whole, a.size)
			if a.uses != compiled.ForOutput {
				continue
			}
		}
		for _, v := range a.values {
			value := &d.p.values[v]
			from, _ := d.p.itemOf(value)
			m := memory{allocation: int32(i), value: v, from: uint64(value.offset), to: addTo(uint64(value.offset), value.size)}
			at, ok := d.executor(from.place)
			if !ok {
				return false
			}
			m.begin, m.end = d.pos[at.op], d.pos[at.op]
			if opcode := at.operation().opcode; at == from.place {
				m.end = d.lastUse(useOf(from), 0)
			} else if opcode == "conditional" || opcode == "call" {
				m.end = d.lastUse(use{at.op, wholeResult}, 0)
			}
			d.ranges = append(d.ranges, m)
		}
	}
	return d.budget >= 0
}

// useOf returns the part of a result that a value is.
func useOf(v item) use {
	if len(v.path) == 0 {
		return use{v.op, wholeResult}
	}
	return use{v.op, int32(v.path[0])}
}

// lastUse returns the last position at which a result is in use; len(pos) if it is a result of the program.
func (d *donor) lastUse(p use, depth int) int {
	if last, ok := d.uses[p]; ok {
		return last
	}
	last := d.pos[p.op]
	if p.op == d.main.root || depth >= maxPasses {
		last = len(d.pos)
	}
	for _, u := range d.users[p.op] {
		if d.budget--; d.budget < 0 {
			return len(d.pos)
		}
		for _, next := range d.through(p, u) {
			last = max(last, d.pos[u])
			if passes(d.main.ops[u].opcode) {
				last = max(last, d.lastUse(next, depth+1))
			}
		}
	}
	d.uses[p] = last
	return last
}

const maxPasses = 1 << 10 // instructions that pass a value on

// through returns what has the value p in the result of its user u; none if u uses another part.
func (d *donor) through(p use, u int32) (all []use) {
	op := &d.main.ops[u]
	switch op.opcode {
	case "tuple":
		for k, o := range op.operands {
			if o == p.op && p.path == wholeResult {
				all = append(all, use{u, int32(k)})
			} else if o == p.op {
				all = append(all, use{u, wholeResult})
			}
		}
		d.budget -= len(op.operands)
		return all
	case "get-tuple-element":
		if p.path != wholeResult && int64(p.path) != op.number {
			return nil
		}
		return []use{{u, wholeResult}}
	case "while", "opt-barrier":
		return []use{{u, p.path}}
	}
	return []use{{u, wholeResult}}
}

// pairs returns the arguments that are donated, and to which results, as JAX pairs them: those of one shape in their
// order. Of more arguments than results it takes those that need no copy first. ok is false if a result is not
// understood.
func (d *donor) pairs() (all []pair, ok bool) {
	byShape := map[string][]tensor{}
	for i := range d.main.ops {
		if op := &d.main.ops[i]; op.opcode == "parameter" {
			if t, ok := d.tensor(use{int32(i), wholeResult}, int32(i)); ok && d.p.allocations[t.allocation].uses == compiled.ForParameter {
				byShape[t.shape] = append(byShape[t.shape], t)
			}
		}
	}
	for _, list := range byShape {
		slices.SortFunc(list, func(x, y tensor) int { return cmp.Compare(d.main.ops[x.op].number, d.main.ops[y.op].number) })
	}
	results, left := d.results(), map[string]int{}
	for _, o := range results {
		left[d.shape(o)]++
	}
	for _, o := range results {
		shape := d.shape(o)
		left[shape]--
		inputs := byShape[shape]
		if len(inputs) == 0 {
			continue
		}
		t, ok := d.tensor(d.maker(o), o)
		switch {
		case !ok || d.p.allocations[t.allocation].uses == compiled.ForParameter:
			return nil, false
		case d.p.allocations[t.allocation].uses != compiled.ForOutput:
			continue // it has the memory of an argument already
		}
		chosen := max(slices.IndexFunc(inputs[:max(len(inputs)-left[shape], 1)], func(of tensor) bool { return d.inTime(&of, &t) }), 0)
		of := &inputs[chosen]
		p := pair{argument: of.op, result: t, inTime: d.inTime(of, &t), free: d.lastUse(use{of.op, wholeResult}, 0), copied: -1}
		if p.free >= len(d.pos) {
			return nil, false // the argument is a result
		}
		if u := d.copyOf(of, &t); u >= 0 && u != t.op {
			p.free, p.copied = max(p.free, d.lastUse(use{u, wholeResult}, 0)), d.valueOf(u)
		}
		all = append(all, p)
		byShape[shape] = inputs[chosen+1:]
	}
	return all, d.budget >= 0
}

// maker returns what begins to use the memory of a result.
func (d *donor) maker(of int32) use {
	return useOf(d.follow(item{place{d.main, of}, nil}, func(v item) (item, bool) {
		switch v.operation().opcode {
		case "tuple", "get-tuple-element", "copy-done":
			return d.before(v)
		case "while", "opt-barrier", "bitcast":
			return d.operand(v, 0, v.path)
		}
		return v, false
	}))
}

// tensor returns the value of a part of a result. shape is the instruction that has its shape.
func (d *donor) tensor(p use, shape int32) (t tensor, ok bool) {
	v, ok := d.values[p]
	if ok {
		t = tensor{op: p.op, value: v, allocation: d.p.values[v].allocation, shape: d.shape(shape)}
	}
	return t, ok
}

// shape returns the shape of a result as text, with its layout.
func (g *graph) shape(op int32) string {
	a, _ := g.p.array(g.main.ops[op].shape)
	return a.text
}

// inTime reports whether the compiler knows that a result comes after the last use of an argument: each use leads to
// it, or computes it element by element.
func (d *donor) inTime(argument, result *tensor) bool {
	if d.budget -= len(d.main.ops); d.budget < 0 {
		return false
	}
	before := make([]bool, len(d.main.ops)) // what the result depends on
	before[result.op] = true
	for i := result.op; i >= 0; i-- { // operands come before their users
		if before[i] {
			for _, o := range d.main.ops[i].operands {
				before[o] = true
			}
		}
	}
	copied := d.copyOf(argument, result)
	seen := map[int32]bool{}
	uses := []int32{argument.op}
	for len(uses) > 0 && d.budget >= 0 {
		from := uses[len(uses)-1]
		uses = uses[:len(uses)-1]
		for _, u := range d.users[from] {
			if seen[u] {
				continue
			}
			seen[u] = true
			d.budget--
			for k, o := range d.main.ops[u].operands {
				if !before[u] || o == from && u == result.op && u != copied && !d.elementwise(&d.main.ops[u], k) {
					return false
				}
			}
			if passes(d.main.ops[u].opcode) || u == copied && u != result.op {
				uses = append(uses, u)
			}
		}
	}
	return true
}

// copyOf returns the instruction that copies an argument into the memory of a result, because the argument was not
// donated; -1 if there is none.
func (d *donor) copyOf(argument, result *tensor) int32 {
	d.budget -= len(d.users[argument.op])
	for _, u := range d.users[argument.op] {
		if d.main.ops[u].opcode == "copy" && d.shape(u) == argument.shape {
			if v := d.valueOf(u); v >= 0 && d.p.values[v].allocation == result.allocation {
				return u
			}
		}
	}
	return -1
}

// valueOf returns the value of the result of an instruction, -1 if there is none.
func (d *donor) valueOf(op int32) int32 {
	if v, ok := d.values[use{op, wholeResult}]; ok {
		return v
	}
	return -1
}

// elementwise reports whether an instruction can write its result over an operand while it reads it.
func (d *donor) elementwise(op *operation, operand int) bool {
	c := d.inner(op)
	switch {
	case op.opcode == "dynamic-update-slice" || op.opcode == "scatter":
		return operand == 0
	case op.opcode != "fusion":
		return slices.Contains(elementwiseOps, op.opcode)
	case !op.loop || c == nil:
		return false
	}
	d.budget -= len(c.ops)
	from := make([]bool, len(c.ops))
	for i := range c.ops {
		in := &c.ops[i]
		if in.opcode == "parameter" {
			from[i] = in.number == int64(operand)
			continue
		}
		for k, o := range in.operands {
			if o < 0 || !from[o] {
				continue
			}
			if root := int32(i) == c.root; !slices.Contains(elementwiseOps, in.opcode) &&
				!(root && (in.opcode == "tuple" || in.opcode == "dynamic-update-slice" && k == 0)) {
				return false
			}
			from[i] = true
		}
	}
	return true
}

// elementwiseOps are the instructions each of whose elements depends on the same element of the operands.
var elementwiseOps = strings.Fields("abs add and atan2 cbrt ceil clamp clz compare complex convert copy cosine divide erf exponential exponential-minus-one floor imag is-finite log " +
	"log-plus-one logistic maximum minimum multiply negate not or popcnt power real reduce-precision remainder round-nearest-afz round-nearest-even rsqrt " +
	"select shift-left shift-right-arithmetic shift-right-logical sign sine sqrt stochastic-convert subtract tan tanh xor")

// peak returns the peak with donated arguments. A result with an argument's memory needs none; other values in its
// allocation do, if they begin before the last use of the argument. Of a pair that needs a copy the compiler copies the result, when is not known, at
// last at the end; or the argument at the start, which leaves its memory to other copies until something else uses that of the result.
func (d *donor) peak(pairs []pair, atStart bool) int64 {
	level, donated, idle := d.whole, map[int32]*pair{}, map[int32]int{}
	var ranges []memory
	add := func(m memory) {
		start := d.p.allocations[m.allocation].start
		m.from, m.to = addTo(start, int64(m.from)), addTo(start, int64(m.to))
		ranges = append(ranges, m)
	}
	for _, m := range d.ranges {
		if first, ok := idle[m.allocation]; !ok || m.begin < first {
			idle[m.allocation] = m.begin
		}
	}
	d.budget -= len(pairs) * len(pairs)
	for i := range pairs {
		p := &pairs[i]
		donated[p.result.allocation] = p
		level -= d.p.allocations[p.result.allocation].size // at most d.whole
		if !atStart || p.inTime {
			continue
		}
		other := slices.IndexFunc(pairs, func(o pair) bool {
			return !o.inTime && o.argument < p.argument && o.result.shape == p.result.shape && idle[o.result.allocation] > p.free
		})
		if other >= 0 {
			idle[pairs[other].result.allocation] = 0
		} else if v := d.valueOf(p.argument); v >= 0 {
			add(memory{allocation: d.p.values[v].allocation, to: uint64(d.p.values[v].size), end: p.free})
		}
	}
	for _, m := range d.ranges {
		if p := donated[m.allocation]; p != nil {
			if atStart && !p.inTime || m.value == p.result.value && p.inTime || m.value != p.result.value && (m.begin > p.free || m.value == p.copied) {
				continue
			}
		} else if d.p.allocations[m.allocation].uses.Whole() {
			continue
		}
		add(m)
	}
	return units.AddSat(level, d.highest(ranges))
}

// highest returns the most bytes that ranges cover at a position.
func (d *donor) highest(ranges []memory) (most int64) {
	var bounds []uint64
	var changes [][2]int // twice the position, odd where it begins: what ends makes room first; and of which range
	for i := range ranges {
		m := &ranges[i]
		bounds = append(bounds, m.from, m.to)
		changes = append(changes, [2]int{2*m.begin + 1, i}, [2]int{2*m.end + 2, i})
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	slices.SortFunc(changes, func(x, y [2]int) int { return cmp.Compare(x[0], y[0]) })
	covered := make([]int32, len(bounds))
	level := int64(0)
	for _, c := range changes {
		m := &ranges[c[1]]
		first, _ := slices.BinarySearch(bounds, m.from)
		for k := first; k+1 < len(bounds) && bounds[k] < m.to; k++ {
			if d.budget--; d.budget < 0 {
				return 0
			}
			bytes := int64(bounds[k+1] - bounds[k])
			if c[0]%2 == 1 {
				if covered[k]++; covered[k] == 1 {
					level += bytes
				}
			} else if covered[k]--; covered[k] == 0 {
				level -= bytes
			}
		}
		most = max(most, level)
	}
	return most
}
