package report

import (
	"fmt"
	"io"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/render/text"
)

// maxChanged is the maximum number of places in a comparison.
const maxChanged = 50

// WriteDiff writes a comparison as Markdown, for a pull request, with links to the lines of the repository.
func WriteDiff(w io.Writer, d *answer.Diff, in Repository) error {
	m := &markdown{in: in, files: in.files(Changes(d))}
	m.line("# Memory: before and after\n")
	m.line("**%s**", Escape(d.Verdict))
	for _, p := range d.Pairs {
		m.line("\n## %s\n", Escape(p.Name))
		m.line("| | before | after | change |\n|---|--:|--:|--:|")
		for _, l := range p.Figures {
			m.line("| %s | %s | %s | %s |", Escape(l.Name), l.Before, l.After, l.Change)
		}
		if p.Waterfall != nil {
			m.line("\nPeak: %s", Escape(text.Waterfall(p.Waterfall)))
		}
	}
	m.changed(d)
	m.changes("New findings", d.Findings.New)
	m.changes("Fixed findings", d.Findings.Fixed)
	m.changes("Remaining findings", d.Findings.Still)
	_, err := io.WriteString(w, m.text.String())
	return err
}

func (m *markdown) changed(d *answer.Diff) {
	switch {
	case d.NoPlaces:
		m.line("\nCall sites were not compared because one capture has none.")
		return
	case len(d.Rows) == 0:
		m.line("\nNo call site changed.")
		return
	}
	allocated := "allocated"
	if d.PerStep {
		allocated = "allocated per step"
	}
	m.line("\n## Call sites\n")
	m.line("| | memory ID | allocated by | at the peak | at the end | %s |\n|---|---|---|--:|--:|--:|", allocated)
	for i := range d.Rows {
		r := &d.Rows[i]
		if i == maxChanged {
			m.line("| | | and %s more | | | |", units.Count(int64(len(d.Rows)-i)))
			break
		}
		m.line("| %s | %s | %s | %s | %s | %s |", r.Status, Escape(r.Space), Escape(r.Name()),
			units.Signed(r.DeltaPeakBytes), units.Signed(r.DeltaEndBytes), units.Signed(r.AllocatedChange()))
	}
}

func (m *markdown) changes(title string, all []answer.Finding) {
	for i := range all {
		if f := &all[i]; f.Level() > finding.Info {
			if title != "" {
				m.line("\n## %s\n", title)
				title = ""
			}
			line := fmt.Sprintf("- **%s** (%s): %s", f.Rule, f.Severity, Escape(f.Description))
			if link := m.link(f); link != "" {
				line += ", in " + link
			}
			m.line("%s", line)
		}
	}
}
