package hlo

import (
	"slices"

	"github.com/memlane/memlane/formats/internal/wire"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// frameIndex is a StackFrameIndexProto: the Python calls behind the instructions. All ids count from 1.
type frameIndex struct {
	files, functions []wire.Span
	locations        []location
	frames           []frameRecord
}

type location struct{ file, function, line, column int64 }

type frameRecord struct{ location, parent int64 }

func (p *program) readFrames(at wire.Span) error {
	x := &p.frames
	var locations, frames []wire.Span
	m := wire.Scanner{Err: wire.Read(p.proto, at, wire.Into{{framesFileNames, &x.files}, {framesFunctionNames, &x.functions},
		{framesLocations, &locations}, {framesFrames, &frames}})}
	m.Each("file_locations", locations, func(_ int, at wire.Span) error {
		x.locations = append(x.locations, location{})
		l := &x.locations[len(x.locations)-1]
		return wire.Read(p.proto, at, wire.Into{{locationFile, &l.file}, {locationFunction, &l.function}, {locationLine, &l.line}, {locationColumn, &l.column}})
	})
	m.Each("stack_frames", frames, func(_ int, at wire.Span) error {
		x.frames = append(x.frames, frameRecord{})
		f := &x.frames[len(x.frames)-1]
		return wire.Read(p.proto, at, wire.Into{{frameLocation, &f.location}, {frameParent, &f.parent}})
	})
	return m.Err
}

// nth returns element id of a list that counts from 1, or the zero value if there is none.
func nth[T any](list []T, id int64) (v T) {
	if id > 0 && id <= int64(len(list)) {
		v = list[id-1]
	}
	return v
}

// source is the place in the Python program that an instruction comes from.
type source struct {
	stack lifetime.StackID // empty in old files
	leaf  frame.Frame      // file, line and column of the innermost call
}

// source returns the calls of a stack frame. Calls that stack frames share are made once, so the cost does not grow
// with the square of their depth.
func (s *sites) source(id int64) source {
	if found, ok := s.sources[id]; ok {
		return found
	}
	var open []int64 // frames without calls yet, innermost first
	var frames []lifetime.FrameID
	caller := lifetime.StackID(0)
	for next := id; next > 0 && next <= int64(len(s.p.frames.frames)); next = s.p.frames.frames[next-1].parent {
		known, ok := s.sources[next]
		if ok { // with an empty stack if it is open: a damaged file, whose frames form a circle
			caller = known.stack
			break
		}
		f := s.frame(next)
		s.sources[next] = source{leaf: f}
		open, frames = append(open, next), append(frames, s.b.Frame(f))
	}
	for i, id := range slices.Backward(open) {
		caller = s.b.Call(frames[i], caller)
		s.sources[id] = source{caller, s.sources[id].leaf}
	}
	return s.sources[id]
}

// frame returns the call of a stack frame.
func (s *sites) frame(id int64) frame.Frame {
	x := &s.p.frames
	l := nth(x.locations, x.frames[id-1].location)
	f := frame.Frame{
		Function: s.p.text(nth(x.functions, l.function)), File: s.p.text(nth(x.files, l.file)), Line: int(l.line), Column: int(l.column),
	}
	f.Kind = frame.KindOf(f.Function, f.File)
	return f
}

// calls returns the calls of the program's own code that a stack frame is in, itself first, as far as the budget goes: it falls by each frame and its texts.
func (s *sites) calls(id int64, budget *int) (all []int64) {
	for frames := s.p.frames.frames; id > 0 && id <= int64(len(frames)) && *budget >= 0; id = frames[id-1].parent {
		f := s.frame(id)
		*budget -= 1 + (len(f.Function)+len(f.File))/bytesOfWord
		if f.Kind == frame.User {
			all = append(all, id)
		}
		if frames[id-1].parent >= id { // a damaged file
			break
		}
	}
	return all
}
