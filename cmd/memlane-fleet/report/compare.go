package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/render/text"
)

// WriteComparison writes what differs between two runs, at most textLines lines: what grew, on which ranks, and what is
// new.
func WriteComparison(w io.Writer, c *fleet.Comparison) error {
	t := &page{text.NewPage(text.Style{Width: text.UsualWidth})}
	const most, shown = 2, 3
	for i := range c.Kinds[:min(most, len(c.Kinds))] {
		k := &c.Kinds[i]
		t.para("", "  ", fmt.Sprintf("%s on both sides, medians: peak %s; reserved %s; leaked %s", units.Plural(k.Memories, short(k.Name, 24)+" device"), fromTo(k.Peak),
			fromTo(k.Reserved), fromTo(k.Leaks)))
		t.rankChange("grew", k.Grown)
		t.rankChange("shrank", k.Shrunk)
		if k.Grown == nil && k.Shrunk == nil {
			t.Line("  no peak changed by more than 5 %%")
		}
	}
	t.more("", len(c.Kinds)-most, "memory kind")
	list := func(title string, n int, thing string, item func(i int) string) {
		if n == 0 {
			return
		}
		t.Line("%s", title)
		for i := range min(shown, n) {
			t.para("  ", "    ", short(item(i), textSentence))
		}
		if n > shown {
			t.Line("  %s", units.Plural(n-shown, "more "+thing))
		}
	}
	list("New at the peaks", len(c.NewPlaces), "place", func(i int) string {
		p := &c.NewPlaces[i]
		return fmt.Sprintf("%s in %s: %s", units.Bytes(p.Bytes), units.Plural(p.Memories, "device"), p.Place)
	})
	list("New findings", len(c.NewFindings), "finding", func(i int) string { return groupLine(c.NewFindings[i]) })
	list("Findings that are gone", len(c.GoneFindings), "finding", func(i int) string { return groupLine(c.GoneFindings[i]) })
	if len(c.OnlyBefore) > 0 {
		t.para("", "  ", short("only in the first run: "+ranksText(c.OnlyBefore, ""), textSentence))
	}
	if len(c.OnlyAfter) > 0 {
		t.para("", "  ", short("only in the second run: "+ranksText(c.OnlyAfter, ""), textSentence))
	}
	if c.NotJudged > 0 {
		t.para("", "  ", units.Plural(c.NotJudged, "device")+" of damaged captures not compared")
	}
	return t.To(w)
}

func (t *page) rankChange(verb string, r *fleet.RankChange) {
	if r == nil {
		return
	}
	who := ranksText(r.Ranks, roleText(r.Role, r.OfRole, len(r.Ranks)))
	t.para("  ", "    ", short(fmt.Sprintf("%s: the peak %s by %s (median)", who, verb, units.Bytes(abs(r.Off))), textSentence))
	if of := partsText(r.Categories, r.Places, ""); of != "" {
		t.para("    ", "    ", short("of it "+of, textSentence))
	}
}

func fromTo(of [2]int64) string {
	if of[0] == of[1] {
		return units.Bytes(of[0]) + ", unchanged"
	}
	return units.Bytes(of[0]) + " to " + units.Bytes(of[1])
}

func groupLine(g *fleet.Group) string {
	f := Finding{g, ranksOf(g)}
	text := g.Severity + " " + f.What() + ": " + ranksText(f.Ranks, "")
	if g.BytesPerStep > 0 {
		text += ", " + units.Bytes(int64(g.BytesPerStep)) + " per step"
	}
	if len(g.HeldBy) > 0 {
		text += ", held by " + g.HeldBy[0]
	}
	return text
}

// roleText returns what ranks have in common: " of pipeline stage 3".
func roleText(role string, all, n int) string {
	switch {
	case role == "":
		return ""
	case all > n:
		return fmt.Sprintf(" of %s of %s", units.Count(int64(all)), role)
	}
	return " of " + role
}

// partsText names the largest categories with their layers, and the largest place, unless it is told already.
func partsText(categories []fleet.CategoryExcess, places []fleet.PlaceExcess, told string) string {
	var of []string
	for _, c := range categories[:min(2, len(categories))] {
		text := units.Bytes(abs(c.Bytes)) + " " + c.Category
		if len(c.Layers) > 0 {
			text += " of " + strings.Join(c.Layers[:min(2, len(c.Layers))], ", ")
			if len(c.Layers) > 2 {
				text += ", …"
			}
		}
		of = append(of, text)
	}
	if len(places) > 0 && places[0].Place != told {
		of = append(of, units.Bytes(abs(places[0].Bytes))+" at "+places[0].Place)
	}
	return strings.Join(of, "; ")
}
