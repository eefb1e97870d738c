package finding

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// causeGroup is a group of leaks that probably have one cause: they retain buffers from the same steps, and no two
// recorded holders.
type causeGroup struct {
	findings []*Finding
	steps    []int // in which the retained buffers of the first leak were allocated, sorted
	held     *Held // what the recorder saw hold them; nil = nothing
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
			cause, _ = g.held.cause()
		}
		for _, f := range g.findings {
			f.blame(cause, place)
			if f.Held != nil && largest.Held != nil { // by one variable
				f.Evidence[f.index(FigCausePlace)].How = min(f.Held[0].How, largest.Held[0].How)
			}
			if cause == Gradients && p.clearsGradients() {
				f.Suggestions = []string{"Do not store gradients: zero_grad frees the others."}
			}
			if f != largest {
				f.Suggestions = []string{fmt.Sprintf("Fix %s first; it may fix this too.", place)}
			}
		}
	}
}

// blame sets the cause of a finding. place is that of the largest finding with the same cause.
func (f *Finding) blame(cause Cause, place lifetime.Place) {
	f.Cause = cause
	f.add(textFigure(FigCausePlace, place.String()), textFigure(FigLikelyCause, cause.String()))
	f.Suggestions = []string{cause.Advice()}
}

// causeGroups groups leaks that retain buffers from the same steps. Suspected and confirmed leaks stay apart, and so do
// those that different variables hold, as the recorder saw: each has its own cause.
func (p *Pass) causeGroups(findings []Finding) (groups []*causeGroup) {
	for i := range findings {
		f := &findings[i]
		kept, held := p.stepsOf(f.Kept), (*Held)(nil)
		if f.Held = p.heldOf(f.Kept); f.Held != nil {
			held = &f.Held[0]
		}
		same := func(g *causeGroup) bool {
			return len(kept) >= leastSteps && g.findings[0].Severity > Info == (f.Severity > Info) && overlaps(g.steps, kept) &&
				(held == nil || g.held == nil || held.root() == g.held.root())
		}
		at := slices.IndexFunc(groups, same)
		if at < 0 {
			at = len(groups)
			groups = append(groups, &causeGroup{steps: kept})
		}
		g := groups[at]
		g.findings, g.held = append(g.findings, f), cmp.Or(g.held, held)
	}
	return groups
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
	differ := 0 // steps in only one list
	most := (1 - together) * float64(len(x)+len(y))
	i, j := 0, 0
	for i < len(x) && j < len(y) && float64(differ) <= most {
		switch {
		case x[i] < y[j]:
			i++
			differ++
		case x[i] > y[j]:
			j++
			differ++
		default:
			i++
			j++
		}
	}
	differ += len(x) - i + len(y) - j
	both := (len(x) + len(y) - differ) / 2
	return float64(both)/float64(len(x)+len(y)-both) >= together
}
