package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/purpose"
)

const maxNamed = 3

// Verdict returns the main differences in one line: the peak, the places that changed most there, and new and fixed
// leaks.
func (r *Result) Verdict() string {
	var parts []string
	main := r.Main()
	if p := main; p != nil {
		parts = append(parts, p.peak())
		if !p.Moves() { // else they are of two instants
			for _, c := range p.notable() {
				parts[0] += fmt.Sprintf(", %s %s", purpose.Words(c.Name), units.Signed(c.Delta()))
			}
		}
	}
	rows := r.byPeak()
	for _, row := range rows[:min(len(rows), maxNamed)] {
		part := row.text()
		if p := &r.Pairs[row.Pair]; p != main {
			part += " on " + p.Name
		}
		parts = append(parts, part)
	}
	if n := len(rows) - maxNamed; n > 0 {
		parts = append(parts, fmt.Sprintf("%s more", units.Count(int64(n))))
	}
	add := func(format string, c *judge.Capture, f *finding.Finding) {
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

// Main returns the pair with the highest peak on either side; nil if there are no pairs. Compiled programs count only
// if there is nothing else.
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
	case p.Moves():
		return fmt.Sprintf("the peak moves from %s to %s", p.Before.place(), p.After.place())
	}
	return fmt.Sprintf("peak %s -> %s", units.Bytes(p.Before.Peak), units.Bytes(p.After.Peak))
}

// Moves reports whether the peaks are in two phases of a step.
func (p *Pair) Moves() bool {
	return p.Before != nil && p.After != nil && p.Before.Phase != p.After.Phase && p.Before.Phase.Words() != "" && p.After.Phase.Words() != ""
}

func (s *Side) place() string {
	text := fmt.Sprintf("the %s (%s", s.Phase.Words(), units.Bytes(s.Peak))
	if len(s.Categories) > 0 {
		most := slices.MaxFunc(s.Categories, func(x, y finding.CategoryBytes) int { return cmp.Compare(x.Bytes, y.Bytes) })
		text += fmt.Sprintf(", %s of them %s", units.Bytes(most.Bytes), purpose.Words(most.Name))
	}
	return text + ")"
}

// byPeak returns the rows by their change at the peak, largest first, then those that only differ at the end. Others
// allocated differently, but hold the same.
func (r *Result) byPeak() (rows []*Row) {
	for i := range r.Rows {
		if row := &r.Rows[i]; row.weight() > 0 {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(x, y *Row) int { return cmp.Compare(size(y.DeltaPeak()), size(x.DeltaPeak())) })
	return rows
}

// text describes the change of a place at the peak; at the end if it is the same at the peak.
func (r *Row) text() string {
	change, where := r.DeltaPeak(), ""
	if change == 0 {
		change, where = r.DeltaEnd(), " at the end"
	}
	what := name(r.Place().String())
	if r.Unseen {
		what = "memory from before the recording"
	}
	if r.Status == New || r.Status == Gone {
		return fmt.Sprintf("%s %s %s%s", units.Bytes(size(change)), what, r.Status, where)
	}
	return fmt.Sprintf("%s %s%s", what, units.Signed(change), where)
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
