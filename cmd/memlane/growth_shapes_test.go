package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/memlane/memlane/internal/pickletest"
)

// A shape of a binary format is built with these functions.

// message is a protocol buffer that is written field by field.
type message []byte

func (m message) number(field protowire.Number, v int) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), uint64(v))
}

func (m message) put(field protowire.Number, body ...message) message {
	for _, b := range body {
		m = protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
	}
	return m
}

func (m message) text(field protowire.Number, s string) message { return m.put(field, message(s)) }

// programOf returns an HloProto (https://github.com/openxla/xla/blob/main/xla/service/hlo.proto) of n instructions, whose
// buffers are allocated one after the other and freed in reverse. add adds fields to the metadata of an instruction, frames are the
// calls of the module.
func programOf(n int, add func(i int, metadata message) message, frames message) string {
	const size = 20480 // f32[5120]
	shape := message{}.number(2, 11).put(3, message{0x80, 40}).put(5, message{}.put(1, message{0}))
	var instructions, assigned, assignment, frees, trace message
	for i := range n {
		name := fmt.Sprintf("fusion.%d", i)
		instructions = instructions.put(2, message{}.text(1, name).text(2, "fusion").put(3, shape).put(7, add(i, nil)).number(35, i+1))
		assignment = assignment.put(1, message{}.number(1, i+1).number(2, size).put(3, message{}.number(4, i+1)))
		assigned = assigned.put(9, message{}.number(1, i+1).number(2, i*size))
		trace = trace.put(1, message{}.number(2, i+1).text(4, name))
		frees = frees.put(1, message{}.number(1, 1).number(2, n-i).text(4, fmt.Sprintf("fusion.%d", n-i-1)))
	}
	module := message{}.text(1, "jit_f").text(2, "main").put(3, append(message{}.text(1, "main"), instructions...)).number(5, 5).put(17, frames)
	assignment = assignment.put(3, append(message{}.number(2, n*size), assigned...)).put(4, append(trace, frees...))
	return string(message{}.put(1, module).put(3, assignment))
}

// framesOf returns n calls, each inside the one before.
func framesOf(n int) (frames message) {
	frames = frames.text(1, "main.py")
	for i := range n {
		frames = frames.text(2, fmt.Sprint("f", i)).put(3, message{}.number(1, 1).number(2, i+1).number(3, i+1)).put(4, message{}.number(1, i+1).number(2, i))
	}
	return frames
}

// planeOf returns an XSpace (https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/xplane.proto) with the lines
// of one host, and names of operations.
func planeOf(operations int, lines ...message) string {
	plane := message{}.text(2, "/host:CPU").put(3, lines...)
	name := func(field protowire.Number, id int, name string) {
		plane = plane.put(field, message{}.number(1, id).put(2, message{}.number(1, id).text(2, name)))
	}
	name(4, allocationEvent, "MemoryAllocation")
	for i := range operations {
		name(4, firstCall+i, fmt.Sprintf("call%d", i))
	}
	for i, stat := range profileStats {
		name(5, i+1, stat)
	}
	name(5, firstText, "gpu_bfc")
	for i := range operations {
		name(5, firstText+1+i, fmt.Sprintf("model/layer_%d/MatMul", i))
	}
	return string(message{}.put(1, plane))
}

// Numbers of names of planeOf.
const allocationEvent, firstCall, firstText = 1, 10, 100

var profileStats = []string{"allocator_name", "bytes_reserved", "bytes_allocated", "bytes_available", "fragmentation", "peak_bytes_in_use",
	"requested_bytes", "allocation_bytes", "addr", "tf_op"}

// lineOf returns a thread of a profile.
func lineOf(id int, events ...message) message {
	return message{}.number(1, id+1).text(2, fmt.Sprint("worker/", id)).number(3, 1_752_000_000_000_000_000).put(4, events...)
}

// profiledAllocation is allocation i of a profile, by operation op.
func profiledAllocation(i, op int) message {
	m := message{}.number(1, allocationEvent).number(2, 10_000_000*i)
	for k, v := range []int{firstText, 0, 512 * (i + 1), 1 << 30, 0, 512 * (i + 1), 500, 512, 4096 + 512*i, firstText + 1 + op} {
		field := protowire.Number(4)
		if k == 0 || k == len(profileStats)-1 {
			field = 7 // a text
		}
		m = m.put(4, message{}.number(1, k+1).number(field, v))
	}
	return m
}

// profiledCall is a call of a host's thread, which begins at allocation i and lasts for some of them.
func profiledCall(i, lasts int) message {
	return message{}.number(1, firstCall+i).number(2, 10_000_000*i-5_000_000*min(i, 1)).number(3, 10_000_000*lasts)
}

// liveProfileOf returns a device memory profile of JAX of n buffers. lines are the calls of the location of buffer i: more than
// one if they were inlined.
func liveProfileOf(n int, locationOf func(p *profile.Profile, i int) []*profile.Location) string {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "allocations", Unit: "count"}, {Type: "space", Unit: "bytes"}}}
	for i := range n {
		p.Sample = append(p.Sample, &profile.Sample{Location: locationOf(p, i), Value: []int64{1, 512},
			Label: map[string][]string{"kind": {"buffer"}, "device": {"tpu:0"}}})
	}
	var out bytes.Buffer
	if err := p.WriteUncompressed(&out); err != nil {
		panic(err)
	}
	return out.String()
}

// locationOf adds a location with some functions to a profile.
func locationOf(p *profile.Profile, functions int) *profile.Location {
	l := &profile.Location{ID: uint64(len(p.Location) + 1)}
	for range functions {
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: fmt.Sprint("f", len(p.Function)), Filename: "main.py"}
		p.Function = append(p.Function, f)
		l.Line = append(l.Line, profile.Line{Function: f, Line: int64(f.ID)})
	}
	p.Location = append(p.Location, l)
	return l
}

// assignmentOf returns a buffer assignment as text: n values in one allocation.
func assignmentOf(n int) string {
	return fmt.Sprintf("BufferAssignment:\nallocation 0: size %d, preallocated-temp:\n", 512*n) + repeated(n, func(i int) string {
		return fmt.Sprintf(" value: <%d fusion.%d @0> (size=512,offset=%d): f32[128]{0}", i, i, 512*i)
	}, "\n") + "\n"
}

// resultOf is a result of gpumemprof.
func resultOf(i int, function string) string {
	return fmt.Sprintf(`{"function_name":%q,"execution_time":0.5,"memory_before":{"timestamp":%d,"allocated_memory":%d},"memory_after":{"timestamp":%d.5,"allocated_memory":%d},`+
		`"memory_peak":{"timestamp":%d.25,"allocated_memory":%d},"memory_allocated":512,"memory_freed":0}`, function, i, 512*i, i, 512*(i+1), i, 512*(i+1))
}

// allocationsOf returns a snapshot of n allocations.
func allocationsOf(n int, frames func(i int) any) string {
	events := pickletest.List{}
	for i := range n {
		events = append(events, pickletest.Dict{"action", "alloc", "addr", 1<<40 + 512*i, "size", 512, "stream", 0, "time_us", 10 * i, "frames", frames(i)})
	}
	return string(pickletest.Pickle(pickletest.Dict{"segments", pickletest.List{}, "device_traces", pickletest.List{events}}))
}

// stackOf returns the frames of a snapshot's stack; the innermost one is of a line.
func stackOf(depth, line int) pickletest.List {
	frames := pickletest.List{}
	for i := range depth {
		frames = append(frames, pickletest.Dict{"filename", "main.py", "line", line * max(1-i, 0), "name", fmt.Sprint("f", i)})
	}
	return frames
}

// longNative is nativeOf with room for n buffers.
func longNative(n int, lines string) string {
	return strings.Replace(nativeOf(lines), "end=+100", fmt.Sprintf("end=+%d", n+10), 1)
}

func eventsOf(n int, of func(i int) string) (all []string) {
	for i := range n {
		all = append(all, of(i))
	}
	return all
}

func callOf(i, ts, dur int) string {
	return fmt.Sprintf(`{"ph": "X", "cat": "cpu_op", "name": "aten::f%d", "pid": 1, "tid": 1, "ts": %d, "dur": %d}`, i, ts, dur)
}

func allocationOf(ts, i int) string {
	return fmt.Sprintf(`{"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": %d, "args": {"Device Type": 1, "Device Id": 0, "Addr": %d, "Bytes": 512, "Total Allocated": %d}}`,
		ts, 4096+512*i, 512*(i+1))
}

// chainOf returns n stacks, each the caller of the next one.
func chainOf(n int) string {
	return "frame 1 user \"main\" \"main.py\" 1\nstack 1 1\n" + repeated(n-1, func(i int) string {
		return fmt.Sprintf("frame %d user \"f%d\" \"main.py\" %d\nstack %d %d caller=%d", i+2, i, i+2, i+2, i+2, i+1)
	}, "\n") + "\n"
}
