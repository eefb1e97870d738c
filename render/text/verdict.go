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

// None explains why there are no findings.
func None(r *answer.Report) string {
	if r.Nothing {
		return "None: " + r.Unjudged + "."
	}
	return "None: no leak and no other problem was found."
}

// counts returns the numbers of findings by severity: "1 critical, 2 warnings, 3 notes".
func counts(r *answer.Report) string {
	var n [finding.Critical + 1]int
	for _, f := range r.OfCaptures() {
		n[f.Level()]++
	}
	var parts []string
	if n[finding.Critical] > 0 {
		parts = append(parts, units.Count(int64(n[finding.Critical]))+" critical")
	}
	if n[finding.Warning] > 0 {
		parts = append(parts, units.Plural(n[finding.Warning], "warning"))
	}
	if n[finding.Info] > 0 {
		parts = append(parts, units.Plural(n[finding.Info], "note"))
	}
	if parts == nil {
		return "no finding"
	}
	return strings.Join(parts, ", ")
}

// maxPeakTexts is the maximum number of memory IDs whose peaks are described.
const maxPeakTexts = 3

// PeakTexts tells what the memory at the highest peaks is for, a sentence for each memory ID; none if nothing is known.
func PeakTexts(r *answer.Report) (lines []string) {
	var all []*answer.Peak
	for i := range r.Captures {
		for k := range r.Captures[i].Peaks {
			if p := &r.Captures[i].Peaks[k]; len(p.Categories) > 0 && p.Program == nil {
				all = append(all, p)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y *answer.Peak) int { return cmp.Compare(y.Bytes, x.Bytes) })
	for _, p := range all[:min(len(all), maxPeakTexts)] {
		lines = append(lines, peakSentence(p))
	}
	return lines
}
