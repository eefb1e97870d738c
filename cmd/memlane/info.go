package main

import (
	"io"

	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/text"
	"github.com/urfave/cli/v2"
)

func infoCommand() *cli.Command {
	return &cli.Command{
		Name:      "info",
		Usage:     "summarize a capture: counts, peaks, fragmentation, warnings",
		ArgsUsage: "CAPTURE...",
		Description: "Examples:\n" +
			"  memlane info snapshot.pickle\n" +
			"  memlane info --json snapshot.pickle | jq '.captures[].spaces[].peak.bytes'\n" +
			"  gzip -dc snapshot.pickle.gz | memlane info -",
		Flags:  captureFlags(rankFlag(), jsonFlag()),
		Action: selecting(info),
	}
}

func info(c *cli.Context, chosen *selection.Selection) error {
	ranks, err := ranksOf(c)
	if err != nil {
		return err
	}
	r := outlines(chosen)
	r.warn = loss.Damage // the answer lists the others
	var all []answer.Capture
	err = r.each(c, chosen, func(o *judge.Outline) error {
		ranks.Add(o)
		all = append(all, answer.InfoOf(o))
		return nil
	})
	if err != nil {
		return err
	}
	summary := ranks.Summary(nil)
	var rows []answer.Rank
	if summary != nil {
		rows = summary.Rows
	}
	out := answer.NewInfo(all, rows)
	return printAnswer(c, out, func(w io.Writer, s text.Style) error { return text.Info(w, out, summary, s) })
}

func rankFlag() cli.Flag {
	return &cli.StringFlag{Name: "rank-from", Usage: "the rank is the first group of `REGEXP` in the path"}
}

// ranksOf returns an empty summary of captures by rank, with the rule of --rank-from.
func ranksOf(c *cli.Context) (*answer.Ranks, error) {
	by, err := finding.ParseRankNames(c.String("rank-from"))
	if err != nil {
		return nil, usage("--rank-from %w", err)
	}
	return &answer.Ranks{By: by}, nil
}
