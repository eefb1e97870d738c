package report

import (
	"io"
	"iter"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/tables"
)

// shard is how many captures, in the order of their names, share a row group of the
// tables of a fleet: those who look for one capture read little more than its rows.
const shard = 256

// The tables are Parquet files. Equal fleets give the same bytes.

func writeRanks(w io.Writer, d *Data) error {
	return tables.WriteGroups(w, inShards(rankRows(d.Fleet), func(r *rankRow) string { return r.Capture }))
}

func writeSites(w io.Writer, d *Data) error {
	return tables.WriteGroups(w, inShards(siteRows(d.Fleet), func(r *siteRow) string { return r.Capture }))
}

func writeFindings(w io.Writer, d *Data) error {
	return tables.WriteGroups(w, inShards(findingRows(d.Fleet), func(r *findingRow) string { return r.Capture }))
}

// rankRow is one memory of a capture, or a capture without any: one that could not be
// read among them.
type rankRow struct {
	Capture       string   `parquet:"capture"`
	Content       string   `parquet:"content"` // SHA-256 in hexadecimal
	State         string   `parquet:"state,dict"`
	Reason        string   `parquet:"reason,dict"`
	Format        string   `parquet:"format,dict"`
	Producer      string   `parquet:"producer,dict"`
	Losses        int64    `parquet:"losses"`
	LostBytes     int64    `parquet:"lost_bytes"`
	Rank          string   `parquet:"rank,dict"`
	Host          string   `parquet:"host,dict"`
	Process       string   `parquet:"process,dict"`
	Device        string   `parquet:"device,dict"`
	Memory        string   `parquet:"memory,dict"`
	Allocator     string   `parquet:"allocator,dict"`
	Begin         int64    `parquet:"begin_at"`
	End           int64    `parquet:"end_at"`
	Allocations   int64    `parquet:"allocations"`
	Frees         int64    `parquet:"frees"`
	Base          int64    `parquet:"base_bytes"`
	Peak          int64    `parquet:"peak_bytes"`
	PeakRequested int64    `parquet:"peak_requested"`
	Live          int64    `parquet:"live_bytes"`
	Growth        int64    `parquet:"growth_bytes"`
	Leaked        int64    `parquet:"leaked_bytes"`
	Reserved      int64    `parquet:"reserved_bytes"`
	ReservedPeak  int64    `parquet:"reserved_peak"`
	Free          int64    `parquet:"free_bytes"`
	LargestFree   int64    `parquet:"largest_free"`
	Fragmentation *float64 `parquet:"fragmentation,optional"`
	Usage         []int64  `parquet:"usage,list"` // the most that was occupied in each of equal parts of the window
}

// ofMemory says which memory of which capture a row is of.
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

// siteRow is what a site did in a memory. function, file
// and line are as in the sites of a capture.
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
	Description  string  `parquet:"description,dict"`
}

// inShards puts rows, which are in the order of their captures, into groups of shard
// captures.
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
			of := rankRow{Capture: tables.Clean(r.Name), Content: r.Content, State: r.State.String(), Reason: tables.Clean(r.Reason), Format: tables.Clean(r.Format), Producer: tables.Clean(r.Producer)}
			for _, l := range r.Losses {
				of.Losses = lifetime.AddSat(of.Losses, l.Count)
				of.LostBytes = lifetime.AddSat(of.LostBytes, l.Bytes)
			}
			if len(r.Memories) == 0 && !yield(of) {
				return
			}
			for i := range r.Memories {
				m, row := &r.Memories[i], of
				row.Rank, row.Host, row.Process, row.Device, row.Memory, row.Allocator = tables.Clean(m.Rank), tables.Clean(m.Host), tables.Clean(m.Process), tables.Clean(m.Device), tables.Clean(m.Memory), tables.Clean(m.Allocator)
				row.Begin, row.End, row.Allocations, row.Frees, row.Base = m.Begin, m.End, m.Allocations, m.Frees, m.Base
				row.Peak, row.PeakRequested, row.Live, row.Growth, row.Leaked = m.Peak, m.PeakRequested, m.AtEnd, m.Growth, m.Leaked
				row.Reserved, row.ReservedPeak, row.Free, row.LargestFree, row.Usage = m.Reserved, m.ReservedPeak, m.Free, m.LargestFree, m.Usage
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
				f, found := row.Site.Tables().UserFrame(1)
				text = tables.TextOf(f, found, row.Site.Op, row.Site.Shape, row.Site.DType, row.Site.Region)
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
					found.Amount.Count, found.Amount.Bytes, found.BytesPerStep, tables.Clean(found.Description),
				}) {
					return
				}
			}
		}
	}
}
