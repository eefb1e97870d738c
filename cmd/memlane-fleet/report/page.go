package report

import (
	"cmp"
	_ "embed" // the page
	"io"
	"net/url"
	"slices"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/render/web"
)

//go:embed assets/fleet.js
var script string

//go:embed assets/fleet.css
var style string

// writePage writes a fleet as one self-contained HTML file: a heat map of its ranks over
// time, the ranks that differ, the findings, and the captures that were not read.
func writePage(w io.Writer, d *Data) error {
	doc, usage := documentOf(d)
	bundle := web.Bundle{Script: script, Style: style, Instead: "Read report.txt in the same folder instead."}
	return writeBundle(w, &bundle, d.Headline(), "fleet", doc, usage)
}

// writeBundle writes a page with a document and its columns.
func writeBundle(w io.Writer, bundle *web.Bundle, title, id string, doc any, usage *web.Columns) error {
	data, err := web.Encode(doc)
	if err != nil {
		return err
	}
	return bundle.Write(w, title, []web.Part{{ID: id, Data: data}, {ID: "usage", Data: usage.Bytes}})
}

// document is the data for fleet.js. Frequent records are lists of numbers and texts.
type document struct {
	Headline string       `json:"headline"`
	Figures  [][2]any     `json:"figures"`  // name, count
	Captures [][2]string  `json:"captures"` // that were read: name, address of its page
	Rows     [][]any      `json:"rows"`     // rank, device, capture, kind, peak, end, growth, leaked
	Kinds    []kindOfPage `json:"kinds"`
	Outliers []object     `json:"outliers"`
	Findings []object     `json:"findings"` // the rows of each as differences
	Minor    int          `json:"minor"`    // findings of Info severity
	Troubles [][3]string  `json:"troubles"` // state, capture, reason
	Absent   []string     `json:"absent"`
	Losses   []string     `json:"losses"`
}

type kindOfPage struct {
	Name  string   `json:"name"`
	Peaks [4]int64 `json:"peaks"` // least, median, 90 %, most
	Unit  int64    `json:"unit"`  // bytes per step of the usage column, and of that of categories

	Categories []string `json:"categories"` // at the peaks, those of most bytes first
	Places     [][]any  `json:"places"`     // place, bytes, share, memories, least, median, 90 %, most
	More       int      `json:"more"`       // places left out
}

const (
	heatParts  = 64      // of the window of each row
	heatLevels = 1 << 14 // levels of a row, up to the highest peak of its kind
	maxPlaces  = 200     // of a kind
	maxColumns = 16      // categories of a kind
	maxShared  = 500     // findings and outliers in the page
)

type memoryOfRecord struct {
	record *fleet.Record
	memory int
}

type heatRow struct {
	memoryOfRecord
	capture  int // index into document.Captures
	kind     int
	standing int // index among the outliers, which come first
}

// documentOf returns the document of a fleet, and the usage columns of its rows: the outliers
// first, then the others by rank.
func documentOf(d *Data) (doc document, usage *web.Columns) {
	doc = document{
		Headline: d.Headline(), Captures: [][2]string{}, Rows: [][]any{}, Kinds: []kindOfPage{},
		Outliers: []object{}, Findings: []object{}, Troubles: [][3]string{},
		Absent: append([]string{}, d.Absent...), Losses: []string{},
		Figures: [][2]any{{"captures", d.Fleet.Len()}, {"read", len(d.Read)}, {"damaged", len(d.Damaged)},
			{"refused", len(d.Refused)}, {"missing", len(d.Missing)}, {"ranks", len(d.Ranks)}},
	}
	rows := heatRows(d, &doc)
	at := map[memoryOfRecord]int{} // the row of each memory
	for i, r := range rows {
		m := &r.record.Memories[r.memory]
		at[r.memoryOfRecord] = i
		doc.Rows = append(doc.Rows, []any{r.record.RankOf(r.memory), m.Space().ID(),
			r.capture, r.kind, m.Peak, m.AtEnd, m.Growth, m.Leaked})
	}
	for i := range d.Outliers[:min(maxShared, len(d.Outliers))] {
		o := &d.Outliers[i]
		doc.Outliers = append(doc.Outliers, object{"severity", o.Severity.String(), "text", o.Description,
			"row", at[memoryOfRecord{o.Record, o.Memory}]})
	}
	doc.addFindings(d, at)
	for _, some := range [][]*fleet.Record{d.Refused, d.Missing, d.Damaged} {
		for _, r := range some {
			state := r.State.String()
			if r.State == fleet.Read {
				state = "damaged"
			}
			doc.Troubles = append(doc.Troubles, [3]string{state, r.Name, Trouble(r)})
		}
	}
	for i := range d.Losses {
		doc.Losses = append(doc.Losses, d.Losses[i].String())
	}
	return doc, usageColumns(rows, doc.Kinds)
}

// heatRows returns the rows in order, and adds captures and kinds to doc.
func heatRows(d *Data, doc *document) (rows []heatRow) {
	kinds := map[string]int{}
	for i := range d.Kinds {
		k := &d.Kinds[i]
		kinds[k.Name] = i
		out := kindOfPage{Name: k.Name, Peaks: [4]int64{k.Peaks.Least, k.Peaks.Median, k.Peaks.Ninetieth, k.Peaks.Most},
			Unit: max(1, k.Peaks.Most/heatLevels+1), Places: [][]any{}}
		made, more := MakeUp(k, maxPlaces)
		out.More = more
		for _, p := range made {
			out.Places = append(out.Places, []any{p.Place, p.Bytes, p.Share, p.Memories,
				p.AtPeaks.Least, p.AtPeaks.Median, p.AtPeaks.Ninetieth, p.AtPeaks.Most})
		}
		out.Categories = categoriesOf(d, k.Name)
		doc.Kinds = append(doc.Kinds, out)
	}
	standing := map[memoryOfRecord]int{}
	for i := range d.Outliers {
		standing[memoryOfRecord{d.Outliers[i].Record, d.Outliers[i].Memory}] = i
	}
	for _, r := range d.Read {
		doc.Captures = append(doc.Captures, [2]string{r.Name, pageOf(d, r.Name)})
		for i := range r.Memories {
			m := memoryOfRecord{r, i}
			place, ok := standing[m]
			if !ok {
				place = len(d.Outliers)
			}
			rows = append(rows, heatRow{m, len(doc.Captures) - 1, kinds[finding.KindOf(r.Memories[i].Space())], place})
		}
	}
	slices.SortStableFunc(rows, func(a, b heatRow) int {
		return cmp.Or(cmp.Compare(a.standing, b.standing), fleet.CompareRanks(a.record.RankOf(a.memory), b.record.RankOf(b.memory)))
	})
	return rows
}

// categoriesOf returns the categories of a kind of memory that hold the most bytes at the peaks.
func categoriesOf(d *Data, kind string) []string {
	sums := map[string]int64{}
	for _, r := range d.Read {
		for i := range r.Memories {
			if m := &r.Memories[i]; finding.KindOf(m.Space()) == kind {
				for _, c := range m.Categories {
					sums[c.Name] = units.AddSat(sums[c.Name], c.Bytes)
				}
			}
		}
	}
	names := fleet.ByCount(sums)
	return append([]string{}, names[:min(maxColumns, len(names))]...)
}

// pageOf returns the address of the page of a capture, "" if it could lead to another host or run a script.
func pageOf(d *Data, capture string) string {
	address := d.Pages(capture)
	if u, err := url.Parse(address); err != nil || u.Scheme != "" || u.Host != "" {
		return ""
	}
	return address
}

// addFindings adds the findings above Info severity. at has the rows of records.
func (doc *document) addFindings(d *Data, at map[memoryOfRecord]int) {
	grave := d.Grave()
	doc.Minor = len(d.Findings) - len(grave)
	for i := range grave[:min(maxShared, len(grave))] {
		f := &grave[i]
		var rows []int
		for _, w := range f.Found {
			rows = append(rows, at[memoryOfRecord{w.Record, w.Memory}])
		}
		doc.Findings = append(doc.Findings, object{"severity", f.Severity, "text", d.Sentence(f), "rows", differences(rows)})
	}
}

// differences sorts rows and returns each as the difference from the one before.
func differences(rows []int) []int {
	slices.Sort(rows)
	rows = slices.Compact(rows)
	for i := len(rows) - 1; i > 0; i-- {
		rows[i] -= rows[i-1]
	}
	return rows
}

// usageColumns returns the usage and the categories of each row in units of its kind, plus 1; 0 means unknown.
func usageColumns(rows []heatRow, kinds []kindOfPage) *web.Columns {
	c := &web.Columns{}
	for _, r := range rows {
		usage, unit := r.record.Memories[r.memory].Usage, kinds[r.kind].Unit
		c.AddSteps(heatParts, func(i int) int64 {
			if len(usage) == 0 {
				return 0
			}
			return 1 + max(0, usage[i*len(usage)/heatParts])/unit
		})
		of := map[string]int64{}
		for _, each := range r.record.Memories[r.memory].Categories {
			of[each.Name] = each.Bytes
		}
		names := kinds[r.kind].Categories
		c.AddSteps(len(names), func(i int) int64 {
			if len(of) == 0 {
				return 0
			}
			return 1 + max(0, of[names[i]])/unit
		})
	}
	return c
}
