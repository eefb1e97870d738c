package preset

import "github.com/memlane/memlane/lifetime"

// CallsOf returns the calls of a capture: those that were recorded, in their
// order, or else what stands for them, space by space. Where steps are marked,
// that is each step of each function that allocates: the change is what the live
// bytes of the function's buffers changed by. Otherwise it is each allocation:
// the change is its size if it is never freed, else 0. Bytes are occupied ones.
//
// Before is the level of the whole space when the call began, and After is that and
// the change, so that the calls of one function tell what that function did.
func CallsOf(c *lifetime.Capture) []lifetime.Call {
	if len(c.Calls) > 0 {
		return c.Calls
	}
	var calls []lifetime.Call
	for i, s := range c.Spaces {
		if s.Facts&lifetime.History == 0 || s.Axis == lifetime.ProgramOrder {
			continue
		}
		d := deriver{c: c, space: i, s: s, reserved: s.ReservedLevels()}
		for _, m := range s.Marks {
			if m.Kind == lifetime.Step {
				d.steps = append(d.steps, m)
			}
		}
		if len(d.steps) > 0 {
			d.ofSteps()
		} else {
			d.ofAllocations()
		}
		calls = append(calls, d.calls...)
	}
	return calls
}

// deriver makes calls of a history.
type deriver struct {
	c        *lifetime.Capture
	space    int
	s        *lifetime.Space
	steps    []lifetime.Mark
	reserved []lifetime.Level // still to come
	held     int64            // reserved so far
	calls    []lifetime.Call
}

// call adds a call with what is known of all of them.
func (d *deriver) call(begin, end int64, call lifetime.Call) {
	for ; len(d.reserved) > 0 && d.reserved[0].At <= end; d.reserved = d.reserved[1:] {
		d.held = d.reserved[0].Bytes
	}
	call.Space, call.Reserved = d.space, d.held
	call.Begin, call.End = d.seconds(begin), d.seconds(end)
	call.Seconds = call.End - call.Begin
	d.calls = append(d.calls, call)
}

// seconds returns an instant in seconds; events count as one each where there is no
// clock.
func (d *deriver) seconds(t int64) float64 {
	if d.s.Axis == lifetime.Time {
		return float64(t) / 1e9
	}
	return float64(t)
}

func (d *deriver) ofAllocations() {
	level := d.s.Base
	for c := range d.s.Changes() {
		b := &d.s.Buffers[c.Buffer]
		if !c.Begin {
			level = lifetime.AddSat(level, -b.Size)
			continue
		}
		if b.Edge&lifetime.BeginUnseen == 0 {
			call := lifetime.Call{Site: b.Site, Before: level, After: lifetime.AddSat(level, b.Size), Peak: lifetime.AddSat(level, b.Size), Allocated: b.Size}
			end := d.s.End
			if b.Edge&lifetime.EndOpen == 0 {
				call.After, call.Freed, end = level, b.Size, b.End
			}
			d.call(b.Begin, b.Begin, call)
			d.calls[len(d.calls)-1].Seconds = d.seconds(end) - d.seconds(b.Begin)
		}
		level = lifetime.AddSat(level, b.Size)
	}
}

// functionStep is what a function did in a step.
type functionStep struct {
	site                           lifetime.SiteID
	allocated, freed, change, peak int64
}

func (d *deriver) ofSteps() {
	functions := map[string]*functionStep{}
	names := map[lifetime.SiteID]string{}
	var order []string
	level, before := d.s.Base, d.s.Base
	step := 0
	finish := func() {
		for _, name := range order {
			f := functions[name]
			d.call(d.steps[step].Begin, d.steps[step].End, lifetime.Call{Site: f.site, Before: before, After: lifetime.AddSat(before, f.change),
				Peak: lifetime.AddSat(before, f.peak), Allocated: f.allocated, Freed: f.freed})
		}
		clear(functions)
		order, before = nil, level
		step++
	}
	for c := range d.s.Changes() {
		for step < len(d.steps) && c.T >= d.steps[step].End {
			finish()
		}
		b := &d.s.Buffers[c.Buffer]
		size := b.Size
		if !c.Begin {
			size = -size
		}
		if step < len(d.steps) && c.T < d.steps[step].Begin {
			before = lifetime.AddSat(level, size)
		} else if step < len(d.steps) && (!c.Begin || b.Edge&lifetime.BeginUnseen == 0) {
			name, known := names[b.Site]
			if !known {
				name = d.c.FunctionName(b.Site)
				names[b.Site] = name
			}
			f := functions[name]
			if f == nil {
				f = &functionStep{site: b.Site}
				functions[name] = f
				order = append(order, name)
			}
			f.add(size)
		}
		level = lifetime.AddSat(level, size)
	}
	for step < len(d.steps) {
		finish()
	}
}

func (f *functionStep) add(size int64) {
	if size > 0 {
		f.allocated = lifetime.AddSat(f.allocated, size)
	} else {
		f.freed = lifetime.AddSat(f.freed, -size)
	}
	f.change = lifetime.AddSat(f.change, size)
	f.peak = max(f.peak, f.change)
}
