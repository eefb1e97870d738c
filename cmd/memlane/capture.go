package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/room"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/render"
)

// captureFlags are the flags of every command that reads spaces of captures, but
// for export: its --to is another.
func captureFlags(more ...cli.Flag) []cli.Flag {
	return spaceFlags(append(more,
		&cli.StringFlag{Name: "from", Usage: "only from `TIME` on: 20ms, or an instant as in JSON"},
		&cli.StringFlag{Name: "to", Usage: "only up to `TIME`"})...)
}

// functionFlag is one of the commands that show buffers; those that judge have
// their own.
func functionFlag() cli.Flag {
	return &cli.StringFlag{Name: "function", Usage: "only what functions that match `REGEXP` allocated,\nand those that they called"}
}

// spaceFlags are captureFlags without those that cut the window.
func spaceFlags(more ...cli.Flag) []cli.Flag {
	return append(append(more,
		&cli.StringFlag{Name: "space", Usage: "only the memory IDs that match `GLOB`, as 'cuda:*'"},
		&cli.StringFlag{Name: "module", Usage: "only programs called `NAME`: jit_f or 'jit_f(5)'"},
		&cli.StringFlag{Name: "memory-space", Usage: "only memory space `N` of programs; 0: main memory"},
		&cli.StringFlag{Name: "min-size", Usage: "only buffers of `SIZE` and more, as 1MiB"},
		suggesting(&cli.StringFlag{Name: "category", Usage: "only buffers of a category `NAME`, as peak has them"}, kinds...),
	), inputFlags()...)
}

// kinds are the categories of buffers of compiled programs; those of others are
// what their producer calls them.
var kinds = named(lifetime.Parameter.String(), lifetime.Output.String(), lifetime.Temporary.String(), lifetime.Constant.String())

// inputFlags are the flags of how captures are read.
func inputFlags() []cli.Flag {
	var names []word
	for _, f := range formats.All {
		names = append(names, word{f.Name, f.Doc})
	}
	return []cli.Flag{
		&cli.StringFlag{Name: "max-memory", Usage: "stop rather than take more than about `SIZE`, as 2GiB"},
		oneOf(&cli.StringFlag{Name: "input-format", Usage: "do not guess the format: it is `NAME` (memlane --help)"}, names...),
		toggle("strict", "fail with status 3 when a capture is damaged"),
		toggle("quiet", "no warnings and no progress"),
	}
}

func jsonFlag() cli.Flag { return toggle("json", "write JSON: exact bytes, all rows") }

// toggle is a flag without a value, whose help does not say "(default: false)".
func toggle(name, usage string) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: usage, DisableDefaultText: true}
}

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "-", TakesFile: true, Usage: "write to `FILE`; - is standard output"}
}

// openAll reads the captures of a command line, each with only the spaces that
// its flags name. It warns of losses from a severity on.
func openAll(c *cli.Context, from loss.Class) ([]*lifetime.Capture, error) {
	want, err := choiceOf(c)
	if err != nil {
		return nil, err
	}
	return openEach(c, from, formats.Input{}, want.choose)
}

// openFor is openAll for a form that is written of all that a capture tells, or
// needs more than buffers. One of a compiled program may be of a memory space that
// the program does not use.
func openFor(c *cli.Context, from loss.Class, need render.Need) ([]*lifetime.Capture, error) {
	want, err := choiceOf(c)
	if err != nil {
		return nil, err
	}
	if need == render.Program {
		want.memorySpace = ""
	}
	return openEach(c, from, formats.Input{Keep: keepFor(need)}, want.choose)
}

func keepFor(need render.Need) build.Keep {
	if need == render.Reports {
		return build.Reports | build.Operations
	}
	return build.Operations
}

func keepCalls(yes bool) build.Keep {
	if yes {
		return build.Calls
	}
	return 0
}

// forRules is forEach for the rules of a command line. Presets look at calls,
// of which there may be none.
func forRules(c *cli.Context, r *rules, take func(*lifetime.Capture) error) error {
	want, err := choiceOf(c)
	if err != nil {
		return err
	}
	return forEach(c, loss.Missing, formats.Input{Keep: keepCalls(r.preset != nil)}, func(capture *lifetime.Capture) (*lifetime.Capture, error) {
		if len(capture.Spaces) == 0 && capture.Sources[0].Format == callProfile {
			return capture, nil
		}
		return want.choose(capture)
	}, take)
}

// openEach reads the captures of a command line, with what in asks for, and
// returns the part of each that the command wants.
func openEach(c *cli.Context, from loss.Class, in formats.Input, part func(*lifetime.Capture) (*lifetime.Capture, error)) (captures []*lifetime.Capture, err error) {
	err = forEach(c, from, in, part, func(capture *lifetime.Capture) error {
		captures = append(captures, capture)
		return nil
	})
	return captures, err
}

// forEach is openEach for commands that look at one capture after the other and
// keep none: there may be a thousand.
func forEach(c *cli.Context, from loss.Class, in formats.Input, part func(*lifetime.Capture) (*lifetime.Capture, error),
	take func(*lifetime.Capture) error) error {
	files := c.Args().Slice()
	if len(files) == 0 {
		return fail(statusUsage, "%s: no capture given; see memlane %s --help", c.Command.Name, c.Command.Name)
	}
	if i := slices.Index(files, "-"); i >= 0 && slices.Contains(files[i+1:], "-") {
		return fail(statusUsage, "%s: standard input can be read only once", c.Command.Name)
	}
	left, err := roomFor(c)
	if err != nil {
		return err
	}
	in.Stop = func() error {
		return cmp.Or(context.Cause(c.Context), left.Check())
	}
	files, err = formats.Expand(files)
	if err != nil {
		return &statusError{statusInput, err}
	}
	for _, file := range files {
		capture, err := open(c, file, in)
		if ended := context.Cause(c.Context); ended != nil && errors.Is(err, ended) {
			return err
		}
		if err != nil {
			return &statusError{statusInput, err}
		}
		lost, rest := loss.Worst(capture.Losses, from)
		if lost.Reason.Class() == loss.Damage && c.Bool("strict") {
			return fail(statusInput, "%s: %s", file, lossText(lost))
		}
		if capture, err = part(capture); err != nil {
			return err
		}
		if lost.Count > 0 && !c.Bool("quiet") {
			more := ""
			if rest > 0 {
				more = fmt.Sprintf("; memlane info shows %d more", rest)
			}
			fmt.Fprintf(c.App.ErrWriter, "memlane: warning: %s: %s%s\n", printable(file), printable(lossText(lost)), more)
		}
		if err := take(capture); err != nil {
			return err
		}
	}
	return nil
}

// roomFor returns what --max-memory allows. The collector of garbage is told too.
func roomFor(c *cli.Context) (*room.Room, error) {
	text := c.String("max-memory")
	if text == "" {
		return nil, nil
	}
	limit, err := units.ParseBytes(text)
	if err != nil || limit <= 0 {
		return nil, fail(statusUsage, "--max-memory %q: want a size, as 2GiB", text)
	}
	debug.SetMemoryLimit(limit)
	return room.New(limit), nil
}

// open reads one capture. How far it got shows on a terminal, unless in says where
// else.
func open(c *cli.Context, file string, in formats.Input) (*lifetime.Capture, error) {
	in.Stdin, in.Format = c.App.Reader, c.String("input-format")
	var bar *progress
	if in.Progress == nil && terminal(c.App.ErrWriter) && !c.Bool("quiet") {
		in.Progress = func(file string, size int64) func(n int) {
			if bar != nil { // of the file before it in a folder
				bar.clear()
			}
			bar = &progress{out: c.App.ErrWriter, file: file, size: size, started: time.Now()}
			return bar.add
		}
	}
	capture, err := formats.Open(file, in)
	if bar != nil {
		bar.clear()
	}
	return capture, err
}

// lossText returns a loss as a sentence for people.
func lossText(l loss.Loss) string {
	var details []string
	if l.Count > 1 {
		details = append(details, count(l.Count, "case"))
	}
	if l.Bytes > 0 {
		details = append(details, units.Bytes(l.Bytes))
	}
	switch {
	case l.First != "" && l.Count > 1:
		details = append(details, "first at "+l.First)
	case l.First != "":
		details = append(details, "at "+l.First)
	}
	text := l.Reason.String() + ": " + l.Reason.Doc()
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	return text
}

// terminal reports whether w is one.
func terminal(w any) bool {
	if h, ok := w.(*held); ok {
		w = h.of
	}
	if out, ok := w.(*output); ok {
		w = out.to
	}
	if n, ok := w.(*notices); ok {
		w = n.to
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// clearLine takes the line away that the cursor of a terminal is in.
const clearLine = "\r\033[K"

// progress shows how far the reading of a file got, once it takes long.
type progress struct {
	out     io.Writer
	file    string
	size    int64 // 0 = not known
	started time.Time

	read  int64
	shown time.Time
}

// add counts bytes that were read.
func (p *progress) add(n int) {
	p.read += int64(n)
	now := time.Now()
	if now.Sub(p.started) > time.Second && now.Sub(p.shown) > 200*time.Millisecond {
		p.shown = now
		done := units.Bytes(p.read)
		if 0 < p.read && p.read <= p.size {
			left := time.Duration(float64(now.Sub(p.started)) * float64(p.size-p.read) / float64(p.read))
			done = fmt.Sprintf("%.0f %% of %s, %s left", 100*float64(p.read)/float64(p.size), units.Bytes(p.size), left.Round(time.Second))
		}
		// A line that wraps cannot be cleared again.
		name := []rune(printable(filepath.Base(p.file)))
		fmt.Fprintf(p.out, clearLine+"reading %s: %s", string(name[:min(len(name), 32)]), done)
	}
}

// clear takes the line away, if there is one.
func (p *progress) clear() {
	if !p.shown.IsZero() {
		fmt.Fprint(p.out, clearLine)
	}
}
