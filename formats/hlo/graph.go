package hlo

import (
	"bytes"
	"strings"

	"github.com/memlane/memlane/formats/internal/wire"
)

// graph is the way of the data through a program.
type graph struct {
	p            *program
	computations map[int64]*computation
	main         *computation // nil if it is missing
	places       map[int64]place
	callers      map[*computation]place // an instruction that calls a computation
	backward     bool                   // the program has a backward pass
	budget       int                    // words that each answer from it may look at
}

// operation is an instruction of a graph.
type operation struct {
	opcode     string
	number     int64 // of a parameter, or of the part that get-tuple-element takes
	operands   []int32
	called     []int64
	forward    bool // it is part of the differentiated computation
	transposed bool // it is part of the backward pass
	recomputed bool // it makes again what the forward pass made
	named      bool // it has a name in the program
	lined      bool // and a line
	loop       bool // a fusion that computes its elements one by one
	id         int64
	frame      int64 // of its line
	at, shape  wire.Span
}

// computation is one of a graph. Operands come before their users.
type computation struct {
	ops   []operation
	root  int32
	users [][]int32 // made by usersOf
}

// place is an instruction in a computation.
type place struct {
	in *computation
	op int32
}

func (at place) operation() *operation { return &at.in.ops[at.op] }

const (
	wordsOfByte = 4 // of the module; programs need 0.05 to 1
	leastBudget = 1 << 14
	wordsOfOp   = 16
	bytesOfWord = 64 // of a text
)

// link finds the entry computation and the callers of the others. A program with far more instructions than bytes has none.
func (g *graph) link(entry int64) {
	g.main = g.computations[entry]
	for _, in := range g.computations {
		for i := range in.ops {
			op, from := &in.ops[i], place{in, int32(i)}
			for _, id := range op.called {
				c := g.computations[id]
				if old, ok := g.callers[c]; c != nil && g.places[op.id] == from && (!ok || op.id < old.operation().id) {
					g.callers[c] = from
				}
			}
		}
	}
}

// executor returns the instruction of the entry computation that executes one of any computation: itself if it is of the entry computation.
func (g *graph) executor(at place) (place, bool) {
	ok := at.in != nil
	for depth := 0; ok && at.in != g.main && depth < maxFlowPath; depth++ {
		at, ok = g.callers[at.in]
	}
	return at, ok && at.in == g.main
}

var (
	gpuConfig       = []byte(`"operation_queue_id"`) // a key of GpuBackendConfig, which XLA's compiler for GPUs sets
	forwardScope    = []byte("jvp(")
	backwardScope   = []byte("transpose(")
	recomputedScope = []byte("rematted_computation")
)

// read reads a computation, also where its instructions are. left is the number of words that all may have.
func (g *graph) read(at wire.Span, left *int) error {
	c := &computation{}
	id, root := int64(0), int64(0)
	var instructions []wire.Span
	m := wire.Scanner{Err: wire.Read(g.p.proto, at, wire.Into{{computationID, &id}, {computationRoot, &root}, {computationInstructions, &instructions}})}
	m.Each("instructions", instructions, func(_ int, at wire.Span) error {
		op, err := g.readOp(at, c)
		if *left -= wordsOfOp; *left >= 0 {
			g.places[op.id] = place{c, int32(len(c.ops))}
			c.ops = append(c.ops, op)
		}
		return err
	})
	c.root = g.within(c, root)
	g.computations[id] = c
	return m.Err
}

// within returns the instruction of a computation with an ID, -1 if it has none.
func (g *graph) within(c *computation, id int64) int32 {
	if at := g.places[id]; at.in == c {
		return at.op
	}
	return -1
}

func (g *graph) readOp(at wire.Span, c *computation) (op operation, err error) {
	var opcode, metadata, fusion, backend, scope, file wire.Span
	var operands []int64
	err = wire.Read(g.p.proto, at, wire.Into{{instructionOpcode, &opcode}, {instructionShape, &op.shape}, {instructionMetadata, &metadata},
		{instructionFusion, &fusion}, {instructionParameter, &op.number}, {instructionTupleIndex, &op.number}, {instructionID, &op.id},
		{instructionOperands, &operands}, {instructionCalls, &op.called}, {instructionBackend, &backend}})
	op.at = at
	if g.p.target == "" && bytes.Contains(g.p.proto[backend.At:backend.End], gpuConfig) {
		g.p.target = "gpu"
	}
	m := wire.Scanner{Err: err}
	m.Inside("metadata", -1, wire.Read(g.p.proto, metadata, wire.Into{{metadataOpName, &scope}, {metadataSourceFile, &file}, {metadataStackFrame, &op.frame}}))
	name := g.p.proto[scope.At:scope.End]
	op.lined = op.frame > 0 || file.End > file.At
	op.named, op.opcode, op.loop = len(name) > 0, g.p.interned(opcode), g.p.interned(fusion) == "kLoop"
	op.forward, op.transposed, op.recomputed = bytes.Contains(name, forwardScope), bytes.Contains(name, backwardScope), bytes.Contains(name, recomputedScope)
	g.backward = g.backward || op.transposed
	if len(operands) > 0 {
		op.operands = make([]int32, len(operands))
	}
	for k, id := range operands {
		op.operands[k] = g.within(c, id)
	}
	return op, m.Err
}

// usersOf returns the instructions that read each instruction of a computation, each once.
func (c *computation) usersOf() [][]int32 {
	if c.users == nil {
		c.users = make([][]int32, len(c.ops))
		for i := range c.ops {
			for _, o := range c.ops[i].operands {
				if o < 0 {
					continue
				}
				if n := len(c.users[o]); n == 0 || c.users[o][n-1] != int32(i) {
					c.users[o] = append(c.users[o], int32(i))
				}
			}
		}
	}
	return c.users
}

// inner returns the only computation that an instruction calls; nil if it calls none or several.
func (g *graph) inner(op *operation) *computation {
	if len(op.called) != 1 {
		return nil
	}
	return g.computations[op.called[0]]
}

// results returns the instructions that make the results of the program.
func (g *graph) results() []int32 {
	if root := &g.main.ops[g.main.root]; root.opcode == "tuple" {
		return root.operands
	}
	return []int32{g.main.root}
}

// passes reports whether the result of an instruction is memory of its operands.
func passes(opcode string) bool {
	switch opcode {
	case "tuple", "get-tuple-element", "bitcast", "opt-barrier", "while", "conditional", "call", "add-dependency", "domain":
		return true
	}
	return strings.HasSuffix(opcode, "-start") || strings.HasSuffix(opcode, "-update") || strings.HasSuffix(opcode, "-done")
}
