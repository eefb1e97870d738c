package category

import (
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/purpose"
)

// nested are the functions that Python makes of expressions: they belong to the function around them.
var nested = map[string]bool{"<listcomp>": true, "<dictcomp>": true, "<setcomp>": true, "<genexpr>": true, "<lambda>": true}

// inConstructor reports whether the innermost function of the program on a path is a constructor. An object allocates there what it
// keeps: a replay store, a cache. Data comes from a function that loads it.
func (r *reader) inConstructor(path pathID) bool {
	callers, f := r.Callers(path)
	for f.Kind == frame.Framework || nested[f.Function] {
		callers, f = r.Callers(callers)
	}
	return f.Function == "__init__" // path 0 has the empty frame
}

// inOneStep reports whether at most one step of an optimizer ran while the buffer was alive: several passes may belong to a step.
func (v *view) inOneStep() bool {
	return !v.open && v.optimizes() && v.follow(purpose.OptimizerPhase) <= 1
}

// keptBeside reports whether the program made a buffer outside of its modules, and keeps it.
func (v *view) keptBeside() bool {
	return v.sizes != nil && !v.unseen && v.phase == purpose.OtherPhase && v.long && v.f.within == noPart
}
