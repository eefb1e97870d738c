package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

func printInfo(w io.Writer, info captureInfoJSON, capture *lifetime.Capture) {
	fmt.Fprintf(w, "%s: %s, %s\n", printable(info.File), printable(info.Format), printable(info.Producer))
	for i, s := range info.Spaces {
		if !static(capture.Spaces[i]) {
			fmt.Fprintf(w, "\n%s\n", printable(s.ID))
			printSpace(w, s, capture.Spaces[i])
		}
	}
	printPrograms(w, capture)
	for i, l := range capture.Losses {
		if i == 0 {
			fmt.Fprintf(w, "\nworth knowing\n")
		}
		fmt.Fprintf(w, "  %s\n", wrap(lossText(l), "    "))
	}
}

// maxOOMs is how many failed allocations people see: programs that retry have
// many.
const maxOOMs = 5

// rowWriter writes a row of the report on a space.
type rowWriter func(name, format string, args ...any)

func printSpace(w io.Writer, s spaceInfoJSON, space *lifetime.Space) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-10s %s\n", name, wrap(fmt.Sprintf(format, args...), strings.Repeat(" ", 13)))
	}
	length := units.Span(s.End-s.Begin-1, s.Unit)
	switch {
	case s.Allocations+s.Frees > 0:
		row("window", "%s, %s, %s", length, count(s.Allocations, "allocation"), count(s.Frees, "free"))
	case s.UsageOnly:
		row("window", "%s, %s", length, count(len(space.Totals), "total"))
	default:
		row("window", "none: no allocation or free was recorded")
	}
	if n := space.Steps(); n > 0 {
		row("", "%s", count(n, "step"))
	}
	printLevels(row, s, space)
	printReserved(row, s)
	printOOMs(row, s, space)
	row("known", "%s", strings.Join(s.Facts, ", "))
}

// printLevels writes rows on the memory in use.
func printLevels(row rowWriter, s spaceInfoJSON, space *lifetime.Space) {
	row("peak", "%s at %s", units.Exact(s.Peak.Bytes), sinceBegin(space, s.Peak.At))
	if s.UsageOnly {
		row("at end", "%s", units.Exact(s.Live.Bytes))
		row("", "usage only: who held it was not recorded")
		return
	}
	row("", "%s requested", units.Exact(s.Peak.RequestedBytes))
	if s.BaseBytes != 0 {
		row("", "%s of it from before the window", units.Exact(s.BaseBytes))
	}
	if s.StackBytes != nil {
		row("", "%s of it stack, beside the heap", units.Exact(*s.StackBytes))
	}
	if s.LifetimePeakBytes != nil {
		row("", "%s in the heap since the program began; may lie before the window", units.Bytes(*s.LifetimePeakBytes))
	}
	row("at end", "%s in %s", units.Exact(s.Live.Bytes), count(s.Live.Count, "buffer"))
	row("", "%s requested", units.Exact(s.Live.RequestedBytes))
	if s.Live.PendingFreeCount > 0 {
		row("", "%s of it waiting to be freed", units.Exact(s.Live.PendingFreeBytes))
	}
}

// printReserved writes rows on the memory that may be used.
func printReserved(row rowWriter, s spaceInfoJSON) {
	if s.LimitBytes != nil {
		row("limit", "%s", units.Exact(*s.LimitBytes))
	}
	if s.ReservedBytes != nil {
		row("reserved", "%s at the end, %s at most", units.Exact(*s.ReservedBytes), units.Bytes(*s.ReservedPeakBytes))
	}
	if s.FreeBytes != nil {
		row("free in it", "%s, the largest hole %s", units.Exact(*s.FreeBytes), units.Bytes(*s.LargestFreeBytes))
	}
	switch {
	case s.FragmentationMax != nil:
		row("fragmented", "%s at the peak, %s at most, %s at the end",
			shareText(s.Peak.Fragmentation), shareText(s.FragmentationMax), shareText(s.Fragmentation))
	case s.Fragmentation != nil:
		row("fragmented", "%s of the free bytes lie outside the largest hole", percent(*s.Fragmentation))
	}
}

// printOOMs writes rows on the allocations that failed.
func printOOMs(row rowWriter, s spaceInfoJSON, space *lifetime.Space) {
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
}

// shareText writes a fragmentation; nil is that of an allocator in whose reserved
// memory nothing is free.
func shareText(share *float64) string {
	if share == nil {
		return "nothing free"
	}
	return percent(*share)
}

// program is a compiled program in one memory space, at its peak.
type program struct {
	name, space string
	peak        int64
	kinds       kindBytes
	padding     int64
}

// kindBytes are the bytes of a compiled program by what they are.
type kindBytes struct{ inputs, outputs, temporaries, constants int64 }

func kindsOf(rows []lifetime.Row) (k kindBytes) {
	for _, r := range rows {
		switch r.Kind {
		case lifetime.Parameter:
			k.inputs += r.Bytes
		case lifetime.Output:
			k.outputs += r.Bytes
		case lifetime.Constant:
			k.constants += r.Bytes
		default:
			k.temporaries += r.Bytes
		}
	}
	return k
}

const (
	// maxPrograms is how many compiled programs people see, by peak.
	maxPrograms = 15
	maxName     = 44
)

func printPrograms(w io.Writer, capture *lifetime.Capture) {
	var all []program
	for _, s := range capture.Spaces {
		if static(s) {
			all = append(all, programOf(s))
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(x, y program) int { return cmp.Compare(y.peak, x.peak) })
	shown := all[:min(len(all), maxPrograms)]
	for len(shown) > 1 && shown[len(shown)-1].peak == 0 { // memory that the program does not use
		shown = shown[:len(shown)-1]
	}
	width := 0
	for _, p := range shown {
		width = max(width, utf8.RuneCountInString(p.name))
	}
	width = max(width, len("program"))
	row := func(name, space string, figures ...string) {
		fmt.Fprintf(w, "  %s%s %5s", name, strings.Repeat(" ", width-utf8.RuneCountInString(name)), space)
		for _, f := range figures {
			fmt.Fprintf(w, " %8s", f)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\ncompiled programs, each at its peak\n")
	row("program", "space", "peak", "inputs", "outputs", "temps", "consts", "padding")
	for _, p := range shown {
		row(p.name, p.space, sizeText(p.peak), sizeText(p.kinds.inputs), sizeText(p.kinds.outputs), sizeText(p.kinds.temporaries),
			sizeText(p.kinds.constants), sizeText(p.padding))
	}
	if n := len(all) - len(shown); n > 0 {
		fmt.Fprintf(w, "  and %d more (--json has them all)\n", n)
	}
}

func programOf(s *lifetime.Space) program {
	peak := s.Peak(lifetime.Occupied)
	name := strings.TrimSuffix(strings.TrimSuffix(s.ID(), s.Memory), "/")
	space, _ := strings.CutPrefix(s.Memory, memorySpacePrefix)
	return program{
		name: cutMiddle(printable(name), maxName), space: printable(space), peak: peak.Bytes,
		kinds: kindsOf(s.Breakdown(peak.At)), padding: paddingAt(s, peak.At),
	}
}

// sizeText writes a size for a table; nothing is a dash.
func sizeText(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return units.Bytes(bytes)
}
