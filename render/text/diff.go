package text

import (
	"fmt"
	"io"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
)

// maxPairs is the maximum number of memory IDs of a comparison.
const maxPairs = 8

// Diff writes the differences between two captures.
func Diff(w io.Writer, d *answer.Diff, s Style) error {
	p := NewPage(s)
	p.Para("", "", Bounded(d.Verdict))
	for _, pair := range d.Pairs[:min(len(d.Pairs), maxPairs)] {
		p.Line("\n%s", Printable(pair.Name))
		var rows [][]string
		for _, f := range pair.Figures {
			rows = append(rows, []string{Printable(f.Name), f.Before, f.After, f.Change, ""})
		}
		p.Table([]string{"", "before", "after", "change", ""}, rows)
		if pair.Waterfall != nil {
			p.Para("peak: ", "  ", Waterfall(pair.Waterfall))
		}
	}
	if n := len(d.Pairs) - maxPairs; n > 0 {
		p.Line("\nand %s", more(n, "memory ID"))
	}
	p.changedSites(d)
	if d.NoPlaces {
		p.Line("")
		p.Para("", "", "Call sites were not compared because one capture has none. Record stacks, or operations with shapes.")
	}
	p.changes("new", d.Findings.New)
	p.changes("fixed", d.Findings.Fixed)
	p.changes("still", d.Findings.Still)
	return p.To(w)
}

// Waterfall tells the way from the peak before to the peak after.
func Waterfall(w *answer.DiffWaterfall) string {
	text := units.Bytes(w.BeforeBytes)
	for _, s := range w.Steps {
		text += " -> " + units.Signed(s.DeltaBytes) + " " + Bounded(s.Words)
	}
	return text + " -> " + units.Bytes(w.AfterBytes)
}

// changedSites writes the call sites that differ, largest difference first.
func (p *Page) changedSites(d *answer.Diff) {
	if len(d.Rows) == 0 {
		return
	}
	allocated := map[bool]string{true: "per step", false: "allocated"}[d.PerStep]
	common := d.Pairs[0].Name
	for _, pair := range d.Pairs[1:] {
		for !strings.HasPrefix(pair.Name, common) {
			common = common[:strings.LastIndexByte(strings.TrimSuffix(common, "/"), '/')+1]
		}
	}
	var rows [][]string
	for i := range d.Rows[:min(len(d.Rows), maxRows)] {
		r := &d.Rows[i]
		name := r.Name()
		if len(d.Pairs) > 1 {
			name += " on " + strings.TrimPrefix(r.Space, common)
		}
		rows = append(rows, []string{units.Signed(r.DeltaPeakBytes), units.Signed(r.DeltaEndBytes),
			units.Signed(r.AllocatedChange()), r.Status, Printable(name)})
	}
	if n := len(d.Rows) - maxRows; n > 0 {
		rows = append(rows, []string{"", "", "", "", more(n, "place")})
	}
	p.Line("")
	p.Table([]string{"peak", "end", allocated, "", "allocated by"}, rows)
}

// changes lists the findings above Info severity.
func (p *Page) changes(what string, all []answer.Finding) {
	for i := range all {
		if f := &all[i]; f.Level() > finding.Info {
			p.Line("")
			p.Para(what+": ", "  ", fmt.Sprintf("%s %s: %s", f.Severity, f.Rule, Bounded(f.Description)))
		}
	}
}
