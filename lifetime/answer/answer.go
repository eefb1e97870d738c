// Package answer has the results of all commands as plain values: contents of captures, findings, peaks, differences
// between two captures. --json writes them; the text output, reports, the web page and the server render them.
//
// It lies between the model and the rules on one side and the renderers on the other.
//
//  1. An answer is computed from a [lifetime.Capture], or from a [outline.Outline] if the peak and the end are enough.
//  2. Fields with a JSON name are the schema "memlane/1": names never change, sizes are integers in bytes, times are integers
//     in the unit of their memory ID, and unknown values are null.
//  3. Fields without a JSON name are what renderers need beside it. Sentences are made by the renderers (package render/text).
package answer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/purpose"
)

const schema = "memlane/1"

// howKnown returns how in JSON: that of a statement that was recorded, or that follows from what was.
func howKnown(recorded, proved bool) string {
	switch {
	case recorded:
		return purpose.Recorded.String()
	case proved:
		return purpose.Derived.String()
	}
	return purpose.Inferred.String()
}

// howOf returns how a name is known; "" if there is none.
func howOf(name string, how purpose.How) string {
	if name == "" || name == purpose.UnknownCategory.String() {
		return ""
	}
	return how.String()
}

// Site is a call site or operation that allocated memory.
type Site struct {
	Name     string  `json:"name"`     // what people call it: "step (train.py:12)", "MmBackward0 (backward) of model.py:31"
	Function string  `json:"function"` // innermost function of the program's own code, else the node of the backward pass, else the operation
	File     string  `json:"file"`     // file of the function; of a backward pass, that of the forward pass that made the node
	Line     int     `json:"line"`     // line in the file; 0 if unknown
	Inferred bool    `json:"inferred"` // the name was not recorded: it follows from the order of events or from the thread
	Op       string  `json:"op"`       // operation or instruction
	Stack    []Frame `json:"stack"`    // call stack, innermost first
	Source   []Frame `json:"source"`   // source stack of an instruction of a compiled program, or of the forward pass of a node; innermost first
}

// Frame is one level of a call stack.
type Frame struct {
	Function string `json:"function"` // function
	File     string `json:"file"`     // file
	Line     int    `json:"line"`     // line; 0 if unknown

	Kind frame.Kind `json:"-"`
}

// String returns "function (file.py:12)", with the base name of the file.
func (f Frame) String() string {
	return (&frame.Frame{Function: f.Function, File: f.File, Line: f.Line, Kind: f.Kind}).String()
}

// Fold returns the frames of a stack that people read, and the number of the others; see frame.Fold.
func Fold(stack []Frame) (shown []Frame, hidden int) {
	return frame.Fold(stack, func(f Frame) frame.Kind { return f.Kind })
}

func siteOf(t *lifetime.Tables, s *lifetime.SpaceInfo, id lifetime.SiteID) Site {
	site := &t.Sites[id]
	out := Site{Name: siteName(t, s, id), Op: site.Op, Stack: framesOf(t, site.Stack), Source: framesOf(t, site.Source)}
	if site.Stack == 0 && site.Instr == "" && site.Source != 0 { // buffers of one stack: selection.ByStack
		out.Stack, out.Source = out.Source, out.Stack
		inner := out.Stack[max(0, slices.IndexFunc(out.Stack, func(f Frame) bool { return f.Kind == frame.User }))]
		out.Function, out.File, out.Line, out.Op = inner.Function, inner.File, inner.Line, ""
		return out
	}
	p := t.PlaceOf(id)
	out.Inferred = p.Inferred
	f := p.Frame
	if f == (frame.Frame{}) {
		f, _ = t.FrameOf(id)
	}
	out.Function, out.File, out.Line = cmp.Or(f.Function, p.Op, site.Op), f.File, f.Line
	if p.Node != "" || p.Unseen {
		out.Function, _ = p.Parts()
	}
	return out
}

func framesOf(t *lifetime.Tables, stack lifetime.StackID) []Frame {
	ids, cut := t.Innermost(nil, stack)
	all := make([]Frame, 0, len(ids)+1)
	for _, id := range ids {
		f := &t.Frames[id]
		all = append(all, Frame{f.Function, f.File, f.Line, f.Kind})
	}
	if cut {
		all = append(all, Frame{Function: frame.OuterCalls, Kind: frame.Scope})
	}
	return all
}

func static(s *lifetime.SpaceInfo) bool { return s.Axis == lifetime.ProgramOrder }

// known returns nil for 0, the value of an unknown figure.
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

// siteName returns the name of a site: its place, such as "function (file.py:12)", else its operation and tensor, else
// its instruction, else a note such as "(no stack recorded)".
func siteName(t *lifetime.Tables, s *lifetime.SpaceInfo, id lifetime.SiteID) string {
	site := &t.Sites[id]
	if f, ok := t.FrameOf(id); ok && f.Kind == frame.Scope {
		if static(s) {
			return f.String()
		}
		return f.String() + within(t, site.Stack, f)
	}
	switch p := t.PlaceOf(id); {
	case p.Frame != frame.Frame{}, p.Node != "", p.Unseen:
		return p.String()
	case site.Stack != 0 && p.Op != "":
		return p.Op
	case site.Op != "":
		return strings.TrimSpace(site.Op + " " + tensorName(site))
	case site.Instr != "":
		return site.Instr
	case s.Facts&lifetime.Stacks != 0 || t.Sources[s.Source].Traits.Stacks:
		return "(no stack recorded)"
	}
	return strings.TrimSpace(tensorName(site) + " (no operation recorded)")
}

// within returns " in " and the name of the operator or region around a scope: "aten::empty" alone is useless, because
// everything calls it. Functions of the runtime between them say nothing.
func within(t *lifetime.Tables, stack lifetime.StackID, scope frame.Frame) string {
	inside := false
	for f := range t.FramesOf(stack) {
		if inside && f.Kind != frame.Native && *f != scope {
			return " in " + f.String()
		}
		inside = inside || *f == scope
	}
	return ""
}

// tensorName returns the recorded description of a tensor: "float [64,256], output".
func tensorName(s *lifetime.Site) string {
	name := strings.TrimSpace(s.DType + " " + s.Shape)
	if s.Region != "" && name != "" {
		return name + ", " + s.Region
	}
	return name + s.Region
}

// Instruction is the instruction of a compiled program whose result is in a buffer.
type Instruction struct {
	Name  string // "fusion.3"
	Op    string // "jit(step)/mlp/dot_general"
	Place string // "train.py:42"

	Sharding compiled.Sharding
}

func instructionOf(t *lifetime.Tables, site lifetime.SiteID) Instruction {
	s := &t.Sites[site]
	return Instruction{s.Instr, s.Op, t.SourcePlace(site), s.Sharding}
}
