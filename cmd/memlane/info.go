package main

import (
	"fmt"
	"math"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/render/report"
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
		Flags:  captureFlags(rankFlag(), jsonFlag()),
		Action: info,
	}
}

type infoJSON struct {
	Schema   string            `json:"schema"`
	Captures []captureInfoJSON `json:"captures"`
	Ranks    []report.RankRow  `json:"ranks,omitempty"` // of several, when each capture tells its own
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
	Module            string   `json:"module"`       // compiled program, "" for what was recorded as it ran
	MemorySpace       *int64   `json:"memory_space"` // of a compiled program
	Axis              string   `json:"axis"`
	Unit              string   `json:"unit"`
	Begin             int64    `json:"begin"`
	End               int64    `json:"end"`
	LimitBytes        *int64   `json:"limit_bytes"`
	BaseBytes         int64    `json:"base_bytes"`
	Facts             []string `json:"facts"`
	Allocations       int      `json:"allocations"`
	Frees             int      `json:"frees"`
	UsageOnly         bool     `json:"usage_only"` // only totals are known: live has a level and no buffers
	Live              liveJSON `json:"live"`
	ReservedBytes     *int64   `json:"reserved_bytes"` // null when reserved memory was not recorded
	ReservedPeakBytes *int64   `json:"reserved_peak_bytes"`
	Peak              peakInfo `json:"peak"`
	PaddingBytes      *int64   `json:"padding_bytes"`       // of a compiled program, at the peak
	StackBytes        *int64   `json:"stack_bytes"`         // beside the heap, at the peak; null without a stack
	LifetimePeakBytes *int64   `json:"lifetime_peak_bytes"` // null: snapshots do not tell
	Fragmentation     *float64 `json:"fragmentation"`       // at the end; null when nothing is free
	FragmentationMax  *float64 `json:"fragmentation_max"`   // as the allocator reports it
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
	Bytes          int64    `json:"bytes"`
	RequestedBytes int64    `json:"requested_bytes"`
	At             int64    `json:"at"`
	Fragmentation  *float64 `json:"fragmentation"` // as the allocator reports it
}

type oom struct {
	At              int64  `json:"at"`
	RequestedBytes  int64  `json:"requested_bytes"`
	DeviceFreeBytes *int64 `json:"device_free_bytes"`
}

func info(c *cli.Context) error {
	want, err := choiceOf(c)
	if err != nil {
		return err
	}
	several, err := ranksOf(c)
	if err != nil {
		return err
	}
	out := infoJSON{Schema: schema}
	text := &held{of: c.App.Writer}
	// The report lists lesser losses than damage.
	err = forEach(c, loss.Damage, formats.Input{}, want.choose, func(capture *lifetime.Capture) error {
		info := infoOf(capture)
		several.add(capture, nil)
		if c.Bool("json") {
			out.Captures = append(out.Captures, info)
			return nil
		}
		if text.Len() > 0 {
			fmt.Fprintln(text)
		}
		printInfo(text, info, capture)
		return nil
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		out.Ranks = several.rows()
		return writeJSON(c.App.Writer, out)
	}
	several.print(text)
	_, err = text.WriteTo(c.App.Writer)
	return err
}

func infoOf(capture *lifetime.Capture) captureInfoJSON {
	source := capture.Sources[0]
	info := captureInfoJSON{File: captureName(capture), Format: source.Format, Producer: source.Producer, Losses: []lossJSON{}}
	for _, s := range capture.Spaces {
		info.Spaces = append(info.Spaces, spaceInfo(s))
	}
	for _, l := range capture.Losses {
		info.Losses = append(info.Losses, lossJSON{l.Reason.String(), l.Reason.Class().String(), l.Count, l.Bytes, l.First, l.Reason.Doc()})
	}
	return info
}

func spaceInfo(s *lifetime.Space) spaceInfoJSON {
	sum := s.Summary()
	info := spaceInfoJSON{
		ID: s.ID(), Device: s.Device, Axis: s.Axis.String(), Unit: s.Axis.Unit(), Begin: s.Begin, End: s.End,
		LimitBytes: known(s.Limit), BaseBytes: s.Base, Facts: s.Facts.Names(), Allocations: s.Allocations, Frees: s.Frees, UsageOnly: s.UsageOnly(),
		Live:   liveJSON{sum.Live.Count, sum.Live.Bytes, sum.Live.Requested, sum.Pending.Count, sum.Pending.Bytes},
		Module: s.Module, LifetimePeakBytes: known(s.LifetimePeak),
		Peak: peakInfo{Bytes: sum.Peak.Bytes, RequestedBytes: sum.PeakRequested.Bytes, At: sum.Peak.At},
		OOMs: []oom{},
	}
	if s.UsageOnly() {
		info.Live.Bytes = s.LevelAt(s.AtEnd(), lifetime.Occupied)
		info.Live.RequestedBytes = info.Live.Bytes
	}
	if static(s) {
		padding := paddingAt(s, sum.Peak.At)
		info.PaddingBytes = &padding
		if n, ok := memorySpace(s); ok {
			info.MemorySpace = &n
		}
	}
	if len(s.Stack) > 0 {
		stack := s.StackAt(sum.Peak.At)
		info.StackBytes = &stack
	}
	info.addFragmentation(s)
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

// addFragmentation fills in reserved memory and its holes, or what the allocator
// itself reports of them. The holes between the allocations of a compiled
// program are no fragments: the compiler put everything in its place at once.
func (info *spaceInfoJSON) addFragmentation(s *lifetime.Space) {
	info.Peak.Fragmentation = fragmentationAt(s, info.Peak.At)
	info.Fragmentation = fragmentationAt(s, s.End)
	for _, t := range s.Totals {
		if share := reported(t); share != nil && (info.FragmentationMax == nil || *share > *info.FragmentationMax) {
			info.FragmentationMax = share
		}
	}
	end, peak := s.Reserved()
	if s.Facts&lifetime.Regions != 0 || peak > 0 {
		info.ReservedBytes, info.ReservedPeakBytes = &end, &peak
	}
	if s.Facts&lifetime.Regions == 0 || static(s) {
		return // where the holes are is not known, or planned
	}
	free := s.FreeAt(s.AtEnd())
	info.FreeBytes, info.LargestFreeBytes = &free.Total, &free.Largest
	if share, ok := free.Fragmentation(); ok {
		info.Fragmentation = &share
	}
}

// fragmentationAt returns what the allocator last reported up to t, nil when it
// did not, or had nothing free.
func fragmentationAt(s *lifetime.Space, t int64) *float64 {
	for i := len(s.Totals) - 1; i >= 0; i-- {
		if s.Totals[i].T <= t && s.Totals[i].HasFragmentation {
			return reported(s.Totals[i])
		}
	}
	return nil
}

// reported returns the fragmentation of a total; JSON has no infinite numbers.
func reported(t lifetime.Total) *float64 {
	share := float64(t.Fragmentation)
	if !t.HasFragmentation || math.IsNaN(share) || math.IsInf(share, 0) {
		return nil
	}
	return &share
}

// paddingAt returns what the buffers that are alive at t occupy beyond their
// elements.
func paddingAt(s *lifetime.Space, t int64) int64 {
	padding := int64(0)
	for _, i := range s.LiveAt(t) {
		padding += s.Buffers[i].Size - s.Buffers[i].Requested
	}
	return padding
}
