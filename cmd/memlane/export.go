package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render"
	"github.com/memlane/memlane/render/tables"
	"github.com/memlane/memlane/render/text"
)

func exportCommand() *cli.Command {
	var list strings.Builder
	var to []word
	for _, e := range render.Exports {
		to = append(to, word{e.Name, e.Doc})
		printColumn(&list, 24, to[len(to)-1])
	}
	tableNames := named(tables.Names()...)
	return &cli.Command{
		Name:      "export",
		Usage:     "convert a capture for other programs: JSON, tables, stacks",
		ArgsUsage: "CAPTURE",
		Description: "Formats:\n" + list.String() + "\nExamples:\n" +
			"  memlane export --to native snapshot.pickle | less\n" +
			"  memlane export --to perfetto -o mem.pftrace snapshot.pickle\n" +
			"  memlane export --to xprof.memory_viewer --module 'jit_f(5)' host.xplane.pb",
		Flags: spaceFlags(functionFlag(), nameFlag(),
			oneOf(&cli.StringFlag{Name: "to", Usage: "write `FORMAT`, one of the list above"}, to...),
			oneOf(&cli.StringFlag{Name: "table", Usage: "the table `NAME`: " + orList(tableNames)}, tableNames...),
			outputFlag(), forceFlag()),
		Action: export,
	}
}

func export(c *cli.Context) error {
	i := slices.IndexFunc(render.Exports, func(e render.Export) bool { return e.Name == c.String("to") })
	if i < 0 {
		return usage("export: no format given; use --to, for example --to json; see memlane export --help")
	}
	to := &render.Exports[i]
	switch {
	case c.String("table") != "" && to.Tables == nil:
		return usage("--table: the format %s has no tables", to.Name)
	case to.Name == "parquet" && tables.WriteParquet == nil:
		return usage("export: this program was built without Parquet; add -tags parquet to go install or go run, take a released program, or use --to csv")
	case to.Binary && toStdout(c) && terminalOf(c.App.Writer) != nil:
		return usage("export: %s is binary; write it to a file with -o, or pipe it to a program", to.Name)
	}
	if err := checkName(c, to.Extension); err != nil {
		return err
	}
	files, err := filesOf(c)
	if err == nil && len(files) != 1 {
		err = usage("export takes one capture (got %d); see memlane export --help", len(files))
	}
	if err != nil {
		return err
	}
	chosen, err := selectionOf(c)
	if err != nil {
		return err
	}
	r := captures(build.Operations | map[render.Need]build.Keep{render.Program: build.XProf, render.Reports: build.Reports}[to.Needs])
	capture, err := r.openOne(c, files, &chosen)
	if err != nil {
		return err
	}
	o := render.Options{Table: c.String("table")}
	if to.Needs == render.Program {
		if o, err = programOptions(c, capture); err != nil {
			return err
		}
	}
	anyBuffer := slices.ContainsFunc(capture.Spaces, func(s *lifetime.Space) bool { return len(s.Buffers) > 0 })
	if to.Tables != nil && o.Table != tables.Usage && !anyBuffer && !c.Bool("quiet") {
		fmt.Fprintf(c.App.ErrWriter, "memlane: warning: %s: no buffers, so the table is empty; try --table usage\n",
			text.Printable(capture.Sources[0].File))
	}
	return writeOutput(c, func(w io.Writer) error {
		err := to.Write(w, capture.Capture, o)
		if to.Needs != render.Buffers {
			return nothingError(capture, err)
		}
		return err
	})
}

// programOptions returns the compiled program and memory space that the flags select:
// by default the program with the highest peak, and main memory.
func programOptions(c *cli.Context, capture *judge.Capture) (render.Options, error) {
	o := render.Options{Module: c.String("module")}
	chosen := c.String("space") != ""
	if o.Module != "" && !chosen {
		return o, nil
	}
	var programs, there []*lifetime.Space
	for _, s := range capture.Spaces {
		if n, ok := s.MemorySpace(); ok {
			if programs = append(programs, s); n == 0 || chosen {
				there = append(there, s)
			}
		}
	}
	s, of := selection.Largest(there)
	if s == nil { // no program uses that memory
		if s, of = selection.Largest(programs); s == nil && len(there) > 0 {
			s = there[0]
		}
	}
	if s == nil {
		return o, &selection.NothingError{File: capture.Name(), Why: "no compiled program, which " + c.String("to") +
			" needs; give a *.hlo.pb, or a profile that contains the programs"}
	}
	if of > 1 && !c.Bool("quiet") {
		noteChoice(c.App.ErrWriter, "writing", &s.SpaceInfo, of)
	}
	o.Module = s.Module
	if n, _ := s.MemorySpace(); chosen {
		o.MemorySpace = n
	}
	return o, nil
}
