package lifetime

import (
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/purpose"
)

// HolderID is the number of a Holder in Tables; 0 = none.
type HolderID uint32

// PurposeID is the number of a purpose.Purpose in Tables.
type PurposeID uint32

// Purpose returns the purpose of a number; the zero one for 0.
func (t *Tables) Purpose(id PurposeID) purpose.Purpose {
	if id == 0 {
		return purpose.Purpose{}
	}
	return t.Purposes[id]
}

// PurposeOf returns the purpose of a buffer; 0 if package category did not judge the space.
func (s *Space) PurposeOf(buffer int) PurposeID {
	if s.Purposes == nil {
		return 0
	}
	return s.Purposes[buffer]
}

// Category returns what memory is for: the category of its purpose or, if that is not known, its kind in a compiled
// program and for kinds without buffers, else the producer's; "" = not recorded and not judged.
func (t *Tables) Category(s *SpaceInfo, k Kind, site SiteID, id PurposeID) string {
	switch {
	case !k.OfBuffers(), s.Axis == ProgramOrder && t.Purpose(id).Name() == purpose.UnknownCategory.String():
		return k.String()
	case id == 0:
		return t.Sites[site].Region
	}
	p := t.Purpose(id)
	if p.Category == purpose.UnknownCategory && p.Own == "" && t.Sites[site].Region != "" {
		return t.Sites[site].Region // in the producer's words
	}
	return p.Name()
}

// ArgumentOf returns the name of the argument of a compiled program that a buffer holds, or a copy of it; "" if it holds none or the program
// does not name it.
func (t *Tables) ArgumentOf(k Kind, site SiteID) string {
	if k == Parameter || t.Sites[site].Role != "" {
		return t.Sites[site].Op
	}
	return ""
}

// HolderOf returns the holder of a buffer; nil if none was recorded.
func (t *Tables) HolderOf(s *Space, buffer int) *holder.Holder {
	if s.Holders == nil || s.Holders[buffer] == 0 {
		return nil
	}
	return &t.Holders[s.Holders[buffer]]
}
