package report

import (
	"io"
	"math"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/leak"
)

// maxChanged is how many places a comparison names.
const maxChanged = 50

// WriteDiff writes a comparison as Markdown, for a pull request.
func WriteDiff(w io.Writer, d *diff.Result, perStep bool) error {
	m := &markdown{}
	m.line("# Memory: before and after\n")
	m.line("**%s**", escape(d.Verdict()))
	for i := range d.Pairs {
		p := &d.Pairs[i]
		m.line("\n## %s\n", escape(p.Name))
		m.line("| | before | after | change |\n|---|--:|--:|--:|")
		for _, l := range diff.Figured(p) {
			m.line("| %s | %s | %s | %s |", l.Name, l.Before, l.After, l.Change)
		}
	}
	m.changed(d, perStep)
	m.changes("New findings", d.New, func(c diff.Change) *leak.Finding { return c.After })
	m.changes("Fixed", d.Fixed, func(c diff.Change) *leak.Finding { return c.Before })
	m.changes("Still there", d.Still, func(c diff.Change) *leak.Finding { return c.After })
	_, err := io.WriteString(w, m.text.String())
	return err
}

func (m *markdown) changed(d *diff.Result, perStep bool) {
	switch {
	case d.NoPlaces:
		m.line("\nCall sites were not compared: one of the captures does not tell who allocated.")
		return
	case len(d.Rows) == 0:
		m.line("\nEvery call site holds what it held before.")
		return
	}
	allocated := "allocated"
	if perStep {
		allocated = "allocated a step"
	}
	m.line("\n## Call sites\n")
	m.line("| | memory ID | allocated by | at the peak | at the end | %s |\n|---|---|---|--:|--:|--:|", allocated)
	for i := range d.Rows {
		r := &d.Rows[i]
		if i == maxChanged {
			m.line("| | | and %s more | | | |", units.Count(int64(len(d.Rows)-i)))
			break
		}
		p := &d.Pairs[r.Pair]
		change := diff.AllocatedOf(&r.After, p.After, perStep) - diff.AllocatedOf(&r.Before, p.Before, perStep)
		place := r.Place().String()
		if r.Unseen {
			place = "before the window"
		}
		m.line("| %s | %s | %s | %s | %s | %s |", r.Status, escape(p.Name), escape(place), units.Signed(r.DeltaPeak()), units.Signed(r.DeltaEnd()),
			units.Signed(int64(math.Round(change))))
	}
}

func (m *markdown) changes(title string, all []diff.Change, of func(diff.Change) *leak.Finding) {
	for _, c := range all {
		if f := of(c); f.Severity > leak.Info {
			if title != "" {
				m.line("\n## %s\n", title)
				title = ""
			}
			m.line("- **%s** (%s): %s", f.Rule, f.Severity, escape(f.Description))
		}
	}
}
