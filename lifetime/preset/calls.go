package preset

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
)

// CallsOf returns the recorded calls of a capture, in order, else calls derived from its history, space by space. With
// marked steps, a derived call is one step of one function that allocates or frees; its change is that of the live bytes of
// the function. Without, it is one allocation; its change is its size if it is never freed, else 0. Bytes are occupied.
//
// Before is the level of the whole space at the beginning of the call. After is Before plus the change, so that the calls of
// one function show only what that function did.
func CallsOf(c *lifetime.Capture) []lifetime.Call {
	if len(c.Calls) > 0 {
		return c.Calls
	}
	var calls []lifetime.Call
	for i, s := range c.Spaces {
		if s.Facts&lifetime.History == 0 || s.Axis == lifetime.ProgramOrder {
			continue
		}
		d := deriver{c: c, space: i, s: s, levels: region.Levels(s)}
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

// deriver derives calls from a history.
type deriver struct {
	c        *lifetime.Capture
	space    int
	s        *lifetime.Space
	steps    []lifetime.Mark
	levels   []lifetime.Level // of reserved memory, not yet reached
	reserved int64            // current level
	calls    []lifetime.Call
}

// call adds a call and completes the fields that all derived calls share.
func (d *deriver) call(begin, end int64, call lifetime.Call) {
	for ; len(d.levels) > 0 && d.levels[0].At <= end; d.levels = d.levels[1:] {
		d.reserved = d.levels[0].Bytes
	}
	call.Space, call.Reserved = d.space, d.reserved
	call.Begin, call.End = d.seconds(begin), d.seconds(end)
	call.Seconds = call.End - call.Begin
	d.calls = append(d.calls, call)
}

// seconds returns an instant in seconds. Without a clock, an event counts as a second.
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
			level = units.AddSat(level, -b.Size)
			continue
		}
		if b.Edge&lifetime.BeginUnseen == 0 {
			call := lifetime.Call{Site: b.Site, Before: level, After: units.AddSat(level, b.Size), Peak: units.AddSat(level, b.Size), Allocated: b.Size}
			end := d.s.End
			if b.Edge&lifetime.EndOpen == 0 {
				call.After, call.Freed, end = level, b.Size, b.End
			}
			d.call(b.Begin, b.Begin, call)
			d.calls[len(d.calls)-1].Seconds = d.seconds(end) - d.seconds(b.Begin)
		}
		level = units.AddSat(level, b.Size)
	}
}

func (d *deriver) ofSteps() {
	functions := map[string]*lifetime.Call{} // of the step; After and Peak are relative to Before
	names := map[lifetime.SiteID]string{}
	var order []string
	level, before := d.s.Base, d.s.Base
	step := 0
	finish := func() {
		for _, name := range order {
			call := *functions[name]
			call.Before, call.After, call.Peak = before, units.AddSat(before, call.After), units.AddSat(before, call.Peak)
			d.call(d.steps[step].Begin, d.steps[step].End, call)
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
			before = units.AddSat(level, size)
		} else if step < len(d.steps) && (!c.Begin || b.Edge&lifetime.BeginUnseen == 0) {
			name, known := names[b.Site]
			if !known {
				name = d.c.FunctionName(b.Site)
				names[b.Site] = name
			}
			f := functions[name]
			if f == nil {
				f = &lifetime.Call{Site: b.Site}
				functions[name] = f
				order = append(order, name)
			}
			add(f, size)
		}
		level = units.AddSat(level, size)
	}
	for step < len(d.steps) {
		finish()
	}
}

// add adds an allocation or, with a negative size, a free to a call of ofSteps.
func add(f *lifetime.Call, size int64) {
	if size > 0 {
		f.Allocated = units.AddSat(f.Allocated, size)
	} else {
		f.Freed = units.AddSat(f.Freed, -size)
	}
	f.After = units.AddSat(f.After, size)
	f.Peak = max(f.Peak, f.After)
}
