package category

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// modules finds the module of each buffer: the one that the metadata of the allocation names, or else the innermost one
// whose call encloses the allocation, by annotations or by the stack.
func (a *analysis) modules() {
	noted := map[lifetime.NoteID]textID{}
	marks := rangesOf(a.marks(isModuleMark), a.s.End)
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
		if n := len(open); n > 0 && open[n-1].Text != "" && (a.out[i].Phase == purpose.Forward || a.out[i].Part == purpose.Recomputation) {
			a.out[i].Module = a.r.texts.ids.ID(open[n-1].Text)
			continue
		}
		a.out[i].Module = a.r.place(b.Site).stack.module
	}
}

// ofFSDP begins the names of what PyTorch's FSDP does. (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py)
const ofFSDP = "FSDP::"

func isModuleMark(m *lifetime.Mark) bool {
	_, isModule := program.ModuleName(m.Text)
	return m.Kind == lifetime.Annotation && (isModule || strings.HasPrefix(m.Text, ofFSDP))
}

// rangesOf returns the calls of modules that marks tell, with the names of the modules, in order: also from before the forward pass of a module that FSDP shards
// to after it. Some versions name that module only where they gather its parameters; "" = not known.
func rangesOf(marks []lifetime.Mark, end int64) (all []lifetime.Mark) {
	var open []int // of FSDP, in all
	for _, m := range marks {
		if !isModuleMark(&m) {
			continue
		}
		what, name, _ := strings.Cut(strings.TrimSuffix(m.Text, ")"), " (")
		n := len(open)
		if module, isModule := program.ModuleName(m.Text); isModule {
			all = append(all, lifetime.Mark{Begin: m.Begin, End: m.End, Text: module})
		} else if what == ofFSDP+"pre_forward" {
			open, all = append(open, len(all)), append(all, lifetime.Mark{Begin: m.Begin, End: end, Text: name})
		} else if n > 0 && what == ofFSDP+"all_gather_copy_out" && all[open[n-1]].Text == "" {
			all[open[n-1]].Text = name
		} else if n > 0 && what == ofFSDP+"post_forward" {
			all[open[n-1]].End, open = m.Begin, open[:n-1]
		}
	}
	return all
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
