package main

import (
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/text"
)

// briefName is the name of the command that a capture in the place of a command stands for.
const briefName = "brief"

// briefCommand answers memlane CAPTURE. It is hidden: people type only the capture.
func briefCommand() *cli.Command {
	return &cli.Command{
		Name: briefName, Hidden: true,
		Usage:     "what filled the memory, why it failed, what to do",
		ArgsUsage: "CAPTURE...",
		Description: "Examples:\n" +
			"  memlane snapshot.pickle\n" +
			"  memlane before.pickle after.pickle",
		Flags:  captureFlags(ruleFlags()...),
		Action: writeBrief,
	}
}

func writeBrief(c *cli.Context) error {
	r, err := rulesOf(c)
	if err != nil {
		return err
	}
	var of []answer.CaptureReport
	err = r.each(c, func(capture *judge.Capture) { of = append(of, answer.CaptureReportOf(capture, r.tool())) })
	if err != nil {
		return err
	}
	out := answer.NewReport(r.name(), of, r.ranks, r.outliers)
	out.AddSeries(&r.series)
	return text.Brief(c.App.Writer, out, styleOf(c.App.Writer))
}

// isCapture reports whether an argument in the place of a command is a capture: a file, a folder, a pattern of files,
// or standard input.
func isCapture(arg string) bool {
	if _, err := os.Stat(arg); err == nil || arg == "-" {
		return true
	}
	files, err := filepath.Glob(arg)
	return err == nil && len(files) > 0
}
