package finding

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/holder"
)

// causeGroup is a group of leaks that probably have one cause: see alike.
type causeGroup struct {
	findings []*Finding
	steps    []int    // in which the retained buffers of the first leak were allocated, sorted
	held     *Held    // what the recorder saw hold them; nil = nothing
	rare     bool     // few steps retain something
	graph    bool     // a graph may hold them
	by       Cause    // a hook or a backward pass allocated them, NoCause: neither
	in       function // the hook
}

// together is the minimum share of common steps of two leaks with one cause.
const together = 0.9

// explain groups leaks by cause and sets the probable cause of each group. Example: a summed loss whose graph retains
// several tensors of every step.
func (p *Pass) explain(findings []Finding) {
	for _, g := range p.causeGroups(findings) {
		largest := slices.MaxFunc(g.findings, func(x, y *Finding) int { return cmp.Compare(x.Amount.Bytes, y.Amount.Bytes) })
		place, cause := p.PlaceOf(largest.Sites[0]), p.causeOf(g)
		if g.held != nil {
			cause = g.heldCause()
		}
		for _, f := range g.findings {
			f.blame(cause, place)
			if f.Held != nil && largest.Held != nil { // by one variable
				f.Evidence[f.index(FigCausePlace)].How = min(f.Held[0].How, largest.Held[0].How)
			}
			if cause == Gradients && p.clearsGradients() {
				f.Suggestions = []string{"Do not store gradients: zero_grad frees the others."}
			}
		}
	}
}

// heldCause returns the cause that follows from the holders of a group: if the graph of a variable holds some, it holds
// the variable, too.
func (g *causeGroup) heldCause() (cause Cause) {
	for _, f := range g.findings {
		if f.Held == nil {
			continue
		}
		if one, _ := f.Held[0].cause(); cause == NoCause || one == LossGraph {
			cause = one
		}
	}
	return cause
}

// blame sets the cause of a finding. place is that of the largest finding with the same cause.
func (f *Finding) blame(cause Cause, place lifetime.Place) {
	f.Cause = cause
	f.add(textFigure(FigCausePlace, place.String()), textFigure(FigLikelyCause, cause.String()))
	f.Suggestions = []string{cause.Advice()}
}

// causeGroups groups leaks that are alike. What a graph may hold, but is none, are single leaks again.
func (p *Pass) causeGroups(findings []Finding) (all []*causeGroup) {
	var groups []*causeGroup
	for i := range findings {
		f := &findings[i]
		one := p.groupOf(f)
		at := slices.IndexFunc(groups, one.alike)
		if at < 0 {
			groups = append(groups, one)
			continue
		}
		g := groups[at]
		g.findings, g.held = append(g.findings, f), cmp.Or(g.held, one.held)
	}
	for _, g := range groups {
		if g.held != nil || g.rare || g.by != NoCause || p.causeOf(g) == LossGraph {
			all = append(all, g)
			continue
		}
		for _, f := range g.findings {
			all = append(all, p.groupOf(f))
		}
	}
	return all
}

func (p *Pass) groupOf(f *Finding) *causeGroup {
	g := &causeGroup{findings: []*Finding{f}, steps: p.stepsOf(f.Kept)}
	if f.Held = p.heldOf(f.Kept); f.Held != nil {
		g.held = &f.Held[0]
	}
	g.rare = 2*len(g.steps) <= len(p.steps.Begins)
	switch {
	case p.ofHook(g):
		g.by, g.in = Hook, p.functionOf(f.Sites[0])
	case p.ofGradients(g):
		g.by = Gradients
	default:
		saved := 0
		for _, i := range f.Kept {
			if p.saved(i) {
				saved++
			}
		}
		g.graph = 2*saved >= len(f.Kept)
	}
	return g
}

// alike reports whether a leak has the cause of a group. What the recorder saw hold them decides alone. Else they retain
// buffers from the same steps, which says little if most steps do: then one hook or backward pass allocated all, or a
// graph may hold all. Suspected and confirmed leaks stay apart.
func (g *causeGroup) alike(o *causeGroup) bool {
	switch {
	case g.findings[0].Severity > Info != (o.findings[0].Severity > Info):
		return false
	case g.held != nil && o.held != nil:
		return g.held.root() == o.held.root()
	case len(g.steps) < leastSteps || g.by != o.by || g.in != o.in || !overlaps(g.steps, o.steps):
		return false
	case g.held != nil || o.held != nil: // the recorder does not see all that a graph holds
		return g.graph && o.graph && cmp.Or(g.held, o.held).Kind == holder.ByGraph
	}
	return g.rare || g.by != NoCause || g.graph && o.graph
}

// stepsOf returns the distinct steps in which buffers were allocated, sorted.
func (p *Pass) stepsOf(buffers []int) []int {
	steps := make([]int, len(buffers))
	for i, b := range buffers {
		steps[i] = p.steps.At(p.Space.Buffers[b].Begin)
	}
	slices.Sort(steps)
	return slices.Compact(steps)
}

// overlaps reports whether two sorted lists of steps have enough in common. It stops early once they differ too much:
// programs with thousands of leaks compare each with many others.
func overlaps(x, y []int) bool {
	both, most := 0, (1-together)*float64(len(x)+len(y))
	for i, j := 0, 0; i < len(x) && j < len(y) && float64(i+j-2*both) <= most; {
		switch {
		case x[i] < y[j]:
			i++
		case x[i] > y[j]:
			j++
		default:
			i, j, both = i+1, j+1, both+1
		}
	}
	return float64(both)/float64(len(x)+len(y)-both) >= together
}
