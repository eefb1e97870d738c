package jaxprof

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// maxBytes bounds a file, which is held in memory as a whole: the names that its
// beginning needs stand at its end.
const maxBytes = 1 << 30

// maxBuffers bounds the buffers of a file: a sample of a few bytes can name any
// number of them. A sample beyond it is one buffer, with a note of the number.
const maxBuffers = 1 << 18

// Read reads one device memory profile into b.
func Read(file string, in io.Reader, b *build.Builder) error {
	profile, err := io.ReadAll(io.LimitReader(in, maxBytes+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("byte %d: the file ends early, and the names of functions stand at its end; save the profile again", len(profile))
	case err != nil:
		return err
	case len(profile) > maxBytes:
		return fmt.Errorf("larger than %d bytes, the most that is read of a memory profile", maxBytes)
	}
	t, err := tablesOf(profile)
	if err != nil {
		return fmt.Errorf("no whole pprof profile: %w", err)
	}
	r := &reader{b: b, tables: t, count: t.value("allocations", "count"), bytes: t.value("space", "bytes"), spaces: map[owner]build.SpaceRef{}}
	if r.count < 0 || r.bytes < 0 {
		return fmt.Errorf("a pprof profile of %s; want allocations (count) and space (bytes), as jax.profiler.save_device_memory_profile writes", t.names())
	}
	r.source = b.Source(lifetime.Source{File: file, Format: "jaxprof", Producer: "JAX"})
	i := 0
	return fields(profile, func(f field) error {
		if f.num != profileSample || !f.bytes {
			return nil
		}
		err := within("sample", i, r.sample(f.body, i))
		i++
		return err
	})
}

// names lists the sample types of a profile that is not JAX's.
func (t *tables) names() string {
	var names []string
	for _, v := range t.types[:min(len(t.types), 5)] {
		names = append(names, fmt.Sprintf("%.24s", fmt.Sprintf("%+q", t.text(v[0])))) // what is odd takes four letters
	}
	if names == nil {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// reader hands the samples of a profile to a Builder.
type reader struct {
	b            *build.Builder
	tables       *tables
	source       int
	count, bytes int // values of a sample: which ones are the allocations and their bytes

	spaces      map[owner]build.SpaceRef
	buffers     int64              // so far
	ids, values []uint64           // scratch
	stack       []lifetime.FrameID // scratch
}

// owner is what a space is made for.
type owner struct{ device, memory string }

// sample hands the buffers of a sample on. What cannot be used is a loss.
func (r *reader) sample(message []byte, i int) error {
	s, whole, err := r.decode(message)
	why := loss.IncompleteRecord
	switch {
	case err != nil:
		return err
	case whole && s.bytes == 0 && (s.count == 0 || s.kind == executable):
		return nil // nothing, or nothing that is known
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

// decode reads a sample; its stack is r.stack. It is not whole where it names
// what there is not, or does not have a value of each type.
func (r *reader) decode(message []byte) (s sample, whole bool, err error) {
	r.ids, r.values, r.stack = r.ids[:0], r.values[:0], r.stack[:0]
	err = fields(message, func(f field) (err error) {
		switch {
		case f.num == sampleLocation:
			r.ids, err = f.numbers(r.ids)
		case f.num == sampleValue:
			r.values, err = f.numbers(r.values)
		case f.num == sampleLabel && f.bytes:
			err = s.label(f.body, r.tables)
		}
		return err
	})
	if err != nil || len(r.values) != len(r.tables.types) {
		return s, false, err
	}
	s.count, s.bytes = int64(r.values[r.count]), int64(r.values[r.bytes])
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

// executable is the kind of compiled programs.
const executable = "executable"

// sample is what a sample says besides its stack.
type sample struct {
	count, bytes int64
	kind, device string
	nameless     bool // a label names a text that there is not
}

// label takes a label: the device and the kind.
func (s *sample) label(message []byte, t *tables) error {
	var key, text, number uint64
	err := fields(message, func(f field) error {
		switch f.num {
		case labelKey:
			key = f.value
		case labelString:
			text = f.value
		case labelNumber:
			number = f.value
		}
		return nil
	})
	s.nameless = s.nameless || !t.has(key) || !t.has(text)
	switch t.text(key) {
	case "kind":
		s.kind = t.text(text)
	case "device":
		s.device = t.text(text)
		if text == 0 { // old versions give the device's number, of which 0 is not written
			s.device = fmt.Sprintf("device:%d", int64(number))
		}
	}
	return err
}

// space returns the space of a sample, that of its device. ok is false when
// there are too many.
func (r *reader) space(s *sample) (ref build.SpaceRef, ok bool) {
	of := owner{device: s.device}
	switch {
	case s.device == "" && s.kind == executable:
		of.memory = "executables"
	case s.device == "":
		of.device = "unknown device"
	}
	ref, ok = r.spaces[of]
	if ok || len(r.spaces) == build.MaxSpaces {
		return ref, ok
	}
	ref = r.b.Space()
	r.spaces[of] = ref
	r.b.Describe(ref, lifetime.SpaceInfo{
		Source: r.source, Device: of.device, Memory: of.memory, Axis: lifetime.Event, Facts: lifetime.EndState,
	})
	return ref, true
}

// live hands on the buffers of a sample that can be used.
func (r *reader) live(space build.SpaceRef, s *sample) {
	site := lifetime.Site{Stack: r.b.Stack(r.stack)}
	if s.kind != "buffer" {
		site.Region = s.kind
	}
	// Within the instant that a space without events is.
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
	for n := range count {
		buf.Size = s.bytes / count
		if n == 0 {
			buf.Size += s.bytes % count
		}
		buf.Requested = buf.Size
		r.b.Interval(space, build.Interval{Buffer: buf, Note: note})
	}
}
