package category

import (
	"path"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/internal/interned"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// facts is what a call stack says about an allocation or a free: see program.Facts.
type facts struct {
	python, engine, rooted bool
	within                 program.Part
	flags                  program.Flag
	converts               lifetime.FrameID
	thread                 program.ThreadID
	path, rootCall         program.PathID
	call                   program.CallID
	callee                 lifetime.FrameID
	module                 textID // the innermost module that a trace names
}

// reader reads call stacks, and each site once.
type reader struct {
	*program.Stacks
	t      *lifetime.Tables
	marked []*lifetime.Space                   // those with marks, which may be about others
	places []place                             // by SiteID
	texts  texts                               // of verdicts
	byName map[program.PathID]purpose.Category // see named

	byFunction map[*frame.Frame]purpose.Category // see categoryOf

	opScopes       []opScope // by SiteID; nil = not read
	differentiates bool      // an operation is part of a pass with derivatives
}

func newReader(t *lifetime.Tables) *reader {
	r := &reader{Stacks: program.NewStacks(t), t: t, places: make([]place, len(t.Sites)),
		byName: map[program.PathID]purpose.Category{}, byFunction: map[*frame.Frame]purpose.Category{}}
	r.texts.ids = interned.New[string, textID](&r.texts.all)
	return r
}

// noFacts is what no stack says.
var noFacts facts

// of returns what a stack says.
func (r *reader) of(id lifetime.StackID) (facts, purpose.Phase) {
	f := r.Of(id)
	out := facts{f.Python, f.Engine, f.Rooted, f.Within, f.Flags, f.Converts, f.Thread, f.Path, f.RootCall, f.Call, f.Callee, 0}
	if f.Module != 0 {
		name, _ := program.ModuleName(r.t.Frames[f.Module].Function)
		out.module = r.texts.ids.ID(path.Base(name))
	}
	return out, r.PhaseOf(f)
}

// inEngine reports whether a stack is of a thread of the autograd engine.
func (r *reader) inEngine(f *facts) bool { return f.engine || f.python && !f.rooted && r.HasEngine() }

// isUsers reports whether a function of the program is innermost in a path, such as a closure that an optimizer calls.
func (r *reader) isUsers(path program.PathID) bool {
	_, f := r.Callers(path)
	return f.Kind == frame.User
}
