package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	app := &cli.App{
		Name:      "memlane-release",
		Usage:     "static programs, checksums and an SBOM of the commit that is checked out",
		UsageText: "memlane-release [-o DIR]",
		Description: "Run it in a checkout without changes. Archives for Linux, macOS and Windows,\n" +
			"amd64 and arm64, with SHA256SUMS and an SBOM appear in DIR.\n\n" +
			"Examples:\n" +
			"  git tag v1.2.3 && memlane-release -o dist\n" +
			"  cd dist && sha256sum --check SHA256SUMS",
		HideVersion:     true,
		HideHelpCommand: true,
		Flags:           []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "dist", Usage: "the folder `DIR`, which must be new or empty"}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("it takes no arguments, but got %q", c.Args().First())
			}
			r, err := newRelease(c.Context, ".", c.String("output"))
			if err == nil {
				err = r.make(platforms)
			}
			return err
		},
		ExitErrHandler: func(*cli.Context, error) {}, // below
	}
	err := app.RunContext(ctx, os.Args)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "memlane-release:", err)
		os.Exit(1)
	}
}
