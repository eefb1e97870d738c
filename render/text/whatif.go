package text

import (
	"fmt"
	"io"
	"strings"

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

func (p *Page) scenarios(s *answer.WhatIfSpace) {
	p.Line("%s %s", Printable(s.File), Printable(s.ID))
	if len(s.Scenarios) == 0 {
		p.Para("  ", "  ", "cannot predict: "+s.Replay.Refused)
		return
	}
	p.Line("  replay: %s", s.Replay.Text())
	if s.Unfinished {
		p.Para("  ", "    ",
			"the recording ends in the middle of what the program does: peaks are those until then, and the rest may need more")
	}
	if s.OneStep {
		p.Para("  ", "    ",
			"only one whole step was recorded: the next one has what this one made from its beginning, as states, so all changes are with one more step")
	}
	if s.CapacityBytes != nil {
		p.Line("  capacity: %s", units.Bytes(*s.CapacityBytes))
	}
	const row = "%24s %10s %24s  %-5s  %s"
	p.Line(row, "peak", "saved", "reserved", "fits", "change")
	for i := range s.Scenarios {
		scenario := &s.Scenarios[i]
		if scenario.Refused != "" {
			p.Para("  ", "    ", "cannot predict "+scenario.Refused)
			continue
		}
		saved := "-"
		if len(scenario.Edits) > 0 {
			saved = units.Bytes(scenario.SavedBytes)
		}
		fits := ""
		switch {
		case s.CapacityBytes == nil:
		case scenario.Fits == nil:
			fits = "maybe"
		case *scenario.Fits:
			fits = "yes"
		default:
			fits = "no"
		}
		change := changeOf(scenario)
		if i == 0 && s.Failed {
			change = "(recorded), " + units.Bytes(scenario.ReplayedBytes) + " with the request that failed" + roomOf(scenario)
		}
		p.Line(row, About(scenario.PeakBytes, scenario.LowBytes, scenario.HighBytes), saved,
			About(scenario.PeakReservedBytes, scenario.ReservedLowBytes, scenario.ReservedHighBytes), fits, change)
	}
	if last := len(s.Scenarios) - 1; s.Searched && s.Scenarios[last].Batch == nil && (last == 0 || s.OneStep && last == 1) {
		p.Line("  no combination of these changes fits; --set tries others, such as a smaller batch, precision or shard")
	}
}

// replayedText tells what a replay counts at the peak, if it differs from what was recorded.
func replayedText(s *answer.WhatIfScenario) string {
	if units.Bytes(s.ReplayedBytes) == units.Bytes(s.PeakBytes) {
		return ""
	}
	return ", " + units.Bytes(s.ReplayedBytes) + " replayed"
}

// About returns bytes, and the range of them: "229 MiB (195 to 240)".
func About(likely, low, high int64) string {
	if low == high {
		return units.Bytes(low)
	}
	said, from, to := units.Bytes(likely), units.Bytes(low), units.Bytes(high)
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

// roomOf tells how far the batch and the sequences of a scenario can grow.
func roomOf(s *answer.WhatIfScenario) (text string) {
	for _, growth := range []struct {
		name string
		room *answer.WhatIfRoom
	}{{"largest batch", s.Batch}, {"longest sequence", s.Sequence}} {
		switch r := growth.room; {
		case r == nil:
		case r.More:
			text += fmt.Sprintf("; %s: %gx or more", growth.name, r.Low)
		case r.Low == 0:
			text += fmt.Sprintf("; %s: at most %gx", growth.name, r.High)
		case r.Low == r.High:
			text += fmt.Sprintf("; %s: %gx", growth.name, r.High)
		default:
			text += fmt.Sprintf("; %s: %gx to %gx", growth.name, r.Low, r.High)
		}
	}
	return text
}

// Saving returns the peak with a change that lowers it, and the change with what it costs, in words.
func Saving(of *answer.WhatIfScenario) (peak, change string) {
	if len(of.Edits) == 0 {
		return About(of.PeakBytes, of.LowBytes, of.HighBytes), "the request that failed"
	}
	return About(of.PeakBytes, of.LowBytes, of.HighBytes), changeOf(of)
}

// changeOf names the edits of a scenario and what they cost.
func changeOf(s *answer.WhatIfScenario) string {
	if len(s.Edits) == 0 {
		return "(recorded)" + replayedText(s) + roomOf(s)
	}
	text := Printable(strings.Join(s.Edits, ","))
	var costs []string
	if s.Recomputed > 0 {
		costs = append(costs, "computes "+units.Plural(int(s.Recomputed), "buffer")+" again")
	}
	if s.CopiedBytes > 0 {
		costs = append(costs, "copies "+units.Bytes(s.CopiedBytes))
	}
	if s.Passes > 0 {
		costs = append(costs, fmt.Sprintf("%d more forward and backward", s.Passes))
	}
	if costs != nil {
		text += ": " + strings.Join(costs, ", ") + " in each step"
	}
	return text + roomOf(s)
}
