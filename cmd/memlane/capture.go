package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/memlimit"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/render/text"
)

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

// reading is how captures of a command line are read: as captures, or as outlines.
type reading[C any] struct {
	open   func(file string, in formats.Input) (C, error)
	tables func(C) *lifetime.Tables
	part   func(*lifetime.Selection, C) (C, error)
	in     formats.Input
	warn   loss.Class // warn of losses from this class on
}

// captures reads whole captures.
func captures(keep build.Keep) reading[*lifetime.Capture] {
	return reading[*lifetime.Capture]{
		open: formats.Open, tables: func(c *lifetime.Capture) *lifetime.Tables { return &c.Tables },
		part: (*lifetime.Selection).Of, in: formats.Input{Keep: keep}, warn: loss.Missing,
	}
}

// outlines reads the peak and the end of captures: as such where the selection leaves
// them what they are.
func outlines(want *lifetime.Selection) reading[*lifetime.Outline] {
	r := reading[*lifetime.Outline]{
		open: formats.OpenOutline, tables: func(o *lifetime.Outline) *lifetime.Tables { return &o.Tables },
		part: (*lifetime.Selection).OfOutline, warn: loss.Missing,
	}
	if !want.AllBuffers() {
		r.part = func(_ *lifetime.Selection, o *lifetime.Outline) (*lifetime.Outline, error) { return o, nil }
		r.open = func(file string, in formats.Input) (*lifetime.Outline, error) {
			c, err := formats.Open(file, in)
			if err != nil {
				return nil, inputError{err}
			}
			if c, err = want.Of(c); err != nil {
				return nil, err
			}
			return c.Outline(), nil
		}
	}
	return r
}

// openAll reads the captures of a command line, each with only what want selects.
func (r reading[C]) openAll(c *cli.Context, want *lifetime.Selection) (all []C, err error) {
	err = r.each(c, want, func(capture C) error {
		all = append(all, capture)
		return nil
	})
	return all, err
}

// each is openAll for commands that look at one capture after the other and keep none:
// there may be a thousand.
func (r reading[C]) each(c *cli.Context, want *lifetime.Selection, take func(C) error) error {
	files := c.Args().Slice()
	if len(files) == 0 {
		return usage("%s: no capture given; see memlane %s --help", c.Command.Name, c.Command.Name)
	}
	if i := slices.Index(files, "-"); i >= 0 && slices.Contains(files[i+1:], "-") {
		return usage("%s: standard input can be read only once", c.Command.Name)
	}
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	r.in.Stop = func() error {
		return cmp.Or(context.Cause(c.Context), limit.Check())
	}
	files, err = formats.Expand(files)
	if err != nil {
		return inputError{err}
	}
	for _, file := range files {
		capture, err := r.read(c, file)
		if err != nil {
			if ended := context.Cause(c.Context); ended != nil && errors.Is(err, ended) || is[*lifetime.NothingError](err) || is[*lifetime.WindowError](err) {
				return err
			}
			return inputError{err}
		}
		lost, others := loss.Worst(r.tables(capture).Losses, r.warn)
		if lost.Reason.Class() == loss.Damage && c.Bool("strict") {
			return inputError{fmt.Errorf("%s: %s", file, answer.LossText(lost))}
		}
		if capture, err = r.part(want, capture); err != nil {
			return err
		}
		if lost.Count > 0 && !c.Bool("quiet") {
			more := ""
			if others > 0 {
				more = fmt.Sprintf("; memlane info shows %d more", others)
			}
			fmt.Fprintf(c.App.ErrWriter, "memlane: warning: %s: %s%s\n", text.Printable(file), text.Printable(answer.LossText(lost)), more)
		}
		if err := take(capture); err != nil {
			return err
		}
	}
	return nil
}

// limitOf returns what --max-memory allows, and sets it for the garbage collector.
func limitOf(c *cli.Context) (*memlimit.Limit, error) {
	size := c.String("max-memory")
	if size == "" {
		return nil, nil
	}
	limit, err := units.ParseBytes(size)
	if err != nil || limit <= 0 {
		return nil, usage("--max-memory %q: want a size, as 2GiB", size)
	}
	debug.SetMemoryLimit(limit)
	return memlimit.New(limit), nil
}

// read reads one capture. Its progress shows on a terminal, unless r.in says where
// else.
func (r reading[C]) read(c *cli.Context, file string) (C, error) {
	in := r.in
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
	capture, err := r.open(file, in)
	if bar != nil {
		bar.clear()
	}
	return capture, err
}
