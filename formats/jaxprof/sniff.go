package jaxprof

import "google.golang.org/protobuf/encoding/protowire"

// Sniff reports whether head may begin a pprof profile: its first field is a
// sample type, two numbers of texts, and a second one or a sample follows. Other
// protocol buffers have texts or more numbers there.
func Sniff(head []byte) bool {
	for types := 0; ; types++ {
		num, typ, n := protowire.ConsumeTag(head)
		if n < 0 || typ != protowire.BytesType || num != profileSampleType {
			return types > 0 && n >= 0 && typ == protowire.BytesType && num == profileSample
		}
		body, m := protowire.ConsumeBytes(head[n:])
		if m < 0 || !beginsSampleType(body) {
			return false
		}
		head = head[n+m:]
	}
}

// beginsSampleType reports whether a message is two numbers: the fields of a
// ValueType and no others.
func beginsSampleType(body []byte) bool {
	for _, want := range []protowire.Number{valueType, valueUnit} {
		num, typ, n := protowire.ConsumeTag(body)
		if n < 0 || num != want || typ != protowire.VarintType {
			return false
		}
		_, m := protowire.ConsumeVarint(body[n:])
		if m < 0 {
			return false
		}
		body = body[n+m:]
	}
	return len(body) == 0
}
