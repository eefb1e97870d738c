package diff

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

// Change is a finding on either side, or on both.
type Change struct {
	Before, After *leak.Finding // nil where it is not found
}

// compareFindings finds out which findings are new, gone or still there: by
// rule, memory and place.
func (r *Result) compareFindings(settings leak.Settings) {
	before := leak.Find(r.Before, r.Before.Spaces, settings)
	after := leak.Find(r.After, r.After.Spaces, settings)
	taken := make([]bool, len(after))
	for i := range before {
		b := &before[i]
		at := -1
		for _, lines := range []bool{true, false} { // the same line, or else the code moved
			for j := range after {
				if a := &after[j]; at < 0 && !taken[j] && r.same(b, a, lines && r.Lines) {
					at = j
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

// same reports whether two findings are about the same thing.
func (r *Result) same(b, a *leak.Finding, lines bool) bool {
	if b.Rule != a.Rule || !r.paired(b.Space, a.Space) {
		return false
	}
	p, q := r.Before.PlaceOf(b.Place()), r.After.PlaceOf(a.Place())
	return p.Op == q.Op && p.Shape == q.Shape && p.Frame.Function == q.Frame.Function &&
		pathOf(p.Frame.File)[0] == pathOf(q.Frame.File)[0] && (!lines || p.Frame.Line == q.Frame.Line)
}

func (r *Result) paired(b, a *lifetime.Space) bool {
	for _, p := range r.Pairs {
		if p.Before != nil && p.After != nil && p.Before.Space == b && p.After.Space == a {
			return true
		}
	}
	return false
}
