package finding

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Mark gives the buffers that findings call leaked the category purpose.Leaked, with the rule and the confidence of the
// finding, so that sums by category and findings agree, also where nothing else has a category. In formats whose outlines do not
// have the history (lifetime.Traits.Folded) nothing changes. A person's own categories stay.
func Mark(c *lifetime.Capture, found []Finding) {
	for i := range found {
		f := &found[i]
		if !f.IsLeak() || c.Sources[f.Space.Source].Traits.Folded {
			continue
		}
		if f.Space.Purposes == nil {
			f.Space.Purposes = make([]lifetime.PurposeID, len(f.Space.Buffers))
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

func leaked(t *lifetime.Tables, f *Finding, was lifetime.PurposeID) lifetime.PurposeID {
	p := t.Purpose(was)
	if p.Evidence == purpose.FromUser {
		return was
	}
	p.Category, p.Own, p.Evidence, p.Confidence, p.Rule = purpose.Leaked, "", purpose.FromLifetime, float32(f.Confidence), f.Rule
	p.How = f.How()
	t.Purposes = append(t.Purposes, p)
	return lifetime.PurposeID(len(t.Purposes) - 1)
}
