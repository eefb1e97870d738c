// Package wire reads protocol buffers that are in memory as a whole, for the formats hlo and jaxprof.
//
// Its place in the pipeline: below the readers of those formats. Errors name the path of fields and the byte offset.
// It skips fields whose wire type no format uses.
package wire

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Wire types. A tag is a field number and a wire type: 1<<3 | Number. A field with an unexpected wire type has another
// tag, and readers skip it like an unknown field.
const (
	Number = 0
	Bytes  = 2
)

// Span is a message or a text: the bytes [At, End) of the proto.
type Span struct{ At, End int }

// Field is a tag and its value.
type Field struct {
	Tag   uint64
	Value uint64 // of the wire type Number
	Body  Span   // of the wire type Bytes
}

// Scanner reads the fields of one message in order. The first error stops it and remains in Err.
type Scanner struct {
	Err   error
	proto []byte
	Span  // the rest of the message
}

// Scan returns a Scanner of one message.
func Scan(proto []byte, message Span) *Scanner { return &Scanner{proto: proto, Span: message} }

// Next returns the next field. ok is false at the end of the message and after an error.
func (s *Scanner) Next() (f Field, ok bool) {
	for s.Err == nil && s.At < s.End {
		rest := s.proto[s.At:s.End]
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			s.damaged(n)
			break
		}
		f = Field{Tag: uint64(num)<<3 | uint64(typ)}
		m := 0
		switch typ {
		case Number:
			f.Value, m = protowire.ConsumeVarint(rest[n:])
		case Bytes:
			var b []byte
			b, m = protowire.ConsumeBytes(rest[n:])
			f.Body = Span{s.At + n + m - len(b), s.At + n + m}
		default:
			m = protowire.ConsumeFieldValue(num, typ, rest[n:])
		}
		if m < 0 {
			s.damaged(m)
			break
		}
		s.At += n + m
		if typ == Number || typ == Bytes {
			return f, true
		}
	}
	return Field{}, false
}

// Ints appends the numbers of a repeated field to list, packed or not.
func (s *Scanner) Ints(list []int64, f Field) []int64 {
	if f.Tag&7 == Number {
		return append(list, int64(f.Value))
	}
	for at := f.Body.At; at < f.Body.End; {
		v, n := protowire.ConsumeVarint(s.proto[at:f.Body.End])
		if n < 0 {
			s.At = at
			s.damaged(n)
			break
		}
		list = append(list, int64(v))
		at += n
	}
	return list
}

// Into are the tags of fields and the variables for them: *int64, *uint64 and *Span, or *[]Span and *[]int64 of repeated ones. Numbers of
// a list may be packed; its tag is that of packed ones.
type Into []struct {
	Tag uint64
	To  any
}

// Read reads fields of a message into variables.
func Read(proto []byte, message Span, into Into) error {
	s := Scan(proto, message)
	for f, ok := s.Next(); ok; f, ok = s.Next() {
		for i := range into {
			x := &into[i]
			if x.Tag != f.Tag && x.Tag != f.Tag|Bytes {
				continue
			}
			switch v := x.To.(type) {
			case *[]int64:
				*v = s.Ints(*v, f)
			case *int64:
				*v = int64(f.Value)
			case *uint64:
				*v = f.Value
			case *Span:
				if x.Tag == f.Tag {
					*v = f.Body
				}
			case *[]Span:
				if x.Tag == f.Tag {
					*v = append(*v, f.Body)
				}
			}
		}
	}
	return s.Err
}

// Count returns how many fields of the message have a tag, up to the first error.
func Count(proto []byte, message Span, tag uint64) (n int) {
	s := Scan(proto, message)
	for f, ok := s.Next(); ok; f, ok = s.Next() {
		if f.Tag == tag {
			n++
		}
	}
	return n
}

// damaged records that the bytes at s.At do not parse; code is protowire's.
func (s *Scanner) damaged(code int) {
	what := "cannot be read: it is damaged"
	if errors.Is(protowire.ParseError(code), io.ErrUnexpectedEOF) {
		what = "is cut short"
	}
	s.Err = &damage{at: s.At, what: what}
}

// Inside records the error of a message inside this one, if it is the first. name is the name of the field, i its index in a list or -1.
func (s *Scanner) Inside(name string, i int, err error) {
	if err == nil || s.Err != nil && s.Err != err {
		return
	}
	if i >= 0 {
		name = fmt.Sprintf("%s[%d]", name, i)
	}
	if d, ok := errors.AsType[*damage](err); ok {
		d.path = name + "." + d.path
	}
	s.Err = err
}

// Each reads the messages of a repeated field, up to the first error.
func (s *Scanner) Each(name string, messages []Span, read func(i int, at Span) error) {
	for i := 0; i < len(messages) && s.Err == nil; i++ {
		s.Inside(name, i, read(i, messages[i]))
	}
}

// damage is a place where the proto violates the wire format.
type damage struct {
	path string // names of the fields that contain it, each followed by "."
	at   int    // offset in the proto
	what string
}

func (d *damage) Error() string {
	place := ""
	if d.path != "" {
		place = strings.TrimSuffix(d.path, ".") + ": "
	}
	return fmt.Sprintf("%sthe field at byte %d %s", place, d.at, d.what)
}
