package jaxprof

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/memlane/memlane/formats/internal/wire"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// maxBytes bounds a file. It is read into memory as a whole, because the names are stored at its end.
const maxBytes = 1 << 30

// maxBuffers bounds the buffers of a file, because a sample of a few bytes can claim any number of them. A
// sample beyond the limit becomes one buffer, with a note of the number.
const maxBuffers = 1 << 18

// Read reads one device memory profile into b. It fails if the file is not a whole pprof profile with JAX's
// sample types, or exceeds 1 GiB.
func Read(file string, in io.Reader, b *build.Builder) error {
	profile, err := io.ReadAll(io.LimitReader(in, maxBytes+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("byte %d: the file ends early, and function names are stored at its end; save the profile again", len(profile))
	case err != nil:
		return err
	case len(profile) > maxBytes:
		return fmt.Errorf("larger than %d bytes, the limit for a memory profile", maxBytes)
	}
	t, err := tablesOf(profile)
	if err != nil {
		return fmt.Errorf("not a complete pprof profile: %w", err)
	}
	r := &reader{b: b, profile: profile, tables: t, spaces: map[owner]build.SpaceRef{}}
	r.count, r.bytes = t.value("allocations", "count"), t.value("space", "bytes")
	if r.count < 0 || r.bytes < 0 {
		return fmt.Errorf("a pprof profile of %s; expected allocations (count) and space (bytes), "+
			"as jax.profiler.save_device_memory_profile writes", t.names())
	}
	r.source = b.Source(lifetime.Source{File: file, Format: "jaxprof", Producer: "JAX"})
	r.readNames()
	i := 0
	m := wire.Scan(profile, wire.Span{End: len(profile)})
	for f, ok := m.Next(); ok; f, ok = m.Next() {
		if f.Tag == profileSample {
			m.Inside("sample", i, r.sample(f.Body, i))
			i++
		}
	}
	return m.Err
}

// names lists the sample types of a profile that JAX did not write.
func (t *tables) names() string {
	var names []string
	for _, v := range t.types[:min(len(t.types), 5)] {
		names = append(names, fmt.Sprintf("%.24s", fmt.Sprintf("%+q", t.text(v[0]))))
	}
	if names == nil {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

type reader struct {
	b            *build.Builder
	profile      []byte
	tables       *tables
	source       int
	count, bytes int // indexes of the allocations and their bytes among the values of a sample

	named       *named // nil if the recorder added no names
	spaces      map[owner]build.SpaceRef
	buffers     int64              // so far
	ids, values []int64            // scratch
	stack       []lifetime.FrameID // scratch
}

type owner struct{ device, memory string }

// sample passes on the buffers of a sample. A sample that cannot be used is recorded as a loss.
func (r *reader) sample(message wire.Span, i int) error {
	s, whole, err := r.decode(message)
	why := loss.IncompleteRecord
	switch {
	case err != nil:
		return err
	case whole && s.kind == executable && s.count > 0 && s.bytes <= 0: // -1 a program on TPU
		r.b.Lose(loss.UnknownSize, s.count, 0, s.device)
		return nil
	case whole && s.bytes == 0 && s.count == 0:
		return nil
	case whole && 0 < s.count && s.bytes >= 0:
		if space, ok := r.space(&s); ok {
			r.live(space, &s)
			return nil
		}
		why = loss.TooManySpaces
	}
	r.b.Lose(why, 1, max(s.bytes, 0), fmt.Sprintf("sample[%d]", i))
	return nil
}

// decode reads a sample and leaves its stack in r.stack. whole is false if a reference is missing, or if the
// sample does not have one value per type.
func (r *reader) decode(message wire.Span) (s sample, whole bool, err error) {
	r.ids, r.values, r.stack = r.ids[:0], r.values[:0], r.stack[:0]
	m := wire.Scan(r.profile, message)
	for f, ok := m.Next(); ok; f, ok = m.Next() {
		switch f.Tag {
		case sampleLocation, sampleLocations:
			r.ids = m.Ints(r.ids, f)
		case sampleValue, sampleValues:
			r.values = m.Ints(r.values, f)
		case sampleLabel:
			m.Inside("label", -1, r.label(f.Body, &s))
		}
	}
	if m.Err != nil || len(r.values) != len(r.tables.types) {
		return s, false, m.Err
	}
	s.count, s.bytes = r.values[r.count], r.values[r.bytes]
	if s.nameless {
		return s, false, nil
	}
	for _, id := range r.ids {
		frame, ok := r.tables.frame(r.b, id)
		if !ok {
			return s, false, nil
		}
		r.stack = append(r.stack, frame)
	}
	return s, true, nil
}

const executable = "executable"

// sample holds the values and labels of a sample.
type sample struct {
	count, bytes int64
	kind, device string
	nameless     bool // a label refers to a missing text
}

// label reads a label: the device or the kind.
func (r *reader) label(message wire.Span, s *sample) error {
	var key, text, number int64
	err := wire.Read(r.profile, message, wire.Into{{labelKey, &key}, {labelString, &text}, {labelNumber, &number}})
	t := r.tables
	s.nameless = s.nameless || !t.has(key) || !t.has(text)
	switch t.text(key) {
	case "kind":
		s.kind = t.text(text)
	case "device":
		s.device = t.text(text)
		if text == 0 { // old versions write the device's number, and omit 0
			s.device = fmt.Sprintf("device:%d", number)
		}
	}
	return err
}

// space returns the space of a sample's device. ok is false if there are too many spaces.
func (r *reader) space(s *sample) (ref build.SpaceRef, ok bool) {
	holds := owner{device: s.device}
	switch {
	case s.device == "" && s.kind == executable:
		holds.memory = "executables"
	case s.device == "":
		holds.device = "unknown device"
	}
	ref, ok = r.spaces[holds]
	if ok || len(r.spaces) == build.MaxSpaces {
		return ref, ok
	}
	ref = r.b.Space()
	r.spaces[holds] = ref
	r.b.Describe(ref, lifetime.SpaceInfo{
		Source: r.source, Device: holds.device, Memory: holds.memory, Axis: lifetime.Event, Facts: lifetime.EndState, OnlyOccupied: true,
	})
	return ref, true
}

// live adds the buffers of a sample.
func (r *reader) live(space build.SpaceRef, s *sample) {
	site := lifetime.Site{Stack: r.b.Stack(r.stack)}
	if s.kind != "buffer" {
		site.Region = s.kind
	}
	// A space without events is one instant: [0, 1).
	buf := lifetime.Buffer{Begin: 0, End: 1, Site: r.b.Site(site), Edge: lifetime.BeginUnseen | lifetime.EndOpen}
	if s.count > 1 {
		buf.Edge |= lifetime.SizeInferred
	}
	count, note := s.count, lifetime.NoteID(0)
	if count > maxBuffers-r.buffers {
		note = r.b.Note(fmt.Sprintf("%d allocations", count))
		count = 1
	}
	r.buffers += count
	var like likeness
	if r.named != nil && note == 0 {
		like = r.likeness(s)
	}
	for n := range count {
		buf.Size = s.bytes / count
		if n == 0 {
			buf.Size += s.bytes % count
		}
		buf.Requested = buf.Size
		v := build.Interval{Buffer: buf, Note: note}
		if like.stack != "" {
			r.name(like, &v)
		}
		r.b.Interval(space, v)
	}
}

// Sniff reports whether head may begin a pprof profile: its first field is a sample type (two text numbers),
// followed by another one or by a sample. Other protocol buffers have texts or more numbers there, so if newer fields
// follow the two numbers, the sample must begin with the list of its locations.
func Sniff(head []byte) bool {
	newer := false
	for types := 0; ; types++ {
		num, typ, n := protowire.ConsumeTag(head)
		if tag := protowire.EncodeTag(num, typ); n < 0 || tag != profileSampleType {
			_, m := protowire.ConsumeVarint(head[max(n, 0):])
			return types > 0 && n >= 0 && tag == profileSample && (!newer || m > 0 && n+m < len(head) && head[n+m] == sampleLocations)
		}
		body, m := protowire.ConsumeBytes(head[n:])
		fields := wire.Scan(body, wire.Span{End: len(body)})
		first, _ := fields.Next()
		unit, _ := fields.Next()
		if newer = newer || fields.At < fields.End; m < 0 || first.Tag != valueType || unit.Tag != valueUnit {
			return false
		}
		head = head[n+m:]
	}
}

// Tags of the fields of profile.proto that are read.
const (
	profileSampleType = 1<<3 | wire.Bytes
	profileSample     = 2<<3 | wire.Bytes
	profileLocation   = 4<<3 | wire.Bytes
	profileFunction   = 5<<3 | wire.Bytes
	profileString     = 6<<3 | wire.Bytes
	profileNames      = 1000<<3 | wire.Bytes // of memlane's recorder

	valueType = 1<<3 | wire.Number
	valueUnit = 2<<3 | wire.Number

	sampleLocations = 1<<3 | wire.Bytes
	sampleLocation  = 1<<3 | wire.Number
	sampleValues    = 2<<3 | wire.Bytes
	sampleValue     = 2<<3 | wire.Number
	sampleLabel     = 3<<3 | wire.Bytes

	labelKey    = 1<<3 | wire.Number
	labelString = 2<<3 | wire.Number
	labelNumber = 3<<3 | wire.Number

	locationID   = 1<<3 | wire.Number
	locationLine = 4<<3 | wire.Bytes

	lineFunction = 1<<3 | wire.Number
	lineNumber   = 2<<3 | wire.Number

	functionID   = 1<<3 | wire.Number
	functionName = 2<<3 | wire.Number
	functionFile = 4<<3 | wire.Number
)
