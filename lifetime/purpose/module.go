package purpose

import (
	"path"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// moduleCall begins the name of a call of a module: of the profiler's own events, and of annotations that hooks of a program
// make (docs/manual/pytorch.md).
const moduleCall = "nn.Module"

// modules finds the module of each buffer: the innermost one whose call encloses the allocation, by annotations or by the
// stack.
func (a *analysis) modules() {
	var marks []lifetime.Mark
	for _, m := range a.s.Marks {
		if _, ok := moduleName(m.Text); ok && m.Kind == lifetime.Annotation {
			marks = append(marks, m)
		}
	}
	named := map[lifetime.StackID]string{}
	var open []lifetime.Mark // enclosing ones, outermost first
	next := 0
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen != 0 {
			continue
		}
		for ; next < len(marks) && marks[next].Begin <= b.Begin; next++ {
			open = append(open, marks[next])
		}
		open = slices.DeleteFunc(open, func(m lifetime.Mark) bool { return m.End <= b.Begin })
		if n := len(open); n > 0 && a.out[i].Phase == lifetime.Forward {
			a.out[i].Module, _ = moduleName(open[n-1].Text)
			continue
		}
		stack := a.t.Sites[b.Site].Stack
		name, ok := named[stack]
		if !ok {
			name = a.moduleOf(stack)
			named[stack] = name
		}
		a.out[i].Module = name
	}
}

// moduleName returns the module that an annotation names.
func moduleName(text string) (string, bool) {
	name, ok := strings.CutPrefix(text, moduleCall)
	name = strings.TrimSpace(strings.TrimPrefix(name, ":"))
	return name, ok && name != ""
}

// moduleOf returns the innermost module of a stack that a trace names.
func (a *analysis) moduleOf(stack lifetime.StackID) string {
	for f := range a.t.FramesOf(stack) {
		if name, ok := moduleName(f.Function); ok && f.File == "" {
			return path.Base(name)
		}
	}
	return ""
}
