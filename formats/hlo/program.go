package hlo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// program is what buffers need of an HloProto. Texts and shapes stay in the
// proto until a buffer asks for them.
type program struct {
	proto []byte
	name  string
	entry string
	id    int64

	instructions []instruction    // by id
	byName       map[string]int32 // made when an old file needs it
	frames       frameIndex

	assigned    bool // there is a buffer assignment
	values      []value
	allocations []allocation
	traces      []trace
	byID        map[int64]int32 // values that have a place

	sum          int64 // bytes of all allocations
	skipped      int64 // records that name what does not exist
	firstSkipped string
}

// instruction is an HloInstructionProto.
type instruction struct {
	id int64
	at span
}

// value is a LogicalBufferProto.
type value struct {
	id, size, color int64
	definedAt       span

	allocation int32 // index of allocations; -1 = none
	offset     int64 // in the allocation
}

// allocation is a BufferAllocationProto.
type allocation struct {
	index, size, color int64
	uses               lifetime.Uses
	assigned           []span

	values []int32 // what is assigned to it
	trace  int32   // index of the trace that allocates in it; -1 = none
	start  uint64  // bytes of the allocations of its color before it
}

// trace is a HeapSimulatorTrace: what the compiler allocated and freed, in the
// order of the program.
type trace struct{ events []event }

type event struct {
	kind        uint64
	buffer      int64 // id of a value
	canonical   int64 // SHARE_WITH: id of the value that it joins
	instruction span  // name
}

// parse reads an HloProto.
func parse(proto []byte) (*program, error) {
	p := &program{proto: proto, byID: map[int64]int32{}}
	m := scan(proto, span{0, len(proto)})
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch f.tag {
		case protoModule:
			m.inside("hlo_module", -1, p.readModule(f.body))
		case protoAssignment:
			p.assigned = true
			m.inside("buffer_assignment", -1, p.readAssignment(f.body))
		}
	}
	if m.err != nil {
		return nil, m.err
	}
	// Of two with one id the last counts, as for XProf.
	slices.SortStableFunc(p.instructions, func(x, y instruction) int { return cmp.Compare(x.id, y.id) })
	slices.SortStableFunc(p.allocations, func(x, y allocation) int { return cmp.Compare(x.index, y.index) })
	return p, p.link()
}

func (p *program) readModule(at span) error {
	m := scan(p.proto, at)
	computations := 0
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch f.tag {
		case moduleName:
			p.name = p.text(f.body)
		case moduleEntry:
			p.entry = p.text(f.body)
		case moduleID:
			p.id = int64(f.value)
		case moduleFrames:
			m.inside("stack_frame_index", -1, p.readFrames(f.body))
		case moduleComputations:
			m.inside("computations", computations, p.readComputation(f.body))
			computations++
		}
	}
	return m.err
}

// readComputation notes where the instructions are.
func (p *program) readComputation(at span) error {
	m := scan(p.proto, at)
	n := 0
	p.instructions = slices.Grow(p.instructions, count(p.proto, at, computationInstructions))
	for f, ok := m.next(); ok; f, ok = m.next() {
		if f.tag != computationInstructions {
			continue
		}
		ins := instruction{at: f.body}
		i := scan(p.proto, f.body)
		for g, ok := i.next(); ok; g, ok = i.next() {
			if g.tag == instructionID {
				ins.id = int64(g.value)
			}
		}
		m.inside("instructions", n, i.err)
		p.instructions = append(p.instructions, ins)
		n++
	}
	return m.err
}

func (p *program) readAssignment(at span) error {
	m := scan(p.proto, at)
	buffers := count(p.proto, at, assignmentBuffers)
	p.values = slices.Grow(p.values, buffers)
	if len(p.byID) == 0 {
		p.byID = make(map[int64]int32, buffers)
	}
	p.allocations = slices.Grow(p.allocations, count(p.proto, at, assignmentAllocations))
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch f.tag {
		case assignmentBuffers:
			m.inside("logical_buffers", len(p.values), p.readValue(f.body))
		case assignmentAllocations:
			m.inside("buffer_allocations", len(p.allocations), p.readAllocation(f.body))
		case assignmentTraces:
			m.inside("heap_simulator_traces", len(p.traces), p.readTrace(f.body))
		}
	}
	return m.err
}

func (p *program) readValue(at span) error {
	v := value{allocation: -1}
	m := scan(p.proto, at)
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch f.tag {
		case bufferID:
			v.id = int64(f.value)
		case bufferSize:
			v.size = f.size()
		case bufferDefinedAt:
			v.definedAt = f.body
		case bufferColor:
			v.color = int64(f.value)
		}
	}
	p.byID[v.id] = int32(len(p.values))
	p.values = append(p.values, v)
	return m.err
}

func (p *program) readAllocation(at span) error {
	a := allocation{trace: -1, assigned: make([]span, 0, count(p.proto, at, allocationAssigned))}
	uses := func(f field, use lifetime.Uses) {
		if a.uses &^= use; f.flag() {
			a.uses |= use
		}
	}
	m := scan(p.proto, at)
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch f.tag {
		case allocationIndex:
			a.index = int64(f.value)
		case allocationSize:
			a.size = f.size()
		case allocationColor:
			a.color = int64(f.value)
		case allocationParameter:
			uses(f, lifetime.ForParameter)
		case allocationLiveOut:
			uses(f, lifetime.ForOutput)
		case allocationConstant:
			uses(f, lifetime.ForConstant)
		case allocationThreadLocal:
			uses(f, lifetime.ForThreadLocal)
		case allocationTuple:
			uses(f, lifetime.ForTuple)
		case allocationAssigned:
			a.assigned = append(a.assigned, f.body)
		}
	}
	p.allocations = append(p.allocations, a)
	return m.err
}

func (p *program) readTrace(at span) error {
	t := trace{events: make([]event, 0, count(p.proto, at, traceEvents))}
	m := scan(p.proto, at)
	for f, ok := m.next(); ok; f, ok = m.next() {
		if f.tag != traceEvents {
			continue
		}
		var e event
		i := scan(p.proto, f.body)
		for g, ok := i.next(); ok; g, ok = i.next() {
			switch g.tag {
			case eventKind:
				e.kind = g.value
			case eventBuffer:
				e.buffer = int64(g.value)
			case eventCanonical:
				e.canonical = int64(g.value)
			case eventInstruction:
				e.instruction = g.body
			}
		}
		m.inside("events", len(t.events), i.err)
		t.events = append(t.events, e)
	}
	p.traces = append(p.traces, t)
	return m.err
}

// link finds which values lie in which allocation, and which allocation a trace
// is of: the one of the first buffer it speaks of. (What a trace itself says of
// that is wrong in real files.)
func (p *program) link() error {
	for i := range p.allocations {
		a := &p.allocations[i]
		if i > 0 && p.allocations[i-1].index == a.index {
			p.skip("buffer_allocations: index %d twice", a.index)
		}
		a.values = make([]int32, 0, len(a.assigned))
		for k, at := range a.assigned {
			if err := p.assign(int32(i), at); err != nil {
				m := scanner{}
				m.inside("assigned", k, err)
				m.inside("buffer_allocations", i, m.err)
				m.inside("buffer_assignment", -1, m.err)
				return m.err
			}
		}
	}
	for i := range p.values {
		if v := &p.values[i]; v.allocation < 0 {
			p.skip("logical buffer %d: in no allocation", v.id)
			if p.byID[v.id] == int32(i) {
				delete(p.byID, v.id) // events cannot place it
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

// assign puts a value into an allocation.
func (p *program) assign(allocation int32, at span) error {
	id, offset := int64(0), int64(0)
	m := scan(p.proto, at)
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch f.tag {
		case assignedBuffer:
			id = int64(f.value)
		case assignedOffset:
			offset = f.size()
		}
	}
	i, ok := p.byID[id]
	switch {
	case m.err != nil:
		return m.err
	case !ok:
		p.skip("buffer_allocations: no logical buffer %d", id)
	case p.values[i].allocation >= 0:
		p.skip("logical buffer %d: in two allocations", id)
	default:
		p.values[i].allocation, p.values[i].offset = allocation, offset
		a := &p.allocations[allocation]
		a.values = append(a.values, i)
	}
	return nil
}

// skip counts a record that is not used.
func (p *program) skip(format string, id int64) {
	if p.skipped == 0 {
		p.firstSkipped = fmt.Sprintf(format, id)
	}
	p.skipped++
}

// maxText bounds the texts that are kept, in bytes: many buffers may repeat the
// name of one instruction. Names that XLA makes have some ten, names of scopes
// some hundred.
const maxText = 4096

// maxName bounds the names of instructions, which every part of a result has a copy
// of.
const maxName = 512

// text reads a text of the proto.
func (p *program) text(at span) string { return p.upTo(maxText, at) }

func (p *program) upTo(most int, at span) string {
	return strings.ToValidUTF8(string(p.proto[at.at:min(at.end, at.at+most)]), "\ufffd")
}
