package finding

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/outline"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Judge does what the commands do with a capture that formats.Open returned: category.Of finds what its buffers are
// for, Find returns the findings, and Mark marks the leaks. Call it once, before goroutines share the capture. For the
// categories of a person, call the three.
func Judge(c *lifetime.Capture, settings Settings) []Finding {
	category.Of(c, nil)
	found := Find(c, c.Spaces, settings)
	Mark(c, found)
	return found
}

// Mark gives the buffers that findings call leaked the category purpose.Leaked, with the rule and the confidence of the
// finding, so that sums by category and findings agree. It needs categories: where none are known, and in formats whose
// outlines do not have the history (lifetime.Traits.Folded), nothing changes. A person's own categories stay.
func Mark(c *lifetime.Capture, found []Finding) {
	for i := range found {
		f := &found[i]
		if !f.IsLeak() || f.Space.Purposes == nil || c.Sources[f.Space.Source].Traits.Folded {
			continue
		}
		marked := map[lifetime.PurposeID]lifetime.PurposeID{}
		for _, b := range f.Kept {
			was := f.Space.Purposes[b]
			if _, known := marked[was]; !known {
				marked[was] = leaked(&c.Tables, f, was)
			}
			f.Space.Purposes[b] = marked[was]
		}
	}
}

// MarkLeaks finds what leaks and marks it: see Mark.
func MarkLeaks(c *lifetime.Capture) {
	of := program.Of(c)
	defer of.Done()
	for _, s := range c.Spaces {
		if s.Purposes == nil || c.Sources[s.Source].Traits.Folded {
			continue
		}
		p, found := newPass(of, s, Settings{}), []Finding(nil)
		for _, r := range LeakRules() {
			found = append(found, p.run(r)...)
		}
		Mark(c, found)
	}
}

// MarkOutline is MarkLeaks for an outline: where it keeps whole spaces.
func MarkOutline(o *outline.Outline) {
	c := &lifetime.Capture{Tables: o.Tables}
	for _, s := range o.Spaces {
		if s.Recording != nil {
			c.Spaces = append(c.Spaces, s.Recording)
		}
	}
	MarkLeaks(c)
	if len(c.Purposes) != len(o.Purposes) { // some leak
		o.Tables = c.Tables
		o.SetRows()
	}
}

// leaked returns the number of a purpose as a leak.
func leaked(t *lifetime.Tables, f *Finding, was lifetime.PurposeID) lifetime.PurposeID {
	p := t.Purpose(was)
	if p.Evidence == purpose.FromUser {
		return was
	}
	p.Category, p.Own, p.Evidence, p.Confidence, p.Rule = purpose.Leaked, "", purpose.FromLifetime, float32(f.Confidence), f.Rule
	t.Purposes = append(t.Purposes, p)
	return lifetime.PurposeID(len(t.Purposes) - 1)
}
