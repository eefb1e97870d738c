package main

import (
	"cmp"
	"io"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/render/chart"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/pprof"
	"github.com/memlane/memlane/render/report"
	"github.com/memlane/memlane/render/text"
	"github.com/memlane/memlane/render/web"
	"github.com/urfave/cli/v2"
)

func diffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "two captures by call site: new, gone, grew, shrank",
		ArgsUsage: "BEFORE AFTER",
		Description: "Examples:\n" +
			"  memlane diff before.pickle after.pickle\n" +
			"  memlane diff --per-step before.pickle after.pickle\n" +
			"  memlane diff -o diff.md before.pickle after.pickle\n" +
			"  memlane diff -o diff.svg before.pickle after.pickle\n" +
			"  memlane diff -o diff.pb.gz before.pickle after.pickle\n" +
			"  memlane diff --fail-on 'peak>+5%' --fail-on new-leak old.pickle new.pickle",
		Flags: captureFlags(functionFlag(),
			suggesting(&cli.GenericFlag{Name: "fail-on", Value: &texts{}, Usage: "status 1 when `RULE` holds: 'peak>+5%',\n'end>+64MiB', new-leak; may be given again"},
				named(newLeak)...),
			toggle("per-step", "bytes allocated in each step, not in the window"),
			formatFlag(),
			toggle("json", "the same as --format json"), outputFlag()),
		Action: diffCaptures,
	}
}

func diffCaptures(c *cli.Context) error {
	if c.NArg() != 2 {
		return usage("diff: want two captures, BEFORE and AFTER, got %d; see memlane diff --help", c.NArg())
	}
	format, err := reportFormat(c)
	if err != nil {
		return err
	}
	gates, err := gatesOf(*c.Generic("fail-on").(*texts))
	if err != nil {
		return err
	}
	want, err := selectionOf(c)
	if err != nil {
		return err
	}
	both, err := captures(0).openAll(c, &want)
	if err != nil {
		return err
	}
	if len(both) != 2 { // a pattern or a folder
		return usage("diff: want two captures, BEFORE and AFTER, got %d; see memlane diff --help", len(both))
	}
	d := diff.Compare(both[0], both[1], leak.Settings{})
	switch {
	case strings.HasSuffix(c.String("output"), profileExtension):
		format = profileDiff
	case isPicture(c) && c.String("format") == "" && format == textReport:
		format = pictureDiff
	}
	err = writeOutput(c, func(w io.Writer) error { return writeDiff(c, w, d, format) })
	if err != nil {
		return err
	}
	return check(gates, d)
}

// The forms of a comparison besides those of a report, which -o's name asks for.
const (
	profileExtension = ".pb.gz"
	profileDiff      = "pprof"
	pictureDiff      = "picture"
)

// writeDiff writes a comparison in one of its forms.
func writeDiff(c *cli.Context, w io.Writer, d *diff.Result, format string) error {
	switch format {
	case profileDiff:
		return pprof.WriteDiff(w, d.Before, d.After, profileOptions(d.Before), profileOptions(d.After))
	case pictureDiff:
		pair := d.Main() // the selection made sure that there is one
		if n := len(d.Pairs); n > 1 && !c.Bool("quiet") {
			sayChoice(c.App.ErrWriter, "drawing", &cmp.Or(pair.After, pair.Before).Space.SpaceInfo, n)
		}
		return nothing(d.After, chart.Diff(w, d, pair, chart.Options{Format: pictureFormat(c)}))
	case htmlReport:
		return web.Write(w, []web.Capture{judged(d.Before), judged(d.After)})
	}
	out := answer.DiffOf(d, c.Bool("per-step"))
	switch format {
	case jsonReport:
		return model.WriteJSON(w, out)
	case markdownReport:
		return report.WriteDiff(w, out)
	case sarifReport:
		return report.WriteSARIF(w, report.Changes(out))
	case githubReport:
		return report.WriteAnnotations(w, report.Changes(out))
	}
	return text.Diff(w, out, styleOf(w))
}

// judged returns a capture with what memlane's own rules find in it.
func judged(capture *lifetime.Capture) web.Capture {
	return web.Capture{Capture: capture, Findings: leak.Find(capture, capture.Spaces, leak.Settings{})}
}

// profileOptions are those of a profile of what ran in a capture, or else of its
// compiled programs.
func profileOptions(capture *lifetime.Capture) pprof.Options {
	return pprof.Options{Marks: answer.MarksOf(leak.Find(capture, capture.Spaces, leak.Settings{})), UserFrames: true}
}
