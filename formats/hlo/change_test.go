package hlo_test

import (
	"fmt"
	"testing"
)

// TestChanges checks what a program would need if it recomputed what a loop of its forward pass saves, or wrote into an array in place. Every
// array has 8 elements and 32 bytes; the values of main at 1 and 2 are buffers.
func TestChanges(t *testing.T) {
	const state = "parameter; " + part + "0; " + part + "0 #1; " + part + "0 #2"
	condition := step(2, "parameter", "compare 0")
	saves := step(1, state, "sine 1 >", "dynamic-update-slice 2 4", "dynamic-update-slice 3 1", "tuple 4 5 6 (")
	backward := []message{step(3, "parameter", part+"0", part+"0 #1", "dot 1 2 <", "tuple 3 2 ("), step(4, "parameter", "compare 0")}
	main := func(last ...string) message {
		return step(0, append([]string{"parameter", "custom-call", "custom-call", "tuple 0 1 2", "while 3 @1 @2 > =f/jvp(f)/while (", part + "4 #1", part + "4 #2"}, last...)...)
	}
	cache := step(0, "parameter =cache", "custom-call", "sine 0", "tuple 0 0 1", "while 3 @1 @2 (")
	for _, c := range []struct {
		name   string
		main   message
		others []message
		want   string
	}{
		{"all but the carry", main("tuple 5 6", "while 7 @3 @4 < ("), append(backward, condition, saves), "[{checkpoint f/jvp(f)/while 32 36}]"},
		{"the carry is not saved", main("tuple 5 5", "while 7 @3 @4 < ("),
			append(backward, condition, step(1, state, "sine 1 >", "dynamic-update-slice 2 4", "sine 1", "tuple 6 5 3 (")), "[{checkpoint f/jvp(f)/while 288 292}]"},
		{"in copies of the same zeros", step(0, "parameter", "custom-call", "copy 1", "tuple 0 2 1", "while 3 @1 @2 > =f/jvp(f)/while (", part+"4 #1", part+"4 #2", "tuple 5 6", "while 7 @3 @4 < ("),
			append(backward, condition, saves), "[{checkpoint f/jvp(f)/while 32 32}]"},
		{"the forward pass reads it", main("sine 5 >", "tuple 5 6", "while 8 @3 @4 < ("), append(backward, condition, saves), "[]"},
		{"the compiler converts a whole stack", main("fusion 6 @5", "tuple 5 7", "while 8 @3 @4 < ("), append(backward, condition, saves, step(5, "parameter", "convert 0")), "[]"},
		{"the program converts it", main("fusion 6 @5 =f/jvp(f)/convert", "tuple 5 7", "while 8 @3 @4 < ("), append(backward, condition, saves, step(5, "parameter", "convert 0")),
			"[{checkpoint f/jvp(f)/while 288 292}]"},
		{"a branch reads it", main("conditional 5 6 (", part+"7", "tuple 6 8", "while 9 @3 @4 < ("), append(backward, condition, saves), "[]"},
		{"a loop is stored", step(0, "parameter", "custom-call", "custom-call", "tuple 0", "while 3 (", "dynamic-update-slice 1 4"), nil, "[]"},
		{"without a backward pass", main("tuple 5 6"), []message{condition, saves}, "[]"},
		{"recomputed already", main("tuple 5 6", "while 7 @3 @4 < ("),
			append(backward, condition, step(1, state, "sine 1 =f/transpose(jvp(f))/rematted_computation/sin", "dynamic-update-slice 2 4", "dynamic-update-slice 3 1", "tuple 4 5 6 (")), "[]"},
		{"in place", cache, []message{condition, step(1, state, "dynamic-slice 2", "sine 1", "dynamic-update-slice 4 5", "dynamic-update-slice 3 6", "tuple 1 2 7 (")},
			"[{in_place cache 28 32}]"},
		{"in place of zeros with a name", step(0, "parameter =cache", "fusion 0 @3 =f/zeros", "sine 0", "tuple 0 0 1", "while 3 @1 @2 ("), []message{condition, step(3, "parameter", "broadcast 0"),
			step(1, state, "dynamic-slice 2", "sine 1", "dynamic-update-slice 4 5", "dynamic-update-slice 3 6", "tuple 1 2 7 (")}, "[{in_place cache 28 32}]"},
		{"all of it is new", cache, []message{condition, step(1, state, "dynamic-slice 2", "sine 4", "dynamic-update-slice 3 5", "tuple 1 2 6 (")}, "[]"},
		{"of what changes", cache, []message{condition, step(1, state, "dynamic-slice 2", "sine 1", "dynamic-update-slice 4 5", "dynamic-update-slice 3 6", "sine 2", "tuple 1 8 7 (")},
			"[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			module := message{}.text(1, "jit_f").text(2, "c0").put(3, append(c.others, c.main)...)
			assignment := message{}.put(1, buffer(1, 32, 2), buffer(2, 32, 3)).put(3, allocation(0, 64, 1, 0, 2, 32)).
				put(4, trace(alloc(1), alloc(2), free(1), free(2)))
			if got := fmt.Sprint(captureOf(t, "jit_f", module, assignment).Spaces[0].Remedies); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
