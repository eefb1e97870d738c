package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
)

// maxNamed is the maximum number of places in a verdict.
const maxNamed = 3

// Verdict returns the main differences in one line: the peak, the places that changed most, and new and fixed leaks.
func (r *Result) Verdict() string {
	var parts []string
	if p := r.Main(); p != nil {
		parts = append(parts, p.peak())
		for _, c := range p.notable() {
			parts[0] += fmt.Sprintf(", %s %s", c.Name, units.Signed(c.Delta()))
		}
	}
	for i := range r.Rows[:min(len(r.Rows), maxNamed)] {
		parts = append(parts, r.Rows[i].text())
	}
	if n := len(r.Rows) - maxNamed; n > 0 {
		parts = append(parts, fmt.Sprintf("%s more", units.Count(int64(n))))
	}
	add := func(format string, c *lifetime.Capture, f *finding.Finding) {
		part := fmt.Sprintf(format, name(c.PlaceOf(f.Place()).String()))
		if f.IsLeak() && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	for _, c := range r.Fixed {
		add("leak in %s fixed", r.Before, c.Before)
	}
	for _, c := range r.New {
		if c.Before != nil {
			add("leak in %s grew", r.After, c.After)
		} else {
			add("new leak in %s", r.After, c.After)
		}
	}
	for _, c := range r.Still {
		add("%s still leaks", r.After, c.After)
	}
	if len(parts) == 0 {
		return "nothing to compare"
	}
	return strings.Join(parts, "; ")
}

// Main returns the pair with the highest peak on either side; nil if there are no pairs. Compiled programs count only if
// there is nothing else.
func (r *Result) Main() (best *Pair) {
	compiled := func(p *Pair) bool { return static(cmp.Or(p.After, p.Before).Space) }
	peak := func(p *Pair) (n int64) {
		for _, s := range []*Side{p.Before, p.After} {
			if s != nil {
				n = max(n, s.Peak)
			}
		}
		return n
	}
	for i := range r.Pairs {
		p := &r.Pairs[i]
		if best == nil || compiled(best) && !compiled(p) || compiled(best) == compiled(p) && peak(p) > peak(best) {
			best = p
		}
	}
	return best
}

// peak describes the change of the peak of a pair.
func (p *Pair) peak() string {
	switch {
	case p.Before == nil:
		return fmt.Sprintf("%s is new, its peak is %s", p.Name, units.Bytes(p.After.Peak))
	case p.After == nil:
		return fmt.Sprintf("%s is gone, its peak was %s", p.Name, units.Bytes(p.Before.Peak))
	case p.Before.Peak == p.After.Peak:
		return "peak unchanged at " + units.Bytes(p.After.Peak)
	}
	return fmt.Sprintf("peak %s -> %s", units.Bytes(p.Before.Peak), units.Bytes(p.After.Peak))
}

// text describes the change of a place, at the peak or at the end, whichever is larger.
func (r *Row) text() string {
	change := larger(r.DeltaPeak(), r.DeltaEnd())
	what := name(r.Place().String())
	if r.Unseen {
		what = "memory from before the recording"
	}
	switch r.Status {
	case New, Gone:
		return fmt.Sprintf("%s %s %s", units.Bytes(max(change, -change)), what, r.Status)
	case Grew:
		return fmt.Sprintf("%s +%s", what, units.Bytes(max(change, 0)))
	}
	return fmt.Sprintf("%s %s", what, units.Bytes(min(change, 0)))
}

// name returns a place without its file: "step" for "step (train.py:12)".
func name(place string) string {
	function, _, _ := strings.Cut(place, " (")
	return function
}

// Leaks returns the number of new leaks of at least a severity.
func (r *Result) Leaks(severity finding.Severity) (n int) {
	for _, c := range r.New {
		if c.After.IsLeak() && c.After.Severity >= severity {
			n++
		}
	}
	return n
}
