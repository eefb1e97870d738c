package main

import "google.golang.org/protobuf/encoding/protowire"

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
