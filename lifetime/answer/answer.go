// Package answer has what every command answers, as plain values: what is in a
// capture, what leaks, what makes up a peak, what changed between two captures. They
// are what --json writes, and what texts, reports, the page and the server are made
// from.
//
// Its place in the pipeline: after the model and the rules, before renderers.
//
//  1. An answer is made of a [lifetime.Capture], or of a [lifetime.Outline] where the
//     peak and the end suffice.
//  2. Its fields with a JSON name are the schema "memlane/1": names stay, sizes are
//     integers in bytes, times are integers in the unit of their memory ID, and null is
//     what is not known.
//  3. Fields without a JSON name are for people: names and texts that renderers lay out.
package answer

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Schema names the version of the JSON.
const Schema = "memlane/1"

// Site is who allocated.
type Site struct {
	Function string  `json:"function"` // innermost function of the program's own code, else the operation
	File     string  `json:"file"`     // its file
	Line     int     `json:"line"`     // its line; 0 where unknown
	Op       string  `json:"op"`       // operation or instruction
	Stack    []Frame `json:"stack"`    // call stack, innermost first
	Source   []Frame `json:"source"`   // calls that an instruction of a compiled program comes from
}

// Frame is one level of a call stack.
type Frame struct {
	Function string `json:"function"` // function
	File     string `json:"file"`     // file
	Line     int    `json:"line"`     // line; 0 where unknown

	Kind lifetime.FrameKind `json:"-"`
}

// String names a frame: "function (file.py:12)", with the base name of the file.
func (f Frame) String() string {
	return frameName(lifetime.Frame{Function: f.Function, File: f.File, Line: f.Line})
}

// OfOperation reports whether a frame is an operator or a named range of a trace, and
// no function. "backward: MulBackward0" is on the stack of the forward pass.
func (f Frame) OfOperation() bool { return ofOperation(f.Kind, f.Function) }

func siteOf(t *lifetime.Tables, id lifetime.SiteID) Site {
	s := &t.Sites[id]
	out := Site{Op: s.Op, Function: s.Op, Stack: framesOf(t, s.Stack), Source: framesOf(t, s.Source)}
	if f, ok := t.UserFrame(id); ok {
		out.Function, out.File, out.Line = f.Function, f.File, f.Line
	}
	return out
}

func framesOf(t *lifetime.Tables, stack lifetime.StackID) []Frame {
	all := []Frame{}
	for f := range t.FramesOf(stack) {
		all = append(all, Frame{f.Function, f.File, f.Line, f.Kind})
	}
	return all
}

// static reports whether a space is one of a compiled program.
func static(s *lifetime.SpaceInfo) bool { return s.Axis == lifetime.ProgramOrder }

// known returns nil for a figure that is 0 where it is not known.
func known(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// when returns an instant of a space for people.
func when(s *lifetime.SpaceInfo, t int64) string {
	switch {
	case static(s) && t < 0:
		return "the beginning" // before the first instruction
	case static(s):
		return fmt.Sprintf("instruction %s of %s", units.Count(t), units.Count(s.End))
	case s.Facts&lifetime.History == 0 && t == s.AtEnd():
		return "the end" // the only instant that is known
	case s.Axis == lifetime.Time:
		return "+" + units.Span(t-s.Begin, s.Axis.Unit())
	}
	return fmt.Sprintf("%s %s", s.Axis.Unit(), units.Count(t))
}
