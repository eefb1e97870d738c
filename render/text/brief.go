package text

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/oom"
)

// maxBrief is the maximum number of captures that are named.
const maxBrief = 5

// Brief writes what a person asks first: what the captures are, what filled the memory, why the program died or what
// leaks, what to do, and the commands that tell more.
func Brief(w io.Writer, r *answer.Report, s Style) error {
	p := NewPage(s)
	for i := range r.Captures[:min(len(r.Captures), maxBrief)] {
		p.Para("", "  ", contents(&r.Captures[i].Info))
	}
	if n := len(r.Captures) - maxBrief; n > 0 {
		p.Line("and %s", units.Plural(n, "more capture"))
	}
	p.Line("")
	line := func(label, text string) {
		if text != "" {
			p.Para(fmt.Sprintf("%-6s  ", label), "        ", Printable(text))
		}
	}
	if len(r.OOMs) > 0 && r.OOMs[0].Reason != string(oom.Survived) {
		died(&r.OOMs[0], len(r.Captures) > 1, line)
	} else {
		lives(r, line)
	}
	commands := []string{r.Next}
	switch {
	case len(r.OOMs) > 0:
		commands = append(commands, "memlane report -o report.html "+answer.Quoted(r.OOMs[0].File))
	case len(r.Captures) > 0:
		commands = append(commands, "memlane report -o report.html "+answer.Quoted(r.Captures[0].Info.File))
	}
	for i, command := range commands { // not wrapped: they are copied
		p.Line("%-6s  %s", map[bool]string{true: "more"}[i == 0], Printable(command))
	}
	return p.To(w)
}

// contents says what a capture is, on one line.
func contents(c *answer.Capture) string {
	text := c.File + ": " + c.Format
	if c.Producer != "" {
		text += ", " + c.Producer
	}
	var spaces []string
	programs := 0
	for i := range c.Spaces {
		s := &c.Spaces[i]
		switch {
		case s.Program != nil:
			programs++
		case s.Allocations+s.Frees > 0:
			spaces = append(spaces, fmt.Sprintf("%s with %s in %s", s.ID, units.Plural(s.Allocations, "allocation"), units.Span(s.End-s.Begin-1, s.Unit)))
		default:
			spaces = append(spaces, s.ID)
		}
	}
	if more := len(spaces) - maxBrief; more > 0 {
		spaces = append(spaces[:maxBrief], fmt.Sprintf("%d more", more))
	}
	if programs > 0 {
		spaces = append(spaces, units.Plural(programs, "memory ID")+" of compiled programs")
	}
	if spaces != nil {
		text += "; " + strings.Join(spaces, ", ")
	}
	if c.Damaged {
		text += "; damaged: memlane info says how"
	}
	return text
}

// highest returns the highest of some peaks; nil if there are none.
func highest(peaks []answer.Peak) *answer.Peak {
	if len(peaks) == 0 {
		return nil
	}
	return new(slices.MaxFunc(peaks, func(x, y answer.Peak) int { return cmp.Compare(x.Bytes, y.Bytes) }))
}

// died says which request failed and why, what was in use then, and what to do.
func died(f *answer.Failure, several bool, line func(label, text string)) {
	where := "on " + f.Space
	if several || f.Space == "" {
		where = "in " + FailureHead(f)
	}
	and := map[bool]string{true: " and"}[f.RequestedBytes == nil && f.NeededBytes != nil]
	line("died", fmt.Sprintf("%s%s did not fit %s", asked(f), and, where))
	line("why", reason(f))
	line("filled", memory(f))
	line("held", strings.Repeat(holding(f), min(len(f.Holders), 1)))
	line("do", doing(f))
}

// Do says what to do first about captures of which no request failed for good.
func Do(r *answer.Report) string {
	do, _, _ := advice(r)
	return do
}

// advice is advise for all captures; peak is the highest, nil without one.
func advice(r *answer.Report) (do string, of *answer.Finding, peak *answer.Peak) {
	var peaks []answer.Peak
	plenty, sure, record := true, true, ""
	for i := range r.Captures {
		c := &r.Captures[i]
		_, unknown, how := judged(c, nil)
		record = cmp.Or(record, how)
		peaks, plenty, sure = append(peaks, c.Peaks...), plenty && Plenty(&c.Info), sure && unknown == "" && isWhole(&c.Info)
	}
	peak = highest(peaks)
	do, of = advise(peak, r.Findings, r.OOMs, plenty, sure, record)
	return do, of, peak
}

// lives says what the highest peak consists of; whether requests failed; what leaks, or that nothing does or why that is unknown; and what to do.
func lives(r *answer.Report, line func(label, text string)) {
	of := func(file string) string { // names a capture, if there are several
		return strings.Repeat(file+": ", min(len(r.Captures)-1, 1))
	}
	do, f, peak := advice(r)
	if peak != nil {
		filled := peakSentence(peak)
		if f == nil {
			filled = joined(" ", idle(peak), filled)
		}
		line("filled", of(peak.File)+filled)
	}
	state := cmp.Or(r.Unjudged, map[bool]string{true: "no leak was found"}[f == nil || !f.Leak])
	if len(r.Captures) == 1 {
		well, unknown, _ := judged(&r.Captures[0], peak)
		state = joined(" ", well, unknown)
	}
	line("state", state)
	if f != nil {
		line(map[bool]string{true: "leaks", false: "found"}[f.Leak], of(f.File)+f.Description+confident(f.Confidence))
	}
	line("do", do)
}
