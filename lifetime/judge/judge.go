// Package judge is what memlane says about a capture: what the program did, what its buffers are for, what leaks, why allocations
// failed, how PyTorch's allocator behaved, and what the program would need if it were changed. Each part is computed once, at
// its first use, so all answers about a capture share it.
//
// Its place in the pipeline: after the rules of findings, failures, categories and changes, and before all answers and pictures.
package judge

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/outline"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/lifetime/replay"
	"github.com/memlane/memlane/lifetime/whatif"
)

// Capture is a capture that is judged. One goroutine uses it at a time; those that share it lock it.
type Capture struct {
	*lifetime.Capture
	sync.Mutex

	// Set before the first question.
	Settings finding.Settings  // of the rules; Limit is the capacity of the device for all answers
	Found    []finding.Finding // those of another tool's rules; nil = of memlane's rules, see Findings
	Finds    bool              // the caller needs Findings: leaks are taken from them, so each rule runs once
	Limits   Limits

	known map[part]any // of spaces, or with nil of the capture
}

// Limits are the numbers of buffers of a space up to which memlane computes what the command did not name.
type Limits struct {
	Replays int // the allocator is replayed: seconds
	Changes int // changes of the program are tried: about a second
	Tries   int // the page tries changes: about a quarter of a second
}

// Asked are the limits of what the command names.
var Asked = Limits{math.MaxInt, math.MaxInt, math.MaxInt}

// engine tells what a program would need if it were changed, or why that is not known.
type engine struct {
	*whatif.Engine
	refused string
}

// Made is called with each part of a judgement that is made. For tests.
var Made = func(c *Capture, name string, of *lifetime.Space) {}

type part struct {
	name string
	of   *lifetime.Space
}

// Once returns a part of a judgement, which find makes at its first use.
func Once[T any](c *Capture, name string, of *lifetime.Space, find func() T) T {
	known, ok := c.known[part{name, of}]
	if !ok {
		Made(c, name, of)
		known = find()
		c.known[part{name, of}] = known
	}
	return known.(T)
}

// New judges a capture that formats.Open returned: it finds what its buffers are for and what leaks, and marks the leaks. Call it
// once, before goroutines share the capture. For the categories of a person, call category.Of, [Of] and Mark.
func New(c *lifetime.Capture, settings finding.Settings) *Capture {
	category.Of(c, nil)
	j := Of(c)
	j.Settings, j.Finds = settings, true
	j.Mark()
	return j
}

// Of returns the judgement of a capture, or of a part of one, whose categories are known.
func Of(c *lifetime.Capture) *Capture {
	return &Capture{Capture: c, known: map[part]any{}, Limits: Limits{Replays: 2_000_000, Changes: 50_000, Tries: 20_000}}
}

// Mark finds the leaks and marks their buffers: see finding.Mark.
func (c *Capture) Mark() {
	for _, s := range c.Spaces {
		if !c.Sources[s.Source].Traits.Folded {
			finding.Mark(c.Capture, c.Leaks(s))
		}
	}
}

// Program returns what the program did.
func (c *Capture) Program() *program.Program {
	return Once(c, "program", nil, func() *program.Program { return program.Of(c.Capture) })
}

// Idle is region.Idle of a space.
func (c *Capture) Idle(s *lifetime.Space) region.Unused {
	return Once(c, "idle", s, func() region.Unused { return region.Idle(s) })
}

// Findings returns the findings of all spaces.
func (c *Capture) Findings() []finding.Finding {
	if c.Found == nil {
		c.Found = Once(c, "findings", nil, func() []finding.Finding { return finding.Find(c, c.Spaces, c.Settings) })
	}
	return c.Found
}

// Leaks returns the findings of a space that are leaks. Without those of other kinds, if these are not known yet, it takes less time.
func (c *Capture) Leaks(s *lifetime.Space) (leaks []finding.Finding) {
	if c.Finds && c.Settings.Function == nil {
		c.Findings()
	}
	found := c.Found
	if found == nil {
		found = Once(c, "leaks", s, func() []finding.Finding {
			return finding.Find(c, []*lifetime.Space{s}, finding.Settings{Rules: finding.LeakRules()})
		})
	}
	for _, f := range found {
		if f.Space == s && f.IsLeak() {
			leaks = append(leaks, f)
		}
	}
	return leaks
}

// Failures returns the failures of a space: see oom.Of.
func (c *Capture) Failures(s *lifetime.Space) []oom.Diagnosis {
	return Once(c, "failures", s, func() []oom.Diagnosis {
		return oom.Of(&c.Tables, s, oom.CapacityFor(s, c.Spaces, c.Settings.Limit), oom.Facts{
			Leaks: func(until *lifetime.Space) []oom.Grown { return finding.LeaksUntil(c.Program().Part(until), s) },
			Replay: func(until *lifetime.Space) *replay.Recording {
				if until == s || len(s.Buffers) > c.Limits.Replays {
					return c.Replay(s)
				}
				return replay.Check(until, c.Sources[s.Source].Settings)
			},
		})
	})
}

// Replay returns the recording of a space, compared with the rules of PyTorch's allocator; nil if it cannot be replayed, or has more
// buffers than the limit.
func (c *Capture) Replay(s *lifetime.Space) *replay.Recording {
	if len(s.Buffers) > c.Limits.Replays {
		return nil
	}
	return Once(c, "replay", s, func() *replay.Recording { return replay.Check(s, c.Sources[s.Source].Settings) })
}

// WhatIf returns what the program of a space would need if it were changed. The engine is nil if that is not known: refused says why,
// unless the space has more buffers than the limit.
func (c *Capture) WhatIf(s *lifetime.Space) (e *whatif.Engine, refused string) {
	if s = cmp.Or(s.Ungrouped, s); len(s.Buffers) > c.Limits.Changes {
		return nil, ""
	}
	one := Once(c, "whatif", s, func() engine {
		e, refused := whatif.New(c.Program(), s, c.Replay(s))
		return engine{e, refused}
	})
	return one.Engine, one.refused
}

// Outline is an outline with the judgement of what it has of each space.
type Outline struct {
	*outline.Outline
	Kept *Capture // its spaces in order: with all buffers if they were kept, else with their marks
}

// NewOutline judges an outline that formats.OpenOutline returned, as New and Mark do.
func NewOutline(o *outline.Outline) *Outline {
	category.OfOutline(o)
	j := OfOutline(o)
	if j.Kept.Mark(); len(j.Kept.Purposes) != len(o.Purposes) { // some leak
		o.Tables = j.Kept.Tables
		o.SetRows()
	}
	return j
}

// OfOutline returns the judgement of an outline, or of a part of one, whose categories are known.
func OfOutline(o *outline.Outline) *Outline {
	c := &lifetime.Capture{Tables: o.Tables}
	for _, s := range o.Spaces {
		c.Spaces = append(c.Spaces, cmp.Or(s.Recording, s.Program, &lifetime.Space{SpaceInfo: s.SpaceInfo, Marks: s.Marks}))
	}
	return &Outline{o, Of(c)}
}

// Outline returns the outline of the capture.
func (c *Capture) Outline() *Outline {
	return Once(c, "outline", nil, func() *Outline {
		o := OfOutline(outline.Of(c.Capture))
		if !slices.ContainsFunc(c.Spaces, outline.TooLarge) {
			o.Kept = c
		}
		return o
	})
}
