package mutants

import (
	"encoding/binary"
	"math/rand/v2"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// deepest is how deep messages are looked for in messages.
const deepest = 12

// parseProto reads fields. Bytes of a field that are fields themselves, and not a text, are a message.
func parseProto(data []byte) (*node, bool) {
	kids, ok := fields(data, deepest)
	return &node{kind: list, kids: kids}, ok
}

func fields(data []byte, depth int) (all []*node, ok bool) {
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 || number > 1<<12 {
			return nil, false
		}
		m := protowire.ConsumeFieldValue(number, wire, data[n:])
		if m < 0 {
			return nil, false
		}
		all = append(all, field(wire, data[:n], data[n:n+m], depth))
		data = data[n+m:]
	}
	return all, true
}

func field(wire protowire.Type, tag, value []byte, depth int) *node {
	switch wire {
	case protowire.VarintType:
		return &node{head: tag, data: value, extremes: func(r *rand.Rand) []byte { return appendVarint(nil, uint64(anyNumber(r))) }}
	case protowire.BytesType:
		inner, _ := protowire.ConsumeBytes(value)
		if len(inner) > 0 && depth > 0 && !isText(inner) {
			if kids, ok := fields(inner, depth-1); ok {
				return &node{kind: message, head: tag, kids: kids}
			}
		}
		return &node{head: tag, data: value, extremes: func(r *rand.Rand) []byte {
			text := anyText(r)
			length := uint64(len(text))
			if r.IntN(4) == 0 {
				length = uint64(anyNumber(r))
			}
			return append(appendVarint(nil, length), text...)
		}}
	default: // of a fixed length; groups stay as they are
		return &node{head: tag, data: value, extremes: func(r *rand.Rand) []byte {
			return binary.LittleEndian.AppendUint64(nil, uint64(anyNumber(r)))[:min(len(value), 8)]
		}}
	}
}

func isText(data []byte) bool {
	for _, c := range data {
		if c < ' ' {
			return false
		}
	}
	return utf8.Valid(data)
}

func appendVarint(to []byte, v uint64) []byte { return protowire.AppendVarint(to, v) }
