package text

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/selection"
)

// First returns what to do first besides what r.OOMs says: not a failure again.
func First(r *answer.Report) []answer.Finding {
	failures := slices.DeleteFunc(finding.Rules(), func(rule finding.Rule) bool { return len(r.OOMs) == 0 || rule.Kind != finding.KindFailure })
	return slices.DeleteFunc(slices.Clone(r.First), func(f answer.Finding) bool {
		return slices.ContainsFunc(failures, func(rule finding.Rule) bool { return rule.Name == f.Rule })
	})
}

// Report writes a report: first actions, then the output of info, leaks and peak.
func Report(w io.Writer, r *answer.Report, s Style) error {
	p := NewPage(s)
	p.failuresFirst(r.OOMs)
	p.Para("", "  ", strings.Join(Verdict(r), "; "))
	for _, line := range PeakTexts(r) {
		p.Para("", "  ", line)
	}
	for i, f := range First(r) {
		p.Line("")
		p.Para(fmt.Sprintf("%d. ", i+1), "   ", fmt.Sprintf("%s (%s): %s", f.Rule, f.Severity, f.Description))
		for _, s := range f.Suggestions[:min(len(f.Suggestions), 1)] {
			p.Para("   > ", "     ", s)
		}
	}
	for i := range r.Captures {
		c := &r.Captures[i]
		p.Line("")
		p.capture(&c.Info)
		p.Line("")
		p.leaks(&c.Leaks, false)
		for k := range c.Peaks {
			p.Line("")
			p.peak(&c.Peaks[k], string(selection.ByLine))
			p.savings(&c.Peaks[k])
		}
	}
	p.ranks(r.RankInfo)
	return p.To(w)
}
