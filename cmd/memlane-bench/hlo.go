package main

import (
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// All temporaries have the same size; only their number matters.
const (
	temporaryBytes = 20480
	f32            = 11 // an element type
)

// writeHLO writes a compiled program as a bare HloProto. Like the forward and backward pass of a deep network, it allocates n
// temporaries one after the other and frees them in reverse.
func writeHLO(w io.Writer, n int) (truth, error) {
	_, err := w.Write(deepProgram(n))
	return truth{n, n, int64(n) * temporaryBytes}, err
}

// writeHLOSpace writes the same program inside a profile, where XProf's Memory Viewer looks for it.
func writeHLOSpace(w io.Writer, n int) (truth, error) {
	program := message{}.num(1, 1).text(2, "deep(1)").put(5, message{}.num(1, 1).put(6, deepProgram(n)))
	plane := message{}.text(2, "/host:metadata").
		put(4, message{}.num(1, 1).put(2, program)).
		put(5, message{}.num(1, 1).put(2, message{}.num(1, 1).text(2, "Hlo Proto")))
	_, err := w.Write(message{}.put(1, plane).put(1, message{}.text(2, "/host:CPU")))
	return truth{n, n, int64(n) * temporaryBytes}, err
}

func deepProgram(n int) message {
	var instructions, buffers, placed, trace message
	for i := range n {
		id := uint64(i + 1)
		name := fmt.Sprintf("fusion.%d", i)
		shape := message{}.num(2, f32).put(3, protowire.AppendVarint(nil, temporaryBytes/4)).put(5, message{}.put(1, []byte{0}))
		metadata := message{}.text(2, fmt.Sprintf("jit(f)/layer%d/dot_general", i))
		instructions = instructions.put(2, message{}.text(1, name).text(2, "fusion").put(3, shape).put(7, metadata).num(35, id))
		buffers = buffers.put(1, message{}.num(1, id).num(2, temporaryBytes).put(3, message{}.num(4, id)))
		placed = placed.put(9, message{}.num(1, id).num(2, uint64(i)*temporaryBytes).num(3, temporaryBytes))
		trace = trace.put(1, heapEvent(0, id, name))
	}
	for i := n - 1; i >= 0; i-- {
		trace = trace.put(1, heapEvent(1, uint64(i+1), fmt.Sprintf("fusion.%d", i)))
	}
	computation := append(message{}.text(1, "main"), instructions...).num(5, 1)
	module := message{}.text(1, "deep").text(2, "main").put(3, computation).num(5, 1)
	allocation := append(message{}.num(1, 0).num(2, uint64(n)*temporaryBytes), placed...)
	assignment := buffers.put(3, allocation).put(4, trace.num(2, 1))
	return message{}.put(1, module).put(3, assignment)
}

// heapEvent returns an event of the heap simulator: kind 0 allocates, 1 frees.
func heapEvent(kind, buffer uint64, instruction string) message {
	return message{}.num(1, kind).num(2, buffer).text(3, "main").text(4, instruction)
}
