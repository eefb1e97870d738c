package text

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
)

// WhatIf writes what programs would need if they were changed, a table for each memory ID.
func WhatIf(w io.Writer, a *answer.WhatIf, s Style) error {
	p := NewPage(s)
	for i := range a.Spaces {
		if i > 0 {
			p.Line("")
		}
		p.scenarios(&a.Spaces[i])
	}
	return p.To(w)
}

const (
	wideTable  = 100 // is the width of tables of changes, if no terminal is narrower
	changeWide = 24  // is that of a list of changes before it goes on in the next line
)

func (p *Page) scenarios(s *answer.WhatIfSpace) {
	p.Line("%s %s", Printable(s.File), Printable(s.ID))
	if len(s.Scenarios) == 0 {
		p.Para("  ", "  ", "cannot predict: "+s.Replay.Refused)
		return
	}
	said := func(text string) { p.Para("  ", "    ", text) }
	recorded := &s.Scenarios[0]
	switch replayed := units.Bytes(*recorded.ReplayedBytes); {
	case s.OneStep:
		said(Unchanged(&s.Scenarios[1]))
	case s.Failed:
		said(Unchanged(recorded))
	case replayed != units.Bytes(*recorded.PeakBytes):
		said("replayed, the peak is " + replayed + ": changes save from that")
	}
	if s.Unfinished {
		said(answer.Scope)
	}
	if s.Replay != nil {
		p.Line("  replay: %s", s.Replay.Text())
	}
	if s.CapacityBytes != nil {
		p.Line("  capacity: %s", units.Bytes(*s.CapacityBytes))
	}
	width := map[bool]int{true: p.width, false: wideTable}[p.wraps]
	row := func(peak, saved, reserved, fits, cost, change string) []string {
		cells := []string{peak, saved}
		if s.CapacityBytes != nil { // whether it fits says more than what it saves
			cells[1] = fits
		}
		if width >= wideTable {
			cells = append(cells, reserved)
		}
		return append(cells, cost, change)
	}
	rows := [][]string{row("peak", "saved", "reserved", "fits", "cost per step", "change")}
	var notes []string
	for i := range s.Scenarios {
		one := &s.Scenarios[i]
		if one.Refused != "" {
			notes = append(notes, "cannot predict "+one.Refused)
			continue
		}
		saved, fits := "-", "maybe"
		if len(one.Edits) > 0 {
			saved = units.Bytes(*one.SavedBytes)
		}
		switch {
		case one.Fits != nil:
			fits = map[bool]string{true: "yes", false: "no"}[*one.Fits]
		case one.FitsShare != nil:
			fits = map[bool]string{true: "likely", false: "unlikely"}[*one.FitsShare >= .5]
			note := fmt.Sprintf("%s: about %.0f of 10 such programs fit, not all of which were run", fits, 10**one.FitsShare)
			if !slices.Contains(notes, note) {
				notes = slices.Insert(notes, 0, note)
			}
		}
		changes, costs := changeOf(one), costOf(one)
		if room := strings.Join(append(growth("largest batch", one.Batch), growth("longest sequence", one.Sequence)...), ", "); room != "" {
			notes = append(notes, changes+": "+room)
		}
		peak, reserved := About(one.PeakBytes, one.LowBytes, one.HighBytes),
			About(one.PeakReservedBytes, one.ReservedLowBytes, one.ReservedHighBytes)
		for len(changes)+len(costs) > 0 {
			var cost, change string
			cost, costs = firstOf(costs, leastText)
			change, changes = firstOf(changes, changeWide)
			rows = append(rows, row(peak, saved, reserved, fits, cost, change))
			peak, saved, reserved, fits = "", "", "", ""
		}
		if s.Replay == nil && one.Advice != "" {
			notes = append(notes, Printable(one.Advice))
		}
	}
	p.table(width, rows)
	for _, note := range notes {
		said(note)
	}
	if s.Long {
		said("the search ended before all combinations were tried: others may fit, too")
	}
	switch last := len(s.Scenarios) - 1; {
	case last > 1 || last == 1 && !s.OneStep:
	case !s.Searched:
		said("no change that memlane tries by itself lowers this peak; --set tries others, such as a smaller batch")
	case s.Scenarios[last].Batch == nil:
		said("no combination of these changes fits; --set tries others, such as a smaller batch, precision or shard")
	}
}

// Unchanged says what a program needs without a change, if that is not the recorded peak.
func Unchanged(of *answer.WhatIfScenario) string {
	if len(of.Edits) == 0 {
		return "with the request that failed the program needs " + units.Bytes(*of.ReplayedBytes) + ": all changes are with it"
	}
	return "the next step will need " + About(of.PeakBytes, of.LowBytes, of.HighBytes) + ": only one step was recorded, and all changes are of the next one"
}

// About returns bytes, and the range of them: "229 MiB (195 to 240)".
func About(likely, low, high *int64) string {
	said, from, to := units.Bytes(*likely), units.Bytes(*low), units.Bytes(*high)
	if *low == *high {
		return from
	}
	if from == to {
		return "about " + said
	}
	if _, unit, _ := strings.Cut(said, " "); strings.HasSuffix(from, unit) && strings.HasSuffix(to, unit) {
		from, to = strings.TrimSuffix(from, " "+unit), strings.TrimSuffix(to, " "+unit)
	}
	return said + " (" + from + " to " + to + ")"
}

// Between returns bytes, or a range of them.
func Between(low, high int64) string {
	switch from, to := units.Bytes(low), units.Bytes(high); {
	case low == high:
		return from
	case from == to:
		return "about " + from
	default:
		return from + " to " + to
	}
}

// growth tells how far something can grow.
func growth(of string, r *answer.WhatIfRoom) []string {
	switch {
	case r == nil:
		return nil
	case r.More:
		return []string{fmt.Sprintf("%s %gx or more", of, r.Low)}
	case r.Low == 0:
		return []string{fmt.Sprintf("%s at most %gx", of, r.High)}
	case r.Low == r.High:
		return []string{fmt.Sprintf("%s %gx", of, r.High)}
	}
	return []string{fmt.Sprintf("%s %gx to %gx", of, r.Low, r.High)}
}

// Saving returns the peak with a change that lowers it, and the change with what it costs, in words.
func Saving(of *answer.WhatIfScenario) (peak, change string) {
	change = changeOf(of)
	if cost := costOf(of); cost != "" {
		change += ": " + cost + " in each step"
	}
	return About(of.PeakBytes, of.LowBytes, of.HighBytes), change
}

// changeOf names the edits of a scenario.
func changeOf(s *answer.WhatIfScenario) string {
	if len(s.Edits) == 0 {
		return "(recorded)"
	}
	return Printable(strings.Join(s.Edits, ","))
}

// firstOf returns the first parts of a list that fit a width, at least one, and the rest: people copy what a table says, so nothing of it is cut.
func firstOf(list string, width int) (first, rest string) {
	for end := 0; end < len(list); {
		n := strings.IndexByte(list[end:], ',') + 1
		if n == 0 {
			n = len(list) - end
		}
		if end > 0 && shorten.Columns(list[:end+n]) > width {
			return list[:end], strings.TrimSpace(list[end:])
		}
		end += n
	}
	return list, ""
}

// costOf tells what a scenario costs in each step; empty if it costs nothing.
func costOf(s *answer.WhatIfScenario) string {
	var costs []string
	if s.Recomputed > 0 {
		costs = append(costs, units.Plural(s.Recomputed, "buffer")+" again")
	}
	if s.CopiedBytes > 0 {
		costs = append(costs, units.Bytes(s.CopiedBytes)+" copied")
	}
	if s.Passes > 0 {
		costs = append(costs, map[bool]string{true: "1 more pass", false: units.Plural(s.Passes, "more passe")}[s.Passes == 1])
	}
	return strings.Join(costs, ", ")
}
