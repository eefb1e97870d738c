package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
			"  memlane pprof --every 10 -o heap.pb.gz snapshot.pickle\n" +
			"  go tool pprof -diff_base heap-1.pb.gz -top heap-4.pb.gz\n" +
			"  memlane pprof --module jit_step -o step.pb.gz host.xplane.pb",
		Flags: captureFlags(functionFlag(), nameFlag(), byFlag(),
			suggesting(&cli.StringFlag{Name: "at", Value: "peak",
				Usage: "measure inuse at `WHEN`: peak, end, or instants such as 20ms,40ms with one file each"},
				named("peak", "end")...),
			&cli.StringFlag{Name: "every", Usage: "one file for the beginning of every `N`th step"},
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
	instants, err := instantsOf(c, o.Spaces)
	if err != nil {
		return err
	}
	if instants == nil {
		if c.String("at") == "end" {
			o.At = pprof.End
		}
		return writeOutput(c, func(w io.Writer) error { return pprof.Write(w, all, o) })
	}
	var files []string
	for i := range instants {
		file := numbered(c.String("output"), i+1)
		if err := checkOverwrite(c, c.Args().Slice(), file); err != nil {
			return err
		}
		files = append(files, file)
	}
	return writeFiles(c.Context, files, func(w io.Writer, i int) error {
		o.At, o.Time = pprof.Fixed, instants[i]
		return pprof.Write(w, all, o)
	})
}

// isSeries reports whether pprof writes several files.
func isSeries(c *cli.Context) bool {
	return c.String("every") != "" || c.String("at") != "peak" && c.String("at") != "end"
}

// instantsOf returns the instants of a series of profiles, nil for a single profile.
// Several spaces share a clock, so the first one determines the instants.
func instantsOf(c *cli.Context, spaces []*lifetime.Space) (instants []int64, err error) {
	moments, every := c.String("at"), c.String("every")
	switch {
	case !isSeries(c):
		return nil, nil
	case every != "" && c.IsSet("at"):
		return nil, usage("pprof: --at and --every contradict each other; give one of them")
	case toStdout(c):
		return nil, usage("pprof: a series needs -o FILE; each file name gets a number, such as heap-1.pb.gz")
	case len(spaces) == 0:
		return nil, nil
	case every != "":
		return stepsOf(every, spaces[0])
	}
	for _, text := range strings.Split(moments, ",") {
		moment, err := selection.ParseMoment(strings.TrimSpace(text))
		if err != nil {
			return nil, usage("--at %w", err)
		}
		t, err := moment.In(spaces[0].ID(), spaces[0])
		if err != nil {
			return nil, err
		}
		instants = append(instants, t)
	}
	return instants, nil
}

// stepsOf returns the beginning of every nth step in the recording.
func stepsOf(every string, s *lifetime.Space) (instants []int64, err error) {
	n, err := strconv.Atoi(every)
	if err != nil || n < 1 {
		return nil, usage("--every %q: use a number of steps such as 10", every)
	}
	step := 0
	for _, m := range s.Marks {
		if m.Kind == lifetime.Step && m.Begin >= s.Begin {
			if step%n == 0 {
				instants = append(instants, m.Begin)
			}
			step++
		}
	}
	if instants == nil {
		why := fmt.Sprintf("--every %d: no steps were recorded; give instants instead: --at 20ms,40ms", n)
		return nil, &selection.NothingError{File: s.ID(), Why: why}
	}
	return instants, nil
}

// numbered inserts a number before the extensions of a file name: heap-3.pb.gz.
func numbered(file string, n int) string {
	dir, base := filepath.Split(file)
	dot := strings.IndexByte(base+".", '.')
	return filepath.Join(dir, fmt.Sprintf("%s-%d%s", base[:dot], n, base[dot:]))
}
