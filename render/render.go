package render

import (
	"errors"
	"io"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/native"
	"github.com/memlane/memlane/render/benchfmt"
	"github.com/memlane/memlane/render/collapsed"
	"github.com/memlane/memlane/render/memtimeline"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/perfetto"
	"github.com/memlane/memlane/render/tables"
	"github.com/memlane/memlane/render/xprofjson"
)

// Export is one format for writing captures.
type Export struct {
	Name      string // value of --to
	Extension string // of its files
	Doc       string // one line
	Needs     Need
	Tables    []string // values of Options.Table, one per file; nil for none
	Binary    bool     // not for a terminal
	Write     func(w io.Writer, c *lifetime.Capture, o Options) error
}

// Need is the part of a capture that a format writes.
type Need uint8

const (
	Buffers Need = iota
	Reports      // unchanged reports of allocators: build.Reports in formats.Input.Keep
	Program      // one compiled program: Options.Module
)

// Options select the part of a capture to write.
type Options struct {
	Module      string // Space.Module, for Program
	MemorySpace int64  // for Program
	Table       string // one of Export.Tables
}

// Exports are all formats, in the order of help texts.
var Exports = []Export{
	{Name: "native", Extension: ".native", Doc: "the model as text; memlane can read it again", Write: whole(native.Write)},
	{Name: "json", Extension: ".json", Doc: "the model as JSON: buffers, regions, marks, sites, stacks, losses", Write: whole(model.Write)},
	{Name: "csv", Extension: ".csv", Doc: "a table for spreadsheets: --table buffers, sites, stacks or usage",
		Tables: tables.Names(), Write: table(tables.WriteCSV)},
	{Name: "parquet", Extension: ".parquet", Doc: "the same tables for DuckDB, pandas and Spark; needs a released program or -tags parquet",
		Tables: tables.Names(), Binary: true, Write: table(writeParquet)},
	{Name: "perfetto", Extension: ".pftrace", Doc: "a trace for ui.perfetto.dev: counters, buffers and their stacks", Binary: true, Write: whole(perfetto.Write)},
	{Name: "collapsed", Extension: ".folded", Doc: "folded stacks of the peak, for flamegraph.pl and speedscope", Write: whole(collapsed.Write)},
	{Name: "torch.memory_timeline", Extension: ".raw.json", Doc: "a raw memory timeline as of torch.profiler: bytes by category, of one device",
		Write: whole(memtimeline.Write)},
	{Name: "benchfmt", Extension: ".bench", Doc: "the figures as Go benchmark results, for benchstat", Write: whole(benchfmt.Write)},
	{Name: "xprof.memory_profile", Extension: ".memory_profile.json", Doc: "data for XProf's Memory Profile page, from allocator events",
		Needs: Reports, Write: whole(xprofjson.WriteMemoryProfile)},
	{Name: "xprof.memory_viewer", Extension: ".memory_viewer.json", Doc: "data for XProf's Memory Viewer page, from one compiled program",
		Needs: Program, Write: func(w io.Writer, c *lifetime.Capture, o Options) error {
			return xprofjson.WriteMemoryViewer(w, c, o.Module, o.MemorySpace)
		}},
}

// whole adapts a function without options.
func whole(write func(io.Writer, *lifetime.Capture) error) func(io.Writer, *lifetime.Capture, Options) error {
	return func(w io.Writer, c *lifetime.Capture, _ Options) error { return write(w, c) }
}

// writeParquet fails without the package render/tables/parquet.
func writeParquet(w io.Writer, c *lifetime.Capture, table string) error {
	if tables.WriteParquet == nil {
		return errors.New("this program is without the package render/tables/parquet")
	}
	return tables.WriteParquet(w, c, table)
}

// table adapts a function that writes one table.
func table(write func(io.Writer, *lifetime.Capture, string) error) func(io.Writer, *lifetime.Capture, Options) error {
	return func(w io.Writer, c *lifetime.Capture, o Options) error { return write(w, c, o.Table) }
}
