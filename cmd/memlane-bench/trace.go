package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
)

var operators = []string{"aten::empty", "aten::addmm", "aten::linear", "aten::copy_", "aten::mul", "aten::native_layer_norm", "aten::transpose"}

const (
	modules, methods   = 40, 30
	minNested, nesting = 4, 8 // nested Python calls: 4 to 11
	memoryPercent      = 16   // of operators, so that one event in twenty is a memory event
)

const (
	traceHead = "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\n      \"id\": 0, \"name\": \"Accelerator 0\", \"totalGlobalMem\": 137438953472,\n" +
		"      \"computeMajor\": 9, \"computeMinor\": 0\n    }\n  ],\n  \"cuda_runtime_version\": 12080,\n  \"record_shapes\": 1,\n  \"profile_memory\": 1,\n" +
		"  \"with_stack\": 1,\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": 1752000000000000000,\n  \"traceEvents\": ["
	traceFoot = "\n  ],\n  \"traceName\": \"trace.json\"\n}\n"
	kernel    = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_64x3_tn_align8>(Params)"

	hostThread = `"pid": 48211, "tid": 48211`
	stream     = `"pid": 0, "tid": 7` // of the device
)

// breaks removes the line breaks of a trace, and the spaces at the beginning of lines. Texts have none of them.
var breaks = strings.NewReplacer("\n      ", "", "\n    ", "", "\n  ", "", "\n", "")

// writeTrace writes a trace as the PyTorch profiler does (kineto's layout, profile_memory, with_stack, record_shapes), of at least
// events events. It consists of rounds of nested Python calls. The innermost call runs operators, each with a kernel, some with an
// allocation or a free. oneLine leaves out all line breaks, as programs do whose output is not for people.
func writeTrace(w io.Writer, events int, seed uint64, oneLine bool) (truth, error) {
	t := newTrace(w, events/20, seed, oneLine)
	for t.events < events {
		t.round()
	}
	return t.end()
}

// nestedDepth is how deep the calls of writeNested are.
const nestedDepth = 10_000

// writeNested writes a trace of n nested Python calls, in towers of nestedDepth. The innermost call of each tower runs operators that
// allocate.
func writeNested(w io.Writer, n int, seed uint64) (truth, error) {
	t := newTrace(w, 1000, seed, false)
	for towers := max(1, n/nestedDepth); towers > 0; towers-- {
		const operations, duration = 100, 1000
		length := int64(2*nestedDepth + operations*duration)
		for d := range int64(nestedDepth) {
			t.begin("X", "python_function", hostThread, fmt.Sprintf("model.py(%d): walk_%d", d+1, d), t.now+d, length-2*d)
			t.args(`"Ev Idx": %d`, t.events)
		}
		for i := range int64(operations) {
			at := t.now + nestedDepth + i*duration
			t.begin("X", "cpu_op", hostThread, operators[i%int64(len(operators))], at, duration/2)
			t.args(`"Ev Idx": %d`, t.events)
			t.memory(at + duration/4)
		}
		t.now += length + 1000
	}
	return t.end()
}

// trace is a trace under construction.
type trace struct {
	*heap
	w       *bufio.Writer // keeps the first error
	oneLine bool
	rnd     *rand.Rand
	now     int64 // nanoseconds
	events  int
	buf     []byte
}

// newTrace begins a trace of a program with about steps allocations and frees.
func newTrace(w io.Writer, steps int, seed uint64, oneLine bool) *trace {
	t := &trace{w: bufio.NewWriterSize(w, 1<<20), oneLine: oneLine, heap: newHeap(seed, steps, 1), rnd: rand.New(rand.NewPCG(seed, 5)), now: 5_000_000_000}
	t.write([]byte(traceHead))
	return t
}

func (t *trace) end() (truth, error) {
	t.write([]byte(traceFoot))
	return t.truth, t.w.Flush()
}

func (t *trace) write(b []byte) {
	if t.oneLine {
		breaks.WriteString(t.w, string(b))
		return
	}
	t.w.Write(b)
}

// round writes one call of a module. Times have no pattern: otherwise the trace would compress better than that of a real program.
func (t *trace) round() {
	depth := minNested + t.rnd.IntN(nesting)
	length := 400_000 + t.rnd.Int64N(100_000)
	at, end, parent := t.now, t.now+length, "null"
	for d := range depth {
		id := t.events + 1
		t.begin("X", "python_function", hostThread, fmt.Sprintf("model/layers/block_%d.py(%d): forward_%d", t.rnd.IntN(modules), d*37, t.rnd.IntN(methods)),
			at, end-at)
		t.args(`"Python parent id": %s, "Python id": %d, "Ev Idx": %d`, parent, id, id)
		parent = fmt.Sprint(id)
		at, end = at+100+t.rnd.Int64N(900), end-100-t.rnd.Int64N(900)
	}
	for range depth {
		dur := 5_000 + t.rnd.Int64N(20_000)
		t.operator(at, dur)
		at += dur + t.rnd.Int64N(3000)
	}
	t.now += length + 1000
}

// operator writes a call of an operator, the kernel it launches, and for some calls a memory event.
func (t *trace) operator(at, dur int64) {
	id, n := t.events+1, 1+t.rnd.IntN(4095)
	t.begin("X", "cpu_op", hostThread, operators[t.rnd.IntN(len(operators))], at, dur)
	t.args(`"External id": %d,"Record function id": 0, "Concrete Inputs": ["", "", ""], "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar"], `+
		`"Input Strides": [[%d, 1], [1, %d], []], "Input Dims": [[128, %d], [%d, 128], []], "Ev Idx": %d`, id, n, n, n, n, id)
	if t.rnd.IntN(100) < memoryPercent {
		t.memory(at + t.rnd.Int64N(dur))
	}
	t.begin("X", "kernel", stream, kernel, at+dur, 1+t.rnd.Int64N(1_000_000))
	t.args(`"External id": %d,"queued": 0, "device": 0, "context": 1,`+"\n      "+`"stream": 7, "correlation": %d,`+"\n      "+
		`"registers per thread": 230, "shared memory": 98304, "blocks per SM": 1.939394, "warps per SM": 7.757576,`+"\n      "+
		`"grid": [%d, 8, 1], "block": [128, 1, 1], "est. achieved occupancy %%": 12`, id, id, n)
}

// memory writes an allocation or a free.
func (t *trace) memory(at int64) {
	s := t.step()
	bytes := s.size
	if s.freed {
		bytes = -bytes
	}
	t.begin("i", "cpu_instant_event", hostThread, "[memory]", at, 0)
	t.args(`"Total Reserved": %d, "Total Allocated": %d, "Bytes": %d, "Device Id": 0, "Device Type": 1, "Addr": %d, "finished": false, "Ev Idx": %d`,
		t.reserved, t.inUse, bytes, s.addr, t.events)
}

// begin formats an event up to its arguments; dur is 0 for an instant.
func (t *trace) begin(ph, category, thread, name string, at, dur int64) {
	t.buf = t.buf[:0]
	if t.events > 0 {
		t.buf = append(t.buf, ',')
	}
	t.events++
	t.buf = fmt.Appendf(t.buf, "\n  {\n    \"ph\": \"%s\", \"cat\": \"%s\", \"name\": \"%s\", %s,\n    \"ts\": %d.%03d",
		ph, category, name, thread, at/1000, at%1000)
	if dur > 0 {
		t.buf = fmt.Appendf(t.buf, ", \"dur\": %d.%03d", dur/1000, dur%1000)
	}
	t.buf = append(t.buf, ",\n    \"args\": {\n      "...)
}

// args completes and writes the event that begin started.
func (t *trace) args(format string, values ...any) {
	t.buf = append(fmt.Appendf(t.buf, format, values...), "\n    }\n  }"...)
	t.write(t.buf)
}
