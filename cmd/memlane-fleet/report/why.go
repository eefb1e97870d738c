package report

import (
	"fmt"
	"path"
	"strings"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/render/text"
)

// maxRanges is the number of ranges of ranks in a sentence.
const maxRanges = 6

// ranksText returns "rank 3" or "38 ranks (3, 96-132)".
func ranksText(ranks []string, of string) string {
	if len(ranks) == 1 {
		return ranks[0]
	}
	list := fleet.RankRanges(ranks)
	words := strings.Join(list[:min(maxRanges, len(list))], ", ")
	if len(list) > maxRanges {
		words += ", …"
	}
	return units.Plural(len(ranks), "rank") + of + " (" + words + ")"
}

// GroupText says which ranks differ, and by how much: "38 ranks of pipeline stage 3 (96-133): peak 30.1 GiB, 4.20 GiB
// more than the median of 25.9 GiB".
func GroupText(g *fleet.OutlierGroup) string {
	off, direction := g.Value-g.Others, "more"
	if off < 0 {
		off, direction = -off, "less"
	}
	median := ""
	if len(g.Ranks) > 1 {
		median = "median "
	}
	return fmt.Sprintf("%s: %s%s %s, %s %s than the median of %s", ranksText(g.Ranks, roleText(g.Role, g.OfRole, len(g.Outliers))), median, g.Measure, units.Bytes(g.Value), units.Bytes(off), direction,
		units.Bytes(g.Others))
}

// GroupWhy says what makes the difference: the leak, the categories with their layers, the places. It is "" if nothing
// is known.
func GroupWhy(g *fleet.OutlierGroup) string {
	var parts []string
	if g.Measure == finding.IdleReserved {
		parts = append(parts, "memory in use does not explain it: reserved memory is fragmented or cached")
	}
	if g.Leak != nil {
		leak := g.Leak.Rule + " " + g.Leak.Place
		if g.Leak.BytesPerStep > 0 {
			leak += ", " + units.Bytes(int64(g.Leak.BytesPerStep)) + " per step"
		}
		if len(g.Leak.HeldBy) > 0 {
			leak += ", held by " + g.Leak.HeldBy[0]
		}
		parts = append(parts, leak)
	}
	told := ""
	if g.Leak != nil {
		told = g.Leak.Place
	}
	if of := partsText(g.Categories, g.Places, told); of != "" {
		where := "at the peak "
		if g.Value < g.Others {
			where = "less at the peak: "
		}
		parts = append(parts, where+of)
	}
	return strings.Join(parts, "; ")
}

func abs(n int64) int64 { return max(n, -n) }

// FailureText says on which ranks allocations failed, and why.
func FailureText(f *fleet.FailureGroup) string {
	words := ranksText(f.Ranks, "") + ": out of memory, " + f.Reason
	if len(f.Requesters) > 0 {
		words += "; requested by " + f.Requesters[0]
	}
	return words
}

// WhatIfText says what would have lowered the peak of a rank most.
func WhatIfText(w *fleet.WhatIf) string {
	return fmt.Sprintf("the peak of %s would be %s, not %s: %s", w.Rank, text.Between(w.Low, w.High), units.Bytes(w.Peak), w.Advice)
}

// CodeText says which ranks run another version of a file.
func CodeText(c *fleet.OtherCode) string {
	return fmt.Sprintf("%s: another version of %s: %s at line %d, on most ranks at %d (%s moved alike)",
		ranksText(c.Ranks, ""), path.Base(c.File), c.Function, c.Line, c.Usual, units.Plural(c.Count, "function"))
}
