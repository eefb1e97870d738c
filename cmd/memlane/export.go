package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render"
)

func exportCommand() *cli.Command {
	var names []string
	var table strings.Builder
	for _, e := range render.Exports {
		names = append(names, e.Name)
		fmt.Fprintf(&table, "  %-8s %s\n", e.Name, wrap(e.Doc, strings.Repeat(" ", 11)))
	}
	return &cli.Command{
		Name:      "export",
		Usage:     "the whole model of a capture for other programs",
		ArgsUsage: "CAPTURE",
		Description: "Formats:\n" + table.String() + "\nExamples:\n" +
			"  memlane export --to native snapshot.pickle | less\n" +
			"  memlane export --to json -o model.json snapshot.pickle",
		Flags: captureFlags(
			&cli.StringFlag{Name: "to", Usage: "`FORMAT`: " + strings.Join(names, " or ")},
			outputFlag()),
		Action: export,
	}
}

func export(c *cli.Context) error {
	var to *render.Export
	var names []string
	for i := range render.Exports {
		names = append(names, render.Exports[i].Name)
		if render.Exports[i].Name == c.String("to") {
			to = &render.Exports[i]
		}
	}
	switch {
	case c.String("to") == "":
		return fail(statusUsage, "export: no format given; want --to %s", strings.Join(names, " or --to "))
	case to == nil:
		return fail(statusUsage, "--to %q: want %s", c.String("to"), strings.Join(names, " or "))
	case c.NArg() != 1:
		return fail(statusUsage, "export: want one capture, got %d; see memlane export --help", c.NArg())
	}
	captures, err := openAll(c, lifetime.DataLoss)
	if err != nil {
		return err
	}
	return writeOutput(c, func(w io.Writer) error { return to.Write(w, captures[0]) })
}
