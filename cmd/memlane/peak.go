package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/units"
)

func peakCommand() *cli.Command {
	return &cli.Command{
		Name:      "peak",
		Usage:     "what makes up the memory at the peak, by call site",
		ArgsUsage: "CAPTURE...",
		Description: "Every memory ID is shown at its own peak. TIME is a duration since the window\n" +
			"began (1.5s, 20ms) or an instant as JSON has it: nanoseconds or the number\n" +
			"of an event. Memory IDs without such an instant, or OOM, are left out.\n\n" +
			"Examples:\n" +
			"  memlane peak snapshot.pickle\n" +
			"  memlane peak --at oom snapshot.pickle\n" +
			"  memlane peak --at 250ms --json snapshot.pickle",
		Flags: captureFlags(
			&cli.StringFlag{Name: "at", Value: "peak", Usage: "`WHEN`: peak, end, oom or a TIME"},
			jsonFlag()),
		Action: peak,
	}
}

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
}

func peak(c *cli.Context) error {
	captures, err := openAll(c, lifetime.DataLoss)
	if err != nil {
		return err
	}
	out := peaksJSON{Schema: schema, Peaks: []peakJSON{}}
	var none error // why the first space that is left out is
	shown := 0
	for _, capture := range captures {
		for _, s := range capture.Spaces {
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

// instant returns the moment that --at names in a space.
func instant(s *lifetime.Space, at string) (int64, error) {
	switch at {
	case "peak":
		return s.Peak(lifetime.Occupied).At, nil
	case "end":
		return s.AtEnd(), nil
	case "oom":
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
		row.Op = row.Site.Op
		if r.Base {
			row.Category = beforeWindow
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// beforeWindow is the row of the bytes that were never seen one by one.
const beforeWindow = "before the window"

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// maxRows is how many rows a table for people has.
const maxRows = 20

func printPeak(w io.Writer, capture *lifetime.Capture, s *lifetime.Space, at int64) {
	total, rows := placesAt(capture, s, at)
	fmt.Fprintf(w, "%s %s\n%s in %s at %s\n", printable(capture.Sources[s.Source].File), printable(s.ID()),
		units.Exact(total.Bytes), count(total.Count, "buffer"), sinceBegin(s, at))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "bytes\tshare\tbuffers\t  allocated by\n")
	var rest lifetime.Amount
	for i, r := range rows {
		if i >= maxRows {
			rest.Bytes += r.Bytes
			rest.Count += r.Count
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t  %s\n", units.Bytes(r.Bytes), percent(share(r.Bytes, total.Bytes)), units.Count(r.Count), r.name)
	}
	if len(rows) > maxRows {
		fmt.Fprintf(t, "%s\t%s\t%s\t  %s (--json has them all)\n",
			units.Bytes(rest.Bytes), percent(share(rest.Bytes, total.Bytes)), units.Count(rest.Count), count(len(rows)-maxRows, "more place"))
	}
	t.Flush()
}

// placeRow is the buffers of all stacks with the same innermost function of
// the program.
type placeRow struct {
	name string
	lifetime.Amount
}

func placesAt(capture *lifetime.Capture, s *lifetime.Space, at int64) (total lifetime.Amount, rows []placeRow) {
	index := map[string]int{}
	for _, r := range s.Breakdown(at) {
		name := siteName(capture, r.Site)
		if r.Base {
			name = beforeWindow
		}
		i, ok := index[name]
		if !ok {
			i = len(rows)
			index[name] = i
			rows = append(rows, placeRow{name: name})
		}
		for _, sum := range []*lifetime.Amount{&total, &rows[i].Amount} {
			sum.Bytes += r.Bytes
			sum.Requested += r.Requested
			sum.Count += r.Count
		}
	}
	slices.SortStableFunc(rows, func(x, y placeRow) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.name, y.name))
	})
	return total, rows
}
