package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/render/report"
)

// maxListed is the number of rows of a table.
const maxListed = 50

type markdown struct{ text strings.Builder }

func (m *markdown) line(format string, args ...any) { fmt.Fprintf(&m.text, format+"\n", args...) }

// writeMarkdown writes the report for a page or an issue.
func writeMarkdown(w io.Writer, d *Data) error {
	m := &markdown{}
	m.line("# Memory of a fleet\n\n**%s**", report.Escape(d.Headline()))
	m.list("Failed allocations", "item", len(d.Failures), func(i int) string {
		f := &d.Failures[i]
		if f.WhatIf == nil {
			return FailureText(f)
		}
		return FailureText(f) + "; " + WhatIfText(f.WhatIf)
	})
	m.list("Other versions of the program", "item", len(d.OtherCode), func(i int) string { return CodeText(&d.OtherCode[i]) })
	m.outliers(d)
	m.shared(d)
	for i := range d.Kinds {
		m.kind(&d.Kinds[i])
	}
	m.troubles("Refused", d.Refused)
	m.troubles("Missing", d.Missing)
	m.troubles("Damaged, read in part, not judged", d.Damaged)
	absent := len(d.Absent)
	m.list(units.Plural(absent, "rank")+" without a capture", "rank", absent, func(i int) string { return d.Absent[i] })
	if len(d.Losses) > 0 {
		m.line("\n## Warnings\n")
	}
	for i := range d.Losses {
		m.line("- %s", report.Escape(d.Losses[i].String()))
	}
	_, err := io.WriteString(w, m.text.String())
	return err
}

// list writes a section of n things, if there are any.
func (m *markdown) list(title, thing string, n int, item func(i int) string) {
	if n == 0 {
		return
	}
	m.line("\n## %s\n", title)
	for i := range min(maxListed, n) {
		m.line("- %s", report.Escape(item(i)))
	}
	m.more(n, thing)
}

// more writes how many of n things a list left out.
func (m *markdown) more(n int, thing string) {
	if n > maxListed {
		m.line("\n%s.", moreOf(n-maxListed, thing))
	}
}

func (m *markdown) outliers(d *Data) {
	m.line("\n## Ranks that differ\n")
	if len(d.Outliers) == 0 {
		m.line("None.")
		return
	}
	for i := range d.Groups[:min(maxListed, len(d.Groups))] {
		g := &d.Groups[i]
		m.line("- **%s** %s", g.Severity, report.Escape(GroupText(g)))
		if why := GroupWhy(g); why != "" {
			m.line("  - %s", report.Escape(why))
		}
		if g.WhatIf != nil {
			m.line("  - %s", report.Escape(WhatIfText(g.WhatIf)))
		}
	}
	m.more(len(d.Groups), "outlier group")
	m.line("\n| severity | capture | device | |\n|---|---|---|---|")
	for i := range d.Outliers[:min(maxListed, len(d.Outliers))] {
		f := &d.Outliers[i]
		m.line("| %s | %s | %s | %s |", f.Severity, report.Escape(f.Text(finding.FigFile)), report.Escape(f.Space.ID()),
			report.Escape(f.Description))
	}
	m.more(len(d.Outliers), "outlier")
}

func (m *markdown) shared(d *Data) {
	m.line("\n## Findings\n")
	grave := d.Grave()
	if len(grave) == 0 {
		m.line("None.")
	}
	for i := range grave[:min(maxListed, len(grave))] {
		m.line("- **%s** %s", report.Escape(grave[i].Severity), report.Escape(d.Sentence(&grave[i])))
	}
	m.more(len(grave), "finding")
	if n := len(d.Findings) - len(grave); n > 0 {
		m.line("\n%s.", moreOf(n, "note"))
	}
}

func (m *markdown) kind(k *fleet.Kind) {
	m.line("\n## %s\n", report.Escape(peaksOf(k)))
	rows, more := MakeUp(k, maxListed)
	m.line("| at the peaks | share | devices | least | median | most | allocated by |\n|--:|--:|--:|--:|--:|--:|---|")
	for _, r := range rows {
		if r.Memories == 0 {
			m.line("| %s | %.1f %% | | | | | %s |", units.Bytes(r.Bytes), 100*r.Share, report.Escape(r.Place))
			continue
		}
		m.line("| %s | %.1f %% | %s | %s | %s | %s | %s |", units.Bytes(r.Bytes), 100*r.Share, units.Count(int64(r.Memories)),
			units.Bytes(r.AtPeaks.Least), units.Bytes(r.AtPeaks.Median), units.Bytes(r.AtPeaks.Most), report.Escape(r.Place))
	}
	if more > 0 {
		m.line("\n%s.", moreOf(more, "place"))
	}
}

func (m *markdown) troubles(title string, all []*fleet.Record) {
	if len(all) == 0 {
		return
	}
	m.line("\n## %s\n\n| capture | |\n|---|---|", title)
	for _, r := range all[:min(maxListed, len(all))] {
		m.line("| %s | %s |", report.Escape(r.Name), report.Escape(Trouble(r)))
	}
	m.more(len(all), "capture")
}
