package xplane

import (
	"bytes"
	"encoding/binary"
	"io"
	"unicode/utf8"
)

// Sniff reports whether head may begin an XSpace. The first field is a plane, which begins with its number, its
// name or a list, or it is a list of texts. Other protocol buffers begin with the same tags; the wire types and
// the order of the inner fields distinguish them.
func Sniff(head []byte) bool {
	for len(head) > 0 {
		tag := head[0]
		n, k := binary.Uvarint(head[1:])
		if k <= 0 {
			return tag == 0x0a && looksConverted(head)
		}
		body := head[1+k:]
		switch tag {
		case 0x0a: // planes
			return n == 0 && len(body) > 0 && body[0] == 0x0a || beginsPlane(body[:min(n, uint64(len(body)))])
		case 0x12, 0x1a, 0x22: // errors, warnings, hostnames: texts
			if n == 0 || n > uint64(len(body)) || !utf8.Valid(body[:n]) {
				return false
			}
			head = body[n:]
		default:
			return false
		}
	}
	return false
}

// beginsPlane reports whether b begins like an XPlane: id, name, then the lists.
func beginsPlane(b []byte) bool {
	if len(b) > 1 && b[0] == 0x08 {
		_, n := binary.Uvarint(b[1:])
		if n <= 0 {
			return false
		}
		b = b[1+n:]
	}
	if len(b) < 2 {
		return false
	}
	switch b[0] {
	case 0x12: // name
		return int(b[1]) <= len(b)-2 && utf8.Valid(b[2:2+int(b[1])]) && bytes.IndexByte(b[2:2+int(b[1])], 0) < 0
	case 0x1a, 0x22, 0x2a, 0x32:
		return true
	}
	return false
}

// sampled is the number of bytes that are checked for a text conversion.
const sampled = 64 << 10

// converted returns the offset of the first U+FFFD if a program treated the file as text and replaced bytes
// that are not UTF-8; otherwise -1.
func converted(in io.ReaderAt, size int64) int {
	head := make([]byte, min(size, sampled))
	n, _ := in.ReadAt(head, 0)
	if !looksConverted(head[:n]) {
		return -1
	}
	return bytes.Index(head[:n], replacement)
}

var replacement = []byte("\ufffd")

func looksConverted(head []byte) bool {
	for range utf8.UTFMax { // the sample may end inside a character
		if utf8.Valid(head) || len(head) == 0 {
			break
		}
		head = head[:len(head)-1]
	}
	return utf8.Valid(head) && bytes.Count(head, replacement) >= 8
}
