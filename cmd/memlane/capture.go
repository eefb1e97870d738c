package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
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
	return append(more,
		&cli.StringFlag{Name: "space", Usage: "only the memory IDs that match `GLOB`, as 'cuda:*'"},
		&cli.StringFlag{Name: "input-format", Usage: "do not guess the format: it is `NAME` (memlane --help)"},
		toggle("strict", "fail with status 3 when a capture is damaged"),
		toggle("quiet", "no warnings and no progress"),
	)
}

func jsonFlag() cli.Flag { return toggle("json", "write JSON: exact bytes, all rows") }

// toggle is a flag without a value, whose help does not say "(default: false)".
func toggle(name, usage string) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: usage, DisableDefaultText: true}
}

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "-", Usage: "write to `FILE`; - is standard output"}
}

// openAll reads the captures of a command line, each with only the spaces that
// --space names. It warns of losses from a severity on.
func openAll(c *cli.Context, from lifetime.Severity) ([]*lifetime.Capture, error) {
	files := c.Args().Slice()
	switch name := c.String("input-format"); {
	case len(files) == 0:
		return nil, fail(statusUsage, "%s: no capture given; see memlane %s --help", c.Command.Name, c.Command.Name)
	case name != "" && !slices.ContainsFunc(formats.All, func(f formats.Format) bool { return f.Name == name }):
		return nil, fail(statusUsage, "--input-format %q: no format is called so; see memlane --help", name)
	}
	if i := slices.Index(files, "-"); i >= 0 && slices.Contains(files[i+1:], "-") {
		return nil, fail(statusUsage, "%s: standard input can be read only once", c.Command.Name)
	}
	if _, err := path.Match(c.String("space"), ""); err != nil {
		return nil, fail(statusUsage, "--space %q: %w", c.String("space"), err)
	}
	var captures []*lifetime.Capture
	for _, file := range files {
		capture, err := open(c, file)
		if err != nil {
			return nil, &statusError{statusInput, err}
		}
		loss, rest := worst(capture.Losses, from)
		if loss.Reason.Severity() == lifetime.Damage && c.Bool("strict") {
			return nil, fail(statusInput, "%s: %s", file, lossText(loss))
		}
		if capture, err = choose(capture, c.String("space")); err != nil {
			return nil, err
		}
		if loss.Count > 0 && !c.Bool("quiet") {
			more := ""
			if rest > 0 {
				more = fmt.Sprintf("; memlane info shows %d more", rest)
			}
			fmt.Fprintf(c.App.ErrWriter, "memlane: warning: %s: %s%s\n", printable(file), printable(lossText(loss)), more)
		}
		captures = append(captures, capture)
	}
	return captures, nil
}

// open reads one capture. How far it got shows on a terminal.
func open(c *cli.Context, file string) (*lifetime.Capture, error) {
	in := formats.Input{Stdin: c.App.Reader, Format: c.String("input-format")}
	var bar *progress
	if terminal(c.App.ErrWriter) && !c.Bool("quiet") {
		in.Progress = func(file string, size int64, r io.Reader) io.Reader {
			bar = &progress{in: r, out: c.App.ErrWriter, file: file, size: size, started: time.Now()}
			return bar
		}
	}
	capture, err := formats.Open(file, in)
	if bar != nil {
		bar.clear()
	}
	return capture, err
}

// worst returns the loss to tell of, and how many others are as severe as from.
// A file that ends early is the cause of other damage.
func worst(losses []lifetime.Loss, from lifetime.Severity) (loss lifetime.Loss, rest int) {
	for _, l := range losses {
		severity := l.Reason.Severity()
		if severity < from {
			continue
		}
		rest++
		if loss.Count == 0 || severity > loss.Reason.Severity() || l.Reason == lifetime.Truncated {
			loss = l
		}
	}
	return loss, max(rest-1, 0)
}

// lossText returns a loss as a sentence for people.
func lossText(l lifetime.Loss) string {
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

// choose returns the capture with only the spaces whose memory ID matches glob,
// "" for all.
func choose(capture *lifetime.Capture, glob string) (*lifetime.Capture, error) {
	file := capture.Sources[0].File
	part := *capture
	part.Spaces = nil
	var ids []string
	for _, s := range capture.Spaces {
		ids = append(ids, s.ID())
		// "*" matches a "/" too: memory IDs are no paths.
		ok, _ := path.Match(strings.ReplaceAll(glob, "/", "\x00"), strings.ReplaceAll(s.ID(), "/", "\x00"))
		if ok || glob == "" {
			part.Spaces = append(part.Spaces, s)
		}
	}
	switch {
	case len(ids) == 0:
		return nil, fail(statusNoMemory, "%s: holds no memory data: neither a history nor the state at its end; "+
			"call torch.cuda.memory._record_memory_history() before and _dump_snapshot() after the allocations", file)
	case len(part.Spaces) == 0:
		return nil, fail(statusNoMemory, "%s: no memory ID matches %q; there are: %s", file, glob, strings.Join(ids, ", "))
	}
	return &part, nil
}

// largest returns the space with the highest peak among those with buffers, and
// how many it was chosen from.
func largest(spaces []*lifetime.Space) (*lifetime.Space, int) {
	var best *lifetime.Space
	n, most := 0, int64(0)
	for _, s := range spaces {
		if len(s.Buffers) == 0 && s.Base == 0 {
			continue
		}
		n++
		if bytes := s.Peak(lifetime.Occupied).Bytes; best == nil || bytes > most {
			best, most = s, bytes
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
	if place := f.Place(); place != "" {
		name += " (" + place + ")"
	}
	return printable(name)
}

// sinceBegin returns an instant of a space for people.
func sinceBegin(s *lifetime.Space, t int64) string {
	switch {
	case s.Facts&lifetime.History == 0 && t == s.AtEnd():
		return "the end" // the only instant that is known
	case s.Axis == lifetime.Time:
		return "+" + units.Span(t-s.Begin, s.Axis.Unit())
	}
	return fmt.Sprintf("%s %s", s.Axis.Unit(), units.Count(t))
}

// terminal reports whether w is one.
func terminal(w any) bool {
	if out, ok := w.(*output); ok {
		w = out.to
	}
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
	if now.Sub(p.started) > time.Second && now.Sub(p.shown) > 200*time.Millisecond {
		p.shown = now
		done := units.Bytes(p.read)
		if 0 < p.read && p.read <= p.size {
			left := time.Duration(float64(now.Sub(p.started)) * float64(p.size-p.read) / float64(p.read))
			done = fmt.Sprintf("%.0f %% of %s, %s left", 100*float64(p.read)/float64(p.size), units.Bytes(p.size), left.Round(time.Second))
		}
		// A line that wraps cannot be cleared again.
		name := []rune(printable(filepath.Base(p.file)))
		fmt.Fprintf(p.out, "\r\033[Kreading %s: %s", string(name[:min(len(name), 32)]), done)
	}
	return n, err
}

// clear takes the line away, if there is one.
func (p *progress) clear() {
	if !p.shown.IsZero() {
		fmt.Fprint(p.out, "\r\033[K")
	}
}
