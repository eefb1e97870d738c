package preset

import (
	"github.com/memlane/memlane/internal/keyed"
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

type deriver struct {
	c        *lifetime.Capture
	space    int
	s        *lifetime.Space
	steps    []lifetime.Mark  // not yet over
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
	var work []lifetime.Call // of the step, by function; After and Peak are relative to Before
	index, names := map[string]int{}, map[lifetime.SiteID]string{}
	level, before := d.s.Base, d.s.Base
	finish := func() {
		for _, call := range work {
			call.Before, call.After, call.Peak = before, units.AddSat(before, call.After), units.AddSat(before, call.Peak)
			d.call(d.steps[0].Begin, d.steps[0].End, call)
		}
		clear(index)
		work, before, d.steps = work[:0], level, d.steps[1:]
	}
	for c := range d.s.Changes() {
		for len(d.steps) > 0 && c.T >= d.steps[0].End {
			finish()
		}
		b := &d.s.Buffers[c.Buffer]
		size := b.Size
		if !c.Begin {
			size = -size
		}
		if len(d.steps) > 0 && c.T < d.steps[0].Begin {
			before = units.AddSat(level, size)
		} else if len(d.steps) > 0 && (!c.Begin || b.Edge&lifetime.BeginUnseen == 0) {
			if _, known := names[b.Site]; !known {
				names[b.Site] = d.c.FunctionName(b.Site)
			}
			f := keyed.At(index, &work, names[b.Site], lifetime.Call{Site: b.Site})
			f.Allocated, f.Freed = units.AddSat(f.Allocated, max(size, 0)), units.AddSat(f.Freed, max(-size, 0))
			f.After = units.AddSat(f.After, size)
			f.Peak = max(f.Peak, f.After)
		}
		level = units.AddSat(level, size)
	}
	for len(d.steps) > 0 {
		finish()
	}
}
