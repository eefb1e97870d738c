package main

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/leak/preset"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/text"
	"github.com/urfave/cli/v2"
)

func leaksCommand() *cli.Command {
	return &cli.Command{
		Name:      "leaks",
		Usage:     "which buffers should be gone: findings, most severe first",
		ArgsUsage: "CAPTURE...",
		Description: "Examples:\n" +
			"  memlane leaks snapshot.pickle\n" +
			"  memlane leaks --space cuda:1 --json snapshot.pickle\n" +
			"  memlane leaks --fail-on warning snapshot.pickle || echo it leaks\n" +
			"  memlane leaks --function 'train_step|evaluate' snapshot.pickle\n" +
			"  memlane leaks --threshold limit_bytes=80GiB snapshot.pickle\n" +
			"  memlane leaks --list-rules",
		Flags:  captureFlags(append(ruleFlags(), rankFlag(), toggle("list-rules", "list all rules and their thresholds"), jsonFlag())...),
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
	ranks, err := ranksOf(c)
	if err != nil {
		return err
	}
	var all []answer.CaptureLeaks
	var score *preset.Score
	met := 0
	err = r.each(c, func(capture *lifetime.Capture) error {
		found, report := r.find(capture)
		met += r.meets(found)
		ranks.Add(capture.Outline(), found)
		all = append(all, answer.LeaksOf(capture, found, r.tool(), r.settings.Function))
		if report != nil {
			score = &report.OptimizationScore
		}
		return nil
	})
	if err != nil {
		return err
	}
	outliers := r.outliers(ranks)
	met += r.meets(outliers)
	out := answer.NewLeaks(all, ranks, outliers)
	if score != nil {
		out.Score = answer.Score{Score: score.Score, Grade: score.Grade, Description: score.Description}
	}
	if c.Bool("json") {
		err = model.WriteJSON(c.App.Writer, out)
	} else {
		err = text.Leaks(c.App.Writer, out, styleOf(c.App.Writer))
	}
	if err != nil {
		return err
	}
	return r.verdict(met)
}
