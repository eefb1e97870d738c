package text

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
)

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
