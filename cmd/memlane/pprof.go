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
			"was allocated in the window. Compiled programs are in it when they are chosen\n" +
			"or there is nothing else; their stacks are the scopes of the model.\n\n" +
			"Examples:\n" +
			"  memlane pprof -o heap.pb.gz snapshot.pickle\n" +
			"  go tool pprof -top heap.pb.gz\n" +
			"  go tool pprof -tagfocus=leak=leak -peek . heap.pb.gz\n" +
			"  go tool pprof -tagroot=device -http=: heap.pb.gz\n" +
			"  memlane pprof --module jit_step -o step.pb.gz host.xplane.pb",
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
		spaces, _ := ofRuntime(c, capture.Spaces)
		o.Spaces = append(o.Spaces, spaces...)
		for _, s := range spaces {
			if s.UsageOnly() {
				o.Comments = append(o.Comments, s.ID()+": left out: only its usage is known, not what held it")
			}
		}
		addFindings(&o, leak.Find(capture, spaces, leak.Settings{}))
	}
	return writeOutput(c, func(w io.Writer) error {
		err := pprof.Write(w, captures, o)
		if errors.Is(err, pprof.ErrNoBuffers) {
			return &statusError{statusNoMemory, err}
		}
		return err
	})
}

// addFindings labels the sites that leak, and tells in the comments of leaks and
// whatever else is more than worth knowing: pprof prints them above every report.
func addFindings(o *pprof.Options, findings []leak.Finding) {
	for _, f := range findings {
		if f.IsLeak() {
			labels := o.Leaks[f.Space]
			if labels == nil {
				labels = map[lifetime.SiteID]string{}
				o.Leaks[f.Space] = labels
			}
			for _, site := range f.Sites {
				labels[site] = f.Rule + ":" + f.Severity.String()
			}
		}
		if f.Severity > leak.Info {
			o.Comments = append(o.Comments, f.Space.ID()+": "+f.Severity.String()+": "+f.Rule+": "+f.Description)
		}
	}
}
