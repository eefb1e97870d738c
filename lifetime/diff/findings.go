package diff

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

// Change is a finding on either side, or on both.
type Change struct {
	Before, After *leak.Finding // nil where it is not found
}

// findingKey is what two findings must share to be about the same thing.
type findingKey struct {
	rule           string
	space          *lifetime.Space // of the pair the one after
	op, shape      string
	function, file string // the name of the file alone: checkouts lie in different folders
	line           int
}

// compareFindings finds out which findings are new, gone or still there: by
// rule, memory and place.
func (r *Result) compareFindings(settings leak.Settings) {
	before := leak.Find(r.Before, r.Before.Spaces, settings)
	after := leak.Find(r.After, r.After.Spaces, settings)
	partner := map[*lifetime.Space]*lifetime.Space{}
	for _, p := range r.Pairs {
		if p.Before != nil && p.After != nil {
			partner[p.Before.Space] = p.After.Space
		}
	}
	candidates := map[findingKey][]int{} // of after, in order
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

// keys returns what a finding is about: with its line, and without, as code moves.
func (r *Result) keys(c *lifetime.Capture, f *leak.Finding, space *lifetime.Space) (keys []findingKey) {
	p := c.PlaceOf(f.Place())
	moved := findingKey{rule: f.Rule, space: space, op: p.Op, shape: p.Shape, function: p.Frame.Function, file: pathOf(p.Frame.File)[0], line: anyLine}
	if r.Lines {
		same := moved
		same.line = p.Frame.Line
		keys = append(keys, same)
	}
	return append(keys, moved)
}

// anyLine stands for whatever line a place has; 0 is one that is not known.
const anyLine = -1
