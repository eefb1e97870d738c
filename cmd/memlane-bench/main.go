package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newApp().RunContext(ctx, os.Args)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "memlane-bench:", err)
		os.Exit(1)
	}
}

func newApp() *cli.App {
	return &cli.App{
		Name:      "memlane-bench",
		Usage:     "how fast memlane is, beside its peers",
		UsageText: "memlane-bench [flags]",
		Description: "memlane-bench makes captures, runs memlane and the programs that read the same\n" +
			"files on them in turns, and writes tables in Markdown: what each takes, and how\n" +
			"that grows with the size. Peers that are not on the machine are left out.\n\n" +
			"Examples:\n" +
			"  memlane-bench --scale 0.05                      a first look\n" +
			"  memlane-bench --python venv/bin/python -o docs/performance.md\n" +
			"  memlane-bench --only '^(trace|trace-gz)$' --dir inputs\n" +
			"  memlane-bench --only growth --runs 1",
		HideVersion:     true,
		HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.Float64Flag{Name: "scale", Value: 1, Usage: "`F` times the size of the inputs"},
			&cli.IntFlag{Name: "runs", Value: 5, Usage: "run everything `N` times; for growth half as often"},
			&cli.StringFlag{Name: "memlane", Usage: "the program `PATH`, not what is built in this module"},
			&cli.StringFlag{Name: "python", Value: "python3", Usage: "the Python `PATH` that has the peers"},
			&cli.StringFlag{Name: "memory-viz", Usage: "PyTorch's _memory_viz.py is `PATH`, not that of the Python's torch"},
			&cli.StringFlag{Name: "dir", Usage: "keep the inputs in `DIR`, and take what is there already"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`, not to standard output"},
			&cli.StringFlag{Name: "only", Usage: "only works that match `REGEXP`: xspace, snapshot, plot, trace, trace-gz, hlo, svg, pprof, start-up, huge-xspace ..., growth ..."},
		},
		Action: measureAll,
		Commands: []*cli.Command{ // what the command runs of itself
			{Name: "make", Hidden: true, Action: func(c *cli.Context) error {
				in, err := inputOf(c.Args().Tail())
				if err != nil {
					return err
				}
				return in.write(c.Args().First())
			}},
			{Name: "limit", Hidden: true, Action: func(c *cli.Context) error { return limit(c.Args().Get(0), c.Args().Get(1)) }},
		},
		ExitErrHandler: func(*cli.Context, error) {}, // main decides
	}
}

func measureAll(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("it takes no arguments, but got %q; see memlane-bench --help", c.Args().First())
	}
	if c.Float64("scale") <= 0 || c.Int("runs") < 1 {
		return errors.New("--scale and --runs must be more than 0")
	}
	tmp, err := os.MkdirTemp("", "memlane-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	b, err := newBench(c, tmp)
	if err != nil {
		return err
	}
	// What is written to a file replaces it only when it is whole.
	var page bytes.Buffer
	if err := b.write(c.Context, &page); err != nil {
		return err
	}
	if file := c.String("output"); file != "" {
		err = os.WriteFile(file, page.Bytes(), 0o666)
	} else {
		_, err = page.WriteTo(c.App.Writer)
	}
	if err == nil && len(b.failed) > 0 {
		err = fmt.Errorf("memlane failed: %q", b.failed)
	}
	return err
}

// newBench finds what the command line asks for. Everything that it writes goes
// into a folder that is removed at the end.
func newBench(c *cli.Context, tmp string) (b *bench, err error) {
	b = &bench{scale: c.Float64("scale"), runs: c.Int("runs"), log: c.App.ErrWriter, tmp: tmp, inputs: filepath.Join(tmp, "inputs"),
		out: filepath.Join(tmp, "out"), profile: filepath.Join(tmp, "profile.pb.gz")}
	for _, name := range []string{"scale", "runs", "only"} {
		if c.IsSet(name) {
			b.flags += fmt.Sprintf(" --%s %s", name, quoted(fmt.Sprint(c.Value(name))))
		}
	}
	b.page = filepath.Base(cmp.Or(c.String("output"), "performance.md"))
	if b.only, err = regexp.Compile(c.String("only")); err != nil {
		return nil, err
	}
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if dir := c.String("dir"); dir != "" {
		b.inputs = dir
	}
	if err := os.MkdirAll(b.inputs, 0o777); err != nil {
		return nil, err
	}
	memlane, err := findMemlane(c.Context, c.String("memlane"), tmp)
	if err != nil {
		return nil, err
	}
	b.peers = findPeers(c.Context, c.String("python"), c.String("memory-viz"))
	b.peers.memlane = memlane
	return b, nil
}

// quoted writes a value as a shell takes it.
func quoted(value string) string {
	if strings.ContainsAny(value, `^$|()[]*?\ `) {
		return "'" + value + "'"
	}
	return value
}
