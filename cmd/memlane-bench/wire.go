package main

import "google.golang.org/protobuf/encoding/protowire"

// message is a protocol buffer that is written field by field.
type message []byte

func (m message) num(field protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

func (m message) fixed(field protowire.Number, v uint64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, field, protowire.Fixed64Type), v)
}

// head is what stands before a field of n bytes.
func (m message) head(field protowire.Number, n int) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.BytesType), uint64(n))
}

func (m message) put(field protowire.Number, body []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), body)
}

func (m message) text(field protowire.Number, s string) message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), s)
}
