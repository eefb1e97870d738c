package text

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/purpose"
)

// LossText returns a loss of an answer as a sentence.
func LossText(l *answer.Loss) string {
	reason, _ := loss.Parse(l.Reason)
	return loss.Loss{Reason: reason, Count: l.Count, Bytes: l.Bytes, First: l.First}.String()
}

// confident says how often such a judgement was right; "" if nothing is inferred. It stands beside what is judged, not beside what was recorded.
func confident(confidence float64) string {
	if confidence == 1 {
		return ""
	}
	return fmt.Sprintf(" (confidence %.0f %%)", 100*confidence)
}

// When formats an instant of a memory ID: "+14.8 ms", "instruction 5 of 120". Of an answer that was read from JSON, s
// is nil, and the instant a number.
func When(s *lifetime.SpaceInfo, t int64) string {
	switch {
	case s == nil:
		return units.Count(t)
	case s.Axis == lifetime.ProgramOrder && t < 0:
		return "the beginning" // before the first instruction
	case s.Axis == lifetime.ProgramOrder:
		return fmt.Sprintf("instruction %s of %s", units.Count(t), units.Count(s.End))
	case s.Facts&lifetime.History == 0 && t == s.AtEnd(), s.Facts&lifetime.EndState != 0 &&
		s.Allocations+s.Frees == 0 && s.Axis != lifetime.ProgramOrder:
		return "the end" // the only instant that is known
	case t < s.Begin, s.Axis == lifetime.Event && t < 0:
		return "the start of the recording"
	case s.Axis == lifetime.Time:
		return "+" + units.Span(t-s.Begin, s.Axis.Unit())
	}
	return fmt.Sprintf("%s %s", s.Axis.Unit(), units.Count(t))
}

// maxParts is the number of categories that a text names.
const maxParts = 5

// PartsText names the largest categories: "25.6 GiB optimizer state, 12.7 GiB gradient (inferred)".
func PartsText(p answer.Parts) string {
	text := categoriesText(p.Categories)
	if p.Inferred {
		text += " (inferred)"
	}
	return text
}

func categoriesText(categories []answer.Part) string {
	named := slices.Clone(categories)
	for i := range named {
		named[i].Name = purpose.Words(named[i].Name)
	}
	return partsText(named)
}

func partsText(parts []answer.Part) string {
	var names []string
	rest := int64(0)
	for _, c := range parts {
		if len(names) < maxParts {
			names = append(names, units.Bytes(c.Bytes)+" "+Printable(c.Name))
		} else {
			rest = units.AddSat(rest, c.Bytes)
		}
	}
	if rest > 0 {
		names = append(names, units.Bytes(rest)+" others")
	}
	return strings.Join(names, ", ")
}
