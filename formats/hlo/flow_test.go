package hlo_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/hlo"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	forward   = "jit(step)/jvp()/dot"
	backward  = "jit(step)/transpose(jvp())/dot"
	arguments = "parameter; parameter #1; parameter #2"
	part      = "get-tuple-element "
)

// step is a computation of instructions: "opcode operands". @N calls computation N, #N takes part N or is parameter N, > and < put the
// instruction into the forward and the backward pass, =NAME names it, ~N gives it line N, ( gives it a tuple. Operands count from 0.
func step(id int64, instructions ...string) message {
	m := message{}.text(1, fmt.Sprint("c", id))
	lines := strings.Split(strings.Join(instructions, "; "), "; ")
	for i, line := range lines {
		words := strings.Fields(line)
		ins := message{}.text(1, fmt.Sprint("i", i)).text(2, words[0]).put(3, array(f32, 8))
		if words[0] == "scalar" {
			ins = message{}.text(1, fmt.Sprint("i", i)).text(2, "parameter").put(3, array(f32))
		}
		if words[0] == "table" {
			ins = message{}.text(1, fmt.Sprint("i", i)).text(2, "parameter").put(3, array(tuple, 8))
		}
		var operands, called []int64
		for _, w := range words[1:] {
			var n int64
			switch fmt.Sscan(strings.TrimLeft(w, "@#"), &n); w[0] {
			case '@':
				called = append(called, n)
			case '#':
				ins = ins.num(map[bool]protowire.Number{true: 13, false: 9}[words[0] == "get-tuple-element"], n)
			case '>':
				ins = ins.put(7, metadata(forward))
			case '<':
				ins = ins.put(7, metadata(backward))
			case '=':
				ins = ins.put(7, metadata(w[1:]))
			case '~':
				fmt.Sscan(w[1:], &n)
				ins = ins.put(7, metadata("f/"+words[0]).text(3, "f.py").num(4, n))
			case '(':
				ins = ins.put(3, tupleOf(array(f32, 8)))
			default:
				operands = append(operands, id*100+n+1)
			}
		}
		m = m.put(2, ins.num(35, id*100+int64(i)+1).list(36, operands...).list(38, called...))
	}
	return m.num(5, id).num(6, id*100+int64(len(lines)))
}

func TestRoles(t *testing.T) {
	for _, c := range []struct {
		name    string
		aliases int // outputs 0, 1 and so on overwrite arguments of these numbers
		main    message
		others  []message
		want    string
	}{
		{"momentum", 2, step(0, arguments, "dot 0 2 >", "dot 3 2 <", "add 1 4", "subtract 0 5", "tuple 6 5 3"), nil, "trained state -"},
		{"a tuple with dimensions", 1, step(0, "table; parameter #1; parameter #2", "dot 0 2 >", "dot 3 2 <", "add 1 4", "subtract 0 5", "tuple 6 5"), nil, "- - -"},
		{"not overwritten", 1, step(0, arguments, "dot 0 2 >", "dot 3 2 <", "add 1 4", "subtract 0 5", "tuple 6 5"), nil, "trained - -"},
		{"in fusions", 2, step(0, arguments, "dot 0 2 >", "fusion 0 1 3 @1 <", part+"4", part+"4 #1", "tuple 5 6"),
			[]message{step(1, arguments, "dot 2 2 <", "add 1 3", "subtract 0 4", "tuple 5 4")}, "trained state -"},
		{"in a loop", 2, step(0, arguments, "tuple 0 2 2", "while 3 @1 @2", part+"4 #2", "dot 5 <", "add 1 6", "subtract 0 7", "tuple 8 7"),
			[]message{step(1, "parameter", part+"0", part+"0 #1", part+"0 #2", "dot 1 2 >", "tuple 1 3 4"), step(2, "parameter",
				"compare 0")},
			"trained state -"},
		{"in branches", 2, step(0, arguments, "tuple 0 2", "tuple 2 2", "conditional 2 3 4 @1 @2", "dot 5 <", "add 1 6", "subtract 0 7",
			"tuple 8 7"),
			[]message{step(1, "parameter", part+"0", part+"0 #1", "dot 1 2 >"), step(2, "parameter", part+"0")}, "trained state -"},
		{"an average of weights", 2, step(0, arguments, "dot 0 2 >", "dot 3 2 <", "subtract 0 4", "add 1 5", "tuple 5 6"), nil,
			"trained - -"},
		{"a memory of the forward pass", 2, step(0, arguments, "dot 0 1 2 >", "dot 3 2 <", "subtract 0 4", "tuple 5 3"), nil,
			"trained - -"},
		{"for two parameters", 3, step(0, arguments, "dot 0 1 >", "dot 3 3 <", "subtract 0 4 2", "subtract 1 4 2", "add 2 4", "tuple 5 6 7"),
			nil,
			"trained trained -"},
		{"a scalar", 2, step(0, "parameter", "scalar #1", "parameter #2", "dot 0 1 2 >", "dot 3 2 <", "subtract 0 4", "add 1 4", "tuple 5 6"),
			nil,
			"trained - -"},
		{"inference", 1, step(0, arguments, "dot 0 1 2 >", "tuple 3"), nil, "- - -"},
		{"itself", 1, step(0, arguments, "call 0 1 2 @0 <", "dot 3 3 >", "tuple 4"), nil, "trained - -"},
		{"moments that are not overwritten", 0, step(0, arguments, "dot 0 0 >", "dot 3 0 <", "add 1 4", "multiply 2 4", "subtract 0 5 6", "tuple 5 7 6"), nil,
			"trained state state"},
		{"one moment that is not overwritten", 0, step(0, arguments, "dot 0 2 >", "dot 3 2 <", "add 1 4", "subtract 0 5", "tuple 6 5"), nil, "- - -"},
		{"an input with the shape of moments", 0, step(0, arguments, "parameter #3", "dot 0 3 >", "dot 4 3 <", "add 1 5", "multiply 2 5",
			"subtract 0 6 7", "tuple 8 6 7"), nil, "- - -"},
		{"an average of what is updated", 0, step(0, arguments, "dot 0 0 >", "dot 3 0 <", "add 1 4", "multiply 2 4", "subtract 0 5 6", "add 7 7",
			"tuple 7 5 6 8"), nil, "- - -"},
		{"a missing computation", 2, step(0, arguments, "dot 0 2 >", "dot 3 2 <", "fusion 1 4 @5", "subtract 0 5", "tuple 6 5 3"), nil, "- - -"},
		{"nothing there", 1, step(0, "parameter #9", "parameter #1", "parameter #2", "while 7 @8", "fusion 1 @5", part+"1 #4", "dot 5 < ", "tuple"),
			nil,
			"- - -"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var aliases message
			for i := range int64(c.aliases) {
				aliases = aliases.put(1, message{}.list(1, i).num(2, i))
			}
			module := message{}.text(1, "jit_step").text(2, "c0").put(3, append(c.others, c.main)...).put(8, aliases)
			assignment := message{}
			for i := range int64(3) {
				assignment = assignment.put(1, buffer(i+1, 32, i+1)).put(3, allocation(i, 32, i+1, 0).num(parameter, 1))
			}
			capture := captureOf(t, "jit_step", module, assignment)
			var got []string
			for _, buf := range capture.Spaces[0].Buffers {
				role := string(capture.Sites[buf.Site].Role)
				if role == "" {
					role = "-"
				}
				got = append(got, role)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}

// captureOf reads a compiled module and what it assigns to buffers.
func captureOf(t *testing.T, name string, module, assignment message) *lifetime.Capture {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "x.hlo.pb", Format: "hlo"})
	if err := hlo.Add(b, hlo.Module{Name: name}, message{}.put(1, module).put(3, assignment)); err != nil {
		t.Fatal(err)
	}
	capture, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return capture
}
