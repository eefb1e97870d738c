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
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/atomicfile"
	"github.com/memlane/memlane/lifetime/selection"
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
	statusSignal  = 128 // plus the number of the signal, as in shells
)

// exitError is an error with the exit status that it causes.
type exitError struct {
	error
	status int
}

func (e exitError) Unwrap() error { return e.error }

// usage returns an error about the command line.
func usage(format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), statusUsage}
}

// failOnMet returns an error that describes how --fail-on was met.
func failOnMet(format string, args ...any) error {
	return exitError{fmt.Errorf("--fail-on "+format, args...), statusFound}
}

// inputError marks the error of a capture that cannot be read, or is damaged under --strict.
func inputError(err error) error { return exitError{err, statusInput} }

// outputError marks the error of an output that cannot be written.
func outputError(err error) error { return exitError{err, statusOutput} }

// statusOf returns the exit status of a command that ends with an error.
func statusOf(err error) int {
	if err == nil {
		return statusOK
	}
	if e, ok := errors.AsType[exitError](err); ok {
		return e.status
	}
	if is[*selection.NothingError](err) || errors.Is(err, pprof.ErrNoBuffers) {
		return statusNothing
	}
	return statusUsage // from cli
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// endingSignals are the signals that end a command.
var endingSignals = map[os.Signal]error{
	os.Interrupt:    exitError{errors.New("interrupted"), statusSignal + 2}, // Ctrl-C
	syscall.SIGTERM: exitError{errors.New("terminated"), statusSignal + 15},
	syscall.SIGHUP:  exitError{errors.New("hung up"), statusSignal + 1},
}

// gracePeriod is the time that an interrupted command has to end by itself. It is a
// second more than serve gives to requests in progress.
const gracePeriod = 3 * time.Second

// run is the whole program. It returns the exit status.
func run(stdin io.Reader, stdout, stderr io.Writer, args []string) int {
	ctx, done := untilSignal(stderr)
	defer done()
	return runIn(ctx, stdin, stdout, stderr, args)
}

// ending decides whether the command ends, or the watch of its memory ends it: one of them prints an error.
var ending sync.Mutex

// runIn runs the program until it ends, or ctx does.
func runIn(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, args []string) int {
	out := &output{to: stdout, stop: func() error { return context.Cause(ctx) }}
	app := newApp(stdin, out, stderr)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1)) // restore it: limitOf changes it
	args, err := flagsFirst(app, args)
	if err == nil {
		running, ended := context.WithCancel(ctx)
		err = app.RunContext(running, args)
		ending.Lock()
		ended()
		ending.Unlock()
	}
	if out.err != nil {
		if brokenPipe(out.err) {
			return statusOutput // without a message: the reader closed the pipe, like head
		}
		if err = out.err; statusOf(err) < statusSignal {
			err = outputError(fmt.Errorf("standard output: %w", atomicfile.Cause(err)))
		}
	}
	if err == nil {
		return statusOK
	}
	return printError(stderr, err)
}

// printError prints the error that a command ends with, and returns the exit status.
func printError(stderr io.Writer, err error) int {
	hint := ""
	if errors.Is(err, syscall.EMFILE) {
		hint = "; raise the limit with ulimit -n"
	}
	fmt.Fprintln(stderr, "memlane:", text.Printable(err.Error()+hint))
	return statusOf(err)
}

// untilSignal returns a context that a signal cancels, with the signal's error as the cause. If the command does not
// end within gracePeriod, the program exits. The caller must call done.
func untilSignal(stderr io.Writer) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals, ended := make(chan os.Signal, 2), make(chan struct{})
	for s := range endingSignals {
		if !signal.Ignored(s) { // ignored under nohup, and in the background of scripts
			signal.Notify(signals, s)
		}
	}
	go func() {
		select {
		case s := <-signals:
			cancel(endingSignals[s])
		case <-ended:
			return
		}
		select {
		case <-ended:
			return
		case <-signals: // Ctrl-C twice ends it at once
		case <-time.After(gracePeriod): // for example while it reads from a terminal
		}
		atomicfile.Abandon()
		if terminalOf(stderr) != nil {
			fmt.Fprint(stderr, clearLine) // the line of the progress
		}
		os.Exit(printError(stderr, context.Cause(ctx)))
	}()
	return ctx, func() { signal.Stop(signals); close(ended); cancel(nil) }
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	usageError := func(c *cli.Context, err error, isCommand bool) error {
		if isCommand {
			return usage("%w; see memlane %s --help", err, c.Command.Name)
		}
		return usage("%w; see memlane --help", err)
	}
	app := &cli.App{
		Name:      "memlane",
		Usage:     "show which buffers hold GPU memory, and which of them leak",
		UsageText: "  memlane CAPTURE...\n  memlane COMMAND [flags] CAPTURE...",
		Description: "memlane reads captures of GPU memory and writes text, JSON, pictures and\n" +
			"pprof heap profiles. A CAPTURE may be compressed with gzip or zstd; - is\n" +
			"standard input.\n\n" +
			"Examples:\n" +
			"  memlane snapshot.pickle\n" +
			"  memlane leaks snapshot.pickle\n" +
			"  memlane peak --at oom snapshot.pickle\n" +
			"  memlane COMMAND --help",
		Reader: stdin, Writer: stdout, ErrWriter: &notices{to: stderr, seen: map[string]bool{}},
		HideVersion: true,
		Flags: []cli.Flag{
			cli.HelpFlag, // cli adds it only if no command is called help
			toggle("version", "same as memlane version"),
		},
		Commands: []*cli.Command{infoCommand(), leaksCommand(), peakCommand(), oomCommand(), opsCommand(),
			tuneCommand(), whatifCommand(), reportCommand(), diffCommand(),
			serveCommand(), mcpCommand(), svgCommand(), pprofCommand(), exportCommand(), completionCommand(),
			manCommand(), versionCommand(), helpCommand(), briefCommand()},
		OnUsageError:   usageError,
		ExitErrHandler: func(*cli.Context, error) {}, // run decides about the exit status
		Action: func(c *cli.Context) error {
			switch {
			case c.Args().Present():
				return unknownCommand(c.App, c.Args().First())
			case c.Bool("version"):
				return printVersion(c)
			}
			return appHelp(c)
		},
	}
	for _, command := range app.Commands {
		command.OnUsageError = usageError
		command.UsageText = strings.TrimSpace("memlane " + command.Name + " [flags] " + command.ArgsUsage)
		command.HideHelpCommand = true // a capture may be called "help"
	}
	return app
}

// commandWords returns the names of the commands and their one-line descriptions.
func commandWords(app *cli.App) (words []word) {
	for _, command := range app.VisibleCommands() {
		words = append(words, word{command.Name, command.Usage})
	}
	return words
}

// unknownCommand returns the error for an argument that is neither a command nor a capture.
func unknownCommand(app *cli.App, name string) error {
	if strings.ContainsAny(name, "./\\") {
		return usage("%s: no such file; memlane --help lists the commands", name)
	}
	return usage("unknown command %q%s; see memlane --help", name, suggestion(name, commandWords(app)))
}
