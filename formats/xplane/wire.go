package xplane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Wire types of protocol buffers that an XSpace may contain.
const (
	varintType  = 0
	fixed64Type = 1
	bytesType   = 2
	fixed32Type = 5
)

// span is a message in the file: the bytes [at, end).
type span struct{ at, end int64 }

type field struct {
	number int
	wire   int
	value  uint64 // the length for bytesType
	at     int64  // offset of the tag
}

// errShort reports that the file ends inside a message.
var errShort = errors.New("the file ends early")

// damage reports a place in the file that violates the wire format.
type damage struct {
	at   int64
	what string
}

func (d *damage) Error() string { return fmt.Sprintf("%s at byte %d", d.what, d.at) }

// window reads a message in order, one piece of the file at a time. The first error stops it: later calls
// return nothing.
type window struct {
	in   io.ReaderAt
	size int64 // of the file
	base int64 // offset of buf[0]
	buf  []byte
	pos  int   // next byte in buf
	end  int64 // of the message; at most size
	err  error
}

// tagRoom is the maximum size of a tag and the length after it.
const tagRoom = 2 * binary.MaxVarintLen64

func (w *window) open(s span) {
	w.base, w.buf, w.pos, w.end, w.err = s.at, w.buf[:0], 0, s.end, nil
}

func (w *window) at() int64 { return w.base + int64(w.pos) }

// load returns the next n bytes of the message, or all that remain if there are fewer.
func (w *window) load(n int) []byte {
	have := w.buf[w.pos:]
	left := w.end - w.at()
	if len(have) >= n || int64(len(have)) >= left || w.err != nil {
		return have[:min(int64(len(have)), left)]
	}
	w.base += int64(w.pos)
	if n > cap(w.buf) {
		w.buf = append(make([]byte, 0, n), have...)
	} else {
		w.buf = w.buf[:copy(w.buf[:cap(w.buf)], have)]
	}
	w.pos = 0
	room := min(int64(cap(w.buf)-len(w.buf)), left-int64(len(w.buf)))
	got, err := w.in.ReadAt(w.buf[len(w.buf):len(w.buf)+int(room)], w.base+int64(len(w.buf)))
	w.buf = w.buf[:len(w.buf)+got]
	switch {
	case int64(got) == room:
	case err != nil && !errors.Is(err, io.EOF):
		w.err = err
	default:
		w.err = errShort // the file became shorter after it was opened
	}
	return w.buf
}

// within reads the message of a field inside the open message, then continues after it.
func (w *window) within(s span, read func()) {
	end := w.end
	w.end = s.end
	read()
	w.end = end
	w.skip(s.end)
}

// next returns the next field of the message. After a field of bytesType, the caller must call skip, take or within.
func (w *window) next() (f field, ok bool) {
	if w.err != nil || w.at() >= w.end {
		return field{}, false
	}
	b := w.load(tagRoom)
	f.at = w.at()
	tag, n := binary.Uvarint(b)
	if n <= 0 {
		return field{}, w.bad(n, len(b), "invalid tag")
	}
	f.number, f.wire = int(tag>>3), int(tag&7)
	if tag>>3 == 0 || tag>>3 > 1<<29-1 {
		return field{}, w.fail(f.at, fmt.Sprintf("field number %d", tag>>3))
	}
	m := 0
	switch f.wire {
	case varintType, bytesType:
		f.value, m = binary.Uvarint(b[n:])
		if m <= 0 {
			return field{}, w.bad(m, len(b)-n, "invalid number")
		}
	case fixed64Type:
		if len(b) < n+8 {
			return field{}, w.bad(0, 0, "")
		}
		f.value, m = binary.LittleEndian.Uint64(b[n:]), 8
	case fixed32Type:
		if len(b) < n+4 {
			return field{}, w.bad(0, 0, "")
		}
		f.value, m = uint64(binary.LittleEndian.Uint32(b[n:])), 4
	default:
		return field{}, w.fail(f.at, fmt.Sprintf("wire type %d", f.wire))
	}
	w.pos += n + m
	return f, true
}

// nextBytes returns the next field of bytesType, with the place of its bytes, and skips other fields.
func (w *window) nextBytes() (f field, s span, ok bool) {
	for f, ok = w.next(); ok && f.wire != bytesType; {
		f, ok = w.next()
	}
	if ok {
		s, ok = w.body(f)
	}
	return f, s, ok
}

// bad stops at a varint that does not parse, with have bytes available; n is the result of Uvarint.
func (w *window) bad(n, have int, what string) bool {
	if n == 0 && have < binary.MaxVarintLen64 {
		return w.cut()
	}
	return w.fail(w.at(), what)
}

// cut stops inside a field: the file is truncated, or the field extends beyond its message.
func (w *window) cut() bool {
	if w.end >= w.size {
		if w.err == nil {
			w.err = errShort
		}
		return false
	}
	return w.fail(w.at(), "a field extends beyond its message")
}

func (w *window) fail(at int64, what string) bool {
	if w.err == nil {
		w.err = &damage{at, what}
	}
	return false
}

// body returns where the bytes of a field are, limited to the end of the file.
func (w *window) body(f field) (span, bool) {
	left := w.end - w.at()
	if f.value > uint64(left) {
		if w.end < w.size || f.value > math.MaxInt64 {
			return span{}, w.fail(f.at, fmt.Sprintf("a field of %d bytes in a message with %d bytes left", f.value, left))
		}
		return span{w.at(), w.end}, true // the rest is missing
	}
	return span{w.at(), w.at() + int64(f.value)}, true
}

func (w *window) skip(to int64) {
	if ahead := to - w.base; 0 <= ahead && ahead <= int64(len(w.buf)) {
		w.pos = int(ahead)
		return
	}
	w.base, w.buf, w.pos = to, w.buf[:0], 0
}

// take returns the bytes of a field, valid until the next call. It fails if the field has more than most bytes,
// or is truncated.
func (w *window) take(f field, most uint64) ([]byte, bool) {
	if f.value > most {
		return nil, w.fail(f.at, fmt.Sprintf("a field of %d bytes (limit %d)", f.value, most))
	}
	b := w.load(int(f.value))
	if uint64(len(b)) < f.value {
		return nil, w.cut()
	}
	w.pos += int(f.value)
	return b[:f.value], true
}
