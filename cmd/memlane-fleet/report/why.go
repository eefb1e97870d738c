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

// ranksText returns "rank 3" or "38 ranks of pipeline stage 3 (3, 96-132)".
func ranksText(ranks []string, role string) string {
	if len(ranks) == 1 {
		return ranks[0]
	}
	return units.Plural(len(ranks), "rank") + role + " (" + firstOf(fleet.RankRanges(ranks), maxRanges) + ")"
}

// firstOf returns a list of at most n names.
func firstOf(names []string, n int) string {
	text := strings.Join(names[:min(n, len(names))], ", ")
	if len(names) > n {
		text += ", …"
	}
	return text
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
	return fmt.Sprintf("%s: %s%s %s, %s %s than the median of %s", ranksText(g.Ranks, roleText(g.Role, g.OfRole, len(g.Outliers))),
		median, g.Measure, units.Bytes(g.Value), units.Bytes(off), direction, units.Bytes(g.Others))
}

// GroupWhy says what makes the difference: the leak, the categories with their layers, the places. It is "" if
// nothing is known.
func GroupWhy(g *fleet.OutlierGroup) string {
	var parts []string
	if g.Measure == finding.IdleReserved {
		parts = append(parts, "memory in use does not explain it: reserved memory is fragmented or cached")
	}
	place := ""
	if g.Leak != nil {
		place = g.Leak.Place
		parts = append(parts, g.Leak.Rule+" "+place+growthText(g.Leak))
	}
	if excess := partsText(&g.Excess, place); excess != "" {
		where := "at the peak "
		if g.Value < g.Others {
			where = "less at the peak: "
		}
		parts = append(parts, where+excess)
	}
	return strings.Join(parts, "; ")
}

// growthText returns how a finding grows and what holds its buffers, as far as it is known.
func growthText(g *fleet.Group) (text string) {
	if g.BytesPerStep > 0 {
		text += ", " + units.Bytes(int64(g.BytesPerStep)) + " per step"
	}
	if len(g.HeldBy) > 0 {
		text += ", held by " + g.HeldBy[0]
	}
	return text
}

// roleText returns what ranks have in common: " of pipeline stage 3".
func roleText(role string, all, n int) string {
	switch {
	case role == "":
		return ""
	case all > n:
		return fmt.Sprintf(" of %s of %s", units.Count(int64(all)), role)
	}
	return " of " + role
}

// partsText names the largest categories with their layers, and the largest place, unless it is told already.
func partsText(e *fleet.Excess, told string) string {
	var parts []string
	for _, c := range e.Categories[:min(2, len(e.Categories))] {
		text := units.Bytes(abs(c.Bytes)) + " " + c.Category
		if len(c.Layers) > 0 {
			text += " of " + firstOf(c.Layers, 2)
		}
		parts = append(parts, text)
	}
	if len(e.Places) > 0 && e.Places[0].Place != told {
		parts = append(parts, units.Bytes(abs(e.Places[0].Bytes))+" at "+e.Places[0].Place)
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
