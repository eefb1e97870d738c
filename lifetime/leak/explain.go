package leak

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// causeGroup is leaks that have one cause: they keep something of the same steps.
type causeGroup struct {
	findings []*Finding
	steps    []int // sorted
}

// together is how much of the steps of two leaks must be the same for them to
// have one cause.
const together = 0.9

// explain finds out which leaks have one cause, and what it may be. A loss that
// is summed with its graph keeps several tensors of every step.
func (p *Pass) explain(findings []Finding) {
	for _, g := range p.causeGroups(findings) {
		largest := slices.MaxFunc(g.findings, func(x, y *Finding) int { return cmp.Compare(x.Amount.Bytes, y.Amount.Bytes) })
		place, cause := p.PlaceOf(largest.Sites[0]), p.causeOf(g)
		for _, f := range g.findings {
			f.blame(cause, place)
			if f != largest {
				f.Suggestions = []string{fmt.Sprintf("Fix %s first: it may hold this too.", place)}
			}
		}
	}
}

// blame sets the cause of a finding; place is that of the largest finding that has it.
func (f *Finding) blame(cause Cause, place lifetime.Place) {
	f.Cause = cause
	f.add(word(FigCausePlace, place.String()), word(FigLikelyCause, cause.String()))
	f.Suggestions = []string{cause.Advice()}
}

// causeGroups groups leaks of the same severity that keep something of the same steps.
func (p *Pass) causeGroups(findings []Finding) (groups []*causeGroup) {
	for i := range findings {
		f := &findings[i]
		kept := p.stepsOf(f.Kept)
		same := func(g *causeGroup) bool {
			return len(kept) >= leastSteps && g.findings[0].Severity > Info == (f.Severity > Info) && overlaps(g.steps, kept)
		}
		if at := slices.IndexFunc(groups, same); at >= 0 {
			groups[at].findings = append(groups[at].findings, f)
		} else {
			groups = append(groups, &causeGroup{[]*Finding{f}, kept})
		}
	}
	return groups
}

// stepsOf returns the steps in which buffers began, sorted.
func (p *Pass) stepsOf(buffers []int) []int {
	steps := make([]int, len(buffers))
	for i, b := range buffers {
		steps[i] = p.steps.at(p.Space.Buffers[b].Begin)
	}
	slices.Sort(steps)
	return slices.Compact(steps)
}

// overlaps reports whether two leaks share enough of their steps. It stops where they
// differ too much: programs with thousands of leaks compare each with many others.
func overlaps(x, y []int) bool {
	differ := 0 // steps that one has
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
