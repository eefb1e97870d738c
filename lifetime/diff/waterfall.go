package diff

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/purpose"
)

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

// mostSteps is the maximum number of steps with a name.
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
				step := Step{Name: name(row.Place().String()), Delta: row.DeltaPeak(), How: purpose.Recorded}
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
