package tables

import (
	"io"
	"iter"
	"slices"
	"strings"
	"unicode"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/region"
)

// The names of the tables.
const (
	Buffers = "buffers"
	Sites   = "sites"
	Stacks  = "stacks"
	Usage   = "usage"
)

// WriteParquet writes a table of a capture as a Parquet file. It fails if there is no such table. It is nil unless
// package render/tables/parquet is part of the program.
var WriteParquet func(w io.Writer, c *lifetime.Capture, table string) error

// Names returns the names of the tables, the default first.
func Names() []string { return []string{Buffers, Sites, Stacks, Usage} }

// The rows of the tables. Their tags are the column names; none is a word of SQL that needs quotes.

// BufferRow is a row of [Buffers].
type BufferRow struct {
	Space       string `parquet:"space,dict"`
	Unit        string `parquet:"unit,dict"` // of times: ns, event or instruction
	Begin       int64  `parquet:"begin_at"`
	End         int64  `parquet:"end_at"`
	Live        bool   `parquet:"live"`
	BeginUnseen bool   `parquet:"begin_unseen"`
	Addr        uint64 `parquet:"addr"`
	Size        int64  `parquet:"size"`
	Requested   int64  `parquet:"requested"`
	Kind        string `parquet:"kind,dict"`
	Edges       string `parquet:"edges,dict"`
	Site        uint32 `parquet:"site"`
	place
	Note string `parquet:"note,dict"`

	Name   string `parquet:"name,dict"`    // in the program, of those alive at the end
	HeldBy string `parquet:"held_by,dict"` // what keeps it alive
	Holder string `parquet:"holder,dict"`  // its kind: variable, graph, cycle or unreached

	Category   string  `parquet:"category,dict"`
	Phase      string  `parquet:"phase,dict"`
	How        string  `parquet:"category_how,dict"`
	Confidence float32 `parquet:"category_confidence"`
}

// place identifies the call site of an allocation.
type place struct {
	Stack uint32 `parquet:"stack"`
	SiteText
	Module string `parquet:"module,dict"`
	Instr  string `parquet:"instr,dict"`
	Opcode string `parquet:"opcode,dict"`
}

// SiteText is the part of a place that is equal on all ranks.
type SiteText struct {
	Function string `parquet:"function,dict"`
	File     string `parquet:"file,dict"`
	Line     int64  `parquet:"line"`
	Op       string `parquet:"op,dict"`
	Shape    string `parquet:"shape,dict"`
	DType    string `parquet:"dtype,dict"`
	Region   string `parquet:"region,dict"`
}

// SiteRow is a row of [Sites].
type SiteRow struct {
	Space string `parquet:"space,dict"`
	Site  uint32 `parquet:"site"`
	place
	AllocatedCount     int64 `parquet:"allocated_count"`
	AllocatedBytes     int64 `parquet:"allocated_bytes"`
	AllocatedRequested int64 `parquet:"allocated_requested"`
	FreedCount         int64 `parquet:"freed_count"`
	FreedBytes         int64 `parquet:"freed_bytes"`
	FreedRequested     int64 `parquet:"freed_requested"`
	PeakCount          int64 `parquet:"peak_count"`
	PeakBytes          int64 `parquet:"peak_bytes"`
	PeakRequested      int64 `parquet:"peak_requested"`
	LiveCount          int64 `parquet:"live_count"`
	LiveBytes          int64 `parquet:"live_bytes"`
	LiveRequested      int64 `parquet:"live_requested"`
}

// StackRow is a row of [Stacks].
type StackRow struct {
	Stack    uint32 `parquet:"stack"`
	Depth    int64  `parquet:"depth"`
	Function string `parquet:"function,dict"`
	File     string `parquet:"file,dict"`
	Line     int64  `parquet:"line"`
	Column   int64  `parquet:"col"`
	Kind     string `parquet:"kind,dict"`
}

// UsageRow is a row of [Usage].
type UsageRow struct {
	Space   string `parquet:"space,dict"`
	Unit    string `parquet:"unit,dict"`
	Measure string `parquet:"measure,dict"`
	T       int64  `parquet:"t"`
	Bytes   int64  `parquet:"bytes"`
}

// BufferRows yields the rows of [Buffers].
func BufferRows(c *lifetime.Capture) iter.Seq[BufferRow] {
	return func(yield func(BufferRow) bool) {
		places := map[lifetime.SiteID]place{}
		edges := map[lifetime.Edge]string{0: ""}
		for _, s := range c.Spaces {
			id := Clean(s.ID())
			for i := range s.Buffers {
				b := &s.Buffers[i]
				known, ok := places[b.Site]
				if !ok {
					known = placeOf(c, b.Site)
					places[b.Site] = known
				}
				sides, ok := edges[b.Edge]
				if !ok {
					sides = b.Edge.String()
					edges[b.Edge] = sides
				}
				row := BufferRow{
					Space: id, Unit: s.Axis.Unit(), Begin: b.Begin, End: b.End,
					Live: b.Edge&lifetime.EndOpen != 0, BeginUnseen: b.Edge&lifetime.BeginUnseen != 0,
					Addr: b.Addr, Size: b.Size, Requested: b.Requested, Kind: b.Kind.String(), Edges: sides,
					Site: uint32(b.Site), place: known,
				}
				row.judged(c, s, i)
				if s.BufNotes != nil {
					row.Note = Clean(c.Notes[s.BufNotes[i]])
				}
				if h := c.HolderOf(s, i); h != nil {
					row.Name, row.HeldBy, row.Holder = Clean(h.Label()), Clean(h.By()), h.Kind.String()
				}
				if !yield(row) {
					return
				}
			}
		}
	}
}

// judged sets what a buffer is for.
func (r *BufferRow) judged(c *lifetime.Capture, s *lifetime.Space, buffer int) {
	b, id := &s.Buffers[buffer], s.PurposeOf(buffer)
	p := c.Purpose(id)
	r.Category = Clean(c.Category(&s.SpaceInfo, b.Kind, b.Site, id))
	if id == 0 {
		return
	}
	if p.IsOfSum() {
		r.Category = p.Alone()
	}
	r.Phase, r.How, r.Confidence = p.Phase.String(), p.Evidence.String(), p.Confidence
	if r.Module == "" {
		r.Module = Clean(p.Module)
	}
}

func placeOf(c *lifetime.Capture, id lifetime.SiteID) place {
	s := &c.Sites[id]
	return place{uint32(s.Stack), TextOf(&c.Tables, id), Clean(s.Module), Clean(s.Instr), Clean(s.Opcode)}
}

// TextOf returns the text of a site. Its function is the name of its place without file and line, else the operation.
func TextOf(t *lifetime.Tables, id lifetime.SiteID) SiteText {
	s := &t.Sites[id]
	f, _ := t.FrameOf(id)
	return SiteText{Clean(t.FunctionName(id)), Clean(f.File), int64(f.Line), Clean(s.Op), Clean(s.Shape),
		Clean(s.DType), Clean(s.Region)}
}

// SiteRows yields the rows of [Sites].
func SiteRows(c *lifetime.Capture) iter.Seq[SiteRow] {
	return func(yield func(SiteRow) bool) {
		for _, s := range c.Spaces {
			id := Clean(s.ID())
			for _, sum := range s.Summary().Sites {
				if !yield(SiteRow{
					id, uint32(sum.Site), placeOf(c, sum.Site),
					sum.Allocated.Count, sum.Allocated.Bytes, sum.Allocated.Requested,
					sum.Freed.Count, sum.Freed.Bytes, sum.Freed.Requested,
					sum.AtPeak.Count, sum.AtPeak.Bytes, sum.AtPeak.Requested,
					sum.AtEnd.Count, sum.AtEnd.Bytes, sum.AtEnd.Requested,
				}) {
					return
				}
			}
		}
	}
}

// usedStacks returns the stacks that sites refer to, in order. Their callers may be missing from the list.
func usedStacks(c *lifetime.Capture) []lifetime.StackID {
	var used []lifetime.StackID
	for i := range c.Sites {
		for _, id := range []lifetime.StackID{c.Sites[i].Stack, c.Sites[i].Source} {
			if id != 0 {
				used = append(used, id)
			}
		}
	}
	slices.Sort(used)
	return slices.Compact(used)
}

// StackRows yields the rows of [Stacks].
func StackRows(c *lifetime.Capture) iter.Seq[StackRow] {
	return func(yield func(StackRow) bool) {
		for _, id := range usedStacks(c) {
			calls, cut := c.Innermost(nil, id)
			if cut {
				calls = append(calls, 0)
			}
			for depth, number := range calls {
				f := c.Frames[number]
				if number == 0 {
					f.Function = frame.OuterCalls
				}
				if !yield(StackRow{
					uint32(id), int64(depth), Clean(f.Function), Clean(f.File), int64(f.Line), int64(f.Column), f.Kind.String(),
				}) {
					return
				}
			}
		}
	}
}

// Clean replaces invalid UTF-8 and unprintable characters by U+FFFD, so that any reader of tables accepts the text.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\u00a0' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}

// UsageRows yields the rows of [Usage].
func UsageRows(c *lifetime.Capture) iter.Seq[UsageRow] {
	return func(yield func(UsageRow) bool) {
		for _, s := range c.Spaces {
			row := UsageRow{Space: Clean(s.ID()), Unit: s.Axis.Unit()}
			for _, series := range seriesOf(s) {
				row.Measure = series.measure.String()
				for level := range region.LastOfEach(series.levels) {
					row.T, row.Bytes = level.At, level.Bytes
					if !yield(row) {
						return
					}
				}
			}
		}
	}
}

// series holds the levels of a space in one measure, in bytes.
type series struct {
	measure lifetime.Measure
	levels  iter.Seq[lifetime.Level]
}

func seriesOf(s *lifetime.Space) []series {
	all := []series{{lifetime.Occupied, s.Levels(lifetime.Occupied)}}
	if !s.UsageOnly() {
		all = append(all, series{lifetime.Requested, s.Levels(lifetime.Requested)})
	}
	return append(all, series{lifetime.Reserved, slices.Values(region.Levels(s))})
}
