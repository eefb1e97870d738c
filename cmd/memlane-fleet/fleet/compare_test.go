package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
)

// TestCompare: of two runs that differ by a leak on one stage, the ranks, the category with its layers, the new line and the new
// finding are named. Lines that an edit moved are not new.
func TestCompare(t *testing.T) {
	const n, stages = 64, 8
	after, table := causes(n, stages)
	before, _ := causes(n, stages)
	for _, r := range before { // the same without the leak of stage 3, and with other lines
		m := &r.Memories[0]
		if m.Leaked > 0 {
			m.Peak -= m.Leaked
			m.Leaked, r.Findings = 0, nil
			m.Categories[0].Bytes -= 400 << 20
			for i := range m.Parts {
				m.Parts[i].Bytes -= 50 << 20
			}
			m.Sites = slices.DeleteFunc(m.Sites, func(s fleet.SiteTotals) bool { return s.Site.Frames[0].Function == "record" })
		}
		for i := range m.Sites {
			frames := slices.Clone(m.Sites[i].Site.Frames)
			for j := range frames {
				frames[j].Line += 10
			}
			m.Sites[i].Site.Frames = frames
		}
		r.Name = "yesterday/" + r.Name
	}
	before = before[:n-1]
	roles, err := fleet.ReadRoles(strings.NewReader(table))
	if err != nil {
		t.Fatal(err)
	}
	c := fleet.Compare(of(before...), of(after...), roles)
	if len(c.Kinds) != 1 || c.Kinds[0].Memories != n-2 || c.Kinds[0].Shrunk != nil || c.NotJudged != 2 || fmt.Sprint(c.OnlyAfter, c.OnlyBefore) != "[rank 63] []" {
		t.Fatalf("%+v", c)
	}
	g := c.Kinds[0].Grown
	if g == nil || len(g.Ranks) != 8 || g.Role != "pipeline stage 3" || g.Off != 400<<20 || g.Categories[0].Category != "activation" || g.Categories[0].Layers[0] != "layers[24-31]" {
		t.Errorf("%+v", g)
	}
	if len(c.NewPlaces) != 1 || c.NewPlaces[0].Place != "record (model.py:44)" || c.NewPlaces[0].Memories != 8 {
		t.Errorf("new places %+v", c.NewPlaces)
	}
	if len(c.NewFindings) != 1 || len(c.GoneFindings) != 0 || len(c.NewFindings[0].Found) != 8 {
		t.Errorf("new findings %v, gone %v", c.NewFindings, c.GoneFindings)
	}
	if c = fleet.Compare(of(after...), of(after...), nil); c.Kinds[0].Grown != nil || c.Kinds[0].Shrunk != nil || len(c.NewPlaces)+len(c.NewFindings)+len(c.OnlyAfter) > 0 {
		t.Errorf("a run differs from itself: %+v", c)
	}
}
