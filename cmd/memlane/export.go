package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/render"
	"github.com/memlane/memlane/render/tables"
	"github.com/memlane/memlane/render/text"
)

func exportCommand() *cli.Command {
	var table strings.Builder
	var to []word
	for _, e := range render.Exports {
		to = append(to, word{e.Name, e.Doc})
		fmt.Fprintf(&table, "  %-20s %s\n", e.Name, text.Wrap(e.Doc, strings.Repeat(" ", 23)))
	}
	return &cli.Command{
		Name:      "export",
		Usage:     "a capture for other programs: model, tables, XProf's JSON",
		ArgsUsage: "CAPTURE",
		Description: "Formats:\n" + table.String() + "\nExamples:\n" +
			"  memlane export --to native snapshot.pickle | less\n" +
			"  memlane export --to json -o model.json snapshot.pickle\n" +
			"  memlane export --to csv --table sites -o sites.csv snapshot.pickle\n" +
			"  memlane export --to parquet -o buffers.parquet snapshot.pickle\n" +
			"  memlane export --to perfetto -o mem.json snapshot.pickle\n" +
			"  memlane export --to collapsed snapshot.pickle | flamegraph.pl > peak.svg\n" +
			"  memlane export --to xprof.memory_profile host.xplane.pb | jq .memoryIds\n" +
			"  memlane export --to xprof.memory_viewer --module 'jit_f(5)' host.xplane.pb",
		Flags: spaceFlags(functionFlag(),
			oneOf(&cli.StringFlag{Name: "to", Usage: "write the `FORMAT`, one of the list above"}, to...),
			oneOf(&cli.StringFlag{Name: "table", Usage: "of tables: `NAME`, " + strings.Join(tables.Names(), ", ")}, named(tables.Names()...)...),
			outputFlag()),
		Action: export,
	}
}

func export(c *cli.Context) error {
	var to *render.Export
	for i := range render.Exports {
		if render.Exports[i].Name == c.String("to") {
			to = &render.Exports[i]
		}
	}
	switch {
	case to == nil:
		return usage("export: no format given; --to names one, as --to json; see memlane export --help")
	case c.String("table") != "" && to.Tables == nil:
		return usage("--table: there are no tables in %s", to.Name)
	case to.Binary && (c.String("output") == "-" || c.String("output") == "") && terminal(c.App.Writer):
		return usage("export: %s is binary: give a file with -o, or send it to another program", to.Name)
	case c.NArg() != 1:
		return usage("export: want one capture, got %d; see memlane export --help", c.NArg())
	}
	want, err := selectionOf(c)
	if err != nil {
		return err
	}
	r := captures(build.Operations)
	switch to.Needs {
	case render.Program: // it may be one of a memory space that the program does not use
		want.MemorySpace = ""
	case render.Reports:
		r.in.Keep |= build.Reports
	}
	all, err := r.openAll(c, &want)
	if err != nil {
		return err
	}
	capture := all[0]
	o := render.Options{Table: c.String("table")}
	if to.Needs == render.Program {
		if o, err = programOptions(c, capture); err != nil {
			return err
		}
	}
	if to.Tables != nil && o.Table != tables.Usage && !anyBuffer(capture) && !c.Bool("quiet") {
		fmt.Fprintf(c.App.ErrWriter, "memlane: warning: %s: holds no buffers: the table is empty; --table usage may have more\n",
			text.Printable(capture.Sources[0].File))
	}
	return writeOutput(c, func(w io.Writer) error {
		err := to.Write(w, capture, o)
		if err != nil && to.Needs != render.Buffers {
			return nothing(capture, err)
		}
		return err
	})
}

func anyBuffer(capture *lifetime.Capture) bool {
	return slices.ContainsFunc(capture.Spaces, func(s *lifetime.Space) bool { return len(s.Buffers) > 0 })
}

// programOptions returns the compiled program and memory space that the flags ask for:
// where they do not say, the one with the highest peak and main memory.
func programOptions(c *cli.Context, capture *lifetime.Capture) (render.Options, error) {
	o := render.Options{Module: c.String("module")}
	if n := c.String("memory-space"); n != "" {
		o.MemorySpace, _ = strconv.ParseInt(n, 10, 64) // selectionOf has seen it
	}
	if o.Module != "" {
		return o, nil
	}
	var programs []*lifetime.Space
	for _, s := range capture.Spaces {
		if n, ok := s.MemorySpace(); ok && n == o.MemorySpace {
			programs = append(programs, s)
		}
	}
	s, of := answer.Largest(programs)
	if s == nil {
		return o, &lifetime.NothingError{File: capture.Name(), Why: fmt.Sprintf("holds no compiled program, which %s needs: give a *.hlo.pb, or a profile with the programs that ran", c.String("to"))}
	}
	if of > 1 && !c.Bool("quiet") {
		sayChoice(c.App.ErrWriter, "writing", &s.SpaceInfo, of)
	}
	o.Module = s.Module
	return o, nil
}
