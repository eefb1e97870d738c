package answer

import (
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/frame"
)

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
