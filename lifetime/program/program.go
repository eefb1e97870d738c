package program

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Program is what the program of a capture did. Its parts are computed when first asked for, so one goroutine uses it
// at a time.
type Program struct {
	*lifetime.Capture
	stacks    *Stacks
	steps     map[*lifetime.Space]*Steps
	histories map[*lifetime.Space]*history
	processes map[process][]*lifetime.Space // spaces with a clock
}

// Of returns the program of a capture. It begins with the stacks that an earlier reader of the capture has read, if
// that one is done.
func Of(c *lifetime.Capture) *Program { return of(c, StacksOf(&c.Tables)) }

// Part returns what the program did in a part of its capture, or on another axis. It reads the stacks with p.
func (p *Program) Part(spaces ...*lifetime.Space) *Program {
	return of(&lifetime.Capture{Tables: p.Tables, Spaces: spaces}, p.stacks)
}

func of(c *lifetime.Capture, stacks *Stacks) *Program {
	p := &Program{c, stacks, map[*lifetime.Space]*Steps{}, map[*lifetime.Space]*history{}, map[process][]*lifetime.Space{}}
	for _, s := range c.Spaces {
		if of := (process{s.Source, s.Host, s.Process}); s.Axis == lifetime.Time {
			p.processes[of] = append(p.processes[of], s)
		}
	}
	return p
}

// PhaseOf returns the phase that the stack of a site tells.
func (p *Program) PhaseOf(site lifetime.SiteID) purpose.Phase { return p.stacks.PhaseOf(p.At(site)) }

// At returns what the stack of a site says.
func (p *Program) At(site lifetime.SiteID) *Facts { return p.stacks.Of(p.Sites[site].Stack) }

// LineOf returns the innermost line of Python on the stack of a site, in a library or not; 0 if there is none.
func (p *Program) LineOf(site lifetime.SiteID) lifetime.FrameID {
	if path := p.At(site).Path; path != 0 {
		return p.stacks.lines[path]
	}
	return 0
}
