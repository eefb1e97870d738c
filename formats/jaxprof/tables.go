package jaxprof

import (
	"github.com/memlane/memlane/formats/internal/wire"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
)

// tables are the parts of a profile that samples refer to by number.
type tables struct {
	types     [][2]int64 // texts: type and unit of each value of a sample
	texts     []string
	functions map[int64]function
	locations map[int64]location
	frames    map[int64]lifetime.FrameID // of the locations used so far
	recorded  string                     // what memlane's recorder added
}

type function struct{ name, file int64 } // texts

type location struct {
	function, line int64
}

// tablesOf reads the whole profile except its samples.
func tablesOf(profile []byte) (*tables, error) {
	t := &tables{functions: map[int64]function{}, locations: map[int64]location{}, frames: map[int64]lifetime.FrameID{}}
	m := wire.Scan(profile, wire.Span{End: len(profile)})
	for f, ok := m.Next(); ok; f, ok = m.Next() {
		switch f.Tag {
		case profileSampleType:
			var v [2]int64
			err := wire.Read(profile, f.Body, wire.Into{{valueType, &v[0]}, {valueUnit, &v[1]}})
			m.Inside("sample_type", len(t.types), err)
			t.types = append(t.types, v)
		case profileLocation:
			m.Inside("location", len(t.locations), t.location(profile, f.Body))
		case profileFunction:
			var id int64
			var fn function
			err := wire.Read(profile, f.Body, wire.Into{{functionID, &id}, {functionName, &fn.name}, {functionFile, &fn.file}})
			m.Inside("function", len(t.functions), err)
			t.functions[id] = fn
		case profileString:
			t.texts = append(t.texts, string(profile[f.Body.At:f.Body.End]))
		case profileNames:
			t.recorded = string(profile[f.Body.At:f.Body.End])
		}
	}
	return t, m.Err
}

// location reads a call site. Its list of lines is for inlined functions. Python inlines nothing, so the last line
// counts.
func (t *tables) location(profile []byte, message wire.Span) error {
	var id int64
	var l location
	var lines []wire.Span
	m := wire.Scanner{Err: wire.Read(profile, message, wire.Into{{locationID, &id}, {locationLine, &lines}})}
	for _, line := range lines {
		m.Inside("line", -1, wire.Read(profile, line, wire.Into{{lineFunction, &l.function}, {lineNumber, &l.line}}))
	}
	t.locations[id] = l
	return m.Err
}

// has reports whether text number i exists. It is missing if the file was cut between two texts.
func (t *tables) has(i int64) bool { return uint64(i) < uint64(len(t.texts)) }

// text returns a text by its number, or "" if it is missing.
func (t *tables) text(i int64) string {
	if !t.has(i) {
		return ""
	}
	return t.texts[i]
}

// value returns the index of the sample value with a type and unit, or -1.
func (t *tables) value(typ, unit string) int {
	for i, v := range t.types {
		if t.text(v[0]) == typ && t.text(v[1]) == unit {
			return i
		}
	}
	return -1
}

// frame returns the frame of a location. ok is false if the location or one of its references is missing.
func (t *tables) frame(b *build.Builder, id int64) (found lifetime.FrameID, ok bool) {
	if found, ok = t.frames[id]; ok {
		return found, true
	}
	l, ok := t.locations[id]
	fn, known := t.functions[l.function]
	if !ok || !known || !t.has(fn.name) || !t.has(fn.file) {
		return 0, false
	}
	f := frame.Frame{Function: t.text(fn.name), File: t.text(fn.file), Line: int(l.line)}
	f.Kind = frame.KindOf(f.Function, f.File)
	found = b.Frame(f)
	t.frames[id] = found
	return found, true
}
