package category

import (
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// modules finds the module of each buffer: the one that the metadata of the allocation names, or else the innermost one
// whose call encloses the allocation, by annotations or by the stack.
func (a *analysis) modules() {
	noted := map[lifetime.NoteID]textID{}
	var marks []lifetime.Mark
	isModule := func(m *lifetime.Mark) bool {
		_, ok := program.ModuleName(m.Text)
		return ok && m.Kind == lifetime.Annotation
	}
	for _, m := range a.marks(isModule) {
		if isModule(&m) {
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
		if name := a.notedModule(i, noted); name != 0 {
			a.out[i].Module = name
			continue
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

// knowMarks adds a space to those whose marks may be about others.
func (r *reader) knowMarks(s *lifetime.Space) {
	if len(s.Marks) > 0 {
		r.marked = append(r.marked, s)
	}
}

// marks returns the marks of the space if any is asked for, else those of a device of its process: PyTorch writes a mark
// at one device, and it is about all.
func (a *analysis) marks(asked func(m *lifetime.Mark) bool) []lifetime.Mark {
	has := func(s *lifetime.Space) bool {
		return slices.ContainsFunc(s.Marks, func(m lifetime.Mark) bool { return asked(&m) })
	}
	if a.s.Axis == lifetime.Time && !has(a.s) {
		for _, s := range a.r.marked {
			if s.Axis == a.s.Axis && s.Source == a.s.Source && s.Host == a.s.Host && s.Process == a.s.Process && has(s) {
				return s.Marks
			}
		}
	}
	return a.s.Marks
}

// notedModule returns the module that the metadata of an allocation names; 0 if it names none.
func (a *analysis) notedModule(i int, known map[lifetime.NoteID]textID) textID {
	if a.s.BufNotes == nil || a.s.BufNotes[i] == 0 {
		return 0
	}
	note := a.s.BufNotes[i]
	id, ok := known[note]
	if !ok {
		id = a.r.texts.ids.ID(program.NotedModule(a.t.Notes[note]))
		known[note] = id
	}
	return id
}
