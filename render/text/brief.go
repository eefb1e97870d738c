package text

import (
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
	line("filled", filled(r))
	label, what, do := trouble(r)
	line(label, what)
	line("do", do)
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

// filled says what the highest peak consists of.
func filled(r *answer.Report) string {
	if p := highest(r); p != nil {
		return peakSentence(p)
	}
	return ""
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

// trouble says why the program died, else what leaks, else that nothing does or why that is unknown; and what to do.
func trouble(r *answer.Report) (label, what, do string) {
	if len(r.OOMs) > 0 && r.OOMs[0].Reason != string(oom.Survived) {
		f := &r.OOMs[0]
		where := "on " + f.Space
		if len(r.Captures) > 1 || f.Space == "" {
			where = "in " + FailureHead(f)
		}
		return "died", asked(f) + " did not fit " + where + ": " + f.Words, f.Advice
	}
	if i := slices.IndexFunc(r.First, func(f answer.Finding) bool { return f.Leak || f.Level() > finding.Info }); i >= 0 {
		f := &r.First[i]
		label = "leaks"
		if !f.Leak {
			label = "found"
		}
		return label, fmt.Sprintf("%s (confidence %.0f %%)", f.Description, 100*f.Confidence),
			strings.Join(f.Suggestions[:min(len(f.Suggestions), 1)], "")
	}
	what = "no leak and no other problem was found"
	if r.Unjudged != "" {
		what = r.Unjudged
	}
	if p := highest(r); p != nil {
		if i := slices.IndexFunc(p.Savings, func(s answer.WhatIfScenario) bool { return s.SavedBytes > 0 }); i >= 0 {
			peak, change := Saving(&p.Savings[i])
			do = fmt.Sprintf("The peak would be %s with %s. %s", peak, change, p.Savings[i].Advice)
		}
	}
	return "leaks", what, do
}

// commands are those that tell more of the capture that matters most.
func commands(r *answer.Report) (all []string) {
	if r.Next != "" {
		all = append(all, r.Next)
	}
	if len(r.Captures) == 0 {
		return all
	}
	file := answer.Quoted(r.Captures[0].Info.File)
	if len(r.OOMs) > 0 {
		file = answer.Quoted(r.OOMs[0].File)
	}
	for _, command := range []string{"memlane peak " + file, "memlane report -o report.html " + file} {
		if !slices.Contains(all, command) {
			all = append(all, command)
		}
	}
	return all
}
