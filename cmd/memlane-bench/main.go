package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
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
		Usage:     "compare the speed of memlane with its peers",
		UsageText: "memlane-bench [flags]",
		Description: "memlane-bench generates captures, runs memlane and the programs that read the\n" +
			"same files on them in turns, and writes Markdown tables of their costs and of\n" +
			"the growth with size. Peers that are not installed are marked \"not found\".\n" +
			"With -o, sections of the file that have the same headings are replaced.\n\n" +
			"Examples:\n" +
			"  memlane-bench --scale 0.05                      a first look\n" +
			"  memlane-bench --python venv/bin/python -o docs/evidence/speed.md\n" +
			"  memlane-bench --only '^(trace|trace-gz)$' --dir inputs\n" +
			"  memlane-bench --only growth --runs 1",
		HideVersion:     true,
		HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.Float64Flag{Name: "scale", Value: 1, Usage: "multiply the size of the inputs by `F`"},
			&cli.IntFlag{Name: "runs", Value: 5, Usage: "run each command `N` times; growth at most twice"},
			&cli.StringFlag{Name: "memlane", Usage: "measure program `PATH` (default: build it from this module)"},
			&cli.StringFlag{Name: "last", Usage: "also measure program `PATH`, of the last release"},
			&cli.StringFlag{Name: "python", Value: "python3", Usage: "run peers with the Python interpreter `PATH`"},
			&cli.StringFlag{Name: "memory-viz", Usage: "use PyTorch's _memory_viz.py at `PATH` (default: from --python's torch)"},
			&cli.StringFlag{Name: "dir", Usage: "keep inputs in `DIR`, and reuse those in it"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write into `FILE` instead of to standard output"},
			&cli.StringFlag{Name: "only", Usage: "measure only works that match `REGEXP`: xspace, snapshot, svg, deep, stacks, blocks, shared, files, trace, nested, trace-gz, hlo, container, pprof, start-up, huge-xspace ..., growth ..."},
		},
		Action: measureAll,
		Commands: []*cli.Command{ // subprocesses of this program
			{Name: "make", Hidden: true, Action: func(c *cli.Context) error {
				in, err := inputOf(c.Args().Tail())
				if err != nil {
					return err
				}
				return in.write(c.Context, c.Args().First())
			}},
			{Name: "limit", Hidden: true, Action: func(c *cli.Context) error { return limit(c.Args().Get(0), c.Args().Get(1)) }},
		},
		ExitErrHandler: func(*cli.Context, error) {}, // main decides
	}
}

func measureAll(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("unexpected argument %q; see memlane-bench --help", c.Args().First())
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
	// Write only after all measurements, so that a failure keeps the old file.
	var page bytes.Buffer
	if err := b.write(c.Context, &page); err != nil {
		return err
	}
	if file := c.String("output"); file != "" {
		old, readErr := os.ReadFile(file)
		if readErr != nil && !os.IsNotExist(readErr) {
			return readErr
		}
		err = os.WriteFile(file, []byte(replaced(string(old), page.String())), 0o666)
	} else {
		_, err = io.WriteString(c.App.Writer, replaced("", page.String()))
	}
	if err == nil && len(b.failed) > 0 {
		err = fmt.Errorf("commands of memlane failed: %q", b.failed)
	}
	return err
}

// newBench returns the bench of a command line. Its temporary files are in tmp.
func newBench(c *cli.Context, tmp string) (b *bench, err error) {
	b = &bench{scale: c.Float64("scale"), runs: c.Int("runs"), log: c.App.ErrWriter, tmp: tmp, inputs: filepath.Join(tmp, "inputs"),
		out: filepath.Join(tmp, "out"), profile: filepath.Join(tmp, "profile.pb.gz")}
	for _, name := range []string{"scale", "runs", "only"} {
		if c.IsSet(name) {
			b.flags += fmt.Sprintf(" --%s %s", name, quoted(fmt.Sprint(c.Value(name))))
		}
	}
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
	b.peers.memlane, b.peers.last = memlane, c.String("last")
	if b.only.MatchString("trace") { // the only work that needs it
		b.peers.compileSimdjson(c.Context, tmp)
	}
	return b, nil
}

// replaced returns a page with other sections: in place of those with the same heading, or at its end.
func replaced(page, sections string) string {
	const heading = "\n## "
	parts := strings.Split(page, heading)
	for _, section := range strings.Split("\n"+sections, heading)[1:] {
		title, _, _ := strings.Cut(section, "\n")
		at := slices.IndexFunc(parts, func(part string) bool { return strings.HasPrefix(part, title+"\n") })
		if at < 0 {
			at, parts = len(parts), append(parts, "")
		}
		parts[at] = section
	}
	for i := range parts[:len(parts)-1] {
		parts[i] = strings.TrimRight(parts[i], "\n") + "\n"
	}
	return strings.TrimLeft(strings.Join(parts, heading), "\n")
}

// quoted quotes a value for a shell.
func quoted(value string) string {
	if strings.ContainsAny(value, `^$|()[]*?\ `) {
		return "'" + value + "'"
	}
	return value
}
