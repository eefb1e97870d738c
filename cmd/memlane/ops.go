package main

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/text"
	"github.com/urfave/cli/v2"
)

func opsCommand() *cli.Command {
	return &cli.Command{
		Name:      "ops",
		Usage:     "which operations changed the memory: the operators of a trace",
		ArgsUsage: "CAPTURE...",
		Description: "One row per operator or named range of a trace of the PyTorch profiler, as in\n" +
			"its Operator view and key_averages(): bytes allocated less bytes freed while\n" +
			"it ran, below zero where it freed more. \"self\" is without the operations that\n" +
			"it called. [memory] is what was allocated and freed outside of all of them.\n\n" +
			"Examples:\n" +
			"  memlane ops trace.json\n" +
			"  memlane ops --sort time trace.json.gz\n" +
			"  memlane ops --json rank0.json rank1.json | jq '.captures[].operations[0]'",
		Flags: append([]cli.Flag{
			toggle("functions", "the Python functions in place of the operators"),
			choiceFlag("sort", "memory", "WHAT", answer.Orders),
			jsonFlag()}, inputFlags()...),
		Action: ops,
	}
}

func ops(c *cli.Context) error {
	out := answer.Ops{Schema: answer.Schema}
	r := captures(build.Operations)
	r.warn = loss.Damage // lesser losses concern buffers
	r.part = func(_ *lifetime.Selection, capture *lifetime.Capture) (*lifetime.Capture, error) { return capture, nil }
	err := r.each(c, nil, func(capture *lifetime.Capture) error {
		ops, err := answer.OpsOf(capture, c.String("sort"))
		out.Captures = append(out.Captures, ops)
		return err
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return model.WriteJSON(c.App.Writer, out)
	}
	return text.Ops(c.App.Writer, &out, c.Bool("functions"), styleOf(c.App.Writer))
}
