package main

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/text"
)

func oomCommand() *cli.Command {
	return &cli.Command{
		Name:      "oom",
		Usage:     "explain why an allocation failed, from a recording or a log",
		ArgsUsage: "CAPTURE...",
		Description: "A CAPTURE is a recording, or the text that the program printed: a log of any\n" +
			"size with the errors of PyTorch, XLA or TensorFlow in it. A failure that was\n" +
			"printed several times is shown once. The status is 4 if none failed and no\n" +
			"program is known to fit.\n\n" +
			"Examples:\n" +
			"  memlane oom train.log\n" +
			"  kubectl logs trainer-0 | memlane oom -\n" +
			"  memlane oom --capacity 15.75GiB step.hlo.pb\n" +
			"  memlane oom --json snapshot.pickle | jq '.ooms[0].reason'",
		Flags: captureFlags(&cli.StringFlag{Name: "capacity",
			Usage: "the device has `SIZE`, such as 15.75GiB: tells also whether programs fit, and explains those that need more"}, jsonFlag()),
		Action: selecting(oom),
	}
}

func oom(c *cli.Context, chosen *selection.Selection) error {
	capacity, err := sizeOf(c, "capacity", "24GiB")
	if err != nil {
		return err
	}
	all := []answer.Failure{}
	var near []answer.Failure // inferred ones
	var fits []answer.Fit
	last := ""
	err = captures(0).each(c, chosen, func(capture *judge.Capture) error {
		last = capture.Name()
		capture.Settings.Limit = capacity
		failed, close := answer.OOMsOf(capture, capture.Spaces)
		if all = append(all, failed...); len(all) == 0 {
			near, fits = append(near, close...), append(fits, answer.FitsOf(capture)...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		all = append(all, near...)
	}
	if len(all)+len(fits) == 0 {
		return &selection.NothingError{File: last, Why: "no allocation failed in the recording; memlane peak shows its highest level"}
	}
	out := answer.NewOOMs(all, fits)
	return printAnswer(c, out, func(w io.Writer, s text.Style) error { return text.OOMs(w, out, s) })
}
