package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/render/text"
)

func runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "read captures and write results, on this machine",
		ArgsUsage: "[CAPTURE...]",
		Description: "Runs map and merge without an engine. Records are cached in the folder cache\n" +
			"of the results: after Ctrl-C or an error of a store, the same command\n" +
			"continues where it stopped.\n\n" +
			"Examples:\n" +
			"  memlane-fleet run 'job/rank*.pickle' -o results\n" +
			"  memlane-fleet run -o results --max-memory 16GiB <captures.txt\n" +
			"  memlane-fleet run 's3://bucket/job/*.json.gz' -o results --workers 16",
		Flags: mapFlags(outputFlag(), rolesFlag()),
		Action: func(ctx context.Context, c *cli.Command) error {
			output := c.String("output")
			if c.String("cache") == "" {
				if err := c.Set("cache", below(output, "cache")); err != nil {
					return err
				}
			}
			given, err := roles(c)
			if err != nil {
				return err
			}
			r, names, err := readersOf(ctx, c)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				return fail(statusUsage, "run: no captures given; see memlane-fleet run --help")
			}
			all := &fleet.Fleet{}
			err = r.each(ctx, names, func(l line) error { return addPacked(all, l.Record) })
			if err == nil {
				err = writeResults(ctx, output, all, r.by, given)
			}
			if errors.Is(stopped(ctx, err), errInterrupted) {
				return fail(statusInterrupted, "interrupted; the same command continues from here")
			}
			if err != nil {
				return err
			}
			if !c.Bool("quiet") {
				fmt.Fprintf(c.Root().ErrWriter, "memlane-fleet: results are in %s\n", text.Printable(withoutSecrets(shownName(output))))
			}
			return nil
		},
	}
}
