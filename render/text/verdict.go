package text

import (
	"cmp"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
)

// Verdict sums the findings up, in one or two phrases.
func Verdict(r *answer.Report) []string {
	switch {
	case r.Grade != "":
		return []string{r.Grade, counts(r)}
	case r.Nothing:
		return []string{r.Unjudged, counts(r)}
	case r.Unjudged != "":
		return []string{counts(r), r.Unjudged}
	}
	return []string{counts(r)}
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
