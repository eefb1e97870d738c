package report

import (
	"fmt"
	"io"
	"iter"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/pprof"
	"github.com/memlane/memlane/render/tables"
	"github.com/memlane/memlane/render/tables/parquet"
)

// shard is how many captures share a row group, in the order of their names: a query for
// one capture reads little more than its rows.
const shard = 256

var (
	writeRanks    = table(rankRows, func(r *rankRow) string { return r.Capture })
	writeSites    = table(siteRows, func(r *siteRow) string { return r.Capture })
	writeFindings = table(findingRows, func(r *findingRow) string { return r.Capture })
)

// table returns a function that writes rows as a Parquet file. Equal fleets give the same bytes.
func table[R any](rows func(*fleet.Fleet) iter.Seq[R], captureOf func(*R) string) func(io.Writer, *Data) error {
	return func(w io.Writer, d *Data) error { return parquet.WriteGroups(w, inShards(rows(d.Fleet), captureOf)) }
}

// rankRow is one memory of a capture, or a capture without memories, for example one that could not be read.
type rankRow struct {
	Capture   string `parquet:"capture"`
	Content   string `parquet:"content"` // SHA-256 in hexadecimal
	State     string `parquet:"state,dict"`
	Reason    string `parquet:"reason,dict"`
	Format    string `parquet:"format,dict"`
	Producer  string `parquet:"producer,dict"`
	Losses    int64  `parquet:"losses"`
	LostBytes int64  `parquet:"lost_bytes"`
	fleet.Memory
	Fragmentation *float64 `parquet:"fragmentation,optional"`
	Usage         []int64  `parquet:"usage,list"` // peaks of equal parts of the window
}

// ofMemory identifies the memory and the capture of a row.
type ofMemory struct {
	Capture string `parquet:"capture,dict"`
	Rank    string `parquet:"rank,dict"`
	Device  string `parquet:"device,dict"`
	Memory  string `parquet:"memory,dict"`
}

func memoryOf(r *fleet.Record, n int) ofMemory {
	m := &r.Memories[n]
	return ofMemory{tables.Clean(r.Name), tables.Clean(m.Rank), tables.Clean(m.Device), tables.Clean(m.Memory)}
}

// siteRow contains the totals of a site in a memory. The columns function, file and line
// are as in the sites of a capture.
type siteRow struct {
	ofMemory
	tables.SiteText
	AllocatedCount int64 `parquet:"allocated_count"`
	AllocatedBytes int64 `parquet:"allocated_bytes"`
	PeakCount      int64 `parquet:"peak_count"`
	PeakBytes      int64 `parquet:"peak_bytes"`
	LiveCount      int64 `parquet:"live_count"`
	LiveBytes      int64 `parquet:"live_bytes"`
	LeakedCount    int64 `parquet:"leaked_count"`
	LeakedBytes    int64 `parquet:"leaked_bytes"`
}

type findingRow struct {
	ofMemory
	Rule         string  `parquet:"rule,dict"`
	Severity     string  `parquet:"severity,dict"`
	Place        string  `parquet:"place,dict"`
	Count        int64   `parquet:"buffers"`
	Bytes        int64   `parquet:"bytes"`
	BytesPerStep float64 `parquet:"bytes_per_step"`
	HeldBy       string  `parquet:"held_by,dict"`
	Description  string  `parquet:"description,dict"`
}

// inShards divides rows, which are in the order of their captures, into groups of shard captures.
func inShards[R any](rows iter.Seq[R], captureOf func(*R) string) iter.Seq[iter.Seq[R]] {
	return func(yield func(iter.Seq[R]) bool) {
		next, stop := iter.Pull(rows)
		defer stop()
		row, more := next()
		for more {
			group := func(yield func(R) bool) {
				captures, last := 0, ""
				for ; more; row, more = next() {
					if name := captureOf(&row); captures == 0 || name != last {
						if captures++; captures > shard {
							return
						}
						last = name
					}
					if !yield(row) {
						return
					}
				}
			}
			if !yield(group) {
				return
			}
		}
	}
}

func rankRows(f *fleet.Fleet) iter.Seq[rankRow] {
	return func(yield func(rankRow) bool) {
		for r := range f.Records() {
			base := rankRow{Capture: tables.Clean(r.Name), Content: r.Content, State: r.State.String(),
				Reason: tables.Clean(r.Reason), Format: tables.Clean(r.Format), Producer: tables.Clean(r.Producer)}
			for _, l := range r.Losses {
				base.Losses = units.AddSat(base.Losses, l.Count)
				base.LostBytes = units.AddSat(base.LostBytes, l.Bytes)
			}
			if len(r.Memories) == 0 && !yield(base) {
				return
			}
			for i := range r.Memories {
				m, row := &r.Memories[i], base
				row.Memory, row.Usage = *m, m.Usage
				for _, text := range []*string{&row.Rank, &row.Host, &row.Process, &row.Device, &row.Memory.Memory, &row.Allocator} {
					*text = tables.Clean(*text)
				}
				if m.Fragmentation >= 0 {
					row.Fragmentation = &m.Fragmentation
				}
				if !yield(row) {
					return
				}
			}
		}
	}
}

func siteRows(f *fleet.Fleet) iter.Seq[siteRow] {
	return func(yield func(siteRow) bool) {
		texts := map[int]tables.SiteText{} // of millions of rows
		var of ofMemory
		var record *fleet.Record
		memory := 0
		for row := range f.SiteRows() {
			text, ok := texts[row.Number]
			if !ok {
				text = tables.TextOf(row.Site.Tables(), 1)
				texts[row.Number] = text
			}
			if row.Record != record || row.Memory != memory {
				record, memory = row.Record, row.Memory
				of = memoryOf(record, memory)
			}
			if !yield(siteRow{
				of, text,
				row.Allocated.Count, row.Allocated.Bytes, row.AtPeak.Count, row.AtPeak.Bytes,
				row.AtEnd.Count, row.AtEnd.Bytes, row.Leaked.Count, row.Leaked.Bytes,
			}) {
				return
			}
		}
	}
}

func findingRows(f *fleet.Fleet) iter.Seq[findingRow] {
	return func(yield func(findingRow) bool) {
		for r := range f.Records() {
			for i := range r.Findings {
				found := &r.Findings[i]
				if !yield(findingRow{
					memoryOf(r, found.Memory), tables.Clean(found.Rule), tables.Clean(found.Severity), tables.Clean(found.Place),
					found.Amount.Count, found.Amount.Bytes, found.BytesPerStep, tables.Clean(found.HeldBy),
					tables.Clean(found.Description),
				}) {
					return
				}
			}
		}
	}
}

// writeProfile writes the call sites of a fleet as a heap profile, with a sample for each that
// sums all memories. In-use figures are those at the peak of each memory.
func writeProfile(w io.Writer, d *Data) error {
	memories := int64(0)
	var base, stack int64
	for r := range d.Fleet.Records() {
		for i := range r.Memories {
			memories++
			base = units.AddSat(base, r.Memories[i].Base)
			stack = units.AddSat(stack, r.Memories[i].Stack)
		}
	}
	var sums []pprof.Sum
	if base != 0 {
		sums = append(sums, pprof.Sum{Frames: pprof.BeforeWindow, InUse: lifetime.Amount{Bytes: base}})
	}
	if stack != 0 {
		sums = append(sums, pprof.Sum{Frames: pprof.OutsideHeap, InUse: lifetime.Amount{Bytes: stack}})
	}
	for i := range d.Sites {
		s := &d.Sites[i]
		frames, _ := s.Site.Tables().Shown(1)
		sums = append(sums, pprof.Sum{Frames: frames, Allocated: s.Allocated, InUse: s.AtPeak, Leaked: s.Leaked.Bytes, Memories: s.Memories,
			Site: lifetime.Site{Op: s.Site.Op, Region: s.Site.Region, Shape: s.Site.Shape, DType: s.Site.DType}})
	}
	inUse := int64(0)
	for i := range sums {
		inUse = units.AddSat(inUse, sums[i].InUse.Bytes)
	}
	return pprof.WriteSums(w, sums, []string{
		fmt.Sprintf("fleet: %s of %s captures read, %s memory IDs", units.Count(int64(len(d.Read))), units.Count(int64(d.Fleet.Len())), units.Count(memories)),
		fmt.Sprintf("in use: %s, each memory at its own peak", units.Exact(inUse)),
	})
}
