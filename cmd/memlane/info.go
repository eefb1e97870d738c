package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/units"
)

func infoCommand() *cli.Command {
	return &cli.Command{
		Name:      "info",
		Usage:     "what is in a capture: counts, peaks, fragmentation, losses",
		ArgsUsage: "CAPTURE...",
		Description: "Examples:\n" +
			"  memlane info snapshot.pickle\n" +
			"  memlane info --json snapshot.pickle | jq '.captures[].spaces[].peak.bytes'\n" +
			"  gzip -dc snapshot.pickle.gz | memlane info -",
		Flags:  captureFlags(jsonFlag()),
		Action: info,
	}
}

type infoJSON struct {
	Schema   string            `json:"schema"`
	Captures []captureInfoJSON `json:"captures"`
}

type captureInfoJSON struct {
	File     string          `json:"file"`
	Format   string          `json:"format"`
	Producer string          `json:"producer"`
	Spaces   []spaceInfoJSON `json:"spaces"`
	Losses   []lossJSON      `json:"losses"`
}

type lossJSON struct {
	Reason   string `json:"reason"`
	Severity string `json:"severity"`
	Count    int64  `json:"count"`
	Bytes    int64  `json:"bytes"`
	First    string `json:"first"`
	Text     string `json:"text"`
}

// spaceInfoJSON describes one space. Bytes are integers, times are in unit.
type spaceInfoJSON struct {
	ID                string   `json:"id"`
	Device            string   `json:"device"`
	Axis              string   `json:"axis"`
	Unit              string   `json:"unit"`
	Begin             int64    `json:"begin"`
	End               int64    `json:"end"`
	LimitBytes        *int64   `json:"limit_bytes"`
	BaseBytes         int64    `json:"base_bytes"`
	Facts             []string `json:"facts"`
	Allocations       int      `json:"allocations"`
	Frees             int      `json:"frees"`
	Live              liveJSON `json:"live"`
	ReservedBytes     *int64   `json:"reserved_bytes"` // null when reserved memory was not recorded
	ReservedPeakBytes *int64   `json:"reserved_peak_bytes"`
	Peak              peakInfo `json:"peak"`
	LifetimePeakBytes *int64   `json:"lifetime_peak_bytes"` // null: snapshots do not tell
	Fragmentation     *float64 `json:"fragmentation"`       // null when nothing reserved is free
	FreeBytes         *int64   `json:"free_bytes"`
	LargestFreeBytes  *int64   `json:"largest_free_bytes"`
	OOMs              []oom    `json:"ooms"`
}

type liveJSON struct {
	Count            int64 `json:"count"`
	Bytes            int64 `json:"bytes"`
	RequestedBytes   int64 `json:"requested_bytes"`
	PendingFreeCount int64 `json:"pending_free_count"`
	PendingFreeBytes int64 `json:"pending_free_bytes"`
}

type peakInfo struct {
	Bytes          int64 `json:"bytes"`
	RequestedBytes int64 `json:"requested_bytes"`
	At             int64 `json:"at"`
}

type oom struct {
	At              int64  `json:"at"`
	RequestedBytes  int64  `json:"requested_bytes"`
	DeviceFreeBytes *int64 `json:"device_free_bytes"`
}

func info(c *cli.Context) error {
	captures, err := openAll(c, lifetime.Damage) // the report lists lesser losses
	if err != nil {
		return err
	}
	out := infoJSON{Schema: schema}
	for i, capture := range captures {
		info := infoOf(capture)
		out.Captures = append(out.Captures, info)
		if c.Bool("json") {
			continue
		}
		if i > 0 {
			fmt.Fprintln(c.App.Writer)
		}
		printInfo(c.App.Writer, info, capture)
	}
	if c.Bool("json") {
		return writeJSON(c.App.Writer, out)
	}
	return nil
}

func infoOf(capture *lifetime.Capture) captureInfoJSON {
	source := capture.Sources[0]
	info := captureInfoJSON{File: source.File, Format: source.Format, Producer: source.Producer, Losses: []lossJSON{}}
	for _, s := range capture.Spaces {
		info.Spaces = append(info.Spaces, spaceInfo(s))
	}
	for _, l := range capture.Losses {
		info.Losses = append(info.Losses, lossJSON{l.Reason.String(), l.Reason.Severity().String(), l.Count, l.Bytes, l.First, l.Reason.Doc()})
	}
	return info
}

func spaceInfo(s *lifetime.Space) spaceInfoJSON {
	sum := s.Summary()
	info := spaceInfoJSON{
		ID: s.ID(), Device: s.Device, Axis: s.Axis.String(), Unit: s.Axis.Unit(), Begin: s.Begin, End: s.End,
		LimitBytes: known(s.Limit), BaseBytes: s.Base, Facts: s.Facts.Names(), Allocations: s.Allocations, Frees: s.Frees,
		Live: liveJSON{sum.Live.Count, sum.Live.Bytes, sum.Live.Requested, sum.Pending.Count, sum.Pending.Bytes},
		Peak: peakInfo{sum.Peak.Bytes, sum.PeakRequested.Bytes, sum.Peak.At},
		OOMs: []oom{},
	}
	if s.Facts&lifetime.Regions != 0 {
		end, peak := s.Reserved()
		free := s.Free()
		info.ReservedBytes, info.ReservedPeakBytes, info.FreeBytes, info.LargestFreeBytes = &end, &peak, &free.Total, &free.Largest
		if share, ok := free.Fragmentation(); ok {
			info.Fragmentation = &share
		}
	}
	for _, m := range s.Marks {
		if m.Kind == lifetime.OOM {
			o := oom{At: m.Begin, RequestedBytes: m.Requested}
			if m.Free >= 0 {
				o.DeviceFreeBytes = &m.Free
			}
			info.OOMs = append(info.OOMs, o)
		}
	}
	return info
}

// maxOOMs is how many failed allocations people see: programs that retry have
// many.
const maxOOMs = 5

func printInfo(w io.Writer, info captureInfoJSON, capture *lifetime.Capture) {
	fmt.Fprintf(w, "%s: %s, %s\n", printable(info.File), info.Format, printable(info.Producer))
	for i, s := range info.Spaces {
		fmt.Fprintf(w, "\n%s\n", printable(s.ID))
		printSpace(w, s, capture.Spaces[i])
	}
	for i, l := range capture.Losses {
		if i == 0 {
			fmt.Fprintf(w, "\nworth knowing\n")
		}
		fmt.Fprintf(w, "  %s\n", wrap(lossText(l), "    "))
	}
}

func printSpace(w io.Writer, s spaceInfoJSON, space *lifetime.Space) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	if s.Allocations+s.Frees > 0 {
		row("window", "%s, %s, %s", units.Span(s.End-s.Begin-1, s.Unit), count(s.Allocations, "allocation"), count(s.Frees, "free"))
	} else {
		row("window", "none: no allocation or free was recorded")
	}
	row("peak", "%s at %s", units.Exact(s.Peak.Bytes), sinceBegin(space, s.Peak.At))
	row("", "%s requested", units.Exact(s.Peak.RequestedBytes))
	if s.BaseBytes != 0 {
		row("", "%s of it from before the window", units.Exact(s.BaseBytes))
	}
	row("at end", "%s in %s", units.Exact(s.Live.Bytes), count(s.Live.Count, "buffer"))
	row("", "%s requested", units.Exact(s.Live.RequestedBytes))
	if s.Live.PendingFreeCount > 0 {
		row("", "%s of it waiting to be freed", units.Exact(s.Live.PendingFreeBytes))
	}
	if s.ReservedBytes != nil {
		row("reserved", "%s at the end, %s at most", units.Exact(*s.ReservedBytes), units.Bytes(*s.ReservedPeakBytes))
		row("free in it", "%s, the largest hole %s", units.Exact(*s.FreeBytes), units.Bytes(*s.LargestFreeBytes))
	}
	if s.Fragmentation != nil {
		row("fragmented", "%s of the free bytes lie outside the largest hole", percent(*s.Fragmentation))
	}
	for i, o := range s.OOMs {
		if i == maxOOMs {
			row("", "and %d more (--json has them all)", len(s.OOMs)-i)
			break
		}
		free := ""
		if o.DeviceFreeBytes != nil {
			free = fmt.Sprintf(", the device had %s free", units.Bytes(*o.DeviceFreeBytes))
		}
		row(map[bool]string{true: "OOM"}[i == 0], "%s wanted at %s%s", units.Bytes(o.RequestedBytes), sinceBegin(space, o.At), free)
	}
	row("known", "%s", strings.Join(s.Facts, ", "))
}
