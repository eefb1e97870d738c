package hlo_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime/compiled"
)

// inParts returns the shapes of the parts that so many tuples each have, their buffers, by part, and the allocation that holds these.
func inParts(tuples, parts int64) (shapes, buffers []message, in message) {
	in = allocation(0, 8*tuples*parts)
	for i := range parts {
		shapes = append(shapes, array(f32))
		for of := range tuples {
			id := tuples*i + of + 1
			buffers = append(buffers, buffer(id, 8, of+1, i))
			in = in.put(9, message{}.num(1, id).num(2, 8*id-8))
		}
	}
	return shapes, buffers, in
}

// TestLongName: a very long instruction name is not copied in full for every part of its result.
func TestLongName(t *testing.T) {
	shapes, buffers, allocation := inParts(1, 20_000)
	ins := message{}.text(1, strings.Repeat("n", 4096)).text(2, "tuple").put(3, tupleOf(shapes...)).num(35, 1)
	proto := program{instructions: []message{ins}, buffers: buffers, allocations: []message{allocation}}.proto()
	nativetest.Bounded(t, len(proto), 4<<20, 150, func() {
		if _, err := readBare(proto); err != nil {
			t.Error(err)
		}
	})
}

// TestPieces: a module that comes in many pieces is linked once, with the aliases of an early piece and the instructions of a later one.
func TestPieces(t *testing.T) {
	const pieces = 500
	main := step(0, arguments, "dot 0 2 >", "dot 3 2 <", "add 1 4", "subtract 0 5", "tuple 6 5 3")
	aliases := message{}.put(1, message{}.list(1, 0).num(2, 0), message{}.list(1, 1).num(2, 1))
	proto := message{}.put(1, message{}.put(8, aliases), message{}.put(3, main))
	for range pieces {
		proto = proto.put(1, message{}.text(1, "jit_step"))
	}
	assignment := message{}
	for i := range int64(3) {
		assignment = assignment.put(1, buffer(i+1, 32, i+1)).put(3, allocation(i, 32, i+1, 0).num(parameter, 1))
	}
	proto = proto.put(3, assignment)
	nativetest.Bounded(t, len(proto), 1<<20, 20, func() {
		capture, err := readBare(proto)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []compiled.Role{compiled.Trained, compiled.State, ""} {
			if got := capture.Sites[capture.Spaces[0].Buffers[i].Site].Role; got != want {
				t.Errorf("argument %d: %q, want %q", i, got, want)
			}
		}
	})
}

// TestAlternating: an instruction with a long op_name is read once, also if its values do not follow each other.
func TestAlternating(t *testing.T) {
	shapes, buffers, allocation := inParts(2, 1000)
	var both []message
	for id := range int64(2) {
		both = append(both, message{}.text(2, "tuple").put(3, tupleOf(shapes...)).put(7, metadata(strings.Repeat("s/", 2048))).num(35, id+1))
	}
	proto := program{instructions: both, buffers: buffers, allocations: []message{allocation}}.proto()
	nativetest.Bounded(t, len(proto), 4<<20, 20, func() {
		if _, err := readBare(proto); err != nil {
			t.Error(err)
		}
	})
}

// TestFirstError: of two damaged pieces, the error names the first.
func TestFirstError(t *testing.T) {
	proto := message{}.put(1, message{}.put(3, message{0x12, 9})).put(1, message{}.put(17, message{0x0a, 9}))
	if _, err := readBare(proto); err == nil || !strings.Contains(err.Error(), "hlo_module.computations[0]") {
		t.Errorf("%v, want the error of computations[0]", err)
	}
}
