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
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/pprof"
	"github.com/memlane/memlane/render/text"
)

// Exit statuses.
const (
	statusOK      = 0
	statusFound   = 1
	statusUsage   = 2
	statusInput   = 3
	statusNothing = 4
	statusOutput  = 5
	statusSignal  = 128 // and the number of the signal, as shells count them
)

// The errors that commands end with, beside those of the packages that they use.
type (
	foundError  struct{ error } // --fail-on was met
	usageError  struct{ error } // the command line is wrong
	inputError  struct{ error } // a capture cannot be read, or is damaged under --strict
	outputError struct{ error } // an output cannot be written
	signalError struct {
		error
		number int
	}
)

func (e foundError) Unwrap() error  { return e.error }
func (e usageError) Unwrap() error  { return e.error }
func (e inputError) Unwrap() error  { return e.error }
func (e outputError) Unwrap() error { return e.error }

// statusOf returns the exit status of a command that ends with an error.
func statusOf(err error) int {
	switch {
	case err == nil:
		return statusOK
	case is[signalError](err):
		var s signalError
		errors.As(err, &s)
		return statusSignal + s.number
	case is[foundError](err):
		return statusFound
	case is[inputError](err):
		return statusInput
	case is[outputError](err):
		return statusOutput
	case is[*lifetime.NothingError](err), errors.Is(err, pprof.ErrNoBuffers):
		return statusNothing
	}
	return statusUsage // also what cli finds wrong
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// ends are the signals that end a command.
var ends = map[os.Signal]error{
	os.Interrupt:    signalError{errors.New("interrupted"), 2}, // by Ctrl-C
	syscall.SIGTERM: signalError{errors.New("terminated"), 15},
	syscall.SIGHUP:  signalError{errors.New("hung up"), 1},
}

// patience is how long a command that was interrupted may take to end by itself: a
// second more than serve gives to answers under way.
const patience = 3 * time.Second

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
			return statusOutput // its reader has seen enough
		}
		err = failed("standard output", out.err)
	}
	if err == nil {
		return statusOK
	}
	return end(stderr, err)
}

// end prints the error that a command ends with, and returns the exit status.
func end(stderr io.Writer, err error) int {
	fmt.Fprintln(stderr, "memlane:", text.Printable(err.Error()))
	return statusOf(err)
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
		discardUnfinished()
		if terminal(stderr) {
			fmt.Fprint(stderr, clearLine) // of how far the reading got
		}
		os.Exit(end(stderr, context.Cause(ctx)))
	}()
	return ctx, func() { signal.Stop(signals); close(ended); cancel(nil) }
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	wrong := func(c *cli.Context, err error, isCommand bool) error {
		if isCommand {
			return usage("%w; see memlane %s --help", err, c.Command.Name)
		}
		return usage("%w; see memlane --help", err)
	}
	var readers strings.Builder
	for _, f := range formats.All {
		fmt.Fprintf(&readers, "  %-15s %s\n", f.Name, text.Wrap(f.Doc, strings.Repeat(" ", 18)))
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
			"cannot be read (or is damaged, with --strict), 4 a capture does not have what\n" +
			"the command shows, 5 the output cannot be written, 130 interrupted.",
		Reader: stdin, Writer: stdout, ErrWriter: &notices{to: stderr, seen: map[string]bool{}},
		HideVersion: true,
		Flags: []cli.Flag{
			cli.HelpFlag, // not added where there is a command of that name
			toggle("version", "the same as the command version"),
		},
		Commands: []*cli.Command{infoCommand(), leaksCommand(), peakCommand(), opsCommand(), reportCommand(), diffCommand(), serveCommand(), svgCommand(), pprofCommand(), exportCommand(),
			completionCommand(), manCommand(), versionCommand(), helpCommand()},
		OnUsageError:   wrong,
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
		command.OnUsageError = wrong
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
		return usage("no command is called %q; to see what is in a capture: memlane info %s", name, name)
	}
	return usage("no command is called %q%s; see memlane --help", name, meant(name, commandsOf(app)))
}
