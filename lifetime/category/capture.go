package category

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/outline"
)

// Of finds what the buffers of a capture are for. The categories of a person, if any, replace those that the rules
// find.
func Of(c *lifetime.Capture, own *Overrides) {
	judge := NewJudge(&c.Tables)
	for _, s := range c.Spaces {
		judge.r.knowMarks(s)
	}
	for _, s := range c.Spaces {
		judge.Add(s)
	}
	judge.r.Done()
	if own != nil {
		own.Add(&c.Tables, c.Spaces)
	}
}

// OfOutline is Of for an outline. A person's own categories need the whole capture.
func OfOutline(o *outline.Outline) {
	judge := NewJudge(&o.Tables)
	for _, s := range o.Spaces {
		if whole := s.Whole(); whole != nil {
			judge.r.knowMarks(whole)
		}
	}
	for _, s := range o.Spaces {
		if whole := s.Whole(); whole != nil {
			judge.Add(whole)
		} else {
			judge.AddRows(&s.SpaceInfo, s.PeakRows, s.EndRows)
		}
	}
	judge.r.Done()
	o.SetRows()
}
