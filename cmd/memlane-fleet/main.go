package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/render/text"
)

// Exit statuses.
const (
	statusIncomplete  = 1   // a capture has no record
	statusUsage       = 2   // the command line is wrong
	statusFailed      = 5   // a store, a disk or a pipe failed: the same command may succeed later
	statusInterrupted = 130 // by Ctrl-C
)

// statusError is an error with an exit status.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func fail(status int, format string, args ...any) error {
	return &statusError{status, fmt.Errorf(format, args...)}
}

// printed returns the error of standard output, nil if err is.
func printed(err error) error {
	if err != nil {
		err = fail(statusFailed, "standard output: %w", cause(err))
	}
	return err
}

func main() {
	os.Exit(run(os.Stdin, os.Stdout, os.Stderr, os.Args))
}

// errInterrupted is the cause after a signal. A second signal ends the program at once.
var errInterrupted = fail(statusInterrupted, "interrupted")

// stopped returns why ctx ended if err only says that it did; otherwise err.
func stopped(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	return err
}

// run executes the command line and returns the exit status.
func run(stdin io.Reader, stdout, stderr io.Writer, args []string) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if !signal.Ignored(s) { // as under nohup
			signal.Notify(signals, s)
		}
	}
	ended := make(chan struct{})
	defer func() { close(ended); signal.Stop(signals); cancel(nil) }()
	go func() {
		select {
		case <-signals:
			cancel(errInterrupted)
			signal.Stop(signals)
		case <-ended:
		}
	}()
	err := newCommand(stdin, stdout, stderr).Run(ctx, args)
	if err == nil {
		return 0
	}
	err = stopped(ctx, err)
	fmt.Fprintln(stderr, "memlane-fleet:", text.Printable(withoutSecrets(err.Error())))
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.status
	}
	return statusUsage // from cli
}

func newCommand(stdin io.Reader, stdout, stderr io.Writer) *cli.Command {
	usage := func(_ context.Context, c *cli.Command, err error, _ bool) error {
		return fail(statusUsage, "%w; see memlane-fleet %s --help", err, c.Name)
	}
	root := &cli.Command{
		Name:      "memlane-fleet",
		Usage:     "find leaks and outliers among thousands of ranks",
		UsageText: "memlane-fleet COMMAND [flags] ...",
		Description: "Captures are files, patterns ('job/rank*.pickle') and addresses in object\n" +
			"stores (s3://, gs://, azblob://, file://). Without arguments, names are read\n" +
			"from standard input, one per line. The results list damaged and missing\n" +
			"captures. If a store or a disk fails, the command ends.\n\n" +
			"Examples:\n" +
			"  memlane-fleet run 'job/rank*.pickle' -o results\n" +
			"  memlane-fleet map <captures.txt | memlane-fleet merge -o results\n\n" +
			"Exit status: 0 success, 1 a capture has no record, 2 wrong command line, 5 a\n" +
			"store, disk or pipe failed, 130 interrupted.",
		Reader: stdin, Writer: stdout, ErrWriter: stderr,
		Suggest:         true,
		HideHelpCommand: true,
		Commands: []*cli.Command{runCommand(), mapCommand(), mergeCommand(), compareCommand(),
			trendCommand(), partsCommand(), combineCommand(), readCommand()},
		ExitErrHandler: func(context.Context, *cli.Command, error) {}, // run determines the exit status
		OnUsageError:   usage,
		Action: func(_ context.Context, c *cli.Command) error {
			if name := c.Args().First(); name != "" {
				return fail(statusUsage, "unknown command %q; use run, map, merge, compare, trend, parts or combine", name)
			}
			return cli.ShowRootCommandHelp(c)
		},
	}
	for _, command := range root.Commands {
		command.OnUsageError = usage
		command.HideHelpCommand = true // a capture may be called "help"
	}
	return root
}

func mapFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "cache", Usage: "cache records in folder or store `DIR`", HideDefault: true},
		&cli.StringFlag{Name: "max-memory", Usage: "use at most about `SIZE` of memory", Value: "2GiB"},
		&cli.IntFlag{Name: "workers", Usage: "read up to `N` captures at a time", Value: runtime.GOMAXPROCS(0)},
		rankFlag(),
		&cli.BoolFlag{Name: "quiet", Usage: "print only errors", HideDefault: true},
	}, more...)
}

func rankFlag() cli.Flag {
	return &cli.StringFlag{Name: "rank-from", Usage: "take the rank from the first group of `REGEX` in the path", HideDefault: true}
}

func rolesFlag() cli.Flag {
	return &cli.StringFlag{Name: "ranks", Usage: "read what ranks do from table `FILE`", HideDefault: true}
}

// roles reads the table of --ranks, nil if it is not given.
func roles(c *cli.Command) (*fleet.Roles, error) {
	name := c.String("ranks")
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fail(statusUsage, "--ranks %s: %w", name, cause(err))
	}
	defer f.Close()
	r, err := fleet.ReadRoles(f)
	if err != nil {
		return nil, fail(statusUsage, "--ranks %s: %w", name, err)
	}
	return r, nil
}

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the results to folder or store `DIR`",
		Required: true, HideDefault: true}
}

func rankNames(c *cli.Command) (finding.RankNames, error) {
	by, err := finding.ParseRankNames(c.String("rank-from"))
	if err != nil {
		return by, fail(statusUsage, "--rank-from %w", err)
	}
	return by, nil
}

// limitMemory sets the memory limit of the garbage collector to --max-memory, and returns that in bytes.
func limitMemory(c *cli.Command) (int64, error) {
	n, err := units.ParseBytes(c.String("max-memory"))
	if err != nil || n < leastBudget {
		return 0, fail(statusUsage, "--max-memory %q: give a size of %s or more, for example 4GiB",
			c.String("max-memory"), units.Bytes(leastBudget))
	}
	debug.SetMemoryLimit(n - n/10) // leaves space for memory outside the heap
	return n, nil
}
