package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
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
			"  go tool pprof -sample_index=leaked_space -top heap.pb.gz\n" +
			"  memlane pprof --every 10 -o heap.pb.gz snapshot.pickle\n" +
			"  go tool pprof -diff_base heap-1.pb.gz -top heap-4.pb.gz\n" +
			"  memlane pprof --module jit_step -o step.pb.gz host.xplane.pb",
		Flags: captureFlags(functionFlag(),
			suggesting(&cli.StringFlag{Name: "at", Value: "peak", Usage: "`WHEN` inuse is taken: peak, end, or instants as\n20ms,40ms, a file for each"},
				named("peak", "end")...),
			&cli.StringFlag{Name: "every", Usage: "a file for every `N`th step, as it begins"},
			oneOf(&cli.StringFlag{Name: "frames", Value: userFrames, Usage: "`WHICH` frames: user or all"}, named(userFrames, allFrames)...),
			outputFlag()),
		Action: writePprof,
	}
}

// The frames that --frames asks for.
const (
	userFrames = "user"
	allFrames  = "all"
)

func writePprof(c *cli.Context) error {
	o := pprof.Options{UserFrames: c.String("frames") == userFrames}
	if file := c.String("output"); (file == "-" || file == "") && terminal(c.App.Writer) {
		return usage("pprof: a profile is binary: give a file with -o, or send it to another program")
	}
	want, err := selectionOf(c)
	if err != nil {
		return err
	}
	all, err := captures(0).openAll(c, &want)
	if err != nil {
		return err
	}
	var found []leak.Finding
	for _, capture := range all {
		spaces, _ := ofRuntime(&want, capture.Spaces)
		o.Spaces = append(o.Spaces, spaces...)
		for _, s := range spaces {
			if s.UsageOnly() {
				o.Comments = append(o.Comments, s.ID()+": left out: only its usage is known, not what held it")
			}
		}
		found = append(found, leak.Find(capture, spaces, leak.Settings{})...)
	}
	o.Marks = answer.MarksOf(found)
	times, err := seriesOf(c, o.Spaces)
	if err != nil {
		return err
	}
	if times == nil {
		if c.String("at") == "end" {
			o.At = pprof.End
		}
		return writeOutput(c, func(w io.Writer) error { return pprof.Write(w, all, o) })
	}
	var files []string
	for i := range times {
		files = append(files, numbered(c.String("output"), i+1))
	}
	return writeFiles(c.Context, files, func(w io.Writer, i int) error {
		o.At, o.Time = pprof.Fixed, times[i]
		return pprof.Write(w, all, o)
	})
}

// seriesOf returns the instants of a series of profiles, nil for a single one.
// The instants of several spaces are those of the first: they share a clock.
func seriesOf(c *cli.Context, spaces []*lifetime.Space) (times []int64, err error) {
	at, every := c.String("at"), c.String("every")
	switch {
	case every == "" && (at == "peak" || at == "end"):
		return nil, nil
	case every != "" && c.IsSet("at"):
		return nil, usage("pprof: --at and --every are two ways to choose instants; give one")
	case c.String("output") == "-" || c.String("output") == "":
		return nil, usage("pprof: a series needs -o FILE; its files are called FILE with a number")
	case len(spaces) == 0:
		return nil, nil
	}
	if every == "" {
		for _, text := range strings.Split(at, ",") {
			moment, err := answer.ParseMoment(strings.TrimSpace(text))
			if err != nil {
				return nil, usage("--at %w", err)
			}
			t, err := moment.In(spaces[0].ID(), spaces[0])
			if err != nil {
				return nil, err
			}
			times = append(times, t)
		}
		return times, nil
	}
	n, err := strconv.Atoi(every)
	if err != nil || n < 1 {
		return nil, usage("--every %q: want a number of steps, as 10", every)
	}
	step := 0
	for _, m := range spaces[0].Marks {
		if m.Kind == lifetime.Step && m.Begin >= spaces[0].Begin {
			if step%n == 0 {
				times = append(times, m.Begin)
			}
			step++
		}
	}
	if times == nil {
		return nil, &lifetime.NothingError{File: spaces[0].ID(), Why: fmt.Sprintf("--every %d: no step is marked; --at 20ms,40ms takes instants", n)}
	}
	return times, nil
}

// numbered puts a number before the extension of a file: heap-3.pb.gz.
func numbered(file string, n int) string {
	dir, base := filepath.Split(file)
	name, extension, _ := strings.Cut(base, ".")
	if extension != "" {
		extension = "." + extension
	}
	return filepath.Join(dir, fmt.Sprintf("%s-%d%s", name, n, extension))
}
