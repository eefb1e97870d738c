package main

import (
	"context"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/cmd/memlane-fleet/report"
	"github.com/memlane/memlane/internal/atomicfile"
)

func trendCommand() *cli.Command {
	return &cli.Command{
		Name:      "trend",
		Usage:     "print how the results of runs change over time",
		ArgsUsage: "RUN...",
		Description: "RUNs are folders of results in order of time, or folders with many of them,\n" +
			"also in object stores. A change counts if it lasts to the last run and is\n" +
			"more than the noise of at least three runs before it. Each has its ranks and\n" +
			"its first capture. Parts of a path such as model=llama are labels of a run;\n" +
			"runs whose labels of --by are equal are one series.\n\n" +
			"Examples:\n" +
			"  memlane-fleet trend results/day*\n" +
			"  memlane-fleet trend --page trend.html results/day*\n" +
			"  memlane-fleet trend --by model s3://bucket/runs",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "by", Usage: "group runs by `LABELS`", Value: "model,job"},
			&cli.StringFlag{Name: "page", Usage: "write all ranks by run to page `FILE`", HideDefault: true},
			rolesFlag(),
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			given, err := roles(c)
			if err != nil {
				return err
			}
			names, err := runsIn(ctx, c.Args().Slice())
			if err != nil {
				return err
			}
			if len(names) < 2 {
				return fail(statusUsage, "trend: give two or more folders of results; see memlane-fleet trend --help")
			}
			groups, by := map[string]*fleet.Trend{}, strings.Split(c.String("by"), ",")
			for _, name := range names {
				f, err := recordsIn(ctx, name)
				if err != nil {
					return err
				}
				group, rest := splitLabels(name, by)
				if groups[group] == nil {
					groups[group] = &fleet.Trend{}
				}
				groups[group].Add(rest, f, given)
			}
			if page := c.String("page"); page != "" {
				err := atomicfile.Write(ctx, []string{page}, func(w io.Writer, _ int) error { return report.WriteTrendPage(w, groups) })
				if err != nil {
					return fail(statusFailed, "--page: %w", err)
				}
			}
			if err := report.WriteTrends(c.Root().Writer, groups); err != nil {
				return fail(statusFailed, "standard output: %w", cause(err))
			}
			return nil
		},
	}
}
