package hlo_test

import (
	"fmt"
	"strings"
	"testing"
)

// ways returns instructions each of which has the two before it as operands.
func ways(opcode string) []string {
	all := []string{"custom-call", "custom-call", "dynamic-update-slice 0 1"}
	if opcode == "copy" {
		all = []string{"custom-call", "copy 0", "copy 0"}
	}
	for i := 3; i < 60; i++ {
		all = append(all, fmt.Sprint(opcode, " ", i-1, " ", i-1-map[bool]int{true: 1}[opcode == "copy"]))
	}
	return all
}

// TestOrigins follows values that the compiler copied or moved, or that a loop fills, to what they are.
func TestOrigins(t *testing.T) {
	const stack = "parameter; " + part + "0; " + part + "0 #1; dynamic-update-slice 2 1; tuple 1 3 ("
	for _, c := range []struct {
		name   string
		value  int64 // number of the instruction in main
		path   []int64
		main   message
		others []message
		want   string // operation and role
	}{
		{"copy of an argument", 1, nil, step(0, "parameter =cache", "copy 0", "dot 1"), nil, "cache copied"},
		{"copy with a name", 1, nil, step(0, "parameter =cache", "copy 0 =transpose", "dot 1"), nil, "cache copied"},
		{"moved from the host", 1, []int64{0}, step(0, "parameter =mu", "copy-start 0 (", "copy-done 1"), nil, "mu copied"},
		{"through barriers and tuples", 4, nil,
			step(0, "parameter =w", "tuple 0 0", "opt-barrier 1", part+"2 #1", "copy 3"), nil, "w copied"},
		{"copy of a result", 2, nil, step(0, "parameter =w", "dot 0 =f/dot", "copy 1"), nil, "f/dot "},
		{"what a loop stacks", 1, nil, step(0, "parameter =w", "custom-call", "tuple 0 1", "while 2 @1 @2 =f/while ("),
			[]message{step(1, "parameter; "+part+"0; "+part+"0 #1; dot 1 =f/dot; dynamic-update-slice 2 3; tuple 1 4 ("), step(2, "parameter", "compare 0")}, "f/dot "},
		{"a stack of an argument", 1, nil, step(0, "parameter =w", "custom-call", "tuple 0 1", "while 2 @1 @2 ("),
			[]message{step(1, stack), step(2, "parameter", "compare 0")}, "w copied"},
		{"in a fusion", 1, nil, step(0, "parameter =w", "custom-call", "tuple 0 1", "while 2 @1 @2 ("),
			[]message{step(1, "parameter; "+part+"0; "+part+"0 #1; fusion 2 1 @3 =f/fused; tuple 1 3 ("), step(2, "parameter", "compare 0"),
				step(3, "parameter; parameter #1; sine 1 =f/sine; bitcast 2; dynamic-update-slice 0 3; bitcast 4")}, "f/sine "},
		{"an argument that a loop updates", 3, nil, step(0, "parameter =cache", "tuple 0", "while 1 @1 @2 (", part+"2", "copy 3"),
			[]message{step(1, "parameter; "+part+"0; sine =f/new; dynamic-update-slice 1 2 =f/set; tuple 3 ("), step(2, "parameter", "compare 0")}, "cache copied"},
		{"replaced in each round", 1, nil, step(0, "parameter =w", "broadcast =f/zeros", "tuple 1", "while 2 @1 @2 ("),
			[]message{step(1, "parameter; "+part+"0; sine 1 =f/sine; tuple 2 ("), step(2, "parameter", "compare 0")}, "f/sine "},
		{"a result of its own", 2, nil, step(0, "parameter =cache", "sine =f/new", "dynamic-update-slice 0 1 =f/set"), nil, "cache copied"},
		{"a part that changes", 3, nil, step(0, "sine =f/new", "sine =f/old", "dynamic-update-slice 1 0 =f/set", "copy 2"), nil, "f/set "},
		{"converted by the compiler", 2, nil, step(0, "parameter", "dot 0 =f/dot", "convert 1"), nil, "f/dot "},
		{"converted by the program", 2, nil, step(0, "parameter", "dot 0 =f/dot", "convert 1 =f/convert"), nil, "f/convert "},
		{"zeros of a fusion, copied for each loop", 3, nil, step(0, "parameter =w", "fusion @3", "copy 1", "copy 1", "tuple 0 2", "while 4 @1 @2 (", "tuple 0 3", "while 6 @4 @2 ("),
			[]message{step(1, "parameter; "+part+"0; "+part+"0 #1; sine 1 =f/one; dynamic-update-slice 2 3; tuple 1 4 ("), step(2, "parameter", "compare 0"),
				step(3, "parameter; broadcast 0"), step(4, "parameter; "+part+"0; "+part+"0 #1; sine 1 =f/two; dynamic-update-slice 2 3; tuple 1 4 (")}, "f/two "},
		{"slices that are joined", 6, nil, step(0, "parameter =w", "async-start 0 @1 (", "async-done 1", "async-start 0 @1 (", "async-done 3", "custom-call 2 4", "copy 5"),
			[]message{step(1, "parameter; slice 0")}, "w copied"},
		{"a slice that is fetched", 101, nil, step(0, "parameter =w", "async-start 0 @1 (", "async-done 1"), []message{step(1, "parameter; slice 0")}, "w copied"},
		{"slices of two values", 5, nil, step(0, "parameter =w", "parameter #1 =v", "async-start 0 @1 (", "async-done 2", "async-start 1 @1 (", "custom-call 3 6", "async-done 4"),
			[]message{step(1, "parameter; slice 0")}, " "},
		{"gathered from devices", 2, nil, step(0, "parameter =w", "async-start 0 @1 (", "async-done 1"), []message{step(1, "parameter; all-gather 0")}, " "},
		{"made beside the program", 101, nil, step(0, "parameter =w", "async-start 0 @1 =f/gather (", "async-done 1"), []message{step(1, "parameter; custom-call 0")}, "f/gather "},
		{"a step of what is made beside it", 101, nil, step(0, "parameter =w", "async-start 0 @1 =f/gather (", "async-done 1"), []message{step(1, "parameter; custom-call 0; custom-call 1")}, " "},
		{"the flag of a move", 1, []int64{2}, step(0, "parameter =w", "copy-start 0 (", "copy-done 1"), nil, " "},
		{"a circle", 1, nil, step(0, "parameter =w", "copy 1", "custom-call", "tuple 2", "while 3 @0 (", "dynamic-update-slice 2 4 ("), nil, " "},
		{"more ways than steps", 59, nil, step(0, ways("dynamic-update-slice")...), nil, " "},
		{"more ways to what fills it", 0, nil, step(0, ways("copy")...), nil, " "},
		{"no such operand", 0, nil, step(0, "copy 9", "while 3 @7", "get-tuple-element 0 #5", "custom-call"), nil, " "},
	} {
		t.Run(c.name, func(t *testing.T) {
			module := message{}.text(1, "jit_step").text(2, "c0").put(3, append(c.others, c.main)...)
			assignment := message{}.put(1, buffer(1, 32, c.value+1, c.path...)).put(3, allocation(0, 32, 1, 0))
			capture := captureOf(t, "jit_step", module, assignment)
			if got := capture.Sites[capture.Spaces[0].Buffers[0].Site]; fmt.Sprint(got.Op, " ", got.Role) != c.want {
				t.Errorf("%s %s, want %s", got.Op, got.Role, c.want)
			}
			if got := capture.Sites[capture.Spaces[0].Values[0].Site]; !strings.HasPrefix(got.Instr, fmt.Sprint("i", c.value%100)) {
				t.Errorf("the value is of %s", got.Instr)
			}
		})
	}
}

// TestLines: what the compiler made without a line has the line that it was made from or for, and keeps its own name.
func TestLines(t *testing.T) {
	for _, c := range []struct {
		name string
		main message
		want string
	}{
		{"its own", step(0, "parameter =w", "sine 0 ~7"), "f/sine f.py:7"},
		{"in its fusion", step(0, "parameter =w", "fusion 0 @1 =f/add;f/mul"), "f/add;f/mul f.py:9"},
		{"of its operand", step(0, "sine ~7", "reduce-window 0"), " f.py:7"},
		{"of its user", step(0, "parameter =w", "iota", "sort 0 1 ~7"), " f.py:7"},
		{"of none", step(0, "parameter =w", "iota", "sort 0 1"), " "},
	} {
		t.Run(c.name, func(t *testing.T) {
			module := message{}.text(1, "jit_step").text(2, "c0").put(3, step(1, "parameter", "cosine 0 ~9", "sine 1 =f/add"), c.main)
			capture := captureOf(t, "jit_step", module, message{}.put(1, buffer(1, 32, 2)).put(3, allocation(0, 32, 1, 0)))
			id := capture.Spaces[0].Buffers[0].Site
			if got := capture.Sites[id].Op + " " + capture.SourcePlace(id); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
