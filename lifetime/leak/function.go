package leak

import "github.com/memlane/memlane/lifetime"

// Change is what functions did in one step of the program.
type Change struct {
	Begin            int64 // of the step
	Allocated, Freed lifetime.Amount
}

// Bytes returns by how many occupied bytes the step changed what is alive.
func (c *Change) Bytes() int64 { return lifetime.AddSat(c.Allocated.Bytes, -c.Freed.Bytes) }

// Changes returns what the functions that settings.Function matches, and those
// that they called, allocated and freed of their own in each step. What they did
// before the first step counts to it; without steps the window is one. inferred
// says that nothing marks the steps.
func Changes(c *lifetime.Capture, s *lifetime.Space, settings Settings) (all []Change, inferred bool) {
	p := newPass(c, s, settings)
	if !p.dynamic() {
		return nil, false
	}
	for _, begin := range p.steps.begins {
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
		step := &all[max(p.steps.at(change.T), 0)]
		if change.Begin {
			step.Allocated.Add(amountOf(b))
		} else {
			step.Freed.Add(amountOf(b))
		}
	}
	return all, p.steps.inferred && len(p.steps.begins) > 0
}
