package text

import (
	"fmt"
	"io"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
)

// maxFailures is the maximum number of failures that are written in full, and of those that a line names.
const maxFailures = 8

// OOMs writes failed allocations: who asked, what was there, who held it, why it failed, and what to do. Failures with
// the same request, place and reason, such as those of many ranks, are written once.
func OOMs(w io.Writer, a *answer.OOMs, s Style) error {
	p := NewPage(s)
	p.failures(a.OOMs)
	for i := range a.Fits[:min(len(a.Fits), maxFailures)] {
		f := &a.Fits[i]
		p.Line("%s %s", Printable(f.File), Printable(f.Space))
		p.Line("fits: needs %s, %s", units.Bytes(f.NeededBytes), OfCapacity(f.NeededBytes, f.CapacityBytes))
	}
	if n := len(a.Fits) - maxFailures; n > 0 {
		p.Line("%s", more(n, "program"))
	}
	return p.To(w)
}

// failuresFirst writes why an allocation failed, before anything else, which does not say it again.
func (p *Page) failuresFirst(all []answer.Failure) {
	if len(all) > 0 {
		p.failures(all)
		p.Line("")
		p.failed = true
	}
}

// failures writes failed allocations, those that are alike once.
func (p *Page) failures(all []answer.Failure) {
	var groups [][]*answer.Failure
	index := map[string]int{}
	for i := range all {
		f := &all[i]
		program := ""
		if compiled(f) {
			program = f.Of.Module
		}
		key := strings.Join([]string{f.Source, program, f.Reason, asked(f)}, "\x00")
		group := keyed.At(index, &groups, key, nil)
		*group = append(*group, f)
	}
	for i, group := range groups[:min(len(groups), maxFailures)] {
		if i > 0 {
			p.Line("")
		}
		p.failure(group[0], group[1:])
	}
	if n := len(groups) - maxFailures; n > 0 {
		p.Line("\n%s", more(n, "failure"))
	}
}

func (p *Page) failure(f *answer.Failure, alike []*answer.Failure) {
	p.Line("%s", Printable(FailureHead(f)))
	line := func(label, text string) {
		p.Para(fmt.Sprintf("%-6s  ", label), "        ", Printable(text))
	}
	for _, l := range FailureLines(f) {
		if l.Label == "memory" && f.Account != nil {
			p.account(f)
			continue
		}
		line(l.Label, l.Text)
	}
	var names []string
	for _, other := range alike[:min(len(alike), maxFailures)] {
		name := other.Space
		if other.File != f.File {
			name += " of " + other.File
		}
		if other.Line != nil {
			name += fmt.Sprintf(" in line %d", *other.Line)
		}
		names = append(names, name)
	}
	if n := len(alike) - maxFailures; n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	if names != nil {
		line("also", strings.Join(names, ", "))
	}
}

// account writes the memory at a failure: a line, and below it a table of the parts that add up to the capacity.
func (p *Page) account(f *answer.Failure) {
	head, rows := memoryOf(f, "%17s ")
	p.Para("memory  ", "        ", Printable(strings.Join(head, ", ")+beside(f.Beside)))
	for _, row := range rows {
		p.Para(row[:18], strings.Repeat(" ", 20), Printable(row[18:]))
	}
}
