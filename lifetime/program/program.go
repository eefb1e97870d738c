package program

import "github.com/memlane/memlane/lifetime"

// Program is what the program of a capture did. Its parts are computed when first asked for, so one goroutine uses it
// at a time.
type Program struct {
	*lifetime.Capture
	stacks    *Stacks
	steps     map[*lifetime.Space]*Steps
	histories map[*lifetime.Space]*history
	waits     map[*lifetime.Space]*waiting
	evidence  map[*lifetime.Space]Evidence
}

// Of returns the program of a capture. It begins with the stacks that an earlier reader of the capture has read, if
// that one is done.
func Of(c *lifetime.Capture) *Program {
	return &Program{c, StacksOf(&c.Tables), map[*lifetime.Space]*Steps{}, map[*lifetime.Space]*history{}, map[*lifetime.Space]*waiting{},
		map[*lifetime.Space]Evidence{}}
}

// Done leaves what the program read of the stacks to the next reader of the capture. The program and what it returned
// are not used afterwards.
func (p *Program) Done() { p.stacks.Done() }

// At returns what the stack of a site says.
func (p *Program) At(site lifetime.SiteID) *Facts { return p.stacks.Of(p.Sites[site].Stack) }

// LineOf returns the innermost line of Python on the stack of a site, in a library or not; 0 if there is none.
func (p *Program) LineOf(site lifetime.SiteID) lifetime.FrameID {
	if path := p.At(site).Path; path != 0 {
		return p.stacks.lines[path]
	}
	return 0
}
