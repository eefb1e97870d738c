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
	Tables    []string // that it can be of, one to a file: Options.Table; nil for none
	Binary    bool     // no text, and not for a terminal
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
	{Name: "native", Extension: ".native", Doc: "the model as text, which memlane reads back", Write: whole(native.Write)},
	{Name: "json", Extension: ".json", Doc: "the model as JSON: buffers, regions, marks, sites, stacks, losses", Write: whole(model.Write)},
	{Name: "csv", Extension: ".csv", Doc: "a table for spreadsheets: --table buffers, sites, stacks or usage",
		Tables: tables.Names(), Write: table(tables.WriteCSV)},
	{Name: "parquet", Extension: ".parquet", Doc: "the same tables for DuckDB, pandas and Spark",
		Tables: tables.Names(), Binary: true, Write: table(tables.WriteParquet)},
	{Name: "perfetto", Extension: ".perfetto.json", Doc: "a trace for ui.perfetto.dev: counters, buffers and their stacks", Write: whole(perfetto.Write)},
	{Name: "collapsed", Extension: ".folded", Doc: "folded stacks of the peak, for flamegraph.pl and speedscope", Write: whole(collapsed.Write)},
	{Name: "benchfmt", Extension: ".bench", Doc: "the figures as Go benchmarks, for benchstat", Write: whole(benchfmt.Write)},
	{Name: "xprof.memory_profile", Extension: ".memory_profile.json", Doc: "what XProf's Memory Profile page is made from, of allocator events",
		Needs: Reports, Write: whole(xprofjson.WriteMemoryProfile)},
	{Name: "xprof.memory_viewer", Extension: ".memory_viewer.json", Doc: "what XProf's Memory Viewer page is made from, of one compiled program",
		Needs: Program, Write: func(w io.Writer, c *lifetime.Capture, o Options) error {
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
