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
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newApp().RunContext(ctx, os.Args); err != nil {
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
			&cli.StringFlag{Name: "only", Usage: "only works that match `REGEXP`: xspace, snapshot, plot, trace, trace-gz, hlo, svg, pprof, start-up, growth ..."},
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

// bench is one run of the command.
type bench struct {
	scale float64
	runs  int
	only  *regexp.Regexp
	peers peers
	log   io.Writer

	self         string // this program
	tmp          string // a folder that is removed at the end
	inputs       string // the folder of inputs: in tmp, or the user's
	out, profile string // files that commands write

	start, floor cost     // of memlane, and of this program, when they do nothing
	failed       []string // commands of memlane that did
}

func measureAll(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("it takes no arguments, but got %q; see memlane-bench --help", c.Args().First())
	}
	if c.Float64("scale") <= 0 || c.Int("runs") < 1 {
		return errors.New("--scale and --runs must be more than 0")
	}
	only, err := regexp.Compile(c.String("only"))
	if err != nil {
		return err
	}
	b := &bench{scale: c.Float64("scale"), runs: c.Int("runs"), only: only, log: c.App.ErrWriter}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.tmp, err = os.MkdirTemp("", "memlane-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(b.tmp)
	b.inputs, b.out, b.profile = filepath.Join(b.tmp, "inputs"), filepath.Join(b.tmp, "out"), filepath.Join(b.tmp, "profile.pb.gz")
	if dir := c.String("dir"); dir != "" {
		b.inputs = dir
	}
	if err := os.MkdirAll(b.inputs, 0o777); err != nil {
		return err
	}
	memlane, err := findMemlane(c.Context, c.String("memlane"), b.tmp)
	if err != nil {
		return err
	}
	b.peers = findPeers(c.Context, c.String("python"), c.String("memory-viz"))
	b.peers.memlane = memlane
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

// write measures everything and writes the page.
func (b *bench) write(ctx context.Context, w io.Writer) error {
	idle, err := b.measure(ctx, []command{b.memlane("memlane --help", "--help"), {name: "nothing", args: []string{b.self, "limit", "read", os.DevNull}}}, b.runs, patience)
	if err != nil {
		return err
	}
	for _, c := range idle {
		if c.err != nil {
			return c.err
		}
	}
	b.start, b.floor = idle[0], idle[1]
	b.heading(w)
	if err := b.sideBySide(ctx, w); err != nil {
		return err
	}
	return b.growth(ctx, w)
}

// patience is how long the runs of a command may take in all before it is not
// repeated.
const patience = time.Minute

func (b *bench) sideBySide(ctx context.Context, w io.Writer) error {
	head := false
	for _, work := range b.works() {
		if !b.only.MatchString(work.name) {
			continue
		}
		file, err := b.makeInput(ctx, work.input)
		if err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		rows := work.rows(file)
		costs, err := b.measureRows(ctx, rows)
		if err != nil {
			return err
		}
		if !head {
			b.sideBySideHead(w)
			head = true
		}
		workRows(w, fmt.Sprintf("**%s**: %s, %s MB", work.name, work.title, megabytes(info.Size())), rows, costs)
	}
	return nil
}

// measureRows measures the commands of rows, and takes the differences.
func (b *bench) measureRows(ctx context.Context, rows []row) ([]cost, error) {
	var commands []command
	for _, r := range rows {
		if r.less == nil {
			commands = append(commands, r.command)
		}
	}
	costs, err := b.measure(ctx, commands, b.runs, patience)
	if err != nil {
		return nil, err
	}
	for i, r := range rows {
		if r.less == nil {
			continue
		}
		of, without := costs[r.less[0]], costs[r.less[1]]
		difference := cost{cpu: max(0, of.cpu-without.cpu), err: errors.Join(of.err, without.err)}
		costs = append(costs[:i:i], append([]cost{difference}, costs[i:]...)...)
	}
	return costs, nil
}

func (b *bench) growth(ctx context.Context, w io.Writer) error {
	head := false
	for _, s := range b.allSeries() {
		if !b.only.MatchString(s.name) {
			continue
		}
		all, err := b.grow(ctx, s)
		if err != nil {
			return err
		}
		if !head {
			b.growthHead(w)
			head = true
		}
		b.growthRows(w, s.title, all)
	}
	return nil
}

// drop removes inputs that nobody wants to keep: those of the largest sizes fill
// a disk.
func (b *bench) drop(files []string) {
	if filepath.Dir(b.inputs) != b.tmp {
		return
	}
	for _, file := range files {
		os.Remove(file)
	}
}
