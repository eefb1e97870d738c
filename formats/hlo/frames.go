package hlo

import (
	"math"

	"github.com/memlane/memlane/lifetime"
)

// frameIndex is a StackFrameIndexProto: the Python calls that instructions come
// from. All ids count from 1.
type frameIndex struct {
	files, functions []span
	locations        []location
	frames           []frame
}

type location struct{ file, function, line, column int64 }

type frame struct{ location, parent int64 }

// maxStackDepth bounds the calls of one stack: those of a damaged file may go
// in circles.
const maxStackDepth = 256

func (p *program) readFrames(at span) error {
	x := &p.frames
	m := scan(p.proto, at)
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch f.tag {
		case framesFileNames:
			x.files = append(x.files, f.body)
		case framesFunctionNames:
			x.functions = append(x.functions, f.body)
		case framesLocations:
			var l location
			err := p.numbers(f.body, map[uint64]*int64{
				locationFile: &l.file, locationFunction: &l.function, locationLine: &l.line, locationColumn: &l.column})
			m.inside("file_locations", len(x.locations), err)
			x.locations = append(x.locations, l)
		case framesFrames:
			var fr frame
			err := p.numbers(f.body, map[uint64]*int64{frameLocation: &fr.location, frameParent: &fr.parent})
			m.inside("stack_frames", len(x.frames), err)
			x.frames = append(x.frames, fr)
		}
	}
	return m.err
}

// numbers reads a message of plain numbers.
func (p *program) numbers(at span, into map[uint64]*int64) error {
	m := scan(p.proto, at)
	for f, ok := m.next(); ok; f, ok = m.next() {
		if n := into[f.tag]; n != nil {
			*n = int64(f.value)
		}
	}
	return m.err
}

// nth returns element number id of a list that counts from 1, zero if there is
// none.
func nth[T any](list []T, id int64) (v T) {
	if id > 0 && id <= int64(len(list)) {
		v = list[id-1]
	}
	return v
}

// source is where an instruction comes from.
type source struct {
	stack lifetime.StackID // empty in old files
	leaf  lifetime.Frame   // file, line and column of the innermost call
}

// source returns the calls of a stack frame, innermost first.
func (s *sites) source(id int64) source {
	if found, ok := s.sources[id]; ok {
		return found
	}
	x := &s.p.frames
	var found source
	var ids []lifetime.FrameID
	for next := id; next > 0 && next <= int64(len(x.frames)) && len(ids) < maxStackDepth; {
		fr := x.frames[next-1]
		next = fr.parent
		l := nth(x.locations, fr.location)
		f := lifetime.Frame{
			Function: s.p.text(nth(x.functions, l.function)), File: s.p.text(nth(x.files, l.file)), Line: lineNumber(l.line), Column: lineNumber(l.column),
		}
		f.Kind = lifetime.KindOfFrame(f.Function, f.File)
		if len(ids) == 0 {
			found.leaf = f
		}
		ids = append(ids, s.b.Frame(f))
	}
	found.stack = s.b.Stack(ids)
	s.sources[id] = found
	return found
}

// lineNumber takes a number of the file for that of a line or column; 0 = not
// known.
func lineNumber(n int64) int { return int(min(max(n, 0), math.MaxInt32)) }
