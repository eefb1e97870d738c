package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/cmd/memlane-fleet/report"
)

func trendCommand() *cli.Command {
	return &cli.Command{
		Name:      "trend",
		Usage:     "print how the results of runs change over time",
		ArgsUsage: "RUN...",
		Description: "RUNs are folders of results in order of time, also in object stores. A change\n" +
			"counts if it lasts to the last run and is more than the noise of at least\n" +
			"three runs before it. Each has its ranks and its first capture.\n\n" +
			"Examples:\n" +
			"  memlane-fleet trend results/day*",
		Flags: []cli.Flag{rolesFlag()},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() < 2 {
				return fail(statusUsage, "trend: give two or more folders of results; see memlane-fleet trend --help")
			}
			given, err := roles(c)
			if err != nil {
				return err
			}
			var t fleet.Trend
			for _, name := range c.Args().Slice() {
				f, err := recordsIn(ctx, name)
				if err != nil {
					return err
				}
				t.Add(withoutSecrets(shownName(name)), f, given)
			}
			if err := report.WriteTrend(c.Root().Writer, &t); err != nil {
				return fail(statusFailed, "standard output: %w", cause(err))
			}
			return nil
		},
	}
}
