package jaxprof

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/memlane/memlane/formats/internal/wire"
)

// Sniff reports whether head may begin a pprof profile: its first field is a sample type (two text numbers),
// followed by another one or by a sample. Other protocol buffers have texts or more numbers there.
func Sniff(head []byte) bool {
	for types := 0; ; types++ {
		num, typ, n := protowire.ConsumeTag(head)
		if tag := protowire.EncodeTag(num, typ); n < 0 || tag != profileSampleType {
			return types > 0 && n >= 0 && tag == profileSample
		}
		body, m := protowire.ConsumeBytes(head[n:])
		if m < 0 || !isSampleType(body) {
			return false
		}
		head = head[n+m:]
	}
}

// isSampleType reports whether a message is exactly two numbers, the fields of a ValueType.
func isSampleType(body []byte) bool {
	m := wire.Scan(body, wire.Span{End: len(body)})
	typ, _ := m.Next()
	unit, _ := m.Next()
	return typ.Tag == valueType && unit.Tag == valueUnit && m.At == m.End
}
