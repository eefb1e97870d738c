package hlo

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/formats/internal/wire"
	"github.com/memlane/memlane/lifetime/compiled"
)

// set is a set of the arguments of the program, and of derived.
type set []uint64

func (s set) has(i int) bool { return i/64 < len(s) && s[i/64]>>(i%64)&1 != 0 }

// with returns the union. It shares the larger one if that contains the other.
func (s set) with(o set) set {
	if len(s) == 0 {
		return o
	}
	sum, shared := s, true
	for i := range o {
		if o[i]&^s[i] != 0 {
			if shared {
				sum, shared = slices.Clone(s), false
			}
			sum[i] |= o[i]
		}
	}
	return sum
}

// flow is what a value depends on, and each part of a tuple. The parts of a part count as one.
type flow struct {
	set   set
	parts []set
}

// of returns what part i of a tuple depends on.
func (f flow) of(i int64) set {
	if i >= 0 && i < int64(len(f.parts)) {
		return f.parts[i]
	}
	return f.set
}

// tupleOf returns a value of parts.
func tupleOf(parts []set) flow {
	f := flow{parts: parts}
	for _, s := range parts {
		f.set = f.set.with(s)
	}
	return f
}

// join returns what a value depends on that is one of two.
func (f flow) join(o flow) flow {
	if len(f.parts) == 0 || len(f.parts) != len(o.parts) {
		return flow{set: f.set.with(o.set)}
	}
	parts := make([]set, len(f.parts))
	for i := range parts {
		parts[i] = f.parts[i].with(o.parts[i])
	}
	return tupleOf(parts)
}

// with returns the flow of a value that depends on s too.
func (f flow) with(s set) flow {
	parts := make([]set, len(f.parts))
	for i := range parts {
		parts[i] = f.parts[i].with(s)
	}
	return flow{f.set.with(s), parts}
}

// flows follows the data of a training step.
type flows struct {
	*graph
	arguments int
	entered   set // arguments that the differentiated computation uses
	budget    int // words of sets that may still be looked at; below 0, nothing is known
	depth     int
}

const (
	maxFlowPath = 64      // computations inside each other
	maxFlowArgs = 1 << 12 // arguments
	maxRounds   = 64      // of a loop until its flows are known
)

// readFlows finds the roles of arguments that a training step overwrites, or replaces with results of the same shape, from where their data goes: the
// differentiated computation uses parameters, and their new values depend on its backward pass. States of the optimizer
// go only into their own new value and that of one parameter. Programs without a backward pass have none.
func (p *program) readFlows(aliases []wire.Span) error {
	main := p.graph.main
	if !p.graph.backward || main == nil || main.root < 0 {
		return nil
	}
	x := flows{graph: &p.graph, budget: p.graph.budget}
	m := wire.Scanner{}
	parameters := map[int]*operation{}
	for i := range main.ops {
		if op := &main.ops[i]; op.opcode == "parameter" {
			if op.number < 0 || op.number >= maxFlowArgs {
				return nil
			}
			parameters[int(op.number)] = op
			x.arguments = max(x.arguments, int(op.number)+1)
		}
	}
	arguments := make([]flow, x.arguments)
	for i := range arguments {
		arguments[i].set = make(set, (x.arguments+1+63)/64)
		arguments[i].set[i/64] |= 1 << (i % 64)
	}
	result := x.of(main, arguments)
	if x.budget < 0 {
		return nil
	}
	next := map[int]set{} // what the new value of an argument depends on
	for i, at := range aliases {
		var path []int64
		number := int64(0)
		m.Inside("entries", i, wire.Read(p.proto, at, wire.Into{{aliasOutputs, &path}, {aliasParameter, &number}}))
		of := result.set
		if len(path) > 0 {
			of = result.of(path[0])
		}
		if op := parameters[int(number)]; op != nil && x.tensor(op.shape) != "" {
			next[int(number)] = of
		}
	}
	if p.roles = x.roles(next, parameters); len(p.roles) == 0 && main.ops[main.root].opcode == "tuple" {
		p.roles = x.roles(x.moments(main, result.parts, parameters), parameters)
	}
	return m.Err
}

// moments returns the new values of arguments that a step does not overwrite, where parameters have two moments: a moment goes only into its own
// new value and that of its parameter, so the one result that both go into is the new parameter. The arguments of that shape that the
// differentiated computation uses are the parameters if there are as many of them as of these results: an input would be one more.
func (x *flows) moments(main *computation, results []set, parameters map[int]*operation) map[int]set {
	if x.budget -= len(results) * len(parameters); x.budget < 0 {
		return nil
	}
	into := map[int][]int{}       // moments, by result
	entered := map[string][]int{} // arguments, by shape
	updated := map[string][]int{} // results that are new parameters, by shape
	shape := make([]string, len(results))
	for k, o := range main.ops[main.root].operands {
		if o >= 0 {
			shape[k] = x.tensor(main.ops[o].shape)
		}
	}
	for i, op := range parameters {
		own := x.tensor(op.shape)
		if x.entered.has(i) {
			entered[own] = append(entered[own], i)
			continue
		}
		var of []int
		for k, s := range results {
			if s.has(i) {
				of = append(of, k)
			}
		}
		if own != "" && len(of) == 2 && !slices.ContainsFunc(of, func(k int) bool { return shape[k] != own || !results[k].has(x.arguments) }) {
			into[of[0]], into[of[1]] = append(into[of[0]], i), append(into[of[1]], i)
		}
	}
	for k, both := range into {
		if len(both) == 2 {
			updated[shape[k]] = append(updated[shape[k]], k)
		}
	}
	next := map[int]set{}
	for of, news := range updated {
		for n, i := range entered[of] {
			if len(news) == len(entered[of]) {
				next[i] = results[news[n]]
				next[into[news[n]][0]], next[into[news[n]][1]] = next[i], next[i]
			}
		}
	}
	return next
}

// roles returns the roles of the arguments with a new value, by the instructions of the arguments.
func (x *flows) roles(next map[int]set, parameters map[int]*operation) map[int64]compiled.Role {
	roles := map[int64]compiled.Role{}
	var trained []int
	for i, s := range next {
		if s.has(x.arguments) && x.entered.has(i) {
			trained = append(trained, i)
			roles[parameters[i].id] = compiled.Trained
		}
	}
	for i, s := range next {
		if !s.has(x.arguments) || x.entered.has(i) {
			continue
		}
		n := 0 // parameters whose new value depends on it
		for _, q := range trained {
			if next[q].has(i) {
				n++
			}
		}
		if n == 1 {
			roles[parameters[i].id] = compiled.State
		}
	}
	return roles
}

// tensor returns the type and the dimensions of an array of floating-point numbers; "" for others.
func (x *flows) tensor(at wire.Span) string {
	if a, err := x.p.array(at); err == nil && a.rank > 0 && strings.ContainsAny(a.text[:1], "fb") {
		return a.plain
	}
	return ""
}

// of returns the flow of the result of a computation.
func (x *flows) of(c *computation, arguments []flow) flow {
	if c == nil || c.root < 0 || x.depth >= maxFlowPath {
		return flow{}
	}
	if x.budget -= wordsOfOp * len(c.ops); x.budget < 0 {
		return flow{}
	}
	x.depth++
	defer func() { x.depth-- }()
	all := make([]flow, len(c.ops))
	for i := range c.ops {
		op := &c.ops[i]
		operands := make([]flow, len(op.operands))
		for k, o := range op.operands {
			if o >= 0 {
				operands[k] = all[o]
			}
		}
		all[i] = x.step(op, operands, arguments)
		if x.budget -= (1 + len(operands) + len(all[i].parts)) * (1 + x.arguments/64); x.budget < 0 {
			return flow{}
		}
		if op.opcode != "fusion" && op.forward {
			x.entered = x.entered.with(union(operands).set)
		}
		if op.opcode != "fusion" && op.transposed {
			derived := make(set, (x.arguments+1+63)/64)
			derived[x.arguments/64] |= 1 << (x.arguments % 64)
			all[i] = all[i].with(derived)
		}
	}
	return all[c.root]
}

// union returns a tuple of values.
func union(values []flow) flow {
	parts := make([]set, len(values))
	for i := range values {
		parts[i] = values[i].set
	}
	return tupleOf(parts)
}

// step returns the flow of the result of one instruction.
func (x *flows) step(op *operation, operands, arguments []flow) flow {
	switch op.opcode {
	case "parameter":
		if op.number >= 0 && op.number < int64(len(arguments)) {
			return arguments[op.number]
		}
	case "tuple":
		return union(operands)
	case "get-tuple-element":
		if len(operands) == 1 {
			return flow{set: operands[0].of(op.number)}
		}
	case "fusion", "call", "async-start":
		if len(op.called) == 1 { // nothing is known of a missing computation
			return x.of(x.inner(op), operands)
		}
	case "copy", "copy-start", "copy-done", "async-update", "async-done", "opt-barrier":
		if len(operands) == 1 {
			return operands[0]
		}
	case "conditional":
		var sum flow
		for i, branch := range op.called {
			if i+1 < len(operands) {
				r := x.of(x.computations[branch], operands[i+1:i+2])
				if i == 0 {
					sum = r
				} else {
					sum = sum.join(r)
				}
			}
		}
		return sum
	case "while":
		if len(operands) == 1 && len(op.called) > 0 {
			return x.loop(op.called, operands[0])
		}
	}
	return flow{set: union(operands).set}
}

// loop returns what the result of a loop depends on, after any number of rounds. The condition returns no tuple, so it
// is not the body.
func (x *flows) loop(called []int64, state flow) flow {
	for range maxRounds {
		next := state
		x.budget -= len(state.parts) * (1 + x.arguments/64)
		for _, c := range called {
			if r := x.of(x.computations[c], []flow{state}); len(r.parts) == len(state.parts) && len(r.parts) > 0 {
				next = next.join(r)
			}
		}
		if slices.EqualFunc(next.parts, state.parts, slices.Equal[set]) || x.budget < 0 {
			return next
		}
		state = next
	}
	x.budget = -1
	return state
}
