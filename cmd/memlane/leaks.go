package main

import (
	"cmp"
	"io"

	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/text"
	"github.com/urfave/cli/v2"
)

func leaksCommand() *cli.Command {
	return &cli.Command{
		Name:      "leaks",
		Usage:     "find leaks and other problems, most severe first",
		ArgsUsage: "CAPTURE...",
		Description: "Examples:\n" +
			"  memlane leaks snapshot.pickle\n" +
			"  memlane leaks --space cuda:1 --json snapshot.pickle\n" +
			"  memlane leaks --fail-on warning snapshot.pickle || echo it leaks\n" +
			"  memlane leaks --list-rules",
		Flags: captureFlags(append(ruleFlags(), byFlag(), rankFlag(),
			toggle("all", "all findings, and each call site of one cause apart"), toggle("list-rules",
				"list all rules and their thresholds"), jsonFlag())...),
		Action: leaks,
	}
}

func leaks(c *cli.Context) error {
	if c.Bool("list-rules") {
		listRules(c.App.Writer)
		return nil
	}
	r, err := rulesOf(c)
	if err != nil {
		return err
	}
	var all []answer.CaptureLeaks
	err = r.each(c, func(capture *judge.Capture) {
		all = append(all, answer.LeaksOf(capture, r.tool()))
	})
	if err != nil {
		return err
	}
	out := answer.NewLeaks(all, r.ranks, r.outliers)
	if len(out.Ranks) == 0 && r.preset == nil {
		out.AddSeries(&r.series)
	}
	err = printAnswer(c, out, func(w io.Writer, s text.Style) error { return text.Leaks(w, out, c.Bool("all"), s) })
	return cmp.Or(err, r.checkFailOn())
}
