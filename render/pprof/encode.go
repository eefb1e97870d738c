package pprof

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"
)

// sample is one sample. Samples of a site share their stack and labels.
type sample struct {
	stack   []uint64 // IDs of locations, leaf first; valid until the next sample is emitted
	values  values
	labels  []label  // by key
	numbers []number // by key
}

type label struct{ key, value string }

type number struct {
	key, unit string
	value     int64
}

// encoder writes a profile.proto while it is built, with the bytes of package profile, which would keep every sample
// with its own list of locations. Field numbers: https://github.com/google/pprof/blob/main/proto/profile.proto
type encoder struct {
	out     io.Writer
	err     error
	strings map[string]int
	texts   []string
	pending []byte // not written yet
	message []byte // scratch: a message, and a message inside it
	inner   []byte
}

// flushAt is the number of bytes at which the encoder writes.
const flushAt = 64 << 10

// write runs build with a builder whose samples are encoded at once, then encodes the rest of the profile.
func write(w io.Writer, o Options, build func(*builder)) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed) // better levels take three times as long to save a seventh
	if err != nil {
		return err
	}
	e := &encoder{out: z, strings: map[string]int{}}
	e.string("")
	b := newBuilder(o)
	for _, t := range b.profile.SampleType {
		e.message = e.int(e.int(e.message[:0], 1, e.string(t.Type)), 2, e.string(t.Unit))
		e.field(1, e.message)
	}
	b.emit = e.sample
	build(b)
	e.tables(b.profile)
	if err := errors.Join(e.flush(), z.Close()); err != nil {
		return fmt.Errorf("writing the profile: %w", err)
	}
	return nil
}

// string returns the index of a string in the table of strings.
func (e *encoder) string(s string) int64 {
	i, ok := e.strings[s]
	if !ok {
		i = len(e.texts)
		e.strings[s], e.texts = i, append(e.texts, s)
	}
	return int64(i)
}

// int appends a number; 0 is the default and not written.
func (e *encoder) int(to []byte, field protowire.Number, n int64) []byte {
	if n == 0 {
		return to
	}
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), uint64(n))
}

// ints appends numbers, packed if they are three or more, as package profile does.
func ints[N int64 | uint64](e *encoder, to []byte, field protowire.Number, all []N) []byte {
	if len(all) < 3 {
		for _, n := range all {
			to = protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), uint64(n))
		}
		return to
	}
	e.inner = e.inner[:0]
	for _, n := range all {
		e.inner = protowire.AppendVarint(e.inner, uint64(n))
	}
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), e.inner)
}

// field writes a field of the profile.
func (e *encoder) field(field protowire.Number, value []byte) {
	e.pending = protowire.AppendBytes(protowire.AppendTag(e.pending, field, protowire.BytesType), value)
	if len(e.pending) >= flushAt {
		_ = e.flush() // e.err has the error
	}
}

func (e *encoder) flush() error {
	if e.err == nil {
		_, e.err = e.out.Write(e.pending)
	}
	e.pending = e.pending[:0]
	return e.err
}

func (e *encoder) sample(s *sample) {
	m := ints(e, ints(e, e.message[:0], 1, s.stack), 2, s.values[:])
	for _, l := range s.labels {
		e.inner = e.int(e.int(e.inner[:0], 1, e.string(l.key)), 2, e.string(l.value))
		m = protowire.AppendBytes(protowire.AppendTag(m, 3, protowire.BytesType), e.inner)
	}
	for _, n := range s.numbers {
		e.inner = e.int(e.int(e.inner[:0], 1, e.string(n.key)), 3, n.value)
		e.inner = e.int(e.inner, 4, e.string(n.unit))
		m = protowire.AppendBytes(protowire.AppendTag(m, 3, protowire.BytesType), e.inner)
	}
	e.message = m
	e.field(2, m)
}

// tables writes what follows the samples, in the order of package profile, which numbers strings in this order too.
func (e *encoder) tables(p *profile.Profile) {
	flag := func(to []byte, field protowire.Number, set bool) []byte {
		if set {
			to = e.int(to, field, 1)
		}
		return to
	}
	for _, m := range p.Mapping {
		e.message = e.int(e.message[:0], 1, int64(m.ID))
		e.field(3, flag(flag(flag(e.message, 7, m.HasFunctions), 8, m.HasFilenames), 9, m.HasLineNumbers))
	}
	for _, l := range p.Location {
		e.inner = e.int(e.int(e.inner[:0], 1, int64(l.Line[0].Function.ID)), 2, l.Line[0].Line)
		e.message = e.int(e.int(e.message[:0], 1, int64(l.ID)), 2, int64(l.Mapping.ID))
		e.message = protowire.AppendBytes(protowire.AppendTag(e.message, 4, protowire.BytesType), e.inner)
		e.field(4, e.message)
	}
	for _, f := range p.Function {
		e.message = e.int(e.int(e.message[:0], 1, int64(f.ID)), 2, e.string(f.Name))
		e.field(5, e.int(e.message, 4, e.string(f.Filename)))
	}
	var comments []int64
	for _, c := range p.Comments {
		comments = append(comments, e.string(c))
	}
	first, doc := e.string(p.DefaultSampleType), e.string(p.DocURL)
	for _, s := range e.texts {
		e.field(6, []byte(s))
	}
	e.pending = e.int(e.int(e.pending, 9, p.TimeNanos), 10, p.DurationNanos)
	e.pending = ints(e, e.pending, 13, comments)
	e.pending = e.int(e.int(e.pending, 14, first), 15, doc)
}
