package report

import (
	_ "embed" // the page
	"io"
	"maps"
	"path"
	"slices"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/render/web"
)

//go:embed assets/trend.js
var trendScript string

// trendDocument is the data for trend.js.
type trendDocument struct {
	Headline string        `json:"headline"`
	Measures []string      `json:"measures"`
	Kinds    []kindOfTrend `json:"kinds"`
	Rows     [][]any       `json:"rows"`    // rank, device, kind, last capture, whether a figure grew
	Changes  []object      `json:"changes"` // the rows of each as differences
	More     int           `json:"more"`    // changes left out
}

type kindOfTrend struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"` // the run, or the runs
	Most    []int64  `json:"most"`    // of each measure
	Units   []int64  `json:"units"`   // bytes per step of its values
	Runs    [][]any  `json:"runs"`    // name, memories, peak, reserved, leaked, per step, category
}

const (
	trendColumns = 64      // of runs: of more, some share a column, which shows the highest
	trendLevels  = 1 << 12 // of a measure, up to its highest value
)

// WriteTrendPage writes runs over time as one self-contained HTML file: a heat map of all ranks by run, their
// changes, and the medians of the runs. Runs are grouped by their labels, as in WriteTrends.
func WriteTrendPage(w io.Writer, groups map[string]*fleet.Trend) error {
	doc := trendDocument{Measures: fleet.TrendMeasures(), Rows: [][]any{}, Changes: []object{}}
	usage := &web.Columns{}
	runs := 0
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		runs += len(groups[name].Runs)
		doc.add(name, groups[name], len(groups) > 1, usage)
	}
	doc.Headline = units.Plural(runs, "run") + " of " + units.Plural(len(doc.Rows), "device")
	bundle := web.Bundle{Script: trendScript, Style: style, Instead: "memlane-fleet trend prints the same changes."}
	return writeBundle(w, &bundle, doc.Headline, "trend", doc, usage)
}

// add adds the runs of a group: those that changed first, then the others by rank.
func (doc *trendDocument) add(name string, t *fleet.Trend, labelled bool, usage *web.Columns) {
	changes := t.Changes()
	type rankOf struct{ kind, rank string }
	changed, grew := map[rankOf]bool{}, map[rankOf]bool{}
	for i := range changes {
		for _, rank := range changes[i].Ranks {
			who := rankOf{changes[i].Kind, rank}
			changed[who], grew[who] = true, grew[who] || changes[i].After > changes[i].Before
		}
	}
	all := t.Series()
	order := func(s *fleet.Series) int {
		if changed[rankOf{s.Kind, s.Rank}] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b *fleet.Series) int { return order(a) - order(b) })
	kinds := map[string]int{}
	for _, s := range all {
		kinds[s.Kind] = 0
	}
	each := (len(t.Runs) + trendColumns - 1) / trendColumns
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		kinds[kind] = len(doc.Kinds)
		out := kindOfTrend{Name: kind, Columns: []string{}, Most: make([]int64, len(doc.Measures)), Runs: [][]any{}}
		if labelled {
			out.Name = labelsText(name) + ": " + kind
		}
		for i := 0; i < len(t.Runs); i += each {
			column := path.Base(t.Runs[i].Name)
			if last := min(i+each, len(t.Runs)) - 1; last > i {
				column += " to " + path.Base(t.Runs[last].Name)
			}
			out.Columns = append(out.Columns, column)
		}
		for _, s := range all {
			if s.Kind == kind {
				for m, values := range s.Values {
					out.Most[m] = max(out.Most[m], int64(slices.Max(values)))
				}
			}
		}
		for _, most := range out.Most {
			out.Units = append(out.Units, most/trendLevels+1)
		}
		for i := range t.Runs {
			if r, ok := t.Runs[i].Kinds[kind]; ok {
				out.Runs = append(out.Runs, []any{t.Runs[i].Name, r.Memories, r.Peak, r.Reserved, r.Leaked, r.PerStep, r.Category})
			}
		}
		doc.Kinds = append(doc.Kinds, out)
	}
	rows := map[rankOf][]int{}
	for _, s := range all {
		who, kind := rankOf{s.Kind, s.Rank}, kinds[s.Kind]
		rows[who] = append(rows[who], len(doc.Rows))
		doc.Rows = append(doc.Rows, []any{s.Rank, s.ID, kind, s.Captures[len(s.Captures)-1], grew[who]})
		for m, values := range s.Values {
			levels := make([]int64, len(doc.Kinds[kind].Columns))
			for k, run := range s.Runs {
				at := &levels[run/each]
				*at = max(*at, 1+int64(values[k])/doc.Kinds[kind].Units[m])
			}
			usage.AddSteps(len(levels), func(i int) int64 { return levels[i] })
		}
	}
	for _, c := range changeTexts(t, changes) {
		if len(doc.Changes) == maxShared {
			doc.More++
			continue
		}
		severity, of := "info", []int{}
		if c.of.After > c.of.Before {
			severity = "warning"
		}
		if labelled {
			c.text = labelsText(name) + ": " + c.text
		}
		for _, rank := range c.of.Ranks {
			of = append(of, rows[rankOf{c.of.Kind, rank}]...)
		}
		doc.Changes = append(doc.Changes, object{"severity", severity, "text", c.text, "capture", c.of.Capture,
			"measure", slices.Index(doc.Measures, c.of.Measure), "rows", differences(of)})
	}
}
