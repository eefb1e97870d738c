package diff

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
)

// Change is a finding on one side or on both.
type Change struct {
	Before, After *finding.Finding // nil if the side lacks it
}

// findingKey is equal for findings about the same problem.
type findingKey struct {
	rule           string
	space          *lifetime.Space // the space after
	op, shape      string
	function, file string // base name of the file: checkouts are in different folders
	line           int
}

// compareFindings determines which findings are new, fixed or still there, by rule, space and place.
func (r *Result) compareFindings(settings finding.Settings) {
	before := finding.Find(r.Before, r.Before.Spaces, settings)
	after := finding.Find(r.After, r.After.Spaces, settings)
	partner := map[*lifetime.Space]*lifetime.Space{}
	for _, p := range r.Pairs {
		if p.Before != nil && p.After != nil {
			partner[p.Before.Space] = p.After.Space
		}
	}
	candidates := map[findingKey][]int{} // indices into after, in order
	for j := range after {
		for _, k := range r.keys(r.After, &after[j], after[j].Space) {
			candidates[k] = append(candidates[k], j)
		}
	}
	taken := make([]bool, len(after))
	for i := range before {
		b := &before[i]
		at := -1
		if space := partner[b.Space]; space != nil {
			for _, k := range r.keys(r.Before, b, space) {
				for len(candidates[k]) > 0 && taken[candidates[k][0]] {
					candidates[k] = candidates[k][1:]
				}
				if at < 0 && len(candidates[k]) > 0 {
					at = candidates[k][0]
				}
			}
		}
		if at < 0 {
			r.Fixed = append(r.Fixed, Change{Before: b})
			continue
		}
		taken[at] = true
		r.Still = append(r.Still, Change{b, &after[at]})
	}
	for j := range after {
		if !taken[j] {
			r.New = append(r.New, Change{After: &after[j]})
		}
	}
}

// keys returns the keys of a finding: with its line if lines are compared, and without, because code moves.
func (r *Result) keys(c *lifetime.Capture, f *finding.Finding, space *lifetime.Space) (keys []findingKey) {
	p := c.PlaceOf(f.Place())
	moved := findingKey{rule: f.Rule, space: space, op: p.Op, shape: p.Shape, function: p.Frame.Function, file: pathOf(p.Frame.File)[0], line: anyLine}
	if r.Lines {
		same := moved
		same.line = p.Frame.Line
		keys = append(keys, same)
	}
	return append(keys, moved)
}

// anyLine is the line of keys without a line; 0 is an unknown line.
const anyLine = -1
