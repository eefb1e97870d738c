package diff

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
)

// Change is a finding on one side or on both. A new one has both if the problem was smaller before: see worse.
type Change struct {
	Before, After *finding.Finding // nil if the side lacks it
}

// findingKey is equal for findings about the same problem: by their places, or by function and file, because code moves.
type findingKey struct {
	kind         finding.Kind
	rule         string          // of a leak "": rules share them, and more events may change which one finds it
	space        *lifetime.Space // the space after
	pair         int             // of their places; 0 = the key is by function
	op, shape    string
	function, in string // base name of the file: checkouts are in different folders
}

// compareFindings determines which findings are new, fixed or still there: first those of paired places, over all findings, then those of
// the same function. What has a partner elsewhere is not the same.
func (r *Result) compareFindings() {
	before, after := r.Before.Findings(), r.After.Findings()
	partner := map[*lifetime.Space]*lifetime.Space{}
	for _, p := range r.Pairs {
		if p.Before != nil && p.After != nil {
			partner[p.Before.Space], partner[p.After.Space] = p.After.Space, p.After.Space
		}
	}
	same, taken := make([]int, len(before)), make([]bool, len(after)) // same: index in after, plus 1
	for _, byPlace := range []bool{true, false} {
		candidates := map[findingKey][]int{}
		for j := range after {
			if k, ok := r.key(r.After, &after[j], partner, byPlace); ok && !taken[j] {
				candidates[k] = append(candidates[k], j)
			}
		}
		for i := range before {
			k, ok := r.key(r.Before, &before[i], partner, byPlace)
			if !ok || same[i] > 0 {
				continue
			}
			for n, j := range candidates[k] {
				apart := !byPlace && r.pairOf(r.Before, &before[i]) > 0 && r.pairOf(r.After, &after[j]) > 0
				if !apart && r.sameOperation(&before[i], &after[j]) {
					same[i], taken[j], candidates[k] = j+1, true, slices.Delete(candidates[k], n, n+1)
					break
				}
			}
		}
	}
	for i := range before {
		switch b := &before[i]; {
		case same[i] == 0:
			r.Fixed = append(r.Fixed, Change{Before: b})
		case r.worse(b, &after[same[i]-1]):
			r.New = append(r.New, Change{b, &after[same[i]-1]})
		default:
			r.Still = append(r.Still, Change{b, &after[same[i]-1]})
		}
	}
	for j := range after {
		if !taken[j] {
			r.New = append(r.New, Change{After: &after[j]})
		}
	}
}

// key returns the key of a finding by its place or its function; false if its space or its place has no partner.
func (r *Result) key(c *judge.Capture, f *finding.Finding, partner map[*lifetime.Space]*lifetime.Space, byPlace bool) (findingKey, bool) {
	k := findingKey{kind: f.Kind, rule: f.Rule, space: partner[f.Space]}
	if f.Kind == finding.KindLeak {
		k.rule = ""
	}
	if byPlace {
		k.pair = r.pairOf(c, f)
		return k, k.pair > 0
	}
	p := c.PlaceOf(f.Place())
	k.op, k.shape, k.function, k.in = p.Op, p.Shape, p.Frame.Function, pathOf(p.Frame.File)[0]
	return k, k.space != nil
}

// pairOf returns the number of the pair that the place of a finding is of; 0 if the other side has no such place.
func (r *Result) pairOf(c *judge.Capture, f *finding.Finding) int {
	return r.pairs[located{f.Space, comparedPlace(c.PlaceOf(f.Place()), r.Lines)}]
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

// Gate is a condition for a comparison: an increase of a metric, or new leaks.
type Gate struct {
	text    string
	metric  string // "": new leaks
	percent bool
	amount  float64 // bytes, or percent
}

// NewLeak is the gate for leaks that count only in the second capture.
const NewLeak = "new-leak"

// metrics are the figures that a gate can compare, in bytes.
var metrics = map[string]func(s *Side) int64{
	"peak":      func(s *Side) int64 { return s.Peak },
	"end":       func(s *Side) int64 { return s.End },
	"reserved":  func(s *Side) int64 { return s.Reserved },
	"allocated": func(s *Side) int64 { return s.Allocated },
}

// Metrics returns the names of the figures that a gate can compare, sorted.
func Metrics() []string { return slices.Sorted(maps.Keys(metrics)) }

// ParseGate reads a gate: new-leak, or a metric and its increase, such as peak>+5% or end>+64MiB. Blanks and ends of
// lines around it, the comparison and the unit do not count.
func ParseGate(text string) (Gate, error) {
	g := Gate{text: strings.TrimSpace(text)}
	if g.text == NewLeak {
		return g, nil
	}
	metric, amount, _ := strings.Cut(g.text, ">")
	metric = strings.TrimSpace(metric)
	amount, ok := strings.CutPrefix(strings.TrimSpace(amount), "+")
	if metrics[metric] == nil || !ok {
		return g, errors.New("use new-leak, or peak, end, reserved or allocated followed by '>+5%' or '>+64MiB'")
	}
	g.metric = metric
	share, ok := strings.CutSuffix(amount, "%")
	var err error
	if g.percent = ok; ok {
		_, err = fmt.Sscanf(strings.TrimSpace(share)+"\n", "%g\n", &g.amount)
	} else {
		var n int64
		n, err = units.ParseBytes(amount)
		g.amount = float64(n)
	}
	if err != nil || g.amount < 0 || math.IsNaN(g.amount) || math.IsInf(g.amount, 0) {
		return g, fmt.Errorf("use a percentage such as 5%% or a size such as 64MiB, not %q", amount)
	}
	return g, nil
}

// OfLeaks reports whether the gate is about leaks.
func (g Gate) OfLeaks() bool { return g.metric == "" }

// Met describes how the comparison meets gates, in a text for each way; nil if it meets none.
func (r *Result) Met(gates []Gate) (met []string) {
	for _, g := range gates {
		if g.OfLeaks() {
			if n := r.Leaks(finding.Warning); n > 0 {
				met = append(met, fmt.Sprintf("%s: %s", g.text, units.Plural(n, "leak")))
			}
			continue
		}
		for i := range r.Pairs {
			if text := g.increase(&r.Pairs[i]); text != "" {
				met = append(met, text)
			}
		}
	}
	return met
}

// increase describes how a pair meets a gate; "" if it does not.
func (g *Gate) increase(p *Pair) string {
	if p.Before == nil || p.After == nil {
		return ""
	}
	before, after := float64(metrics[g.metric](p.Before)), float64(metrics[g.metric](p.After))
	limit := before + g.amount
	if g.percent {
		limit = before * (1 + g.amount/100)
	}
	if after <= limit {
		return ""
	}
	return fmt.Sprintf("%s: %s of %s grew from %s to %s", g.text, g.metric, p.Name, units.Exact(int64(before)),
		units.Exact(int64(after)))
}
