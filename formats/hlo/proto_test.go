package hlo_test

import "google.golang.org/protobuf/encoding/protowire"

// message is a protocol buffer that a test writes field by field. Zero numbers are omitted, as XLA omits them.
type message []byte

func (m message) num(field protowire.Number, v int64) message {
	if v == 0 {
		return m
	}
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), uint64(v))
}

func (m message) put(field protowire.Number, body ...message) message {
	for _, b := range body {
		m = protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
	}
	return m
}

func (m message) text(field protowire.Number, s string) message { return m.put(field, message(s)) }

func (m message) list(field protowire.Number, numbers ...int64) message {
	var body message
	for _, n := range numbers {
		body = protowire.AppendVarint(body, uint64(n))
	}
	return m.put(field, body)
}

// Numbers of element types.
const (
	s4, f32, tuple = 21, 11, 13
)

func array(element int64, dimensions ...int64) message {
	return message{}.num(2, element).list(3, dimensions...).put(5, message{}.list(1, 0))
}

func tupleOf(parts ...message) message { return message{}.num(2, tuple).put(4, parts...) }

// instruction returns an instruction whose number, name and opcode follow from id.
func instruction(id int64, shape, metadata message) message {
	return message{}.text(1, "i"+string(rune('0'+id%10))).text(2, "fusion").put(3, shape).put(7, metadata).num(35, id)
}

// metadata is an OpMetadata with an op_name.
func metadata(opName string) message { return message{}.text(2, opName) }

// buffer is a logical buffer of the result of an instruction.
func buffer(id, size, instruction int64, path ...int64) message {
	return message{}.num(1, id).num(2, size).put(3, message{}.list(3, path...).num(4, instruction))
}

func (m message) colored(color int64) message { return m.num(4, color) }

// allocation is a buffer allocation; assigned lists pairs of a logical buffer and its offset.
func allocation(index, size int64, assigned ...int64) message {
	m := message{}.num(1, index).num(2, size)
	for i := 0; i < len(assigned); i += 2 {
		m = m.put(9, message{}.num(1, assigned[i]).num(2, assigned[i+1]))
	}
	return m
}

// Fields of a buffer allocation that state its uses.
const (
	threadLocal, parameter, liveOut, color, isTuple, constant = 3, 5, 7, 8, 11, 12
)

// Events of a heap trace.
func alloc(id int64) message { return message{}.num(2, id).text(4, "at") }
func free(id int64) message  { return message{}.num(1, 1).num(2, id).text(4, "at") }
func share(id, with int64) message {
	return message{}.num(1, 2).num(2, id).text(4, "at").num(5, with)
}

func trace(events ...message) message { return message{}.put(1, events...) }

// program is an HloProto under construction.
type program struct {
	instructions, buffers, allocations, traces []message
	frames                                     message
}

func (p program) proto() []byte {
	module := message{}.text(1, "jit_f").text(2, "main").put(3, message{}.text(1, "main").put(2, p.instructions...)).num(5, 5).put(17, p.frames)
	assignment := message{}.put(1, p.buffers...).put(3, p.allocations...).put(4, p.traces...)
	return message{}.put(1, module).put(3, assignment)
}
