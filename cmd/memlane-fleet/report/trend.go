package report

import (
	"fmt"
	"io"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/render/text"
)

// WriteTrend writes the changes of runs over time and their figures, at most textLines lines.
func WriteTrend(w io.Writer, t *fleet.Trend) error {
	const mostChanges, mostRuns = 5, 20
	p := &page{text.NewPage(text.Style{Width: text.UsualWidth})}
	changes := t.Changes()
	if len(changes) == 0 {
		p.Line("No lasting change in %s.", units.Plural(len(t.Runs), "run"))
	}
	for i := range changes[:min(mostChanges, len(changes))] {
		c := &changes[i]
		p.para("", "  ", short(fmt.Sprintf("%s since %s: %s %s to %s, on %s", c.Kind, shorten.Name(text.Printable(t.Runs[c.Run].Name), 40), c.Measure, units.Bytes(c.Before), units.Bytes(c.After),
			ranksText(c.Ranks, roleText(c.Role, c.OfRole, len(c.Ranks)))), textSentence))
		p.Line("  first in %s", shorten.Name(text.Printable(c.Capture), textName-10))
	}
	if more := len(changes) - mostChanges; more > 0 {
		p.Line("%s", units.Plural(more, "more change"))
	}
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
		rows = append(rows, []string{units.Count(int64(r.Memories)), units.Bytes(r.Peak), units.Bytes(r.Reserved), units.Bytes(r.Leaked), units.Bytes(r.PerStep), text.Printable(r.Category),
			text.Printable(t.Runs[i].Name)})
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
