package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/units"
)

// captureFlags are the flags of every command that reads captures.
func captureFlags(more ...cli.Flag) []cli.Flag {
	var names []string
	for _, f := range formats.All {
		names = append(names, f.Name)
	}
	return append(more,
		&cli.StringFlag{Name: "space", Usage: "only the memory IDs that match `GLOB`, such as 'cuda:*'"},
		&cli.StringFlag{Name: "input-format", Usage: "read the captures as `NAME` instead of finding out: " + strings.Join(names, ", ")},
		&cli.BoolFlag{Name: "strict", Usage: "fail with status 3 when a capture is damaged"},
		&cli.BoolFlag{Name: "quiet", Usage: "no warnings and no progress"},
	)
}

func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "write JSON: exact bytes, all rows"}
}

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "-", Usage: "write to `FILE`; - is standard output"}
}

// openAll reads the captures of a command line and warns of what they lack.
func openAll(c *cli.Context) ([]*lifetime.Capture, error) {
	if !c.Args().Present() {
		return nil, fail(statusUsage, "%s: no capture given; see memlane %s --help", c.Command.Name, c.Command.Name)
	}
	var captures []*lifetime.Capture
	for _, file := range c.Args().Slice() {
		in := formats.Input{Stdin: c.App.Reader, Format: c.String("input-format")}
		if terminal(c.App.ErrWriter) && !c.Bool("quiet") {
			in.Progress = func(file string, size int64, r io.Reader) io.Reader {
				return &progress{in: r, out: c.App.ErrWriter, file: file, size: size, started: time.Now()}
			}
		}
		capture, err := formats.Open(file, in)
		if err != nil {
			return nil, &statusError{statusInput, err}
		}
		for _, l := range capture.Losses {
			if l.Reason.Severity() == lifetime.Damage && c.Bool("strict") {
				return nil, fail(statusInput, "%s: %s", file, l)
			}
			if l.Reason.Severity() != lifetime.Info && !c.Bool("quiet") {
				fmt.Fprintf(c.App.ErrWriter, "memlane: warning: %s: %s\n", printable(file), printable(l.String()))
			}
		}
		captures = append(captures, capture)
	}
	return captures, nil
}

// choose returns the spaces of a capture that --space names.
func choose(c *cli.Context, capture *lifetime.Capture) ([]*lifetime.Space, error) {
	file := capture.Sources[0].File
	glob := c.String("space")
	var chosen []*lifetime.Space
	var ids []string
	for _, s := range capture.Spaces {
		ids = append(ids, s.ID())
		// "*" matches a "/" too: memory IDs are no paths.
		ok, err := path.Match(strings.ReplaceAll(glob, "/", "\x00"), strings.ReplaceAll(s.ID(), "/", "\x00"))
		if err != nil {
			return nil, fail(statusUsage, "--space %q: %w", glob, err)
		}
		if ok || glob == "" {
			chosen = append(chosen, s)
		}
	}
	switch {
	case len(ids) == 0:
		return nil, fail(statusNoMemory, "%s: holds no memory data: neither a history nor the state at its end; "+
			"call torch.cuda.memory._record_memory_history() before and _dump_snapshot() after the allocations", file)
	case len(chosen) == 0:
		return nil, fail(statusNoMemory, "%s: no memory ID matches %q; there are: %s", file, glob, strings.Join(ids, ", "))
	}
	return chosen, nil
}

// largest returns the space with the highest peak among those with buffers, and
// how many it was chosen from.
func largest(spaces []*lifetime.Space) (*lifetime.Space, int) {
	var best *lifetime.Space
	n := 0
	for _, s := range spaces {
		if len(s.Buffers) == 0 && s.Base == 0 {
			continue
		}
		n++
		if best == nil || s.Peak(lifetime.Occupied).Bytes > best.Peak(lifetime.Occupied).Bytes {
			best = s
		}
	}
	return best, n
}

// siteName returns what to call a site in a table.
func siteName(capture *lifetime.Capture, site lifetime.SiteID) string {
	if f, ok := capture.UserFrame(site); ok {
		return frameName(f)
	}
	if op := capture.Sites[site].Op; op != "" {
		return printable(op)
	}
	return "(no stack recorded)"
}

// frameName returns "function (file:line)" with the base name of the file.
func frameName(f lifetime.Frame) string {
	name := f.Function
	if name == "" {
		name = "?"
	}
	if f.File == "" {
		return printable(name)
	}
	base := path.Base(strings.ReplaceAll(f.File, `\`, "/"))
	return printable(fmt.Sprintf("%s (%s:%d)", name, base, f.Line))
}

// sinceBegin returns an instant of a space for people.
func sinceBegin(s *lifetime.Space, t int64) string {
	if s.Axis == lifetime.Time {
		return "+" + units.Span(t-s.Begin, s.Axis.Unit())
	}
	return fmt.Sprintf("%s %s", s.Axis.Unit(), units.Count(t))
}

// terminal reports whether w is one.
func terminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress shows how far the reading of a file got, once it takes long.
type progress struct {
	in      io.Reader
	out     io.Writer
	file    string
	size    int64 // 0 = not known
	started time.Time

	read  int64
	shown time.Time
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	p.read += int64(n)
	now := time.Now()
	switch {
	case err != nil && !p.shown.IsZero():
		fmt.Fprint(p.out, "\r\033[K")
		p.shown = time.Time{}
	case now.Sub(p.started) > time.Second && now.Sub(p.shown) > 200*time.Millisecond:
		p.shown = now
		done := units.Bytes(p.read)
		if p.size > 0 {
			left := time.Duration(float64(now.Sub(p.started)) * float64(p.size-p.read) / float64(p.read))
			done = fmt.Sprintf("%d %% of %s, %s left", 100*p.read/p.size, units.Bytes(p.size), left.Round(time.Second))
		}
		fmt.Fprintf(p.out, "\r\033[Kreading %s: %s", printable(p.file), done)
	}
	return n, err
}
