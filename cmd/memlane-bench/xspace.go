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
