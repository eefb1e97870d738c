package report

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"math"
	"slices"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/render/model"
)

// fleetSchema names the version of the JSON of fleets.
const fleetSchema = "memlane-fleet/1"

// writeJSON writes everything about a fleet, one row per line: the JSON of docs/manual/fleet.md.
func writeJSON(w io.Writer, d *Data) error {
	memories := 0
	for _, r := range d.Read {
		memories += len(r.Memories)
	}
	j := &fleetJSON{w: bufio.NewWriterSize(w, 1<<16)}
	j.text(`{"schema":"` + fleetSchema + `","summary":`)
	j.value(map[string]int{
		"captures": d.Fleet.Len(), "read": len(d.Read), "damaged": len(d.Damaged), "refused": len(d.Refused),
		"missing": len(d.Missing), "ranks": len(d.Ranks), "memories": memories,
	})
	rows(j, "absent_ranks", d.Absent, func(rank *string) any { return rank })
	rows(j, "losses", d.Losses, func(l *Loss) any { return lossSumJSON{lossToJSON(l.Loss), l.Captures} })
	rows(j, "failures", d.Failures, func(f *fleet.FailureGroup) any {
		return failureJSON{f.Reason, f.Ranks, append([]string{}, f.Requesters...), whatIfToJSON(f.WhatIf), FailureText(f)}
	})
	rows(j, "other_code", d.OtherCode, func(c *fleet.OtherCode) any { return codeJSON{c, CodeText(c)} })
	rows(j, "outlier_groups", d.Groups, outlierGroupToJSON)
	rows(j, "outliers", d.Outliers, outlierToJSON)
	rows(j, "findings", d.Findings, func(f *Finding) any { return d.findingToJSON(f) })
	rows(j, "kinds", d.Kinds, func(k *fleet.Kind) any { return k })
	rows(j, "sites", d.Sites, siteSumToJSON)
	rows(j, "captures", slices.Collect(d.Fleet.Records()), func(r **fleet.Record) any { return captureToJSON(*r) })
	j.text("}\n")
	return cmp.Or(j.err, j.w.Flush())
}

// fleetJSON writes a document piece by piece, because it may be larger than memory.
type fleetJSON struct {
	w   *bufio.Writer
	err error
}

func (j *fleetJSON) text(s string) {
	if j.err == nil {
		_, j.err = j.w.WriteString(s)
	}
}

func (j *fleetJSON) value(v any) {
	if j.err != nil {
		return
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if j.err = e.Encode(v); j.err == nil {
		_, j.err = j.w.Write(model.Escape(bytes.TrimSuffix(b.Bytes(), []byte("\n"))))
	}
}

// rows writes a list, one line per element.
func rows[T any](j *fleetJSON, name string, all []T, of func(*T) any) {
	j.text(",\n\"" + name + "\":[")
	for i := range all {
		if i > 0 {
			j.text(",")
		}
		j.text("\n")
		j.value(of(&all[i]))
	}
	j.text("]")
}

type lossJSON struct {
	Reason   string `json:"reason"`
	Severity string `json:"severity"`
	Count    int64  `json:"count"`
	Bytes    int64  `json:"bytes"`
}

type lossSumJSON struct {
	lossJSON
	Captures int `json:"captures"`
}

func lossToJSON(l fleet.Loss) lossJSON {
	return lossJSON{l.Reason, lossSeverity(l.Reason).String(), l.Count, l.Bytes}
}

type outlierJSON struct {
	Capture     string  `json:"capture"`
	Rank        string  `json:"rank"`
	Space       string  `json:"space"`
	Severity    string  `json:"severity"`
	Measure     string  `json:"measure"`
	Value       int64   `json:"value_bytes"`
	Median      int64   `json:"median_bytes"`
	Deviation   int64   `json:"median_deviation_bytes"`
	Ranks       int64   `json:"ranks"`
	Confidence  float64 `json:"confidence"`
	Description string  `json:"description"`
}

func outlierToJSON(f *fleet.Outlier) any {
	return outlierJSON{f.Text(finding.FigFile), f.Text(finding.FigRank), f.Space.ID(), f.Severity.String(),
		f.Measure(), whole(f.Value(finding.FigValue)), whole(f.Value(finding.FigMedian)),
		whole(f.Value(finding.FigMedianDeviation)), whole(f.Value(finding.FigRanks)), f.Confidence, f.Description}
}

type failureJSON struct {
	Reason     string      `json:"reason"`
	Ranks      []string    `json:"ranks"`
	Requesters []string    `json:"requesters"`
	WhatIf     *whatIfJSON `json:"what_if"`
	Text       string      `json:"text"`
}

type whatIfJSON struct {
	*fleet.WhatIf
	Text string `json:"text"`
}

func whatIfToJSON(w *fleet.WhatIf) *whatIfJSON {
	if w == nil {
		return nil
	}
	return &whatIfJSON{w, WhatIfText(w)}
}

type codeJSON struct {
	*fleet.OtherCode
	Text string `json:"text"`
}

type outlierGroupJSON struct {
	Severity string   `json:"severity"`
	Measure  string   `json:"measure"`
	Role     string   `json:"role"`
	Ranks    []string `json:"ranks"`
	Value    int64    `json:"value_bytes"`
	Others   int64    `json:"others_bytes"`
	Leak     *string  `json:"leak"`
	fleet.Excess
	WhatIf *whatIfJSON `json:"what_if"`
	Text   string      `json:"text"`
	Why    string      `json:"why"`
}

func outlierGroupToJSON(g *fleet.OutlierGroup) any {
	out := outlierGroupJSON{
		g.Severity, g.Measure, g.Role, g.Ranks, g.Value, g.Others, nil,
		fleet.Excess{
			Categories: append([]fleet.CategoryExcess{}, g.Categories...), Places: append([]fleet.PlaceExcess{}, g.Places...),
		},
		whatIfToJSON(g.WhatIf), GroupText(g), GroupWhy(g),
	}
	if g.Leak != nil {
		what := g.Leak.Rule + " " + g.Leak.Place
		out.Leak = &what
	}
	return out
}

// whole rounds a figure in bytes.
func whole(v float64) int64 {
	switch {
	case math.IsNaN(v):
		return 0
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v <= math.MinInt64:
		return math.MinInt64
	}
	return int64(math.Round(v))
}

// perStep returns the bytes per step, nil if the steps are unknown.
func perStep(v float64) *int64 {
	if v == 0 {
		return nil
	}
	n := whole(v)
	return &n
}

type amountJSON struct {
	Bytes     int64 `json:"bytes"`
	Requested int64 `json:"requested_bytes"`
	Count     int64 `json:"count"`
}

func amountToJSON(a lifetime.Amount) amountJSON { return amountJSON{a.Bytes, a.Requested, a.Count} }

type groupJSON struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Place    string `json:"place"`
	amountJSON
	BytesPerStep *int64      `json:"bytes_per_step"`
	HeldBy       []string    `json:"held_by"`
	Text         string      `json:"text"`
	Ranks        []string    `json:"ranks"`
	Found        []foundJSON `json:"found"`
}

type foundJSON struct {
	Capture string `json:"capture"`
	Rank    string `json:"rank"`
	Device  string `json:"device"`
	amountJSON
}

func (d *Data) findingToJSON(f *Finding) any {
	out := groupJSON{f.Rule, f.Severity, f.Place, amountToJSON(f.Amount), perStep(f.BytesPerStep),
		append([]string{}, f.HeldBy...), d.Sentence(f), f.Ranks, nil}
	for _, w := range f.Found {
		m := &w.Record.Memories[w.Memory]
		out.Found = append(out.Found, foundJSON{w.Record.Name, m.Rank, m.Device, amountToJSON(w.Amount)})
	}
	return out
}

type siteSumJSON struct {
	Place     string         `json:"place"`
	Op        string         `json:"op"`
	Shape     string         `json:"shape"`
	DType     string         `json:"dtype"`
	Region    string         `json:"region"`
	Stack     []answer.Frame `json:"stack"`
	Memories  int            `json:"memories"`
	Allocated amountJSON     `json:"allocated"`
	AtPeak    amountJSON     `json:"at_peak"`
	AtEnd     amountJSON     `json:"at_end"`
	Leaked    amountJSON     `json:"leaked"`
	AtPeaks   fleet.Spread   `json:"at_peaks"`
}

func siteSumToJSON(s *fleet.SiteSum) any {
	out := siteSumJSON{s.Site.Place().String(), s.Site.Op, s.Site.Shape, s.Site.DType, s.Site.Region, []answer.Frame{},
		s.Memories, amountToJSON(s.Allocated), amountToJSON(s.AtPeak), amountToJSON(s.AtEnd), amountToJSON(s.Leaked), s.AtPeaks}
	for _, f := range s.Site.Frames {
		out.Stack = append(out.Stack, answer.Frame{Function: f.Function, File: f.File, Line: f.Line})
	}
	return out
}

type captureJSON struct {
	Name     string            `json:"name"`
	Content  string            `json:"sha256"`
	State    string            `json:"state"`
	Damaged  bool              `json:"damaged"`
	Reason   string            `json:"reason"`
	Format   string            `json:"format"`
	Producer string            `json:"producer"`
	Losses   []lossJSON        `json:"losses"`
	Memories []memoryJSON      `json:"memories"`
	Findings []findingOfMemory `json:"findings"`
}

type memoryJSON struct {
	Rank  string `json:"rank"`
	Space string `json:"space"`
	fleet.Memory
}

type findingOfMemory struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Place    string `json:"place"`
	Space    string `json:"space"`
	amountJSON
	BytesPerStep *int64 `json:"bytes_per_step"`
	HeldBy       string `json:"held_by"`
	Description  string `json:"description"`
}

func captureToJSON(r *fleet.Record) any {
	out := captureJSON{r.Name, r.Content, r.State.String(), r.Damaged(), r.Reason, r.Format, r.Producer,
		[]lossJSON{}, []memoryJSON{}, []findingOfMemory{}}
	for _, l := range r.Losses {
		out.Losses = append(out.Losses, lossToJSON(l))
	}
	for _, m := range r.Memories {
		m.Usage = append([]int64{}, m.Usage...) // never null
		out.Memories = append(out.Memories, memoryJSON{m.Rank, m.Space().ID(), m})
	}
	for _, f := range r.Findings {
		out.Findings = append(out.Findings, findingOfMemory{f.Rule, f.Severity, f.Place, r.Memories[f.Memory].Space().ID(),
			amountToJSON(f.Amount), perStep(f.BytesPerStep), f.HeldBy, f.Description})
	}
	return out
}
