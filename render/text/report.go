package text

import (
	"io"
	"strings"

	"github.com/memlane/memlane/lifetime/answer"
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
