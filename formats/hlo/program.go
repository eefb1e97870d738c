package hlo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/formats/internal/wire"
	"github.com/memlane/memlane/lifetime/compiled"
)

// program holds the parts of an HloProto that buffers need. Texts and shapes stay in the proto until a buffer
// needs them.
type program struct {
	proto []byte
	name  string
	entry string
	id    int64

	schedule wire.Span
	entryID  int64
	target   string // kind of device that it was compiled for; "" = not known

	graph     graph
	byName    map[string]place  // instructions; built when an old file needs it
	opcodes   map[string]string // interned: programs use about a hundred
	shapes    map[string]array  // by their bytes in the proto
	frames    frameIndex
	shardings shardings
	roles     map[int64]compiled.Role // of arguments, by instruction

	assigned    bool // there is a buffer assignment
	values      []value
	allocations []allocation
	traces      []trace
	byID        map[int64]int32 // values that have a place in an allocation

	ofText []textValue // names and shapes of the values of a text
	plain  bool        // the uses of allocations are not known

	sum          int64 // bytes of all allocations
	skipped      int64 // records that refer to something missing
	firstSkipped string
}

// value is a LogicalBufferProto.
type value struct {
	id, size, color int64
	definedAt       wire.Span

	allocation int32 // index of allocations; -1: none
	offset     int64 // in the allocation
}

// allocation is a BufferAllocationProto.
type allocation struct {
	index, size, color int64
	uses               compiled.Uses
	assigned           []wire.Span

	values []int32 // assigned to it
	trace  int32   // index of the trace that allocates in it; -1: none
	start  uint64  // total size of the allocations of its color before it, in bytes
}

// trace is a HeapSimulatorTrace: the allocations and frees of the compiler, in program order.
type trace struct{ events []event }

type event struct {
	kind        uint64
	buffer      int64     // id of a value
	canonical   int64     // SHARE_WITH: id of the value whose memory is shared
	instruction wire.Span // name
}

// parse reads an HloProto.
func parse(proto []byte) (*program, error) {
	p := &program{proto: proto, byID: map[int64]int32{}, opcodes: map[string]string{}, shapes: map[string]array{}}
	p.graph = graph{p: p, computations: map[int64]*computation{}, places: map[int64]place{}, callers: map[*computation]place{}, budget: leastBudget}
	var modules, assignments []wire.Span // a message may come in pieces
	m := wire.Scanner{Err: wire.Read(proto, wire.Span{End: len(proto)}, wire.Into{{protoModule, &modules}, {protoAssignment, &assignments}})}
	for _, at := range modules {
		p.graph.budget += (at.End - at.At) * wordsOfByte
	}
	var aliases []wire.Span
	left := p.graph.budget
	for _, at := range modules {
		m.Inside("hlo_module", -1, p.readModule(at, &aliases, &left))
	}
	if m.Err == nil {
		m.Inside("hlo_module", -1, p.linkModule(aliases, left >= 0))
	}
	for _, at := range assignments {
		m.Inside("buffer_assignment", -1, p.readAssignment(at))
	}
	if p.assigned = len(assignments) > 0; m.Err != nil {
		return nil, m.Err
	}
	// Of two with the same id the last counts, as in XProf.
	slices.SortStableFunc(p.allocations, func(x, y allocation) int { return cmp.Compare(x.index, y.index) })
	return p, p.link()
}

// readModule reads a piece of a module. left is the number of words that all instructions may have.
func (p *program) readModule(message wire.Span, aliases *[]wire.Span, left *int) error {
	var name, entry, frames, aliased, devices wire.Span
	var computations []wire.Span
	m := wire.Scanner{Err: wire.Read(p.proto, message, wire.Into{{moduleName, &name}, {moduleEntry, &entry}, {moduleID, &p.id}, {moduleFrames, &frames},
		{moduleEntryID, &p.entryID}, {moduleSchedule, &p.schedule}, {moduleAliases, &aliased}, {moduleOutputs, &p.shardings.results},
		{moduleParameters, &p.shardings.parameters}, {moduleDevices, &devices}, {moduleComputations, &computations}})}
	p.name, p.entry = cmp.Or(p.text(name), p.name), cmp.Or(p.text(entry), p.entry)
	m.Inside("stack_frame_index", -1, p.readFrames(frames))
	m.Inside("input_output_alias", -1, wire.Read(p.proto, aliased, wire.Into{{aliasEntries, aliases}}))
	m.Inside("device_assignment", -1, wire.Read(p.proto, devices, wire.Into{{devicesComputations, &p.shardings.devices}}))
	m.Each("computations", computations, func(_ int, at wire.Span) error { return p.graph.read(at, left) })
	return m.Err
}

// linkModule finds what needs all pieces of a module, once.
func (p *program) linkModule(aliases []wire.Span, whole bool) error {
	if whole {
		p.graph.link(p.entryID)
	}
	var m wire.Scanner
	if m.Inside("computations", -1, p.readShardings()); m.Err == nil {
		m.Err = p.readFlows(aliases)
	}
	return m.Err
}

func (p *program) readAssignment(at wire.Span) error {
	var values, allocations, traces []wire.Span
	m := wire.Scanner{Err: wire.Read(p.proto, at, wire.Into{{assignmentBuffers, &values}, {assignmentAllocations, &allocations}, {assignmentTraces, &traces}})}
	p.values, p.allocations = slices.Grow(p.values, len(values)), slices.Grow(p.allocations, len(allocations))
	m.Each("logical_buffers", values, p.readValue)
	m.Each("buffer_allocations", allocations, p.readAllocation)
	m.Each("heap_simulator_traces", traces, p.readTrace)
	return m.Err
}

func (p *program) readValue(_ int, at wire.Span) error {
	v := value{allocation: -1}
	err := wire.Read(p.proto, at, wire.Into{{bufferID, &v.id}, {bufferSize, &v.size}, {bufferDefinedAt, &v.definedAt}, {bufferColor, &v.color}})
	v.size = max(v.size, 0)
	p.byID[v.id] = int32(len(p.values))
	p.values = append(p.values, v)
	return err
}

func (p *program) readAllocation(_ int, at wire.Span) error {
	a := allocation{trace: -1, assigned: make([]wire.Span, 0, wire.Count(p.proto, at, allocationAssigned))}
	var uses [5]int64 // in the order of compiled.Uses
	err := wire.Read(p.proto, at, wire.Into{{allocationIndex, &a.index}, {allocationSize, &a.size}, {allocationColor, &a.color},
		{allocationAssigned, &a.assigned}, {allocationParameter, &uses[0]}, {allocationLiveOut, &uses[1]}, {allocationConstant, &uses[2]},
		{allocationThreadLocal, &uses[3]}, {allocationTuple, &uses[4]}})
	for i, use := range uses {
		if use != 0 {
			a.uses |= compiled.ForParameter << i
		}
	}
	a.size = max(a.size, 0)
	p.allocations = append(p.allocations, a)
	return err
}

func (p *program) readTrace(_ int, at wire.Span) error {
	var events []wire.Span
	m := wire.Scanner{Err: wire.Read(p.proto, at, wire.Into{{traceEvents, &events}})}
	t := trace{make([]event, len(events))}
	m.Each("events", events, func(i int, at wire.Span) error {
		e := &t.events[i]
		return wire.Read(p.proto, at, wire.Into{{eventKind, &e.kind}, {eventBuffer, &e.buffer}, {eventCanonical, &e.canonical}, {eventInstruction, &e.instruction}})
	})
	p.traces = append(p.traces, t)
	return m.Err
}

// link finds the values of each allocation, and the allocation of each trace: that of the first buffer in the
// trace. The trace's own field for its allocation is wrong in real files.
func (p *program) link() error {
	for i := range p.allocations {
		a := &p.allocations[i]
		if i > 0 && p.allocations[i-1].index == a.index {
			p.skip("buffer_allocations: index %d twice", a.index)
		}
		a.values = make([]int32, 0, len(a.assigned))
		m := wire.Scanner{}
		m.Each("assigned", a.assigned, func(_ int, at wire.Span) error { return p.assign(int32(i), at) })
		if m.Inside("buffer_allocations", i, m.Err); m.Err != nil {
			m.Inside("buffer_assignment", -1, m.Err)
			return m.Err
		}
	}
	for i := range p.values {
		if v := &p.values[i]; v.allocation < 0 {
			p.skip("logical buffer %d: in no allocation", v.id)
			if last, _ := p.byID[v.id]; last == int32(i) {
				delete(p.byID, v.id) // events cannot refer to it
			}
		}
	}
	for i, t := range p.traces {
		if len(t.events) == 0 {
			continue
		}
		if v, ok := p.byID[t.events[0].buffer]; ok {
			p.allocations[p.values[v].allocation].trace = int32(i)
		}
	}
	return nil
}

// assign records the place of a value in an allocation.
func (p *program) assign(allocation int32, at wire.Span) error {
	id, offset := int64(0), int64(0)
	err := wire.Read(p.proto, at, wire.Into{{assignedBuffer, &id}, {assignedOffset, &offset}})
	i, ok := p.byID[id]
	switch {
	case err != nil:
		return err
	case !ok:
		p.skip("buffer_allocations: no logical buffer %d", id)
	case p.values[i].allocation >= 0:
		p.skip("logical buffer %d: in two allocations", id)
	default:
		p.values[i].allocation, p.values[i].offset = allocation, max(offset, 0)
		a := &p.allocations[allocation]
		a.values = append(a.values, i)
	}
	return nil
}

// skip counts a record that cannot be used.
func (p *program) skip(format string, id int64) {
	if p.skipped == 0 {
		p.firstSkipped = fmt.Sprintf(format, id)
	}
	p.skipped++
}

// maxText bounds each text that is kept, in bytes, because many buffers may repeat the name of one instruction.
// XLA's own names have about ten bytes, scope names some hundred.
const maxText = 4096

// maxName bounds instruction names, in bytes, because every part of a result copies the name.
const maxName = 512

// interned returns a text that many instructions share, such as an opcode.
func (p *program) interned(at wire.Span) string {
	text, ok := p.opcodes[string(p.proto[at.At:at.End])]
	if !ok {
		text = p.text(at)
		p.opcodes[string(p.proto[at.At:at.End])] = text
	}
	return text
}

// text returns a text of the proto, at most maxText bytes of it.
func (p *program) text(at wire.Span) string { return p.upTo(maxText, at) }

func (p *program) upTo(most int, at wire.Span) string {
	return strings.ToValidUTF8(string(p.proto[at.At:min(at.End, at.At+most)]), "\ufffd")
}
