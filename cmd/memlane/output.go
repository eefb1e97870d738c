package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/memlane/memlane/render/text"
)

// output is where results go. It remembers that writing failed: most of what
// prints does not look.
type output struct {
	to   io.Writer
	stop func() error // why nothing is wanted any more
	err  error
}

func (o *output) Write(b []byte) (n int, err error) {
	if err = o.stop(); err == nil {
		n, err = o.to.Write(b)
	}
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// failed returns the error of a command whose output, called name, failed with
// err.
func failed(name string, err error) error {
	if is[signalError](err) {
		return err
	}
	return outputError{fmt.Errorf("%s: %w", name, reason(err))}
}

// unread reports whether writing to a pipe failed because no one reads it any more.
func unread(err error) bool {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return false
	}
	if runtime.GOOS == "windows" { // broken, being closed, not connected
		return number == 109 || number == 232 || number == 233
	}
	return number == syscall.EPIPE
}

// writeOutput lets write fill the file that -o names.
func writeOutput(c *cli.Context, write func(io.Writer) error) error {
	file := c.String("output")
	if file == "-" || file == "" {
		return write(c.App.Writer)
	}
	return writeFiles(c.Context, []string{file}, func(w io.Writer, _ int) error { return write(w) })
}

// writeFiles lets write fill files, by number. They appear under their names when
// all are complete: half a series beside an older one looks like a whole one.
func writeFiles(ctx context.Context, files []string, write func(w io.Writer, i int) error) (err error) {
	var done []*unfinishedFile
	defer func() {
		for _, d := range done {
			d.discard() // but for those that have their names
		}
	}()
	for i, file := range files {
		d, err := begin(file)
		if err != nil {
			return failed("-o "+file, err)
		}
		done = append(done, d)
		out := &output{to: d.f, stop: func() error { return context.Cause(ctx) }}
		err = write(out, i)
		if broken := cmp.Or(out.err, d.f.Close()); broken != nil {
			return failed("-o "+file, broken)
		}
		if err != nil {
			return err
		}
	}
	if d, err := publish(done); err != nil {
		return failed("-o "+d.file, err)
	}
	return nil
}

// reason is an error without the name of the file, which the message has
// already, or which means nothing to the user.
func reason(err error) error {
	var p *os.PathError
	var l *os.LinkError
	var n *net.OpError
	switch {
	case errors.As(err, &n):
		return n.Err
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &l):
		return l.Err
	}
	return err
}

// terminal reports whether w is one.
func terminal(w any) bool { return file(w) != nil }

// file returns the terminal that w writes to, nil where that is none.
func file(w any) *os.File {
	if out, ok := w.(*output); ok {
		w = out.to
	}
	if n, ok := w.(*notices); ok {
		w = n.to
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// styleOf returns how text is laid out on w: in the width of a terminal, in colours
// where it has them.
func styleOf(w any) (s text.Style) {
	f := file(w)
	if f == nil {
		return s
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.Width = width
	}
	s.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}
