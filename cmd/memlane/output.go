package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/report"
)

// schema names the version of the JSON that commands write.
const schema = "memlane/1"

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
	var ended *statusError
	if errors.As(err, &ended) { // by a signal
		return err
	}
	return fail(statusOutput, "%s: %w", name, reason(err))
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
	var done []*draft
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

func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(model.Escape(b.Bytes()))
	return err
}

// siteJSON is a site in every JSON output.
type siteJSON struct {
	Function string      `json:"function"`
	File     string      `json:"file"`
	Line     int         `json:"line"`
	Op       string      `json:"op"`
	Stack    []frameJSON `json:"stack"`  // leaf first
	Source   []frameJSON `json:"source"` // of a compiled program: the calls that its instruction was compiled from
}

type frameJSON struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int    `json:"line"`
}

func siteToJSON(capture *lifetime.Capture, site lifetime.SiteID) siteJSON {
	s := capture.Sites[site]
	out := siteJSON{Op: s.Op, Stack: framesToJSON(capture, s.Stack), Source: framesToJSON(capture, s.Source)}
	if f, ok := capture.UserFrame(site); ok {
		out.Function, out.File, out.Line = f.Function, f.File, f.Line
	} else {
		out.Function = s.Op
	}
	return out
}

func framesToJSON(capture *lifetime.Capture, stack lifetime.StackID) []frameJSON {
	out := []frameJSON{}
	for f := range capture.FramesOf(stack) {
		out = append(out, frameJSON{f.Function, f.File, f.Line})
	}
	return out
}

// known returns nil for a figure that is not known: absent is not 0.
func known(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// percent formats a share.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func count[N int | int64](n N, thing string) string { return units.Several(n, thing) }

func wrap(text, indent string) string { return report.Wrap(text, indent) }
