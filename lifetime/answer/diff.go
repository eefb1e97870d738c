package answer

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/finding"
)

// Diff lists the differences between two captures.
type Diff struct {
	Schema   string       `json:"schema"`         // "memlane/1"
	Next     string       `json:"next"`           // command that tells more
	Before   Capture      `json:"before"`         // first capture
	After    Capture      `json:"after"`          // second capture
	Rows     []DiffRow    `json:"rows"`           // call sites that differ
	Findings DiffFindings `json:"findings"`       // findings of both captures
	Lines    bool         `json:"lines_compared"` // false if one capture has only the first line of each function, so that lines were not compared
	NoPlaces bool         `json:"places_unknown"` // true if one capture does not record call sites
	PerStep  bool         `json:"per_step"`       // true if allocated bytes are per step
	Verdict  string       `json:"verdict"`        // largest changes, in one sentence

	Categories []DiffCategory `json:"categories"` // what the memory at the peaks is for, if both captures tell

	Waterfalls []DiffWaterfall `json:"waterfalls"` // from the peak before to the peak after, for each memory ID of both captures

	Pairs []diffPair `json:"-"`
}

// DiffWaterfall is the way from a peak before to the peak after: steps by category or call site, largest change first.
type DiffWaterfall struct {
	Space       string     `json:"space"`        // memory ID
	BeforeBytes int64      `json:"before_bytes"` // peak of the first capture
	AfterBytes  int64      `json:"after_bytes"`  // peak of the second capture
	Steps       []DiffStep `json:"steps"`        // their changes add up to the change of the peak
}

// DiffStep is a part of the change of a peak.
type DiffStep struct {
	Name       string `json:"name"`        // category or call site; "others" for the rest
	DeltaBytes int64  `json:"delta_bytes"` // change
	LevelBytes int64  `json:"level_bytes"` // peak before, with the changes up to this one
	How        string `json:"how"`         // how its name, category or phase is known: recorded, derived or inferred, as its weakest part; empty if it is not

	Words string `json:"-"` // name for sentences
}

// DiffFindings compares the findings of both captures.
type DiffFindings struct {
	New   []Finding `json:"new"`   // only in the second capture, and leaks that count only there
	Fixed []Finding `json:"fixed"` // only in the first capture
	Still []Finding `json:"still"` // in both, with the values of the second
}

// DiffCategory is the memory of one category at the peaks of a memory ID.
type DiffCategory struct {
	Space       string `json:"space"`        // memory ID
	Name        string `json:"name"`         // category, as in memlane peak
	BeforeBytes int64  `json:"before_bytes"` // at the peak of the first capture
	AfterBytes  int64  `json:"after_bytes"`  // at the peak of the second capture
	DeltaBytes  int64  `json:"delta_bytes"`  // change
	How         string `json:"how"`          // how its name, category or phase is known: recorded, derived or inferred, as its weakest part; empty if it is not
}

// DiffRow is a call site that differs.
type DiffRow struct {
	Space          string      `json:"space"`                 // memory ID
	Status         string      `json:"status"`                // new, gone, grew or shrank
	Site           Site        `json:"site"`                  // call site in the second capture, else in the first
	SiteBefore     *Site       `json:"site_before"`           // call site in the first capture; null if it is new
	Unseen         bool        `json:"before_the_window"`     // true for memory allocated before the recording, of unknown call sites
	Before         DiffFigure  `json:"before"`                // in the first capture
	After          DiffFigure  `json:"after"`                 // in the second capture
	DeltaPeakBytes int64       `json:"delta_peak_bytes"`      // change at the peak
	DeltaEndBytes  int64       `json:"delta_end_bytes"`       // change at the end
	DeltaAllocated json.Number `json:"delta_allocated_bytes"` // change of the allocated bytes; per step with --per-step

	change float64 // DeltaAllocated
}

// Name returns the name of the call site, or of the memory of unknown call sites.
func (r *DiffRow) Name() string {
	if r.Unseen {
		return rowNames[lifetime.FromBase]
	}
	return r.Site.Name
}

// AllocatedChange returns the change of the allocated bytes, rounded.
func (r *DiffRow) AllocatedChange() int64 { return int64(math.Round(r.change)) }

// DiffFigure has the figures of a call site in one capture.
type DiffFigure struct {
	PeakBytes          int64       `json:"peak_bytes"`           // occupied at the peak of the memory ID
	PeakRequestedBytes int64       `json:"peak_requested_bytes"` // requested at the peak of the memory ID
	EndBytes           int64       `json:"end_bytes"`            // occupied at the end
	EndRequestedBytes  int64       `json:"end_requested_bytes"`  // requested at the end
	AllocatedBytes     json.Number `json:"allocated_bytes"`      // allocated in the recording; per step with --per-step
	Count              int64       `json:"count"`                // buffers alive at the end
	Allocations        int64       `json:"allocations"`          // allocations in the recording
}

// diffPair has the figures of a memory ID in both captures.
type diffPair struct {
	Name      string
	Figures   []diff.Line
	Waterfall *DiffWaterfall // nil if nothing changed at the peak
}

// DiffOf returns the answer for a comparison. perStep divides allocated bytes by the number of steps of each capture.
func DiffOf(d *diff.Result, perStep bool) *Diff {
	out := &Diff{Schema: schema, Before: InfoOf(d.Before.Outline()), After: InfoOf(d.After.Outline()),
		Rows: []DiffRow{}, Lines: d.Lines,
		NoPlaces: d.NoPlaces, PerStep: perStep, Verdict: d.Verdict(), Categories: []DiffCategory{}, Waterfalls: []DiffWaterfall{}}
	for i := range d.Pairs {
		pair := diffPair{Name: d.Pairs[i].Name, Figures: diff.Figured(&d.Pairs[i])}
		if steps := d.Waterfall(i); len(steps) > 0 {
			pair.Waterfall = waterfallOf(&d.Pairs[i], steps)
			out.Waterfalls = append(out.Waterfalls, *pair.Waterfall)
		}
		out.Pairs = append(out.Pairs, pair)
		for _, c := range d.Pairs[i].Categories() {
			out.Categories = append(out.Categories, DiffCategory{d.Pairs[i].Name, c.Name, c.Before, c.After, c.Delta(), howOf(c.Name, c.How)})
		}
	}
	for i := range d.Rows {
		out.Rows = append(out.Rows, diffRowOf(d, &d.Rows[i], perStep))
	}
	of := func(c *lifetime.Capture, changes []diff.Change, side func(diff.Change) *finding.Finding) []Finding {
		var found []finding.Finding
		for _, change := range changes {
			found = append(found, *side(change))
		}
		return FindingsOf(c, found)
	}
	after := func(c diff.Change) *finding.Finding { return c.After }
	out.Findings = DiffFindings{
		New: of(d.After.Capture, d.New, after), Still: of(d.After.Capture, d.Still, after),
		Fixed: of(d.Before.Capture, d.Fixed, func(c diff.Change) *finding.Finding { return c.Before }),
	}
	out.Next = afterDiff(out)
	return out
}

func waterfallOf(p *diff.Pair, steps []diff.Step) *DiffWaterfall {
	w := &DiffWaterfall{Space: p.Name, BeforeBytes: p.Before.Peak, AfterBytes: p.After.Peak}
	for _, s := range steps {
		w.Steps = append(w.Steps, DiffStep{s.Name, s.Delta, s.Level, howOf(s.Name, s.How), s.Words()})
	}
	return w
}

func diffRowOf(d *diff.Result, r *diff.Row, perStep bool) DiffRow {
	p := &d.Pairs[r.Pair]
	row := DiffRow{Space: p.Name, Status: r.Status.String(), Unseen: r.Unseen, DeltaPeakBytes: r.DeltaPeak(),
		DeltaEndBytes: r.DeltaEnd()}
	if r.Status != diff.New {
		before := siteOf(&d.Before.Tables, &p.Before.Space.SpaceInfo, r.SiteBefore)
		row.Site, row.SiteBefore = before, &before
	}
	if r.Status != diff.Gone {
		row.Site = siteOf(&d.After.Tables, &p.After.Space.SpaceInfo, r.SiteAfter)
	}
	before, after := diff.AllocatedOf(&r.Before, p.Before, perStep), diff.AllocatedOf(&r.After, p.After, perStep)
	row.Before, row.After = diffFigureOf(&r.Before, before), diffFigureOf(&r.After, after)
	row.DeltaAllocated, row.change = number(after-before), after-before
	return row
}

func diffFigureOf(f *diff.Figures, allocated float64) DiffFigure {
	return DiffFigure{f.Peak.Bytes, f.Peak.Requested, f.End.Bytes, f.End.Requested, number(allocated), f.End.Count, f.Allocated.Count}
}

// number formats a number, with three decimals unless it is an integer.
func number(v float64) json.Number {
	if v == math.Trunc(v) {
		return json.Number(fmt.Sprintf("%.0f", v))
	}
	return json.Number(fmt.Sprintf("%.3f", v))
}
