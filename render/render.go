package render

import (
	"io"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/native"
	"github.com/memlane/memlane/render/benchfmt"
	"github.com/memlane/memlane/render/collapsed"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/perfetto"
	"github.com/memlane/memlane/render/tables"
	"github.com/memlane/memlane/render/xprofjson"
)

// Export is one form that a capture can be written in.
type Export struct {
	Name      string // as in --to
	Extension string // of its files
	Doc       string // one line
	Needs     Need
	Tables    []string // that it can be of, one to a file: Options.Table
	Write     func(w io.Writer, c *lifetime.Capture, o Options) error
}

// Need is what a form asks of the capture besides its buffers.
type Need uint8

const (
	Buffers Need = iota // nothing else
	Reports             // what allocators said, as it stands: formats.Input.Reports
	Program             // one compiled program: Options.Module
)

// Options says what of a capture to write.
type Options struct {
	Module      string // of Program: its name, as Space.Module
	MemorySpace int64  // of Program
	Table       string // one of Export.Tables
}

// Exports are all forms, in the order of help texts.
var Exports = []Export{
	{"native", ".native", "the model as text, which memlane reads back", Buffers, nil, whole(native.Write)},
	{"json", ".json", "the model as JSON: buffers, regions, marks, sites, stacks, losses", Buffers, nil, whole(model.Write)},
	{"csv", ".csv", "a table for spreadsheets: --table buffers, sites, stacks or usage", Buffers, tables.Names(), table(tables.WriteCSV)},
	{"perfetto", ".perfetto.json", "a trace for ui.perfetto.dev: counters, buffers and their stacks", Buffers, nil, whole(perfetto.Write)},
	{"collapsed", ".folded", "folded stacks of the peak, for flamegraph.pl and speedscope", Buffers, nil, whole(collapsed.Write)},
	{"benchfmt", ".bench", "the figures as Go benchmarks, for benchstat", Buffers, nil, whole(benchfmt.Write)},
	{"xprof.memory_profile", ".memory_profile.json", "what XProf's Memory Profile page is made from, of allocator events", Reports, nil,
		whole(xprofjson.WriteMemoryProfile)},
	{"xprof.memory_viewer", ".memory_viewer.json", "what XProf's Memory Viewer page is made from, of one compiled program", Program, nil,
		func(w io.Writer, c *lifetime.Capture, o Options) error {
			return xprofjson.WriteMemoryViewer(w, c, o.Module, o.MemorySpace)
		}},
}

// whole is a form that takes no options.
func whole(write func(io.Writer, *lifetime.Capture) error) func(io.Writer, *lifetime.Capture, Options) error {
	return func(w io.Writer, c *lifetime.Capture, _ Options) error { return write(w, c) }
}

// table is a form of one table.
func table(write func(io.Writer, *lifetime.Capture, string) error) func(io.Writer, *lifetime.Capture, Options) error {
	return func(w io.Writer, c *lifetime.Capture, o Options) error { return write(w, c, o.Table) }
}
