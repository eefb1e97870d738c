package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"google.golang.org/protobuf/encoding/protowire"
)

// As in the profile of a busy host: 49 other events for 20 allocator events.
const (
	xspaceLines  = 16 // threads
	fillerEvents = 49
	fillerPer    = 20
	xspaceNames  = 2000 // names of other events
	xspaceOps    = 400  // operations that allocate
	limitBytes   = 1 << 37
)

// Numbers of metadata: events 1 and 2 belong to the allocator. Events refer to texts, which are names of statistics without a value.
const (
	allocationID, deallocationID, firstNameID = 1, 2, 3

	runStat, opStat                   = 20, 21
	allocatorText, tempText, typeText = 101, 102, 103
	firstOpText                       = 110
)

// allocatorStats are the statistics of an allocator event, by number from 1.
var allocatorStats = []string{"allocator_name", "bytes_reserved", "bytes_allocated", "bytes_available", "fragmentation", "peak_bytes_in_use",
	"requested_bytes", "allocation_bytes", "addr", "tf_op", "id", "region_type", "data_type"}

// writeXSpace writes an XProf profile: the plane of a host whose threads allocate and free in turns. It has events allocator events,
// and other events between them.
func writeXSpace(w io.Writer, events int, seed uint64) (truth, error) {
	x := xspace{heap: newHeap(seed, events, xspaceOps), rnd: rand.New(rand.NewPCG(seed, 2))}
	for i := range x.lines {
		x.lines[i] = message{}.num(1, uint64(i+1)).text(2, fmt.Sprintf("tf_XLAPjRtExec/%d", i)).num(3, 1_752_000_000_000_000_000)
	}
	thread := 0
	for i := range events {
		if x.rnd.IntN(8) == 0 { // a thread keeps the processor for a while
			thread = x.rnd.IntN(xspaceLines)
		}
		x.allocator(thread)
		for range fillerEvents*(i+1)/fillerPer - fillerEvents*i/fillerPer {
			x.other(thread)
		}
	}
	return x.truth, x.write(w)
}

// xspace is a profile under construction. It keeps all lines, because the length of a plane precedes them.
type xspace struct {
	*heap
	rnd         *rand.Rand
	lines       [xspaceLines]message
	now         uint64 // picoseconds
	event, stat message
}

// allocator adds an event as TensorFlow's BFCAllocator::AddTraceMe makes it.
func (x *xspace) allocator(thread int) {
	x.now += 1000 + x.rnd.Uint64N(5_000_000)
	s := x.step()
	kind := uint64(allocationID)
	if s.freed {
		kind = deallocationID
	}
	inUse, size := uint64(x.inUse), uint64(s.size)
	x.event = x.event[:0].num(1, kind).num(2, x.now).num(3, 0)
	for i, v := range [...]uint64{allocatorText, 0, inUse, limitBytes - inUse, math.Float64bits(0.0625 + 0.001*float64(s.serial%50)), uint64(x.peak),
		size - 7, size, uint64(s.addr), uint64(firstOpText + s.site), uint64(s.serial % 8), tempText, typeText} {
		x.stat = x.stat[:0].num(1, uint64(i+1))
		switch allocatorStats[i] {
		case "allocator_name", "tf_op", "region_type", "data_type":
			x.stat = x.stat.num(7, v)
		case "fragmentation":
			x.stat = protowire.AppendFixed64(protowire.AppendTag(x.stat, 2, protowire.Fixed64Type), v)
		default:
			x.stat = x.stat.num(4, v)
		}
		x.event = x.event.put(4, x.stat)
	}
	x.lines[thread] = x.lines[thread].put(4, x.event)
}

// other adds an event that is not an allocator event.
func (x *xspace) other(thread int) {
	x.event = x.event[:0].num(1, firstNameID+x.rnd.Uint64N(xspaceNames)).num(2, x.now).num(3, x.rnd.Uint64N(9_000_000))
	x.stat = x.stat[:0].num(1, runStat).num(4, x.rnd.Uint64N(1<<20))
	x.event = x.event.put(4, x.stat)
	x.stat = x.stat[:0].num(1, opStat).num(7, firstOpText+x.rnd.Uint64N(xspaceOps))
	x.lines[thread] = x.lines[thread].put(4, x.event.put(4, x.stat))
}

// names returns the tables of a plane.
func (x *xspace) names() message {
	var m message
	name := func(table protowire.Number, id int, text string) {
		m = m.put(table, message{}.num(1, uint64(id)).put(2, message{}.num(1, uint64(id)).text(2, text)))
	}
	name(4, allocationID, "MemoryAllocation")
	name(4, deallocationID, "MemoryDeallocation")
	for i := range xspaceNames {
		name(4, firstNameID+i, fmt.Sprintf("ThunkExecute#hlo_op=fusion.%d,hlo_module=jit_train_step#", i))
	}
	for i, stat := range allocatorStats {
		name(5, i+1, stat)
	}
	name(5, runStat, "run_id")
	name(5, opStat, "hlo_op")
	name(5, allocatorText, "GPU_0_bfc")
	name(5, tempText, "temp")
	name(5, typeText, "bf16")
	for i := range xspaceOps {
		name(5, firstOpText+i, fmt.Sprintf("jit_train_step/transformer/layer_%d/attention/dot_general", i))
	}
	return m
}

func (x *xspace) write(w io.Writer) error {
	head, tail := message{}.num(1, 1).text(2, "/host:CPU"), x.names()
	length := len(head) + len(tail)
	for _, line := range x.lines {
		length += protowire.SizeTag(3) + protowire.SizeBytes(len(line))
	}
	parts := [][]byte{message{}.head(1, length), head}
	for _, line := range x.lines {
		parts = append(parts, message{}.head(3, len(line)), line)
	}
	for _, p := range append(parts, tail, message{}.text(4, "host0")) {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// message is a protocol buffer under construction.
type message []byte

func (m message) num(field protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

// head appends the tag and the length of a field of n bytes.
func (m message) head(field protowire.Number, n int) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.BytesType), uint64(n))
}

func (m message) put(field protowire.Number, body []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), body)
}

func (m message) text(field protowire.Number, s string) message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), s)
}

// A profile of 10 GB has a few devices with long lines, and no allocator events in them.
const (
	sparseDevices  = 8
	sparsePerEvent = 4800 // bytes of devices per allocator event
)

// writeSparse writes an XProf profile that consists mostly of device lines. In a file these are holes, which take no space on disk.
// Readers skip them.
func writeSparse(w io.Writer, events int, seed uint64) (truth, error) {
	for i := range sparseDevices {
		length := events * sparsePerEvent / sparseDevices
		name := message{}.text(2, fmt.Sprintf("/device:GPU:%d", i))
		line := message{}.head(3, length)
		if _, err := w.Write(append(append(message{}.head(1, len(name)+len(line)+length), name...), line...)); err != nil {
			return truth{}, err
		}
		if err := skip(w, int64(length)); err != nil {
			return truth{}, err
		}
	}
	return writeXSpace(w, events, seed)
}

// skip advances by n zero bytes.
func skip(w io.Writer, n int64) error {
	if file, ok := w.(io.Seeker); ok {
		_, err := file.Seek(n, io.SeekCurrent)
		return err
	}
	_, err := w.Write(make([]byte, n))
	return err
}

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
