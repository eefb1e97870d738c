package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/model"
)

// schema names the version of the JSON that commands write.
const schema = "memlane/1"

// output is where results go. It remembers that writing failed: most of what
// prints does not look.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.to.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// writeOutput lets write fill the file that -o names.
func writeOutput(c *cli.Context, write func(io.Writer) error) error {
	file := c.String("output")
	if file == "-" || file == "" {
		return write(c.App.Writer)
	}
	return writeFile(file, write)
}

// writeFile lets write fill a file, which appears under its name only when it
// is complete.
func writeFile(file string, write func(io.Writer) error) error {
	target := file
	if real, err := filepath.EvalSymlinks(file); err == nil {
		target = real // a link stays one, also /dev/stdout
	}
	mode := os.FileMode(0o666)
	name, flags := target, os.O_WRONLY
	info, err := os.Stat(target)
	replace := err != nil || info.Mode().IsRegular() // a pipe or device cannot be replaced
	if replace {
		name = filepath.Join(filepath.Dir(target), fmt.Sprintf(".%s.%08x", filepath.Base(target), rand.Uint32()))
		flags |= os.O_CREATE | os.O_EXCL
		if err == nil {
			mode = info.Mode().Perm()
		}
	}
	f, err := os.OpenFile(name, flags, mode)
	if err != nil {
		return fail(statusOutput, "-o %s: %w", file, reason(err))
	}
	out := &output{to: f}
	err = write(out)
	if broken := cmp.Or(out.err, f.Close()); broken != nil {
		err = fail(statusOutput, "-o %s: %w", file, reason(broken))
	}
	if !replace {
		return err
	}
	if err == nil {
		if broken := os.Rename(name, target); broken != nil {
			err = fail(statusOutput, "-o %s: %w", file, reason(broken))
		}
	}
	if err != nil {
		os.Remove(name)
	}
	return err
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
	for _, id := range capture.Stacks[stack] {
		f := capture.Frames[id]
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

// count formats a number of things: "1 buffer", "1,200 buffers".
func count[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return units.Count(int64(n)) + " " + thing
}

// textWidth is how wide running text gets.
const textWidth = 78

// wrap breaks text at spaces so that lines with indent stay within textWidth.
func wrap(text, indent string) string {
	var b strings.Builder
	width := len(indent)
	for i, word := range strings.Fields(text) {
		word = printable(word)
		n := utf8.RuneCountInString(word)
		if i > 0 && width+1+n > textWidth {
			b.WriteString("\n" + indent)
			width = len(indent)
		} else if i > 0 {
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}
