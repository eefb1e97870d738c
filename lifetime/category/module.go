package category

import (
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// modules finds the module of each buffer: the innermost one whose call encloses the allocation, by annotations or by the
// stack.
func (a *analysis) modules() {
	var marks []lifetime.Mark
	for _, m := range a.s.Marks {
		if _, ok := program.ModuleName(m.Text); ok && m.Kind == lifetime.Annotation {
			marks = append(marks, m)
		}
	}
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
		if n := len(open); n > 0 && (a.out[i].Phase == purpose.Forward || a.out[i].Part == purpose.Recomputation) {
			name, _ := program.ModuleName(open[n-1].Text)
			a.out[i].Module = a.r.texts.ids.ID(name)
			continue
		}
		a.out[i].Module = a.r.place(b.Site).stack.module
	}
}
