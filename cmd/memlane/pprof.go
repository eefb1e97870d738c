package main

import (
	"errors"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/render/pprof"
)

func pprofCommand() *cli.Command {
	return &cli.Command{
		Name:      "pprof",
		Usage:     "a heap profile for go tool pprof, with leaks as labels",
		ArgsUsage: "CAPTURE...",
		Description: "inuse_space is what was alive at the peak of each memory ID, alloc_space what\n" +
			"was allocated in the window.\n\n" +
			"Examples:\n" +
			"  memlane pprof -o heap.pb.gz snapshot.pickle\n" +
			"  go tool pprof -top heap.pb.gz\n" +
			"  go tool pprof -tagfocus=leak=leak -peek . heap.pb.gz\n" +
			"  go tool pprof -tagroot=device -http=: heap.pb.gz",
		Flags: captureFlags(
			&cli.StringFlag{Name: "at", Value: "peak", Usage: "`WHEN` inuse is taken: peak or end"},
			outputFlag()),
		Action: writePprof,
	}
}

func writePprof(c *cli.Context) error {
	o := pprof.Options{Leaks: map[*lifetime.Space]map[lifetime.SiteID]string{}}
	switch c.String("at") {
	case "peak":
	case "end":
		o.At = pprof.End
	default:
		return fail(statusUsage, "--at %q: want peak or end", c.String("at"))
	}
	if file := c.String("output"); (file == "-" || file == "") && terminal(c.App.Writer) {
		return fail(statusUsage, "pprof: a profile is binary: give a file with -o, or send it to another program")
	}
	captures, err := openAll(c, lifetime.DataLoss)
	if err != nil {
		return err
	}
	for _, capture := range captures {
		o.Spaces = append(o.Spaces, capture.Spaces...)
		for _, f := range leak.Find(capture, capture.Spaces) {
			labels := o.Leaks[f.Space]
			if labels == nil {
				labels = map[lifetime.SiteID]string{}
				o.Leaks[f.Space] = labels
			}
			for _, site := range f.Sites {
				labels[site] = f.Rule + ":" + f.Severity.String()
			}
			o.Comments = append(o.Comments, f.Space.ID()+": "+f.Severity.String()+": "+f.Rule+": "+f.Description)
		}
	}
	return writeOutput(c, func(w io.Writer) error {
		err := pprof.Write(w, captures, o)
		if errors.Is(err, pprof.ErrNoBuffers) {
			return &statusError{statusNoMemory, err}
		}
		return err
	})
}
