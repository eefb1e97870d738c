package text

import (
	"io"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
)

// Ops writes the operations of captures: framework operations and ranges of the program,
// or Python functions if functions is true.
func Ops(w io.Writer, a *answer.Ops, functions bool, s Style) error {
	p := NewPage(s)
	for i := range a.Captures {
		if i > 0 {
			p.Line("")
		}
		p.operations(&a.Captures[i], functions)
	}
	return p.To(w)
}

func (p *Page) operations(c *answer.CaptureOps, functions bool) {
	all := slices.DeleteFunc(slices.Clone(c.Operations), func(o answer.Operation) bool { return o.Function != functions })
	p.Line("%s: %s", Printable(c.File), units.Plural(len(all), "operation"))
	if c.NoMemory != "" {
		p.Para("  ", "  ", "no memory: "+c.NoMemory)
	}
	shown := all[:min(len(all), maxRows)]
	columns := columnsOf(shown)
	var head []string
	for _, c := range columns {
		head = append(head, c.head)
	}
	var rows [][]string
	for i := range shown {
		var row []string
		for _, c := range columns {
			row = append(row, c.text(&shown[i]))
		}
		rows = append(rows, append(row, Printable(shown[i].Name)))
	}
	p.Table(append(head, "operation"), rows)
	if n := len(all) - maxRows; n > 0 {
		p.Line("%s", more(n, "operation"))
	}
}

// column is a column in the table of operations.
type column struct {
	head string
	text func(o *answer.Operation) string
}

// sizeColumns returns the two columns of a kind of memory, none if no operation changed it.
func sizeColumns(all []answer.Operation, self, total string, of func(*answer.Operation) *answer.OperationBytes) []column {
	if !slices.ContainsFunc(all, func(o answer.Operation) bool { return *of(&o) != answer.OperationBytes{} }) {
		return nil
	}
	return []column{
		{self, func(o *answer.Operation) string { return size(of(o).SelfBytes) }},
		{total, func(o *answer.Operation) string { return size(of(o).Bytes) }},
	}
}

func columnsOf(all []answer.Operation) []column {
	columns := sizeColumns(all, "self mem", "memory", func(o *answer.Operation) *answer.OperationBytes { return &o.Host })
	columns = append(columns, sizeColumns(all, "self dev", "device",
		func(o *answer.Operation) *answer.OperationBytes { return &o.Device })...)
	return append(columns,
		column{"self time", func(o *answer.Operation) string { return units.Span(o.SelfTimeNS, "ns") }},
		column{"time", func(o *answer.Operation) string { return units.Span(o.TimeNS, "ns") }},
		column{"calls", func(o *answer.Operation) string { return units.Count(o.Calls) }})
}
