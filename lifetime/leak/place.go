package leak

import (
	"fmt"

	"github.com/memlane/memlane/lifetime"
)

// place is where a finding points: the innermost function of the program, or
// the operation and the shape of its result when there is no stack.
type place struct {
	frame     lifetime.Frame
	op, shape string
}

func (p place) String() string {
	switch {
	case p.frame.File != "":
		return fmt.Sprintf("%s (%s)", p.frame.Function, p.frame.Place())
	case p.frame.Function != "":
		return p.frame.Function
	case p.op != "" && p.shape != "":
		return p.op + " " + p.shape
	case p.op != "":
		return p.op
	}
	return "code without a recorded stack"
}

func placeOf(c *lifetime.Capture, site lifetime.SiteID) place {
	f, ok := c.UserFrame(site)
	if !ok || f.Kind == lifetime.Scope && f.File == "" { // a stack of operators: the innermost one does not tell who
		s := &c.Sites[site]
		return place{op: s.Op, shape: s.Shape}
	}
	return place{frame: f}
}
