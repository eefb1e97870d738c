package category

import (
	"regexp"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// nested are the functions that Python makes of expressions: they belong to the function around them.
var nested = map[string]bool{"<listcomp>": true, "<dictcomp>": true, "<setcomp>": true, "<genexpr>": true, "<lambda>": true}

func (r *reader) outside(path program.PathID) program.PathID {
	for {
		callers, f := r.Callers(path)
		if !nested[f.Function] {
			return path // path 0 has the empty frame
		}
		path = callers
	}
}

// inConstructor reports whether the innermost function of the program on a path is a constructor. An object allocates
// there what it keeps: a replay store, a cache. Data comes from a function that loads it.
func (r *reader) inConstructor(path program.PathID) bool {
	callers, f := r.Callers(path)
	for f.Kind == frame.Framework || nested[f.Function] {
		callers, f = r.Callers(callers)
	}
	return f.Function == "__init__" // path 0 has the empty frame
}

type ofName struct {
	category purpose.Category
	name     *regexp.Regexp // of "FILE FUNCTION"
}

// names tell by a function or its file what it makes: _allocate_kv_cache, cache_utils.py, create_weights.
var names = []ofName{
	{purpose.Cache, regexp.MustCompile(`(?i)kv_?cache|(^|[/_])cache(s|_utils|_engine|_manager)?\.py `)},
	{purpose.ModelParameter, regexp.MustCompile(`(?i) _?(init|create|make|alloc|allocate)_weights?(_\w+)?$`)},
	// Megatron-LM makes a buffer of all parameters, if they are sharded, and then one of all gradients.
	{purpose.Gradient, regexp.MustCompile(`megatron/core/distributed/param_and_grad_buffer\.py __init__$`)},
}

// named returns the category that one of the innermost functions on a path tells by its name or file.
func (r *reader) named(path program.PathID) purpose.Category {
	if c, ok := r.byName[path]; ok {
		return c
	}
	found := purpose.UnknownCategory
	for at, n := path, 0; n < 3 && found == purpose.UnknownCategory; n++ {
		callers, f := r.Callers(r.outside(at))
		found = r.categoryOf(f)
		if found == purpose.Gradient && r.hasLineAfter(f) {
			found = purpose.ModelParameter
		}
		at = callers
	}
	r.byName[path] = found
	return found
}

// categoryOf returns the category that a function tells by its name or file. Many paths share a function.
func (r *reader) categoryOf(f *frame.Frame) purpose.Category {
	c, known := r.byFunction[f]
	if !known {
		i := slices.IndexFunc(names, func(n ofName) bool { return n.name.MatchString(f.File + " " + f.Function) })
		if i >= 0 {
			c = names[i].category
		}
		r.byFunction[f] = c
	}
	return c
}

// hasLineAfter reports whether any stack has a later line of a function.
func (r *reader) hasLineAfter(f *frame.Frame) bool {
	return slices.ContainsFunc(r.t.Frames, func(l frame.Frame) bool {
		return l.File == f.File && l.Function == f.Function && l.Line > f.Line
	})
}

// successors finds the buffers that take the place of others, and which these are. A line that makes a tensor and then drops an older one of the same size
// has put it in its place: p.data = p.data - update. Of several, the latest one counts.
func (a *analysis) successors() {
	a.previous, a.replaced = make([]int32, len(a.s.Buffers)), make([]bool, len(a.s.Buffers))
	if a.s.FreeSites == nil {
		return
	}
	type place struct {
		line program.PathID
		size int64
	}
	made, below := map[place]int32{}, make([]int32, len(a.s.Buffers)) // 1 + the latest that took no other's place, and the one before it
	for c := range a.s.Changes() {
		b := &a.s.Buffers[c.Buffer]
		f, freed := a.at(b), a.freed(c.Buffer)
		lives := b.Edge&lifetime.EndOpen != 0 || a.flags[c.Buffer]&(outlives|heldByGraph) == outlives
		inStep := a.out[c.Buffer].Phase == purpose.OptimizerPhase // which may put another one in its place
		at := place{a.r.outside(f.path), b.Requested}
		switch {
		case c.Begin && (lives || inStep) && f.python:
			below[c.Buffer], made[at] = made[at], int32(c.Buffer)+1
		case !c.Begin && freed != nil && freed.python && (lives || inStep):
			line := place{a.r.outside(freed.path), b.Requested}
			latest := made[line]
			if latest == 0 || !lives && line == at { // a temporary of the line
				continue
			}
			for latest > 0 && a.s.Buffers[latest-1].End <= c.T {
				latest = below[latest-1]
			}
			if latest > 0 && a.s.Buffers[latest-1].Begin > b.Begin {
				a.previous[latest-1], a.replaced[c.Buffer] = int32(c.Buffer)+1, true
				latest = below[latest-1]
			}
			made[line] = latest
		}
	}
}

type view struct {
	*analysis
	i     int
	b     *lifetime.Buffer
	f     *facts // of the allocation
	freed *facts // of the free; nil = not recorded
	phase purpose.Phase
	sure  bool
	next  int // first span after the allocation

	unseen, open, byGraph bool
	outlives              bool // it was alive when another phase began
	long                  bool // it was alive in several steps, or from the set-up to the end

	asked       bool // interrupted is known
	interrupted *failure
}

// flags of buffers
const (
	heldByGraph = 1 << iota // the autograd graph was the last to hold it
	outlives                // it was alive when another phase began
	isLong                  // it was alive in several steps, or from the set-up to the end
)

// survey finds what rules ask of every buffer, after the phases.
func (a *analysis) survey() {
	a.count()
	a.failed = a.failures()
	a.next, a.flags = make([]int32, len(a.s.Buffers)), make([]uint8, len(a.s.Buffers))
	if !a.isTorch {
		return // no general rule asks
	}
	next := 0
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		for next < len(a.spans) && a.spans[next].begin <= b.Begin {
			next++
		}
		a.next[i] = int32(next)
		if a.byGraph(i) {
			a.flags[i] |= heldByGraph
		}
		if next < len(a.spans) && (a.spans[next].begin < b.End || b.Edge&lifetime.EndOpen != 0) {
			a.flags[i] |= outlives
		}
		if a.isLong(b, next) {
			a.flags[i] |= isLong
		}
		f := a.at(b)
		lives := a.flags[i] != 0 || a.out[i].Phase == purpose.OtherPhase || !a.sure[i]
		if b.Edge&lifetime.BeginUnseen != 0 || (f.python || !a.hasLines()) && f.within == program.NoPart && (lives || f.engine || !f.rooted) {
			a.candidates = append(a.candidates, i)
		}
	}
	a.successors()
}

// isLong reports whether a buffer was alive in several steps. next is the span after its allocation.
func (a *analysis) isLong(b *lifetime.Buffer, next int) bool {
	open := b.Edge&lifetime.EndOpen != 0
	switch {
	case b.Edge&lifetime.BeginUnseen != 0:
		return open && (!a.trains || a.whole < a.s.End)
	case !a.trains:
		return a.crosses(next, b.End, purpose.Forward) >= longLived
	}
	n := a.crosses(next, b.End, purpose.Backward)
	// Several backward passes may follow one forward pass.
	passes := min(longLived-1, int(a.before[purpose.Forward][len(a.spans)]))
	return n >= longLived && a.crosses(next, b.End, purpose.Forward) >= passes || open && n > 0 && next == 0 && a.whole < a.s.End
}

// look returns the view of a buffer. It is good until the next call.
func (a *analysis) look(i int) *view {
	v := &a.scratch
	v.analysis = a
	v.set(i)
	return v
}

func (a *analysis) view(i int) view {
	v := view{analysis: a}
	v.set(i)
	return v
}

func (v *view) set(i int) {
	a, b, flags := v.analysis, &v.s.Buffers[i], v.flags[i]
	v.i, v.b, v.f, v.freed, v.phase, v.sure, v.next = i, b, a.at(b), a.freed(i), a.out[i].Phase, a.sure[i], int(a.next[i])
	v.unseen, v.open = b.Edge&lifetime.BeginUnseen != 0, b.Edge&lifetime.EndOpen != 0
	v.asked, v.byGraph, v.outlives, v.long = false, flags&heldByGraph != 0, flags&outlives != 0, flags&isLong != 0
}

// follow counts the spans of a phase that begin after the allocation and before the free.
func (v *view) follow(phase purpose.Phase) int { return v.crosses(v.next, v.b.End, phase) }
