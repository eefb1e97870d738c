package finding

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Marks are the findings by call site and buffer, for labels in profiles and hatching in pictures. nil has no marks.
type Marks struct {
	Comments []string // findings above Info, one line each

	spaces map[*lifetime.Space]spaceMarks
}

type spaceMarks struct {
	sites   map[lifetime.SiteID]mark // sites that leak
	buffers []int
}

type mark struct {
	Label string // "leak:warning": the rule and the severity
	Text  string // "leak: 4.00 MiB in 20 buffers"
}

// MarksOf returns the marks of findings.
func MarksOf(found []Finding) *Marks {
	m := &Marks{spaces: map[*lifetime.Space]spaceMarks{}}
	for i := range found {
		f := &found[i]
		if f.Severity > Info {
			m.Comments = append(m.Comments, f.Space.ID()+": "+f.Severity.String()+": "+f.Rule+": "+f.Description)
		}
		if !f.IsLeak() {
			continue
		}
		of := m.spaces[f.Space]
		if of.sites == nil {
			of.sites = map[lifetime.SiteID]mark{}
		}
		of.buffers = append(of.buffers, f.Kept...)
		m.spaces[f.Space] = of
		for _, site := range f.Sites {
			of.sites[site] = mark{f.Rule + ":" + f.Severity.String(),
				fmt.Sprintf("%s: %s in %s", f.Rule, units.Bytes(f.Amount.Bytes), units.Plural(f.Amount.Count, "buffer"))}
		}
	}
	return m
}

// At returns the mark of a call site; it is empty if the site does not leak.
func (m *Marks) At(s *lifetime.Space, site lifetime.SiteID) mark {
	if m == nil {
		return mark{}
	}
	return m.spaces[s].sites[site]
}

// Buffers returns the buffers that leak, by index into Space.Buffers.
func (m *Marks) Buffers(s *lifetime.Space) []int {
	if m == nil {
		return nil
	}
	return m.spaces[s].buffers
}

// Leaking returns the buffers of the marked sites that leak, in order: those that findings keep, and all of a site of which they keep none.
func (m *Marks) Leaking(s *lifetime.Space) (all []int) {
	if m == nil {
		return nil
	}
	kept, named, of := make([]bool, len(s.Buffers)), map[lifetime.SiteID]bool{}, m.spaces[s]
	for _, i := range of.buffers {
		kept[i], named[s.Buffers[i].Site] = true, true
	}
	for i := range s.Buffers {
		if site := s.Buffers[i].Site; of.sites[site].Text != "" && (kept[i] || !named[site]) {
			all = append(all, i)
		}
	}
	return all
}

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
