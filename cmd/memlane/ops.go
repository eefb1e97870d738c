package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

func opsCommand() *cli.Command {
	return &cli.Command{
		Name:      "ops",
		Usage:     "which operations changed the memory: the operators of a trace",
		ArgsUsage: "CAPTURE...",
		Description: "One row per operator or named range of a trace of the PyTorch profiler, as in\n" +
			"its Operator view and key_averages(): bytes allocated less bytes freed while\n" +
			"it ran, below zero where it freed more. \"self\" is without the operations that\n" +
			"it called. [memory] is what was allocated and freed outside of all of them.\n\n" +
			"Examples:\n" +
			"  memlane ops trace.json\n" +
			"  memlane ops --sort time trace.json.gz\n" +
			"  memlane ops --json rank0.json rank1.json | jq '.captures[].operations[0]'",
		Flags: append([]cli.Flag{
			toggle("functions", "the Python functions in place of the operators"),
			choiceFlag("sort", "memory", "WHAT", orders),
			jsonFlag()}, inputFlags()...),
		Action: ops,
	}
}

type opsJSON struct {
	Schema   string           `json:"schema"`
	Captures []captureOpsJSON `json:"captures"`
}

type captureOpsJSON struct {
	File       string          `json:"file"`
	Operations []operationJSON `json:"operations"`
}

type operationJSON struct {
	Name       string             `json:"name"`
	Kind       string             `json:"kind"`
	Calls      int64              `json:"calls"`
	TimeNS     int64              `json:"time_ns"`
	SelfTimeNS int64              `json:"self_time_ns"`
	Host       operationBytesJSON `json:"host"`
	Device     operationBytesJSON `json:"device"`
}

// operationBytesJSON is what operations changed in one kind of memory.
type operationBytesJSON struct {
	Allocated int64 `json:"allocated_bytes"`
	Freed     int64 `json:"freed_bytes"`
	Bytes     int64 `json:"bytes"` // allocated less freed
	SelfBytes int64 `json:"self_bytes"`
}

func operationBytes(b lifetime.OperationBytes) operationBytesJSON {
	return operationBytesJSON{b.Allocated, b.Freed, b.Bytes(), b.SelfBytes}
}

// order compares two operations.
type order func(x, y lifetime.Operation) int

// orders are the values of --sort.
var orders = map[string]order{
	"memory": func(x, y lifetime.Operation) int {
		return cmp.Or(cmp.Compare(y.Host.SelfBytes+y.Device.SelfBytes, x.Host.SelfBytes+x.Device.SelfBytes),
			cmp.Compare(y.Host.Bytes()+y.Device.Bytes(), x.Host.Bytes()+x.Device.Bytes()), strings.Compare(x.Name, y.Name))
	},
	"time": func(x, y lifetime.Operation) int {
		return cmp.Or(cmp.Compare(y.SelfTime, x.SelfTime), cmp.Compare(y.Time, x.Time), strings.Compare(x.Name, y.Name))
	},
	"calls": func(x, y lifetime.Operation) int {
		return cmp.Or(cmp.Compare(y.Calls, x.Calls), strings.Compare(x.Name, y.Name))
	},
}

func ops(c *cli.Context) error {
	by := c.String("sort")
	captures, err := openEach(c, loss.Damage, formats.Input{Keep: build.Operations}, withOperations) // lesser losses concern buffers
	if err != nil {
		return err
	}
	out := opsJSON{Schema: schema}
	for i, capture := range captures {
		if by == "memory" && noEvents(capture) != "" {
			by = "time" // all that there is
		}
		sorted := slices.SortedStableFunc(slices.Values(capture.Operations), orders[by])
		if c.Bool("json") {
			out.Captures = append(out.Captures, opsToJSON(captureName(capture), sorted))
			continue
		}
		if i > 0 {
			fmt.Fprintln(c.App.Writer)
		}
		shown := slices.DeleteFunc(sorted, func(o lifetime.Operation) bool { return (o.Kind == lifetime.Function) != c.Bool("functions") })
		printOps(c.App.Writer, capture, shown)
	}
	if c.Bool("json") {
		return writeJSON(c.App.Writer, out)
	}
	return nil
}

// withOperations returns the capture, or that it has no operations.
func withOperations(capture *lifetime.Capture) (*lifetime.Capture, error) {
	if len(capture.Operations) == 0 {
		return nil, fail(statusNoMemory, "%s: tells of no operations: only traces of the PyTorch profiler do (export_chrome_trace)", captureName(capture))
	}
	return capture, nil
}

func opsToJSON(file string, operations []lifetime.Operation) captureOpsJSON {
	out := captureOpsJSON{File: file}
	for _, o := range operations {
		out.Operations = append(out.Operations, operationJSON{
			Name: o.Name, Kind: o.Kind.String(), Calls: o.Calls, TimeNS: o.Time, SelfTimeNS: o.SelfTime,
			Host: operationBytes(o.Host), Device: operationBytes(o.Device),
		})
	}
	return out
}

// column is a column of figures in the table of operations.
type column struct {
	head  string
	width int
	text  func(o *lifetime.Operation) string
}

// sizeColumns are the two columns of a kind of memory; none where no operation
// changed it.
func sizeColumns(operations []lifetime.Operation, self, total string, of func(*lifetime.Operation) *lifetime.OperationBytes) []column {
	if !slices.ContainsFunc(operations, func(o lifetime.Operation) bool { return *of(&o) != lifetime.OperationBytes{} }) {
		return nil
	}
	return []column{
		{self, 10, func(o *lifetime.Operation) string { return sizeText(of(o).SelfBytes) }},
		{total, 10, func(o *lifetime.Operation) string { return sizeText(of(o).Bytes()) }},
	}
}

func columnsOf(operations []lifetime.Operation) []column {
	columns := sizeColumns(operations, "self mem", "memory", func(o *lifetime.Operation) *lifetime.OperationBytes { return &o.Host })
	columns = append(columns, sizeColumns(operations, "self dev", "device", func(o *lifetime.Operation) *lifetime.OperationBytes { return &o.Device })...)
	return append(columns,
		column{"self time", 9, func(o *lifetime.Operation) string { return units.Span(o.SelfTime, "ns") }},
		column{"time", 8, func(o *lifetime.Operation) string { return units.Span(o.Time, "ns") }},
		column{"calls", 9, func(o *lifetime.Operation) string { return units.Count(o.Calls) }})
}

// minNameWidth is the room that a name must have beside its figures; where there
// is less it stands below them.
const minNameWidth = 20

func printOps(w io.Writer, capture *lifetime.Capture, operations []lifetime.Operation) {
	fmt.Fprintf(w, "%s: %s\n", printable(captureName(capture)), count(len(operations), "operation"))
	if why := noEvents(capture); why != "" {
		fmt.Fprintf(w, "  %s\n", wrap("no memory: "+why, "  "))
	}
	columns := columnsOf(operations)
	row := func(name string, text func(column) string) {
		var line strings.Builder
		for _, c := range columns {
			fmt.Fprintf(&line, " %*s", c.width, text(c))
		}
		figures := line.String()[1:]
		width := lineWidth - 2 - utf8.RuneCountInString(figures)
		if width < minNameWidth {
			figures += "\n"
			width = lineWidth - 2
		}
		fmt.Fprintf(w, "%s  %s\n", figures, cutMiddle(printable(name), width))
	}
	row("operation", func(c column) string { return c.head })
	for _, o := range operations[:min(len(operations), maxRows)] {
		row(o.Name, func(c column) string { return c.text(&o) })
	}
	if n := len(operations) - maxRows; n > 0 {
		fmt.Fprintf(w, "and %d more (--json has them all)\n", n)
	}
}
