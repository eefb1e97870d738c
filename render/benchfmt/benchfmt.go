// Package benchfmt writes the numbers of captures in the format of Go's benchmarks, so that benchstat compares
// them: one line per space, with one unit per number.
//
// Its place in the pipeline: the last step. The lines "Unit ... assume=exact" declare that the numbers are not
// random samples, so that benchstat accepts one capture on each side. There are no configuration lines, because
// benchstat does not compare results whose configuration differs.
//
// The units are those of info: peak-bytes and peak-requested-bytes, each the maximum of its series; end-bytes and
// end-requested-bytes, the levels at the end; reserved-bytes, the maximum reserved from the device; allocs and frees of
// the window; live-buffers at the end; frag-ratio at the end. Numbers that the capture does not have are omitted.
package benchfmt

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
)

// units lists all units. For benchstat, less is better in all but one.
var units = []string{
	"peak-bytes", "peak-requested-bytes", "end-bytes", "end-requested-bytes", "reserved-bytes", "allocs", "frees",
	"live-buffers", "frag-ratio",
}

// Write writes a line for each space of c.
func Write(w io.Writer, c *lifetime.Capture) error {
	out := bufio.NewWriter(w)
	for _, unit := range units {
		better := " better=lower"
		if unit == "frees" { // neither better nor worse
			better = ""
		}
		fmt.Fprintf(out, "Unit %s%s assume=exact\n", unit, better)
	}
	for _, s := range c.Spaces {
		// bufio keeps the first error until Flush.
		fmt.Fprintf(out, "BenchmarkMemory/%s 1", name(s.ID()))
		for _, f := range figures(s) {
			fmt.Fprintf(out, " %s %s", f.value, f.unit)
		}
		out.WriteByte('\n')
	}
	return out.Flush()
}

type figure struct{ value, unit string }

func figures(s *lifetime.Space) []figure {
	var all []figure
	add := func(unit string, n int64) { all = append(all, figure{strconv.FormatInt(n, 10), unit}) }
	sum := s.Summary()
	add("peak-bytes", sum.Peak.Bytes)
	if !s.UsageOnly() {
		add("peak-requested-bytes", sum.PeakRequested.Bytes)
	}
	add("end-bytes", s.LevelAt(s.End, lifetime.Occupied))
	if !s.UsageOnly() {
		add("end-requested-bytes", s.LevelAt(s.End, lifetime.Requested))
	}
	if _, reserved := region.Reserved(s); reserved > 0 {
		add("reserved-bytes", reserved)
	}
	if s.Facts&lifetime.History != 0 {
		add("allocs", int64(s.Allocations))
		add("frees", int64(s.Frees))
	}
	if !s.UsageOnly() {
		add("live-buffers", sum.Live.Count)
	}
	if s.Facts&lifetime.Regions != 0 && s.Axis != lifetime.ProgramOrder { // a compiled program has no fragmentation
		if share, ok := region.FreeAt(s, s.End).Fragmentation(); ok {
			all = append(all, figure{strconv.FormatFloat(share, 'g', 6, 64), "frag-ratio"})
		}
	}
	return all
}

// name returns the ID of a space as part of a benchmark name, which ends at a blank.
func name(id string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, id)
}
