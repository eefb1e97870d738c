package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

// Exit statuses.
const (
	statusOK       = 0
	statusUsage    = 2 // the command line is wrong
	statusInput    = 3 // a capture cannot be read, or is damaged under --strict
	statusNoMemory = 4 // it can be read, but holds nothing of what was asked for
)

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
	app := newApp(stdin, stdout, stderr)
	err := app.Run(flagsFirst(app, args))
	if err == nil {
		return statusOK
	}
	fmt.Fprintln(stderr, "memlane:", printable(err.Error()))
	var status *statusError
	if errors.As(err, &status) {
		return status.status
	}
	return statusUsage // what cli finds wrong
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	usage := func(c *cli.Context, err error, _ bool) error {
		return fail(statusUsage, "%w; see memlane %s --help", err, c.Command.Name)
	}
	app := &cli.App{
		Name:      "memlane",
		Usage:     "which buffers held the accelerator's memory, who allocated them, and which should be gone",
		UsageText: "memlane COMMAND [flags] CAPTURE...",
		Description: "memlane reads captures of GPU memory and shows what is in them: as text and JSON,\n" +
			"SVG pictures and pprof heap profiles. CAPTURE may be gzip or zstd compressed, and\n" +
			"- stands for standard input.\n\n" +
			"Exit status: 0 done, 2 wrong command line, 3 a capture cannot be read (or is damaged,\n" +
			"with --strict), 4 a capture holds nothing of what was asked for.",
		Reader: stdin, Writer: stdout, ErrWriter: stderr,
		HideVersion:     true,
		Commands:        []*cli.Command{infoCommand(), leaksCommand(), peakCommand(), svgCommand(), pprofCommand(), exportCommand()},
		OnUsageError:    usage,
		ExitErrHandler:  func(*cli.Context, error) {}, // run decides about the exit status
		CommandNotFound: func(*cli.Context, string) {},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fail(statusUsage, "no command is called %q; see memlane --help", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, command := range app.Commands {
		command.OnUsageError = usage
	}
	return app
}

// flagsFirst moves the flags of a command before its captures: the cli package
// takes flags after the first capture for captures.
func flagsFirst(app *cli.App, args []string) []string {
	if len(args) < 2 {
		return args
	}
	command := app.Command(args[1])
	if command == nil {
		return args
	}
	takesValue := map[string]bool{}
	for _, f := range command.Flags {
		_, isSwitch := f.(*cli.BoolFlag)
		for _, name := range f.Names() {
			takesValue[name] = !isSwitch
		}
	}
	flags, captures := []string{args[0], args[1]}, []string{}
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] {
		arg := rest[0]
		if arg == "--" {
			captures = append(captures, rest[1:]...)
			break
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			captures = append(captures, arg)
			continue
		}
		flags = append(flags, arg)
		if takesValue[strings.TrimLeft(arg, "-")] && len(rest) > 1 {
			rest = rest[1:]
			flags = append(flags, rest[0])
		}
	}
	return append(append(flags, "--"), captures...)
}

// printable makes text from a capture fit for a terminal: a name must not move
// the cursor or change colours.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
