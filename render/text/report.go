package text

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/selection"
)

// Report writes why an allocation failed, then for each capture its findings, its peak and what it contains, each once: no failure is a
// finding again, and no total a table.
func Report(w io.Writer, r *answer.Report, s Style) error {
	p := NewPage(s)
	if p.failuresFirst(r.OOMs); len(r.OOMs) == 0 && r.Grade == "" {
		p.Para("", "  ", Do(r))
	}
	if len(r.Captures) > 1 || r.Grade != "" { // one has its own verdict
		p.Para("", "  ", strings.Join(Verdict(r), "; "))
	}
	p.seriesFindings(r.Findings)
	for i := range r.Captures {
		c := &r.Captures[i]
		if p.Len() > 0 && !strings.HasSuffix(p.String(), "\n\n") {
			p.Line("")
		}
		p.leaks(&c.Leaks, false)
		for k := range c.Peaks {
			if !c.Peaks[k].UsageOnly {
				p.Line("")
				p.peak(&c.Peaks[k], string(selection.ByLine))
				p.savings(&c.Peaks[k])
			}
		}
		p.Line("")
		p.capture(&c.Info)
	}
	p.ranks(r.RankInfo)
	return p.To(w)
}

// Verdict sums the findings up, in one or two phrases.
func Verdict(r *answer.Report) []string {
	all := []string{r.Grade, counts(r), r.Unjudged}
	if r.Nothing {
		all = []string{r.Unjudged, counts(r)}
	}
	return slices.DeleteFunc(all, func(part string) bool { return part == "" })
}

// counts returns the numbers of findings by severity: "1 critical finding, 2 warnings, 3 notes".
func counts(r *answer.Report) string {
	var n [finding.Critical + 1]int
	for _, f := range r.OfCaptures() {
		n[f.Level()]++
	}
	var parts []string
	for i, name := range []string{"critical finding", "warning", "note"} {
		if n := n[int(finding.Critical)-i]; n > 0 {
			parts = append(parts, units.Plural(n, name))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "no finding")
}
