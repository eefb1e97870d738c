package main

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

func peakCommand() *cli.Command {
	return &cli.Command{
		Name:      "peak",
		Usage:     "what makes up the memory at the peak, by call site",
		ArgsUsage: "CAPTURE...",
		Description: "Every memory ID is shown at its own peak; of several compiled programs, the\n" +
			"one with the highest peak. TIME is a duration since the window began (1.5s,\n" +
			"20ms) or an instant as JSON has it: nanoseconds or the number of an event or\n" +
			"instruction. Memory IDs without such an instant, or OOM, are left out.\n\n" +
			"Examples:\n" +
			"  memlane peak snapshot.pickle\n" +
			"  memlane peak --at oom snapshot.pickle\n" +
			"  memlane peak --at 250ms --json snapshot.pickle\n" +
			"  memlane peak --module jit_step --memory-space 0 host.xplane.pb",
		Flags: captureFlags(functionFlag(),
			suggesting(&cli.StringFlag{Name: "at", Value: atPeak, Usage: "`WHEN`: peak, end, oom or a TIME"}, instants...),
			jsonFlag()),
		Action: peak,
	}
}

// The instants that --at knows by name.
const (
	atPeak = "peak"
	atEnd  = "end"
	atOOM  = "oom"
)

var instants = named(atPeak, atEnd, atOOM)

type peaksJSON struct {
	Schema string     `json:"schema"`
	Peaks  []peakJSON `json:"peaks"`
}

type peakJSON struct {
	File  string    `json:"file"`
	Space string    `json:"space"`
	At    int64     `json:"at"`
	Bytes int64     `json:"bytes"`
	Rows  []rowJSON `json:"rows"`
}

type rowJSON struct {
	Site           siteJSON `json:"site"`
	Op             string   `json:"op"`
	Shape          string   `json:"shape"`
	DType          string   `json:"dtype"`
	Category       string   `json:"category"`
	Bytes          int64    `json:"bytes"`
	RequestedBytes int64    `json:"requested_bytes"`
	Count          int64    `json:"count"`
	Share          float64  `json:"share"`
	Instr          string   `json:"instr"`         // of a compiled program
	PaddingBytes   *int64   `json:"padding_bytes"` // of a compiled program
}

func peak(c *cli.Context) error {
	want, err := choiceOf(c)
	if err != nil {
		return err
	}
	captures, err := openEach(c, loss.Missing, formats.Input{}, want.choose)
	if err != nil {
		return err
	}
	out := peaksJSON{Schema: schema, Peaks: []peakJSON{}}
	var none error // why the first space that is left out is
	shown := 0
	for _, capture := range captures {
		for _, s := range ofPeak(c, capture) {
			at, err := instant(s, c.String("at"))
			if err != nil {
				none = cmp.Or(none, fmt.Errorf("%s: %w", capture.Sources[s.Source].File, err))
				continue
			}
			shown++
			if c.Bool("json") {
				out.Peaks = append(out.Peaks, peakOf(capture, s, at))
				continue
			}
			if shown > 1 {
				fmt.Fprintln(c.App.Writer)
			}
			printPeak(c.App.Writer, capture, s, at)
		}
	}
	switch {
	case shown == 0:
		return none
	case c.Bool("json"):
		return writeJSON(c.App.Writer, out)
	}
	return nil
}

// ofPeak returns the spaces that a command line asks for, or those that say the
// most: what was recorded as the program ran, else the compiled program with the
// highest peak. What else there is, is told.
func ofPeak(c *cli.Context, capture *lifetime.Capture) []*lifetime.Space {
	spaces, left := ofRuntime(c, capture.Spaces)
	told := c.Bool("quiet")
	if left > 0 && !told {
		fmt.Fprintf(c.App.ErrWriter, "memlane: %s holds %s of compiled programs as well; --module and --memory-space show them, memlane info lists them\n",
			printable(captureName(capture)), count(left, "memory space"))
	}
	best, of := largest(spaces)
	if chosen(c) || best == nil || !static(best) {
		return spaces
	}
	if of > 1 && !told {
		tellChoice(c.App.ErrWriter, "showing", best, of)
	}
	return []*lifetime.Space{best}
}

// instant returns the moment that --at names in a space.
func instant(s *lifetime.Space, at string) (int64, error) {
	switch at {
	case atPeak:
		return s.Peak(lifetime.Occupied).At, nil
	case atEnd:
		return s.AtEnd(), nil
	case atOOM:
		for _, m := range s.Marks {
			if m.Kind == lifetime.OOM { // the first one is the cause of what follows
				return m.Begin, nil
			}
		}
		return 0, fail(statusNoMemory, "no allocation failed on %s in the window; --at peak shows its highest level", s.ID())
	}
	if d, err := time.ParseDuration(at); err == nil && s.Axis == lifetime.Time {
		if d < 0 || int64(d) >= s.End-s.Begin {
			return 0, fail(statusUsage, "--at %s: the window of %s is %s long", at, s.ID(), units.Span(s.AtEnd()-s.Begin, s.Axis.Unit()))
		}
		return s.Begin + int64(d), nil
	}
	t, err := strconv.ParseInt(at, 10, 64)
	switch {
	case err != nil && s.Axis != lifetime.Time:
		return 0, fail(statusUsage, "--at %q: %s has no clock; want peak, end, oom or the number of an %s", at, s.ID(), s.Axis.Unit())
	case err != nil:
		return 0, fail(statusUsage, "--at %q: want peak, end, oom, a duration such as 20ms, or an instant as JSON has it", at)
	case t < s.Begin || t >= s.End:
		return 0, fail(statusUsage, "--at %d: the window of %s is %d to %d", t, s.ID(), s.Begin, s.AtEnd())
	}
	return t, nil
}

func peakOf(capture *lifetime.Capture, s *lifetime.Space, at int64) peakJSON {
	out := peakJSON{File: capture.Sources[s.Source].File, Space: s.ID(), At: at, Rows: []rowJSON{}}
	rows := s.Breakdown(at)
	for _, r := range rows {
		out.Bytes += r.Bytes
	}
	for _, r := range rows {
		row := rowJSON{Site: siteToJSON(capture, r.Site), Bytes: r.Bytes, RequestedBytes: r.Requested, Count: r.Count, Share: share(r.Bytes, out.Bytes)}
		site := &capture.Sites[r.Site]
		row.Op, row.Shape, row.DType, row.Instr, row.Category = site.Op, site.Shape, site.DType, site.Instr, category(s, &r, site)
		if static(s) {
			padding := r.Bytes - r.Requested
			row.PaddingBytes = &padding
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// The rows of bytes that no buffer stands for: those that were never seen one
// by one, those beside the heap, and all where only the usage is known.
const (
	beforeWindow = "before the window"
	stackRow     = "stack"
	usageRow     = "usage"
)

// category says what the memory of a row is for, as far as the producer says.
func category(s *lifetime.Space, r *lifetime.Row, site *lifetime.Site) string {
	switch {
	case r.Kind == lifetime.FromBase:
		return beforeWindow
	case r.Kind == lifetime.FromStack:
		return stackRow
	case r.Kind == lifetime.FromUsage:
		return usageRow
	case static(s):
		return r.Kind.String()
	}
	return site.Region
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
