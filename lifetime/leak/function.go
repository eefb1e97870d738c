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
	l := Look{Capture: c, Settings: settings, Space: s, common: &common{}}
	if !l.dynamic() {
		return nil, false
	}
	in := l.inSteps()
	for _, begin := range in.begins {
		all = append(all, Change{Begin: begin})
	}
	if len(all) == 0 {
		all = []Change{{Begin: s.Begin}}
	}
	for change := range s.Changes() {
		b := &s.Buffers[change.Buffer]
		if !l.wants(b.Site) || change.Begin && b.Edge&lifetime.BeginUnseen != 0 {
			continue
		}
		step := &all[max(in.at(change.T), 0)]
		amount := lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested}
		if change.Begin {
			step.Allocated.Add(amount)
		} else {
			step.Freed.Add(amount)
		}
	}
	return all, in.inferred && len(in.begins) > 0
}
