package main

import (
	"context"

	"github.com/urfave/cli/v3"
	"gocloud.dev/gcerrors"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/cmd/memlane-fleet/report"
)

func compareCommand() *cli.Command {
	return &cli.Command{
		Name:      "compare",
		Usage:     "print what differs between the results of two runs",
		ArgsUsage: "BEFORE AFTER",
		Description: "BEFORE and AFTER are folders of results, also in object stores. Ranks are\n" +
			"matched by number. It prints what grew, on which ranks, and which places and\n" +
			"findings are new.\n\n" +
			"Examples:\n" +
			"  memlane-fleet compare monday tuesday\n" +
			"  memlane-fleet compare s3://bucket/monday s3://bucket/tuesday",
		Flags: []cli.Flag{rolesFlag()},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() != 2 {
				return fail(statusUsage, "compare: give two folders of results; see memlane-fleet compare --help")
			}
			given, err := roles(c)
			if err != nil {
				return err
			}
			var runs [2]*fleet.Fleet
			for i := range runs {
				if runs[i], err = recordsIn(ctx, c.Args().Get(i)); err != nil {
					return err
				}
			}
			if err := report.WriteComparison(c.Root().Writer, fleet.Compare(runs[0], runs[1], given)); err != nil {
				return fail(statusFailed, "standard output: %w", cause(err))
			}
			return nil
		},
	}
}

// recordsIn returns the records of a folder of results.
func recordsIn(ctx context.Context, name string) (*fleet.Fleet, error) {
	bucket, err := results(ctx, name)
	if err != nil {
		return nil, err
	}
	var data []byte
	err = retry(ctx, func() (err error) {
		data, err = bucket.ReadAll(ctx, report.Records)
		return err
	})
	switch {
	case gcerrors.Code(err) == gcerrors.NotFound:
		return nil, fail(statusUsage, "%s: it has no %s, which run and merge write", shownName(name), report.Records)
	case err != nil:
		return nil, storeError(shownName(name), err)
	}
	all := &fleet.Fleet{}
	if err := addPacked(all, data); err != nil {
		return nil, fail(statusUsage, "%s: %s: %w", shownName(name), report.Records, err)
	}
	return all, nil
}
