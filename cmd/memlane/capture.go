package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/atomicfile"
	"github.com/memlane/memlane/internal/memlimit"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/outline"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/text"
)

func inputFlags() []cli.Flag {
	var names []word
	for _, f := range formats.All() {
		names = append(names, word{f.Name, f.Doc})
	}
	return []cli.Flag{
		&cli.StringFlag{Name: "max-memory", Usage: "stop if memlane needs more than `SIZE`, such as 2GiB"},
		oneOf(&cli.StringFlag{Name: "input-format", Usage: "the format of the captures: `NAME` (memlane --help)"},
			names...), toggle("strict", "fail with status 3 if a capture is damaged"),
		toggle("quiet", "no warnings and no progress"),
	}
}

func jsonFlag() cli.Flag { return toggle("json", "write JSON: exact bytes, all rows") }

// toggle returns a flag without a value. Its help omits "(default: false)".
func toggle(name, usage string) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: usage, DisableDefaultText: true}
}

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "-", TakesFile: true,
		Usage: "write to `FILE`; - is standard output"}
}

func forceFlag() cli.Flag { return toggle("force", "overwrite FILE even if it is a capture") }

// reading is how a command reads its captures: whole, or as outlines.
type reading[C any] struct {
	open   func(file string, in formats.Input, own *category.Overrides) (C, error) // with categories
	own    *category.Overrides                                                     // of --categories
	tables func(C) *lifetime.Tables
	part   func(*selection.Selection, C) (C, error)
	in     formats.Input
	warn   loss.Class // lowest class of losses to warn about
}

func captures(keep build.Keep) reading[*judge.Capture] {
	return reading[*judge.Capture]{
		open: openWhole, tables: func(c *judge.Capture) *lifetime.Tables { return &c.Tables },
		part: selected, in: formats.Input{Keep: keep}, warn: loss.Missing,
	}
}

// openWhole opens a capture and finds what its buffers are for.
func openWhole(file string, in formats.Input, own *category.Overrides) (*judge.Capture, error) {
	c, err := formats.Open(file, in)
	if err != nil {
		return nil, err
	}
	category.Of(c, own)
	return judge.Of(c), nil
}

// selected returns the selected part of a capture, in which leaked buffers have that category.
func selected(selection *selection.Selection, c *judge.Capture) (*judge.Capture, error) {
	part, err := selection.Of(c.Capture)
	if err != nil {
		return nil, err
	}
	all := judge.Of(part)
	all.Settings, all.Finds = c.Settings, c.Finds && selection.AllBuffers() && selection.By == ""
	all.Mark()
	if part, err = selection.Buffers(part); part == all.Capture {
		return all, nil
	}
	rest := judge.Of(part)
	rest.Settings = c.Settings
	return rest, err
}

// thatFind reads whole captures for a command that needs their findings.
func thatFind(settings finding.Settings) reading[*judge.Capture] {
	r := captures(0)
	r.part = func(selection *selection.Selection, c *judge.Capture) (*judge.Capture, error) {
		c.Settings, c.Finds = settings, true
		return selected(selection, c)
	}
	return r
}

// outlines reads only the peak and the end of captures. If the selection leaves out
// buffers, it reads whole captures and reduces them.
func outlines(chosen *selection.Selection) reading[*judge.Outline] {
	isPart := !chosen.AllBuffers() || chosen.By != ""
	r := reading[*judge.Outline]{tables: func(o *judge.Outline) *lifetime.Tables { return &o.Tables }, warn: loss.Missing}
	r.part = func(s *selection.Selection, o *judge.Outline) (*judge.Outline, error) {
		part, err := s.OfOutline(o.Outline)
		if err == nil && len(part.Spaces) == len(o.Spaces) {
			return o, nil
		}
		return judge.OfOutline(part), err
	}
	r.open = func(file string, in formats.Input, own *category.Overrides) (*judge.Outline, error) {
		if !isPart && own == nil {
			o, err := formats.OpenOutline(file, in)
			if err != nil {
				return nil, err
			}
			return judge.NewOutline(o), nil
		}
		whole, err := openWhole(file, in, own)
		if err != nil {
			return nil, err
		}
		if !isPart {
			whole.Mark()
			return whole.Outline(), nil
		}
		c, err := selected(chosen, whole)
		if err != nil {
			return nil, err
		}
		o := outline.Of(c.Capture)
		for _, s := range o.Spaces {
			if s.Recording != nil && !has(whole, s.Recording) { // a part of a recording cannot be replayed
				s.Recording = nil
			}
		}
		return judge.OfOutline(o), nil
	}
	return r
}

// has reports whether a capture has space s with no more buffers and no longer window.
func has(c *judge.Capture, s *lifetime.Space) bool {
	return slices.ContainsFunc(c.Spaces, func(w *lifetime.Space) bool {
		return w.Source == s.Source && w.ID() == s.ID() && w.Begin == s.Begin && w.End == s.End && len(w.Buffers) == len(s.Buffers)
	})
}

// openAll reads the captures of a command line for their findings, and returns the parts that its flags select.
func openAll(c *cli.Context) (all []*judge.Capture, selection selection.Selection, err error) {
	if selection, err = selectionOf(c); err == nil {
		all, err = thatFind(finding.Settings{}).all(c, &selection)
	}
	return all, selection, err
}

// all reads the captures of a command line and returns the selected part of each.
func (r reading[C]) all(c *cli.Context, selection *selection.Selection) (all []C, err error) {
	err = r.each(c, selection, func(capture C) error {
		all = append(all, capture)
		return nil
	})
	return all, err
}

// openOne reads one file of a command line and returns the part that its flags select.
func (r reading[C]) openOne(c *cli.Context, files []string, selection *selection.Selection) (one C, err error) {
	err = r.eachOf(c, files, selection, func(capture C) error {
		one = capture
		return nil
	})
	return one, err
}

// each reads the captures of a command line, a few at once, and passes the selected
// part of each to take, in order. It keeps none, as there may be a thousand.
func (r reading[C]) each(c *cli.Context, selection *selection.Selection, take func(C) error) error {
	files, err := filesOf(c)
	if err != nil {
		return err
	}
	return r.eachOf(c, files, selection, take)
}

// eachOf is each for the files that filesOf returned.
func (r reading[C]) eachOf(c *cli.Context, files []string, selection *selection.Selection, take func(C) error) error {
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	if r.own, err = categoriesOf(c); err != nil {
		return err
	}
	r.in.Open, _ = c.Context.Value(openKey{}).(func(string) (*os.File, error))
	r.in.Stop = func() error {
		return cmp.Or(context.Cause(c.Context), limit.Check())
	}
	if r.in.Progress == nil && len(files) > 1 {
		n, err := r.eachAhead(c, files, selection, limit, take)
		if err != nil {
			return err
		}
		files = files[n:]
	}
	for _, file := range files {
		limit.Reading(true)
		capture, err := r.openShowing(c, file)
		limit.Reading(false)
		if capture, err = r.check(c, selection, file, capture, err); err == nil {
			err = take(capture)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// filesOf returns the captures of a command line. Folders and patterns stand for the captures in them. It fails if the
// output would overwrite a capture.
func filesOf(c *cli.Context) ([]string, error) {
	files := c.Args().Slice()
	if len(files) == 0 {
		return nil, usage("%s: no capture given; see memlane %s --help", c.Command.Name, c.Command.Name)
	}
	if i := slices.Index(files, "-"); i >= 0 && slices.Contains(files[i+1:], "-") {
		return nil, usage("%s: standard input can be read only once", c.Command.Name)
	}
	files, err := formats.Expand(files)
	if err != nil {
		return nil, inputError(err)
	}
	if toStdout(c) {
		return files, nil
	}
	return files, checkOverwrite(c, files)
}

// check returns the selected part of a capture that was read or failed with err, and warns about its losses.
func (r reading[C]) check(c *cli.Context, chosen *selection.Selection, file string, capture C, err error) (C, error) {
	if err != nil {
		if ended := context.Cause(c.Context); ended != nil && errors.Is(err, ended) || is[*selection.NothingError](err) {
			return capture, err
		}
		return capture, inputError(err)
	}
	worst, others := loss.Worst(r.tables(capture).Losses, r.warn)
	if worst.Reason.Class() == loss.Damage && c.Bool("strict") {
		return capture, inputError(fmt.Errorf("%s: %s", file, worst.String()))
	}
	if capture, err = r.part(chosen, capture); err != nil {
		return capture, err
	}
	if worst.Count > 0 && !c.Bool("quiet") {
		more := ""
		if others > 0 {
			more = fmt.Sprintf("; memlane info shows %d more", others)
		}
		fmt.Fprintf(c.App.ErrWriter, "memlane: warning: %s: %s%s\n", text.Printable(file), text.Printable(worst.String()), more)
	}
	return capture, nil
}

// limitOf returns the limit of --max-memory, or else that of the system; nil if there is none. A command that exceeds
// it later, while it analyses or writes, ends with the same error.
func limitOf(c *cli.Context) (*memlimit.Limit, error) {
	limit := memlimit.System()
	if n, err := sizeOf(c, "max-memory", "2GiB"); err != nil {
		return nil, err
	} else if n > 0 {
		limit = memlimit.New(n, "--max-memory")
	}
	if limit == nil {
		return nil, nil
	}
	stop := limit.Watch(func(err error) {
		ending.Lock()
		defer ending.Unlock()
		if c.Context.Err() == nil {
			atomicfile.Abandon()
			os.Exit(printError(c.App.ErrWriter, inputError(err)))
		}
	})
	context.AfterFunc(c.Context, stop)
	return limit, nil
}

// openShowing opens a capture and shows the progress on a terminal, unless r.in shows it elsewhere.
func (r reading[C]) openShowing(c *cli.Context, file string) (C, error) {
	in := r.in
	in.Stdin, in.Format = c.App.Reader, c.String("input-format")
	var bar *progress
	if in.Progress == nil && terminalOf(c.App.ErrWriter) != nil && !c.Bool("quiet") {
		in.Progress = func(file string, size int64) func(n int) {
			if bar != nil { // of the previous file in a folder
				bar.clear()
			}
			bar = &progress{out: c.App.ErrWriter, file: file, size: size, started: time.Now()}
			return bar.add
		}
	}
	capture, err := r.open(file, in, r.own)
	if bar != nil {
		bar.clear()
	}
	return capture, err
}
