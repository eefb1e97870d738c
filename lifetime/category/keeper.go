package category

import "github.com/memlane/memlane/lifetime"

// nested are the functions that Python makes of expressions: they belong to the function around them.
var nested = map[string]bool{"<listcomp>": true, "<dictcomp>": true, "<setcomp>": true, "<genexpr>": true, "<lambda>": true}

// inConstructor reports whether the innermost function of the program on a path is a constructor. An object allocates there what it
// keeps: a replay store, a cache. Data comes from a function that loads it.
func (r *reader) inConstructor(path pathID) bool {
	callers, frame := r.Callers(path)
	for frame.Kind == lifetime.Framework || nested[frame.Function] {
		callers, frame = r.Callers(callers)
	}
	return frame.Function == "__init__" // path 0 has the empty frame
}

// inOneStep reports whether at most one step of an optimizer ran while the buffer was alive: several passes may belong to a step.
func (v *view) inOneStep() bool {
	return !v.open && v.optimizes() && v.follow(lifetime.OptimizerPhase) <= 1
}

// keptBeside reports whether the program made a buffer outside of its modules, and keeps it.
func (v *view) keptBeside() bool {
	return v.sizes != nil && !v.unseen && v.phase == lifetime.OtherPhase && v.long && v.f.within == noPart
}
