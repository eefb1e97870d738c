package diff

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/purpose"
)

// AllocatedOf returns the bytes that a place allocated in the window; with perStep and marked steps, the mean per step.
func AllocatedOf(f *Figures, side *Side, perStep bool) float64 {
	if side == nil {
		return 0
	}
	if perStep && side.Steps > 0 {
		return float64(f.Allocated.Bytes) / float64(side.Steps)
	}
	return float64(f.Allocated.Bytes)
}

// Line is a formatted figure of a pair of spaces. Before or After is "" if a side lacks it.
type Line struct{ Name, Before, After, Change string }

// Figured returns the figures of a pair as text, without those that both sides lack.
func Figured(p *Pair) (lines []Line) {
	bytes := func(name string, of func(*Side) int64) {
		l := p.plain(name, func(s *Side) string { return units.Bytes(of(s)) })
		if p.Before != nil && p.After != nil {
			l.Change = Difference(of(p.Before), of(p.After))
		}
		if p.Before != nil && of(p.Before) != 0 || p.After != nil && of(p.After) != 0 {
			lines = append(lines, l)
		}
	}
	bytes("peak", func(s *Side) int64 { return s.Peak })
	padded := func(s *Side) bool { return s != nil && s.Peak != s.PeakRequested }
	if padded(p.Before) || padded(p.After) {
		bytes("peak, requested", func(s *Side) int64 { return s.PeakRequested })
	}
	for _, c := range p.notable() {
		lines = append(lines, Line{"  " + c.Name, units.Bytes(c.Before), units.Bytes(c.After), Difference(c.Before, c.After)})
	}
	bytes("at the end", func(s *Side) int64 { return s.End })
	bytes("reserved", func(s *Side) int64 { return s.Reserved })
	bytes("reserved but free", func(s *Side) int64 { return s.Free.Total })
	bytes("its largest piece", func(s *Side) int64 { return s.Free.Largest })
	bytes("allocated", func(s *Side) int64 { return s.Allocated })
	if !static(cmp.Or(p.After, p.Before).Space) { // a plan has no events
		lines = append(lines, p.plain("allocations", func(s *Side) string { return units.Count(int64(s.Allocations)) }),
			p.plain("frees", func(s *Side) string { return units.Count(int64(s.Frees)) }))
	}
	if l := p.plain("time per step", stepTime); l.Before+l.After != "" {
		lines = append(lines, l)
	}
	return lines
}

func (p *Pair) plain(name string, of func(*Side) string) Line {
	l := Line{Name: name}
	if p.Before != nil {
		l.Before = of(p.Before)
	}
	if p.After != nil {
		l.After = of(p.After)
	}
	return l
}

func stepTime(s *Side) string {
	if s.Steps == 0 {
		return ""
	}
	return units.Span(s.Window/int64(s.Steps), s.Space.Axis.Unit())
}

// Difference formats the change of a figure: "-24.1 MiB (-33.8 %)", and "+3.05 MiB (33 times)" from ten times as much
// on.
func Difference(before, after int64) string {
	change := after - before
	text := units.Signed(change)
	if before == 0 || change == 0 {
		return text
	}
	if times := float64(after) / float64(before); times >= 10 {
		return fmt.Sprintf("%s (%s times)", text, units.Count(int64(math.Round(min(times, 1<<53)))))
	}
	return fmt.Sprintf("%s (%+.1f %%)", text, 100*float64(change)/float64(before))
}

// CategoryChange is the change of one category of memory at the peak.
type CategoryChange struct {
	Name          string
	Before, After int64 // bytes
	How           purpose.How
}

// Delta returns the change in bytes.
func (c *CategoryChange) Delta() int64 { return units.AddSat(c.After, -c.Before) }

// Categories returns the categories of a pair, largest change first; none unless they are known on both sides.
func (p *Pair) Categories() (all []CategoryChange) {
	if p.Before == nil || p.After == nil || len(p.Before.Categories) == 0 || len(p.After.Categories) == 0 {
		return nil
	}
	at := map[string]int{}
	change := func(name string) *CategoryChange {
		return keyed.At(at, &all, name, CategoryChange{Name: name, How: purpose.Recorded})
	}
	for _, c := range p.Before.Categories {
		of := change(c.Name)
		of.Before, of.How = c.Bytes, min(of.How, c.How)
	}
	for _, c := range p.After.Categories {
		of := change(c.Name)
		of.After, of.How = c.Bytes, min(of.How, c.How)
	}
	size := func(c CategoryChange) int64 { return max(c.Delta(), -c.Delta()) }
	slices.SortFunc(all, func(x, y CategoryChange) int {
		return cmp.Or(cmp.Compare(size(y), size(x)), cmp.Compare(y.After, x.After), cmp.Compare(x.Name, y.Name))
	})
	return all
}

// notable returns the categories whose change is at least a hundredth of the higher peak, the first few.
func (p *Pair) notable() (all []CategoryChange) {
	for _, c := range p.Categories() {
		if d := c.Delta(); max(d, -d) >= max(p.Before.Peak, p.After.Peak)/100 && d != 0 && len(all) < maxNamed {
			all = append(all, c)
		}
	}
	return all
}

// Step is a part of the way from the peak before to the peak after.
type Step struct {
	Name         string
	Category     bool        // Name is that of a category
	Delta, Level int64       // bytes: the change, and the sum with it
	How          purpose.How // Name
}

// Words returns the name for sentences and pictures.
func (s *Step) Words() string {
	if s.Category {
		return purpose.Words(s.Name)
	}
	return s.Name
}

const mostSteps = 6

// Waterfall returns the way from the peak of a pair before to that after, largest change first: by category, or by
// place if categories do not tell most of the change. Changes below a hundredth of the higher peak, and those that none
// explains, are one step. nil if a side lacks the space, or nothing changed.
func (r *Result) Waterfall(pair int) (steps []Step) {
	p := &r.Pairs[pair]
	if p.Before == nil || p.After == nil {
		return nil
	}
	all := p.steps()
	if all == nil {
		for i := range r.Rows {
			if row := &r.Rows[i]; row.Pair == pair && row.DeltaPeak() != 0 {
				step := Step{Name: row.Place().String(), Delta: row.DeltaPeak(), How: purpose.Recorded}
				if row.Place().Inferred {
					step.How = purpose.Inferred
				}
				if row.Unseen {
					step.Name = "memory from before the recording"
				}
				all = append(all, step)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Step) int { return cmp.Compare(size(b.Delta), size(a.Delta)) })
	level := p.Before.Peak
	for _, s := range all {
		if len(steps) == mostSteps || size(s.Delta) < max(p.Before.Peak, p.After.Peak, 1)/100 {
			break
		}
		level = units.AddSat(level, s.Delta)
		s.Level = level
		steps = append(steps, s)
	}
	if rest := units.AddSat(p.After.Peak, -level); rest != 0 {
		steps = append(steps, Step{Name: "others", Delta: rest, Level: p.After.Peak, How: purpose.Derived})
	}
	return steps
}

// steps returns the changes of categories; nil if most of the change is of memory without one.
func (p *Pair) steps() (all []Step) {
	known, unknown := int64(0), int64(0)
	for _, c := range p.Categories() {
		d := c.Delta()
		if c.Name == purpose.UnknownCategory.String() {
			unknown = size(d)
		} else {
			known = units.AddSat(known, size(d))
		}
		if d != 0 {
			all = append(all, Step{Name: c.Name, Category: true, Delta: d, How: c.How})
		}
	}
	if known < unknown {
		return nil
	}
	return all
}

func size(n int64) int64 { return max(n, -n) }

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
		part := fmt.Sprintf(format, c.PlaceOf(f.Place()).String())
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
	what := r.Place().String()
	if r.Unseen {
		what = "memory from before the recording"
	}
	if r.Status == New || r.Status == Gone {
		return fmt.Sprintf("%s %s %s%s", units.Bytes(size(change)), what, r.Status, where)
	}
	return fmt.Sprintf("%s %s%s", what, units.Signed(change), where)
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
