package report

import (
	"io"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/fleet"
	"github.com/memlane/memlane/lifetime/leak"
)

// maxListed is how many rows a table on a fleet has in Markdown.
const maxListed = 50

// WriteFleetMarkdown writes the report on a fleet for a page or an issue.
func WriteFleetMarkdown(w io.Writer, d *FleetData) error {
	m := &markdown{}
	m.line("# Memory of a fleet\n\n**%s**", escape(d.Headline()))
	m.outliers(d)
	m.shared(d)
	for i := range d.Kinds {
		m.kind(&d.Kinds[i])
	}
	m.troubles("Refused", d.Refused)
	m.troubles("Missing", d.Missing)
	m.troubles("Damaged, and read as far as they go", d.Damaged)
	if n := len(d.Absent); n > 0 {
		m.line("\n## %s that no capture is of\n", units.Several(n, "rank"))
		for _, rank := range d.Absent[:min(maxListed, n)] {
			m.line("- %s", escape(rank))
		}
		m.more(n, "rank", "ranks")
	}
	if len(d.Losses) > 0 {
		m.line("\n## What captures lack\n")
	}
	for i := range d.Losses {
		m.line("- %s", escape(d.Losses[i].String()))
	}
	_, err := io.WriteString(w, m.text.String())
	return err
}

// more says how many of n things a list has left out.
func (m *markdown) more(n int, one, many string) {
	if n > maxListed {
		m.line("\nAnd %s.", escape(moreOf(n-maxListed, one, many)))
	}
}

func (m *markdown) outliers(d *FleetData) {
	m.line("\n## Ranks that stand out\n")
	if len(d.Outliers) == 0 {
		m.line("None.")
		return
	}
	m.line("| severity | capture | memory ID | |\n|---|---|---|---|")
	for i := range d.Outliers[:min(maxListed, len(d.Outliers))] {
		f := &d.Outliers[i]
		m.line("| %s | %s | %s | %s |", f.Severity, escape(f.Text(leak.FigFile)), escape(f.Space.ID()), escape(f.Description))
	}
	m.more(len(d.Outliers), "rank that differs", "ranks that differ")
}

func (m *markdown) shared(d *FleetData) {
	m.line("\n## Findings\n")
	grave := d.Grave()
	if len(grave) == 0 {
		m.line("None.")
	}
	for i := range grave[:min(maxListed, len(grave))] {
		m.line("- **%s** %s", escape(grave[i].Severity), escape(d.Sentence(&grave[i])))
	}
	m.more(len(grave), "finding", "findings")
	if n := len(d.Findings) - len(grave); n > 0 {
		m.line("\n%s only worth knowing: %s.", units.Count(int64(n)), "fleet.json has them")
	}
}

func (m *markdown) kind(k *fleet.Kind) {
	m.line("\n## %s\n", escape(peaksOf(k)))
	rows, more := MakeUp(k, maxListed)
	m.line("| at the peaks | share | memory IDs | least | median | most | allocated by |\n|--:|--:|--:|--:|--:|--:|---|")
	for _, r := range rows {
		if r.Memories == 0 {
			m.line("| %s | %.1f %% | | | | | %s |", units.Bytes(r.Bytes), 100*r.Share, escape(r.Place))
			continue
		}
		m.line("| %s | %.1f %% | %s | %s | %s | %s | %s |", units.Bytes(r.Bytes), 100*r.Share, units.Count(int64(r.Memories)),
			units.Bytes(r.AtPeaks.Least), units.Bytes(r.AtPeaks.Median), units.Bytes(r.AtPeaks.Most), escape(r.Place))
	}
	if more > 0 {
		m.line("\nAnd %s.", moreOf(more, "place", "places"))
	}
}

func (m *markdown) troubles(title string, all []*fleet.Record) {
	if len(all) == 0 {
		return
	}
	m.line("\n## %s\n\n| capture | |\n|---|---|", title)
	for _, r := range all[:min(maxListed, len(all))] {
		m.line("| %s | %s |", escape(r.Name), escape(Trouble(r)))
	}
	m.more(len(all), "capture", "captures")
}
