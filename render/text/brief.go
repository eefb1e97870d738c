package text

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
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
	for i, command := range commands(r) {
		p.Line("%-6s  %s", map[bool]string{true: "more"}[i == 0], Printable(command)) // not wrapped: it is copied
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
	for i := range c.Spaces {
		s := &c.Spaces[i]
		if i == maxBrief {
			spaces = append(spaces, fmt.Sprintf("%d more", len(c.Spaces)-i))
			break
		}
		what := s.ID
		if s.Allocations+s.Frees > 0 {
			what += fmt.Sprintf(" with %s in %s", units.Plural(s.Allocations, "allocation"), units.Span(s.End-s.Begin-1, s.Unit))
		}
		spaces = append(spaces, what)
	}
	if spaces != nil {
		text += "; " + strings.Join(spaces, ", ")
	}
	if c.Damaged {
		text += "; damaged: memlane info says how"
	}
	return text
}

// highest returns the highest peak; nil if no capture has one.
func highest(r *answer.Report) (best *answer.Peak) {
	for i := range r.Captures {
		for k := range r.Captures[i].Peaks {
			if p := &r.Captures[i].Peaks[k]; best == nil || p.Bytes > best.Bytes {
				best = p
			}
		}
	}
	return best
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
	if len(f.Holders) > 0 {
		line("held", holding(f))
	}
	line("do", doing(f))
}

// lives says what the highest peak consists of; what leaks, or that nothing does or why that is unknown; and what to do.
func lives(r *answer.Report, line func(label, text string)) {
	of := func(file string) string { // names a capture, if there are several
		return strings.Repeat(file+": ", min(len(r.Captures)-1, 1))
	}
	peak := highest(r)
	if peak != nil {
		line("filled", of(peak.File)+joined(" ", idle(peak), peakSentence(peak)))
	}
	if len(r.Captures) == 1 {
		line("fits", ranOut(&r.Captures[0].Info))
	}
	plenty := !slices.ContainsFunc(r.Captures, func(c answer.CaptureReport) bool { return !Plenty(&c.Info) })
	f, label := (*answer.Finding)(nil), "found"
	if i := slices.IndexFunc(r.First, func(f answer.Finding) bool { return f.Leak || f.Level() > finding.Info }); i >= 0 {
		f, label = &r.First[i], map[bool]string{true: "leaks", false: label}[r.First[i].Leak]
	} else {
		nothing := "no leak and no other problem was found"
		if i := slices.IndexFunc(r.Findings, func(f answer.Finding) bool { return !plenty && !f.Failure && (peak == nil || !trifle(f.Bytes, peak)) }); i >= 0 {
			f, nothing = &r.Findings[i], "no leak was found"
		}
		switch unjudged := strings.TrimPrefix(r.Unjudged, "leaks "); {
		case unjudged != "" && len(r.Captures) == 1 && !r.Nothing:
			line("leaks", "not judged: "+strings.Join(r.Captures[0].Leaks.Notes, "; ")) // with what to record
		case unjudged != "" || peak == nil || peak.Program == nil: // nothing can leak in a compiled program
			line("leaks", cmp.Or(unjudged, nothing))
		}
	}
	switch {
	case f != nil:
		line(label, of(f.File)+f.Description+confident(f.Confidence))
		line("do", strings.Join(f.Suggestions[:min(len(f.Suggestions), 1)], ""))
	case peak != nil && !plenty:
		if text, change := lowering(peak); text != "" {
			line("could", fmt.Sprintf("%s (memlane whatif --set %s).", strings.TrimSuffix(text, "."), change))
		}
	}
}

// commands are those that tell more of the capture that matters most.
func commands(r *answer.Report) (all []string) {
	if r.Next != "" {
		all = append(all, r.Next)
	}
	if len(r.Captures) == 0 {
		return all
	}
	file, more := answer.Quoted(r.Captures[0].Info.File), []string{"memlane peak "}
	if len(r.OOMs) > 0 {
		file = answer.Quoted(r.OOMs[0].File)
		if r.OOMs[0].Line != nil { // a text: it says no more than memlane oom shows
			more = nil
		}
	}
	for _, command := range append(more, "memlane report -o report.html ") {
		command += file
		if !slices.Contains(all, command) {
			all = append(all, command)
		}
	}
	return all
}
