package main

import (
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/pprof"
)

func pprofCommand() *cli.Command {
	return &cli.Command{
		Name:      "pprof",
		Usage:     "write a heap profile for go tool pprof, with leaks as labels",
		ArgsUsage: "CAPTURE...",
		Description: "inuse_space is the memory in use at the peak of each memory ID, alloc_space\n" +
			"everything allocated in the recording. Compiled programs are included if they\n" +
			"are selected or if there is nothing else; their stacks are the scopes of the\n" +
			"model.\n\n" +
			"Examples:\n" +
			"  memlane pprof -o heap.pb.gz snapshot.pickle\n" +
			"  go tool pprof -top heap.pb.gz\n" +
			"  go tool pprof -tagfocus=leak=leak -peek . heap.pb.gz\n" +
			"  go tool pprof -tagroot=device -http=: heap.pb.gz\n" +
			"  go tool pprof -sample_index=leaked_space -top heap.pb.gz\n" +
			"  memlane pprof --at 20us -o early.pb.gz snapshot.pickle\n" +
			"  go tool pprof -diff_base early.pb.gz -top heap.pb.gz\n" +
			"  memlane pprof --module jit_step -o step.pb.gz host.xplane.pb",
		Flags: captureFlags(functionFlag(), nameFlag(), byFlag(),
			atFlag(),
			oneOf(&cli.StringFlag{Name: "frames", Value: "user", Usage: "`WHICH`: user, or all frames of stacks"}, named("user", "all")...),
			rankFlag(), outputFlag(), forceFlag()),
		Action: writePprof,
	}
}

func writePprof(c *cli.Context) error {
	o := pprof.Options{UserFrames: c.String("frames") != "all"}
	if toStdout(c) && terminalOf(c.App.Writer) != nil {
		return usage("pprof: a profile is binary; write it to a file with -o, or pipe it to a program")
	}
	if err := checkName(c, profileExtension); err != nil {
		return err
	}
	ranks, err := ranksOf(c)
	if err != nil {
		return err
	}
	o.Ranks = ranks.By
	judged, chosen, err := openAll(c)
	if err != nil {
		return err
	}
	var all []*lifetime.Capture
	var found []finding.Finding
	for _, capture := range judged {
		all = append(all, capture.Capture)
		spaces := runtimeSpaces(&chosen, capture.Spaces)
		o.Spaces = append(o.Spaces, spaces...)
		for _, s := range spaces {
			if s.UsageOnly() {
				o.Comments = append(o.Comments, s.ID()+": omitted: only its usage was recorded")
			}
		}
		found = append(found, slices.DeleteFunc(slices.Clone(capture.Findings()),
			func(f finding.Finding) bool { return !slices.Contains(spaces, f.Space) })...)
	}
	o.Marks = finding.MarksOf(found)
	moment, err := selection.ParseMoment(c.String("at"))
	if err != nil {
		return wrongMoment(c, err)
	}
	switch {
	case moment == selection.AtEnd:
		o.At = pprof.End
	case moment != selection.AtPeak && len(o.Spaces) > 0: // the spaces share a clock
		o.At = pprof.Fixed
		if o.Time, err = moment.In(o.Spaces[0].ID(), o.Spaces[0]); err != nil {
			return err
		}
	}
	return writeOutput(c, func(w io.Writer) error { return pprof.Write(w, all, o) })
}
