package jaxprof

import (
	"fmt"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// tables are the parts of a profile that its samples name by number.
type tables struct {
	types     [][2]uint64 // texts: type and unit of each value of a sample
	texts     []string
	functions map[uint64]function
	locations map[uint64]location
	frames    map[uint64]lifetime.FrameID // of locations that a sample has used
}

type function struct{ name, file uint64 } // texts

type location struct {
	function uint64
	line     int64
}

// tablesOf reads everything but the samples.
func tablesOf(profile []byte) (*tables, error) {
	t := &tables{functions: map[uint64]function{}, locations: map[uint64]location{}, frames: map[uint64]lifetime.FrameID{}}
	err := fields(profile, func(f field) error {
		if !f.bytes {
			return nil
		}
		switch f.num {
		case profileSampleType:
			return t.sampleType(f.body)
		case profileLocation:
			return t.location(f.body)
		case profileFunction:
			return t.function(f.body)
		case profileString:
			t.texts = append(t.texts, string(f.body))
		}
		return nil
	})
	return t, err
}

func (t *tables) sampleType(message []byte) error {
	var v [2]uint64
	err := fields(message, func(f field) error {
		if f.num == valueType || f.num == valueUnit {
			v[f.num-valueType] = f.value
		}
		return nil
	})
	t.types = append(t.types, v)
	return within("sample_type", len(t.types)-1, err)
}

// location reads where a call stands. There is a list of lines for functions
// that were inlined, as Python's never are: one counts.
func (t *tables) location(message []byte) error {
	var id uint64
	var l location
	err := fields(message, func(f field) error {
		switch {
		case f.num == locationID:
			id = f.value
		case f.num == locationLine && f.bytes:
			return fields(f.body, func(f field) error {
				switch f.num {
				case lineFunction:
					l.function = f.value
				case lineNumber:
					l.line = int64(f.value)
				}
				return nil
			})
		}
		return nil
	})
	t.locations[id] = l
	return within("location", len(t.locations)-1, err)
}

func (t *tables) function(message []byte) error {
	var id uint64
	var fn function
	err := fields(message, func(f field) error {
		switch f.num {
		case functionID:
			id = f.value
		case functionName:
			fn.name = f.value
		case functionFile:
			fn.file = f.value
		}
		return nil
	})
	t.functions[id] = fn
	return within("function", len(t.functions)-1, err)
}

// has reports whether there is a text of a number. Where there is none the file
// was cut between two texts.
func (t *tables) has(i uint64) bool { return i < uint64(len(t.texts)) }

// text returns a text by its number, "" where there is none.
func (t *tables) text(i uint64) string {
	if !t.has(i) {
		return ""
	}
	return t.texts[i]
}

// value returns which value of a sample is of a type and unit, -1 for none.
func (t *tables) value(typ, unit string) int {
	for i, v := range t.types {
		if t.text(v[0]) == typ && t.text(v[1]) == unit {
			return i
		}
	}
	return -1
}

// frame returns the frame of a location. ok is false where there is none.
func (t *tables) frame(b *build.Builder, id uint64) (frame lifetime.FrameID, ok bool) {
	if frame, ok = t.frames[id]; ok {
		return frame, true
	}
	l, ok := t.locations[id]
	fn, known := t.functions[l.function]
	if !ok || !known || !t.has(fn.name) || !t.has(fn.file) {
		return 0, false
	}
	f := lifetime.Frame{Function: t.text(fn.name), File: t.text(fn.file), Line: int(min(max(l.line, 0), maxLine))}
	f.Kind = lifetime.KindOfFrame(f.Function, f.File)
	frame = b.Frame(f)
	t.frames[id] = frame
	return frame, true
}

// maxLine bounds numbers of lines to what every output can write.
const maxLine = 1<<31 - 1

// within says in which message of a list an error is.
func within(name string, i int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s[%d]: %w", name, i, err)
}
