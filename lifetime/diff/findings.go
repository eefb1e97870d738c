package diff

import (
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
)

// Change is a finding on one side or on both. A new one has both if the problem was smaller before: see worse.
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
func (r *Result) compareFindings() {
	before, after := r.Before.Findings(), r.After.Findings()
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
		same := -1
		if space := partner[b.Space]; space != nil {
			for _, k := range r.keys(r.Before, b, space) {
				for len(candidates[k]) > 0 && taken[candidates[k][0]] {
					candidates[k] = candidates[k][1:]
				}
				for _, j := range candidates[k] {
					if same < 0 && !taken[j] && r.sameOperation(b, &after[j]) {
						same = j
					}
				}
			}
		}
		switch {
		case same < 0:
			r.Fixed = append(r.Fixed, Change{Before: b})
			continue
		case r.worse(b, &after[same]):
			r.New = append(r.New, Change{b, &after[same]})
		default:
			r.Still = append(r.Still, Change{b, &after[same]})
		}
		taken[same] = true
	}
	for j := range after {
		if !taken[j] {
			r.New = append(r.New, Change{After: &after[j]})
		}
	}
}

// keys returns the keys of a finding: with its line if lines are compared, and without, because code moves.
func (r *Result) keys(c *judge.Capture, f *finding.Finding, space *lifetime.Space) (keys []findingKey) {
	p := c.PlaceOf(f.Place())
	moved := findingKey{rule: f.Rule, space: space, op: p.Op, shape: p.Shape, function: p.Frame.Function,
		file: pathOf(p.Frame.File)[0], line: anyLine}
	if r.Lines {
		same := moved
		same.line = p.Frame.Line
		keys = append(keys, same)
	}
	return append(keys, moved)
}

// operations returns the operations of a finding on each side; none if they cannot be compared: formats name them
// differently, and some record none.
func (r *Result) operations(b, a *finding.Finding) (before, after []string) {
	if formatOf(r.Before) != formatOf(r.After) {
		return nil, nil
	}
	before, after = operations(r.Before, b), operations(r.After, a)
	if before == nil || after == nil {
		return nil, nil
	}
	return before, after
}

// operations returns the operations of the sites of a finding; nil if one has none.
func operations(c *judge.Capture, f *finding.Finding) (all []string) {
	for _, id := range f.Sites {
		op := c.Sites[id].Op
		if op == "" {
			return nil
		}
		all = append(all, op)
	}
	return all
}

// sameOperation reports whether two findings have an operation in common. One line can have several operations, and
// traces before PyTorch 2.15 have only the line of the def.
func (r *Result) sameOperation(b, a *finding.Finding) bool {
	before, after := r.operations(b, a)
	return before == nil || slices.ContainsFunc(before, func(op string) bool { return slices.Contains(after, op) })
}

// worse reports whether a finding is a confirmed leak of at least Warning, and before it was not confirmed, or it has
// grown and was too small to count or had fewer operations. A longer recording of the same leak also has more bytes, so
// bytes per step decide if they are known.
func (r *Result) worse(b, a *finding.Finding) bool {
	small := b.Severity <= finding.Info
	if !a.IsLeak() || a.Severity <= finding.Info {
		return false
	}
	if small && !b.IsLeak() {
		return true
	}
	was, is := float64(b.Amount.Requested), float64(a.Amount.Requested)
	if b.BytesPerStep > 0 && a.BytesPerStep > 0 {
		was, is = b.BytesPerStep, a.BytesPerStep
	}
	before, after := r.operations(b, a)
	more := slices.ContainsFunc(after, func(op string) bool { return !slices.Contains(before, op) })
	return is > leastGrowth*was && (small || more)
}

// leastGrowth is the least factor by which a leak grew: less may be the mean of other steps.
const leastGrowth = 1.1

// anyLine is the line of keys without a line; 0 is an unknown line.
const anyLine = -1
