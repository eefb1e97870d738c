package jaxprof

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of the fields of profile.proto that are read.
const (
	profileSampleType protowire.Number = 1
	profileSample     protowire.Number = 2
	profileLocation   protowire.Number = 4
	profileFunction   protowire.Number = 5
	profileString     protowire.Number = 6

	valueType protowire.Number = 1
	valueUnit protowire.Number = 2

	sampleLocation protowire.Number = 1
	sampleValue    protowire.Number = 2
	sampleLabel    protowire.Number = 3

	labelKey    protowire.Number = 1
	labelString protowire.Number = 2
	labelNumber protowire.Number = 3

	locationID   protowire.Number = 1
	locationLine protowire.Number = 4

	lineFunction protowire.Number = 1
	lineNumber   protowire.Number = 2

	functionID   protowire.Number = 1
	functionName protowire.Number = 2
	functionFile protowire.Number = 4
)

// field is one field of a message: a number, or the bytes of a text, message or
// packed list.
type field struct {
	num   protowire.Number
	value uint64
	body  []byte
	bytes bool // body is set
}

// fields calls each with the fields of a message, in order, until one fails. The
// error is about the place in this message.
func fields(message []byte, each func(f field) error) error {
	for at := 0; at < len(message); {
		num, typ, n := protowire.ConsumeTag(message[at:])
		if n < 0 {
			return damaged(at, n)
		}
		f := field{num: num}
		m := 0
		switch typ {
		case protowire.VarintType:
			f.value, m = protowire.ConsumeVarint(message[at+n:])
		case protowire.BytesType:
			f.bytes = true
			f.body, m = protowire.ConsumeBytes(message[at+n:])
		default: // no field of interest
			m = protowire.ConsumeFieldValue(num, typ, message[at+n:])
		}
		if m < 0 {
			return damaged(at, m)
		}
		if typ == protowire.VarintType || f.bytes {
			if err := each(f); err != nil {
				return err
			}
		}
		at += n + m
	}
	return nil
}

// numbers adds to list what a repeated field of numbers holds, packed or not.
func (f field) numbers(list []uint64) ([]uint64, error) {
	if !f.bytes {
		return append(list, f.value), nil
	}
	for at := 0; at < len(f.body); {
		v, n := protowire.ConsumeVarint(f.body[at:])
		if n < 0 {
			return list, damaged(at, n)
		}
		list = append(list, v)
		at += n
	}
	return list, nil
}

// damaged says what is wrong with the field at a byte of a message; code is
// protowire's.
func damaged(at, code int) error {
	err := protowire.ParseError(code)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the field at byte %d is cut short", at)
	}
	return fmt.Errorf("the field at byte %d cannot be read: it is damaged", at)
}
