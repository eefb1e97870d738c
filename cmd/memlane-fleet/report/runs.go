package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/render/text"
)

// WriteTrends writes the changes of runs over time and their figures, at most textLines lines. Runs are grouped by
// their labels; "" has those without.
func WriteTrends(w io.Writer, groups map[string]*fleet.Trend) error {
	p := &page{text.NewPage(text.Style{Width: text.UsualWidth})}
	names := slices.Sorted(maps.Keys(groups))
	if len(names) == 1 {
		return p.trend(w, groups[names[0]])
	}
	const mostChanging, mostSteady, mostChanges = 4, 8, 2
	changes := map[string][]fleet.ChangePoint{}
	for _, name := range names {
		changes[name] = groups[name].Changes()
	}
	changing, steady := 0, 0
	for _, name := range names {
		if len(changes[name]) == 0 {
			continue
		}
		if changing++; changing > mostChanging {
			continue
		}
		p.Line("%s: %s", labelsText(name), units.Plural(len(groups[name].Runs), "run"))
		p.changes("  ", groups[name], changes[name], mostChanges)
	}
	if more := changing - mostChanging; more > 0 {
		p.Line("%s with changes: name its labels with --by, or its folder", moreSeries(more))
	}
	if len(names) > changing {
		p.Line("No lasting change")
	}
	for _, name := range names {
		if len(changes[name]) > 0 {
			continue
		}
		if steady++; steady > mostSteady {
			continue
		}
		t := groups[name]
		last := t.Runs[len(t.Runs)-1].Kinds[largestKind(t)]
		p.Line("  %s: %s; last median peak %s, leaked %s", labelsText(name), units.Plural(len(t.Runs), "run"),
			units.Bytes(last.Peak), units.Bytes(last.Leaked))
	}
	if more := steady - mostSteady; more > 0 {
		p.Line("  %s", moreSeries(more))
	}
	return p.To(w)
}

func moreSeries(n int) string { return units.Count(int64(n)) + " more series" }

func labelsText(name string) string {
	return cmp.Or(shorten.Name(text.Printable(name), 50), "without labels")
}

// changeText says what changed, with the changes of one run and the same ranks together.
type changeText struct {
	text string
	of   *fleet.ChangePoint // the first of them
}

func changeTexts(t *fleet.Trend, changes []fleet.ChangePoint) (all []changeText) {
	var order []string
	same := map[string][]*fleet.ChangePoint{} // of one run and the same ranks
	for i := range changes {
		c := &changes[i]
		key := fmt.Sprint(c.Kind, c.Run, c.After > c.Before, c.Ranks)
		if same[key] == nil {
			order = append(order, key)
		}
		same[key] = append(same[key], c)
	}
	for _, key := range order {
		c := same[key][0]
		var figures []string
		for _, each := range same[key] {
			figures = append(figures, fmt.Sprintf("%s %s to %s", each.Measure, units.Bytes(each.Before), units.Bytes(each.After)))
		}
		all = append(all, changeText{fmt.Sprintf("%s since %s, on %s: %s", c.Kind, shorten.Name(text.Printable(t.Runs[c.Run].Name), 40),
			ranksText(c.Ranks, roleText(c.Role, c.OfRole, len(c.Ranks))), strings.Join(figures, ", ")), c})
	}
	return all
}

func (p *page) changes(indent string, t *fleet.Trend, changes []fleet.ChangePoint, most int) {
	all := changeTexts(t, changes)
	for _, c := range all[:min(most, len(all))] {
		p.para(indent, indent+"  ", short(c.text, 2*textSentence))
		p.Line("%s  first in %s", indent, shorten.Name(text.Printable(c.of.Capture), textName-10))
	}
	if more := len(all) - most; more > 0 {
		p.Line("%s%s", indent, units.Plural(more, "more change"))
	}
}

// trend writes the changes of one group, and the figures of its last runs.
func (p *page) trend(w io.Writer, t *fleet.Trend) error {
	const mostChanges, mostRuns = 5, 20
	changes := t.Changes()
	if len(changes) == 0 {
		p.Line("No lasting change in %s.", units.Plural(len(t.Runs), "run"))
	}
	p.changes("", t, changes, mostChanges)
	kind := largestKind(t)
	if kind == "" {
		return p.To(w)
	}
	p.Line("\nMedians of %s memory", text.Printable(kind))
	var rows [][]string
	for i := max(0, len(t.Runs)-mostRuns); i < len(t.Runs); i++ {
		r, ok := t.Runs[i].Kinds[kind]
		if !ok {
			continue
		}
		rows = append(rows, []string{units.Count(int64(r.Memories)), units.Bytes(r.Peak), units.Bytes(r.Reserved),
			units.Bytes(r.Leaked), units.Bytes(r.PerStep), text.Printable(r.Category), text.Printable(t.Runs[i].Name)})
	}
	p.Table([]string{"memories", "peak", "reserved", "leaked", "per step", "most of", "run"}, rows)
	if more := len(t.Runs) - mostRuns; more > 0 {
		p.Line("%s", units.Plural(more, "earlier run"))
	}
	return p.To(w)
}

// largestKind returns the kind of memory with the highest median peak in a run.
func largestKind(t *fleet.Trend) (largest string) {
	most := int64(-1)
	for _, r := range t.Runs {
		for kind, figures := range r.Kinds {
			if figures.Peak > most || figures.Peak == most && kind < largest {
				largest, most = kind, figures.Peak
			}
		}
	}
	return largest
}

// WriteComparison writes what differs between two runs, at most textLines lines: what grew, on which ranks, and what
// is new.
func WriteComparison(w io.Writer, c *fleet.Comparison) error {
	t := &page{text.NewPage(text.Style{Width: text.UsualWidth})}
	const most, shown = 2, 3
	for i := range c.Kinds[:min(most, len(c.Kinds))] {
		k := &c.Kinds[i]
		t.para("", "  ", fmt.Sprintf("%s on both sides, medians: peak %s; reserved %s; leaked %s",
			units.Plural(k.Memories, short(k.Name, 24)+" memory ID"), fromTo(k.Medians[0]), fromTo(k.Medians[1]), fromTo(k.Medians[2])))
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
		return fmt.Sprintf("%s in %s: %s", units.Bytes(p.Bytes), units.Plural(p.Memories, "memory ID"), p.Place)
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
		t.para("", "  ", units.Plural(c.NotJudged, "memory ID")+" of damaged captures not compared")
	}
	return t.To(w)
}

func (t *page) rankChange(verb string, r *fleet.RankChange) {
	if r == nil {
		return
	}
	who := ranksText(r.Ranks, roleText(r.Role, r.OfRole, len(r.Ranks)))
	t.para("  ", "    ", short(fmt.Sprintf("%s: the peak %s by %s (median)", who, verb, units.Bytes(abs(r.Off))), textSentence))
	if parts := partsText(&r.Excess, ""); parts != "" {
		t.para("    ", "    ", short("of it "+parts, textSentence))
	}
}

func fromTo(median [2]int64) string {
	if median[0] == median[1] {
		return units.Bytes(median[0]) + ", unchanged"
	}
	return units.Bytes(median[0]) + " to " + units.Bytes(median[1])
}

func groupLine(g *fleet.Group) string {
	f := Finding{g, ranksOf(g)}
	return g.Severity + " " + f.What() + ": " + ranksText(f.Ranks, "") + growthText(g)
}
