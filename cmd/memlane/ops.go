package main

import (
	"io"

	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/text"
	"github.com/urfave/cli/v2"
)

func opsCommand() *cli.Command {
	return &cli.Command{
		Name:      "ops",
		Usage:     "list the memory that operators of a trace allocated and freed",
		ArgsUsage: "CAPTURE...",
		Description: "One row per operator or named range in a trace of the PyTorch profiler, as in\n" +
			"its Operator view and key_averages(). A row shows the bytes allocated minus\n" +
			"the bytes freed while the operator ran, and is negative if more was freed.\n" +
			"\"self\" excludes the operators that it called. [memory] is everything\n" +
			"allocated and freed outside of all operators.\n\n" +
			"Examples:\n" +
			"  memlane ops trace.json\n" +
			"  memlane ops --sort time trace.json.gz\n" +
			"  memlane ops --json rank0.json rank1.json | jq '.captures[].operations[0]'",
		Flags: append([]cli.Flag{
			toggle("functions", "show Python functions instead of operators"),
			choiceFlag("sort", "memory", "", "`COLUMN`: %s", answer.Orders),
			jsonFlag()}, inputFlags()...),
		Action: ops,
	}
}

func ops(c *cli.Context) error {
	var all []answer.CaptureOps
	r := captures(build.Operations)
	r.warn = loss.Damage // the other losses are about buffers
	r.part = func(_ *selection.Selection, capture *judge.Capture) (*judge.Capture, error) {
		return capture, nil
	}
	err := r.each(c, nil, func(capture *judge.Capture) error {
		ops, err := answer.OpsOf(capture.Capture, c.String("sort"))
		all = append(all, ops)
		return err
	})
	if err != nil {
		return err
	}
	out := answer.NewOps(all)
	return printAnswer(c, out, func(w io.Writer, s text.Style) error { return text.Ops(w, out, c.Bool("functions"), s) })
}
