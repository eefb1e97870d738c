package laws

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/selection"
)

// apart are the groups into which buffers of one site may part.
var apart = map[selection.By]bool{selection.ByPool: true, selection.ByStream: true, selection.ByCategory: true, selection.ByName: true, selection.ByHolder: true}

// TestGroups: grouping changes only the sites of buffers. Buffers of one site stay together, except as apart says. Groups
// are named, and no group is empty.
func TestGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCapture(t, usual)
		by := rapid.SampledFrom(selection.Bys).Draw(t, "by")
		grouped, err := selection.GroupBy(c, by)
		if err != nil {
			return // nothing is recorded by which to group
		}
		if err := grouped.Check(); err != nil {
			t.Fatal(err)
		}
		for i, s := range grouped.Spaces {
			of := map[lifetime.SiteID]lifetime.SiteID{}
			for k := range s.Buffers {
				b, was := s.Buffers[k], c.Spaces[i].Buffers[k]
				group := b.Site
				if before, seen := of[was.Site]; seen && before != group && !apart[by] {
					t.Fatalf("by %s, site %d is in groups %d and %d", by, was.Site, before, group)
				}
				of[was.Site] = group
				if b.Site = was.Site; b != was {
					t.Fatalf("by %s, buffer %+v became %+v", by, was, b)
				}
				named := by != selection.ByLine
				if by == selection.ByStack { // of some sites only a shape was recorded
					name, _ := c.PlaceOf(was.Site).Parts()
					named = name != ""
				}
				if name := grouped.PlaceOf(group).String(); named && name == "code without a recorded stack" {
					t.Fatalf("by %s, group %d has no name", by, group)
				}
			}
		}
	})
}
