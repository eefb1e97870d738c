package finding

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
)

// Change sums up what functions allocated and freed in one step of the program.
type Change struct {
	Begin            int64 // of the step
	Allocated, Freed lifetime.Amount
}

// Bytes returns the change of the live occupied bytes in the step.
func (c *Change) Bytes() int64 { return units.AddSat(c.Allocated.Bytes, -c.Freed.Bytes) }

// Changes returns, for each step, what the functions selected by settings.Function allocated and freed. Events before
// the first step count towards it; without steps the whole window is one step. inferred is true for unmarked steps.
func Changes(of *program.Program, s *lifetime.Space, settings Settings) (all []Change, inferred bool) {
	p := newPass(of, s, settings)
	if !p.dynamic() {
		return nil, false
	}
	for _, begin := range p.steps.Begins {
		all = append(all, Change{Begin: begin})
	}
	if len(all) == 0 {
		all = []Change{{Begin: s.Begin}}
	}
	for change := range s.Changes() {
		b := &s.Buffers[change.Buffer]
		if !p.selected(b.Site) || change.Begin && b.Edge&lifetime.BeginUnseen != 0 {
			continue
		}
		step := &all[max(p.steps.At(change.T), 0)]
		if change.Begin {
			step.Allocated.Add(amountOf(b))
		} else {
			step.Freed.Add(amountOf(b))
		}
	}
	return all, p.steps.Inferred() && len(p.steps.Begins) > 0
}
