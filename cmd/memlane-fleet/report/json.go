package report

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/units"
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
	rows(j, "losses", d.Losses, func(l *Loss) any { return append(lossToJSON(l.Loss), "captures", l.Captures) })
	rows(j, "failures", d.Failures, failureToJSON)
	rows(j, "other_code", d.OtherCode, func(c *fleet.OtherCode) any {
		return object{"file", c.File, "function", c.Function, "line", c.Line, "usual_line", c.Usual, "functions", c.Count, "ranks", c.Ranks,
			"text", CodeText(c)}
	})
	rows(j, "outlier_groups", d.Groups, outlierGroupToJSON)
	rows(j, "outliers", d.Outliers, outlierToJSON)
	rows(j, "findings", d.Findings, d.findingToJSON)
	rows(j, "kinds", d.Kinds, func(k *fleet.Kind) any { return k })
	rows(j, "sites", d.Sites, siteSumToJSON)
	rows(j, "captures", slices.Collect(d.Fleet.Records()), captureToJSON)
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

// object is members of an object in their order: names and values in turn.
type object []any

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, v := range o {
		if i > 0 {
			b.WriteByte([...]byte{',', ':'}[i%2])
		}
		if err := e.Encode(v); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func lossToJSON(l fleet.Loss) object {
	return object{"reason", l.Reason, "severity", lossSeverity(l.Reason).String(), "count", l.Count, "bytes", l.Bytes}
}

func outlierToJSON(f *fleet.Outlier) any {
	return object{"capture", f.Text(finding.FigFile), "rank", f.Text(finding.FigRank), "space", f.Space.ID(), "severity", f.Severity.String(),
		"measure", f.Measure(), "value_bytes", units.Whole(f.Value(finding.FigValue)), "median_bytes", units.Whole(f.Value(finding.FigMedian)),
		"median_deviation_bytes", units.Whole(f.Value(finding.FigMedianDeviation)), "ranks", units.Whole(f.Value(finding.FigRanks)),
		"confidence", f.Confidence, "description", f.Description}
}

func failureToJSON(f *fleet.FailureGroup) any {
	return object{"reason", f.Reason, "ranks", f.Ranks, "requesters", append([]string{}, f.Requesters...), "what_if", whatIfToJSON(f.WhatIf),
		"text", FailureText(f)}
}

func whatIfToJSON(w *fleet.WhatIf) any {
	if w == nil {
		return nil
	}
	return object{"rank", w.Rank, "edits", w.Edits, "advice", w.Advice, "peak_bytes", w.Peak, "low_bytes", w.Low, "high_bytes", w.High,
		"text", WhatIfText(w)}
}

func outlierGroupToJSON(g *fleet.OutlierGroup) any {
	var leak any
	if g.Leak != nil {
		leak = g.Leak.Rule + " " + g.Leak.Place
	}
	return object{"severity", g.Severity, "measure", g.Measure, "role", g.Role, "ranks", g.Ranks, "value_bytes", g.Value,
		"others_bytes", g.Others, "leak", leak, "categories", append([]fleet.CategoryExcess{}, g.Categories...),
		"places", append([]fleet.PlaceExcess{}, g.Places...), "what_if", whatIfToJSON(g.WhatIf), "text", GroupText(g), "why", GroupWhy(g)}
}

// perStep returns the bytes per step, nil if the steps are unknown.
func perStep(v float64) any {
	if v == 0 {
		return nil
	}
	return units.Whole(v)
}

func amountToJSON(a lifetime.Amount) object {
	return object{"bytes", a.Bytes, "requested_bytes", a.Requested, "count", a.Count}
}

func (d *Data) findingToJSON(f *Finding) any {
	var found []object
	for _, w := range f.Found {
		m := &w.Record.Memories[w.Memory]
		found = append(found, append(object{"capture", w.Record.Name, "rank", m.Rank, "device", m.Device}, amountToJSON(w.Amount)...))
	}
	out := append(object{"rule", f.Rule, "severity", f.Severity, "place", f.Place}, amountToJSON(f.Amount)...)
	return append(out, "bytes_per_step", perStep(f.BytesPerStep), "held_by", append([]string{}, f.HeldBy...), "text", d.Sentence(f),
		"ranks", f.Ranks, "found", found)
}

func siteSumToJSON(s *fleet.SiteSum) any {
	stack := []answer.Frame{}
	for _, f := range s.Site.Frames {
		stack = append(stack, answer.Frame{Function: f.Function, File: f.File, Line: f.Line})
	}
	return object{"place", s.Site.Place().String(), "op", s.Site.Op, "shape", s.Site.Shape, "dtype", s.Site.DType, "region", s.Site.Region,
		"stack", stack, "memories", s.Memories, "allocated", amountToJSON(s.Allocated), "at_peak", amountToJSON(s.AtPeak),
		"at_end", amountToJSON(s.AtEnd), "leaked", amountToJSON(s.Leaked), "at_peaks", s.AtPeaks}
}

// memoryJSON has what identifies a memory before its figures.
type memoryJSON struct {
	Rank  string `json:"rank"`
	Space string `json:"space"`
	fleet.Memory
}

func captureToJSON(of **fleet.Record) any {
	r := *of
	losses, memories, findings := []object{}, []memoryJSON{}, []object{}
	for _, l := range r.Losses {
		losses = append(losses, lossToJSON(l))
	}
	for _, m := range r.Memories {
		m.Usage = append([]int64{}, m.Usage...) // never null
		memories = append(memories, memoryJSON{m.Rank, m.Space().ID(), m})
	}
	for _, f := range r.Findings {
		one := append(object{"rule", f.Rule, "severity", f.Severity, "place", f.Place, "space", r.Memories[f.Memory].Space().ID()},
			amountToJSON(f.Amount)...)
		findings = append(findings, append(one, "bytes_per_step", perStep(f.BytesPerStep), "held_by", f.HeldBy, "description", f.Description))
	}
	return object{"name", r.Name, "sha256", r.Content, "state", r.State.String(), "damaged", r.Damaged(), "reason", r.Reason,
		"format", r.Format, "producer", r.Producer, "losses", losses, "memories", memories, "findings", findings}
}
