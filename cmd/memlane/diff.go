package main

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/chart"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/pprof"
	"github.com/memlane/memlane/render/report"
	"github.com/memlane/memlane/render/text"
	"github.com/memlane/memlane/render/web"
	"github.com/urfave/cli/v2"
)

// The formats of a comparison besides those of a report. The name of -o selects them.
const (
	profileDiff = "pprof"
	pictureDiff = "picture"
)

func diffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "compare two captures by call site: new, gone, grew, shrank",
		ArgsUsage: "BEFORE AFTER",
		Description: "Examples:\n" +
			"  memlane diff before.pickle after.pickle\n" +
			"  memlane diff -o diff.svg before.pickle after.pickle\n" +
			"  memlane diff --fail-on 'peak>+5%' --fail-on new-leak old.pickle new.pickle",
		Flags: captureFlags(functionFlag(), nameFlag(), byFlag(),
			suggesting(&cli.GenericFlag{Name: "fail-on", Value: &texts{},
				Usage: "exit status 1 if `RULE` is met: 'peak>+5%', 'end>+64MiB', new-leak; can be repeated"}, named(diff.NewLeak)...),
			toggle("per-step", "compare bytes allocated per step, not in total"),
			formatFlag(),
			jsonFlag(), outputFlag(), forceFlag()),
		Action: diffCaptures,
	}
}

func diffCaptures(c *cli.Context) error {
	wrongCount := func(got int) error {
		return usage("diff takes two captures, BEFORE and AFTER (got %d); see memlane diff --help", got)
	}
	if c.NArg() != 2 {
		return wrongCount(c.NArg())
	}
	format, err := reportFormat(c, append(pictureExtensions, profileExtension)...)
	if err != nil {
		return err
	}
	gates, err := gatesOf(*c.Generic("fail-on").(*texts))
	if err != nil {
		return err
	}
	both, _, err := openAll(c)
	if err != nil {
		return err
	}
	if len(both) != 2 { // an argument is a pattern or a folder
		return wrongCount(len(both))
	}
	d := diff.Compare(both[0], both[1])
	switch {
	case outputEndsIn(c, profileExtension):
		format = profileDiff
	case outputIsPicture(c) && c.String("format") == "" && format == textReport:
		format = pictureDiff
	}
	err = writeOutput(c, func(w io.Writer) error { return writeDiff(c, w, d, format) })
	if err != nil {
		return err
	}
	return checkGates(gates, d)
}

func gatesOf(all []string) (gates []diff.Gate, err error) {
	words := named(append(diff.Metrics(), diff.NewLeak)...)
	for _, text := range all {
		g, err := diff.ParseGate(text)
		if err != nil {
			metric, _, _ := strings.Cut(strings.TrimSpace(text), ">")
			return nil, usage("--fail-on %q: %w%s", text, err, suggestion(metric, words))
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// checkGates returns an error with all gates that a comparison meets; nil if it meets none.
func checkGates(gates []diff.Gate, d *diff.Result) error {
	if met := d.Met(gates); met != nil {
		return failOnMet("%s", strings.Join(met, "; "))
	}
	for _, c := range []*judge.Capture{d.Before, d.After} {
		if why := answer.Unjudged(c.Capture); why != "" && slices.ContainsFunc(gates, diff.Gate.OfLeaks) {
			return &selection.NothingError{File: c.Name(), Why: "--fail-on new-leak cannot be judged: " + why}
		}
	}
	return nil
}

func writeDiff(c *cli.Context, w io.Writer, d *diff.Result, format string) error {
	switch format {
	case profileDiff:
		return pprof.WriteDiff(w, d.Before.Capture, d.After.Capture, profileOptions(d.Before), profileOptions(d.After))
	case pictureDiff:
		pair := d.Main() // not nil: openAll fails without a memory ID
		if n := len(d.Pairs); n > 1 && !c.Bool("quiet") {
			noteChoice(c.App.ErrWriter, "drawing", &cmp.Or(pair.After, pair.Before).Space.SpaceInfo, n)
		}
		return nothingError(d.After, chart.Diff(w, d, pair, chartOptions(c)))
	case htmlReport:
		return web.Write(w, []*judge.Capture{d.Before, d.After})
	}
	out := answer.DiffOf(d, c.Bool("per-step"))
	switch format {
	case jsonReport:
		return model.WriteJSON(w, out)
	case markdownReport:
		return report.WriteDiff(w, out, repository())
	case sarifReport:
		return report.WriteSARIF(w, report.Changes(out), repository())
	case githubReport:
		return report.WriteAnnotations(w, report.Changes(out), repository())
	}
	return text.Diff(w, out, styleOf(w))
}

func profileOptions(capture *judge.Capture) pprof.Options {
	return pprof.Options{Marks: finding.MarksOf(capture.Findings()), UserFrames: true}
}
