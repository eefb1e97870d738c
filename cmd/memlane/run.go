package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/render/report"
)

// Exit statuses.
const (
	statusOK       = 0
	statusFound    = 1 // --fail-on was met
	statusUsage    = 2 // the command line is wrong
	statusInput    = 3 // a capture cannot be read, or is damaged under --strict
	statusNoMemory = 4 // it can be read, but holds nothing of what was asked for
	statusOutput   = 5 // what was asked for cannot be written
)

// ends are the signals that end a command, with statuses as shells count them.
var ends = map[os.Signal]error{
	os.Interrupt:    fail(128+2, "interrupted"), // by Ctrl-C
	syscall.SIGTERM: fail(128+15, "terminated"),
	syscall.SIGHUP:  fail(128+1, "hung up"),
}

// patience is how long a command that was interrupted may take to end by itself: a
// second more than serve gives to answers under way.
const patience = 3 * time.Second

// statusError is an error with the exit status that it asks for.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func fail(status int, format string, args ...any) error {
	return &statusError{status, fmt.Errorf(format, args...)}
}

// run is the whole program: it returns the exit status.
func run(stdin io.Reader, stdout, stderr io.Writer, args []string) int {
	ctx, done := untilSignal(stderr)
	defer done()
	out := &output{to: stdout, stop: func() error { return context.Cause(ctx) }}
	app := newApp(stdin, out, stderr)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1)) // which --max-memory changes
	args, err := flagsFirst(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	if out.err != nil {
		if unread(out.err) {
			return statusOutput // its reader has seen enough: nothing to tell
		}
		err = failed("standard output", out.err)
	}
	if err == nil {
		return statusOK
	}
	return tell(stderr, err)
}

// tell prints an error and returns the status that it asks for.
func tell(stderr io.Writer, err error) int {
	fmt.Fprintln(stderr, "memlane:", printable(err.Error()))
	var status *statusError
	if errors.As(err, &status) {
		return status.status
	}
	return statusUsage // what cli finds wrong
}

// untilSignal returns a context that a signal ends, with its error as the cause.
// A command that does not end then is ended. done must be called.
func untilSignal(stderr io.Writer) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals, ended := make(chan os.Signal, 2), make(chan struct{})
	for s := range ends {
		if !signal.Ignored(s) { // as under nohup, and in the background of scripts
			signal.Notify(signals, s)
		}
	}
	go func() {
		select {
		case s := <-signals:
			cancel(ends[s])
		case <-ended:
			return
		}
		select {
		case <-ended:
			return
		case <-signals: // who cannot wait presses Ctrl-C twice
		case <-time.After(patience): // such as with a terminal that is read from
		}
		discardDrafts()
		if terminal(stderr) {
			fmt.Fprint(stderr, clearLine) // of how far the reading got
		}
		os.Exit(tell(stderr, context.Cause(ctx)))
	}()
	return ctx, func() { signal.Stop(signals); close(ended); cancel(nil) }
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	usage := func(c *cli.Context, err error, isCommand bool) error {
		if isCommand {
			return fail(statusUsage, "%w; see memlane %s --help", err, c.Command.Name)
		}
		return fail(statusUsage, "%w; see memlane --help", err)
	}
	var readers strings.Builder
	for _, f := range formats.All {
		fmt.Fprintf(&readers, "  %-15s %s\n", f.Name, wrap(f.Doc, strings.Repeat(" ", 18)))
	}
	app := &cli.App{
		Name:      "memlane",
		Usage:     "which buffers hold a GPU's memory, and which should be gone",
		UsageText: "memlane COMMAND [flags] CAPTURE...",
		Description: "memlane reads captures of GPU memory and shows what is in them: as text and\n" +
			"JSON, SVG pictures and pprof heap profiles. CAPTURE may be gzip or zstd\n" +
			"compressed, and - stands for standard input.\n\n" +
			"Examples:\n" +
			"  memlane info snapshot.pickle\n" +
			"  memlane leaks snapshot.pickle\n" +
			"  memlane peak --at oom snapshot.pickle\n" +
			"  memlane COMMAND --help\n\n" +
			"Formats of captures:\n" + readers.String() + "\n" +
			"Exit status: 0 done, 1 --fail-on was met, 2 wrong command line, 3 a capture\n" +
			"cannot be read (or is damaged, with --strict), 4 a capture holds nothing of\n" +
			"what was asked for, 5 the output cannot be written, 130 interrupted.",
		Reader: stdin, Writer: stdout, ErrWriter: &notices{to: stderr, told: map[string]bool{}},
		HideVersion: true,
		Flags: []cli.Flag{
			cli.HelpFlag, // not added where there is a command of that name
			toggle("version", "the same as the command version"),
		},
		Commands: []*cli.Command{infoCommand(), leaksCommand(), peakCommand(), opsCommand(), reportCommand(), diffCommand(), serveCommand(), svgCommand(), pprofCommand(), exportCommand(),
			completionCommand(), manCommand(), versionCommand(), helpCommand()},
		OnUsageError:   usage,
		ExitErrHandler: func(*cli.Context, error) {}, // run decides about the exit status
		Action: func(c *cli.Context) error {
			switch {
			case c.Args().Present():
				return noCommand(c.App, c.Args().First())
			case c.Bool("version"):
				return printVersion(c)
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, command := range app.Commands {
		command.OnUsageError = usage
		command.UsageText = strings.TrimSpace("memlane " + command.Name + " [flags] " + command.ArgsUsage)
		command.HideHelpCommand = true // a capture may be called "help"
	}
	return app
}

func helpCommand() *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "the flags and examples of a command",
		ArgsUsage: commandArg,
		Description: "Without a command: what memlane does, and its commands.\n\n" +
			"Examples:\n" +
			"  memlane help leaks",
		Action: func(c *cli.Context) error {
			name := c.Args().First()
			switch {
			case name == "":
				return cli.ShowAppHelp(c)
			case c.App.Command(name) == nil:
				return noCommand(c.App, name)
			}
			return cli.ShowCommandHelp(c, name)
		},
	}
}

// commandsOf returns the names of the commands and what they are for.
func commandsOf(app *cli.App) (words []word) {
	for _, command := range app.Commands {
		words = append(words, word{command.Name, command.Usage})
	}
	return words
}

// noCommand says that there is no command of a name, which may be mistyped, or
// that of a capture.
func noCommand(app *cli.App, name string) error {
	if _, err := os.Stat(name); err == nil {
		return fail(statusUsage, "no command is called %q; to see what is in a capture: memlane info %s", name, name)
	}
	return fail(statusUsage, "no command is called %q%s; see memlane --help", name, meant(name, commandsOf(app)))
}

// printable makes text from a capture or the command line fit for one line on a
// terminal: a name must not move the cursor, change colours or turn the
// direction of writing around.
func printable(s string) string { return report.Printable(s) }
