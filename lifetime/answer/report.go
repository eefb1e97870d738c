package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/selection"
)

// Report is the full report about captures: contents, findings, and peaks.
type Report struct {
	Schema    string     `json:"schema"`              // "memlane/1"
	Next      string     `json:"next"`                // command that tells more; empty if none does
	Rules     string     `json:"rules"`               // "default": memlane's own rules
	Summary   Summary    `json:"summary"`             // figures of all captures together
	Unjudged  string     `json:"unjudged"`            // what could not be judged; empty if everything was
	Findings  []Finding  `json:"findings"`            // most severe first; each is listed once
	OOMs      []Failure  `json:"ooms,omitempty"`      // failed allocations, as memlane oom answers them; the first ended the program
	Functions []Function `json:"functions,omitempty"` // with --function
	Ranks     []Rank     `json:"ranks,omitempty"`     // one for each rank, if there are several and every capture names its rank

	Grade    string          `json:"-"` // what the tool whose rules these are says of all findings; "" for memlane's own rules
	Captures []CaptureReport `json:"-"`
	RankInfo *RankSummary    `json:"-"`
	Outliers []Finding       `json:"-"` // about ranks

	Nothing bool `json:"-"` // no capture could be judged
}

// Summary has the figures of all captures of a report together.
type Summary struct {
	Functions      int      `json:"total_functions_analyzed"` // functions that allocated
	Allocations    int64    `json:"total_function_calls"`     // recorded allocations
	AllocatedBytes int64    `json:"total_memory_allocated"`   // allocated in the recordings
	Seconds        float64  `json:"total_execution_time"`     // longest recording
	Timestamp      *float64 `json:"analysis_timestamp"`       // end of the last recording, in seconds since 1970; null without a clock
}

// CaptureReport is the part of a report about one capture.
type CaptureReport struct {
	Info  Capture
	Leaks CaptureLeaks
	Peaks []Peak // of spaces of the run, else of the compiled program with the highest peak
	Fits  []Fit  // compiled programs that the capacity has room for

	summary Summary
}

// CaptureReportOf returns the part of a report about one capture. rules are those of LeaksOf.
func CaptureReportOf(c *judge.Capture, rules string) CaptureReport {
	o := c.Outline()
	r := CaptureReport{Info: InfoOf(o), Leaks: LeaksOf(c, rules), Fits: FitsOf(c)}
	r.summary.add(c.Capture)
	for _, i := range selection.Choose(o.Outline, false).Spaces {
		p := OutlinePeakOf(&o.Tables, o.Spaces[i], selection.AtPeak)
		p.AddSavings(c, o.Spaces[i].Whole())
		if p.UsageOnly {
			p.Categories = totalsBelow(c.Capture, &p)
		}
		r.Peaks = append(r.Peaks, p)
	}
	return r
}

// totalsBelow returns the parts of a recorded total, if those of the memory IDs below it have exactly its bytes, as in memory timelines.
func totalsBelow(c *lifetime.Capture, p *Peak) []Part {
	var all sums
	for _, s := range c.Spaces {
		if name, below := strings.CutPrefix(s.ID(), p.Space+"/"); below {
			all.add(name, purpose.Recorded, lifetime.Amount{Bytes: max(s.LevelAt(p.At, lifetime.Occupied), 0)})
		}
	}
	if all.total != p.Bytes {
		return []Part{}
	}
	return all.parts()
}

// NewReport combines the reports about captures. outliers are the findings about ranks; ranks may be nil.
func NewReport(rules string, of []CaptureReport, ranks *Ranks, outliers []finding.Finding) *Report {
	var leaks []CaptureLeaks
	for i := range of {
		leaks = append(leaks, of[i].Leaks)
	}
	l := NewLeaks(leaks, ranks, outliers)
	r := &Report{Schema: schema, Rules: rules, Findings: l.Findings, OOMs: l.OOMs, Functions: l.Functions,
		Ranks: l.Ranks, Next: l.Next, Unjudged: l.Unjudged, Nothing: l.nothing,
		Captures: of, RankInfo: l.Summary, Outliers: rankFindingsOf(outliers)}
	for i := range of {
		r.Summary.join(of[i].summary)
	}
	return r
}

// AddSeries makes captures of one run one judgement, if only a series of them can be judged.
func (r *Report) AddSeries(s *finding.Series) {
	if s.Captures() == 0 || len(r.Ranks) > 0 {
		return
	}
	r.Unjudged, r.Nothing = "", false
	r.Outliers = nil // they are about the captures
	for i := range r.Captures {
		if l := &r.Captures[i].Leaks; l.unjudged != "" {
			l.Verdict, l.Notes = fmt.Sprintf("judged as one of %d captures", s.Captures()), nil
		}
	}
}

func (sum *Summary) add(c *lifetime.Capture) {
	names := map[string]bool{}
	for _, s := range c.Spaces {
		if static(&s.SpaceInfo) {
			continue
		}
		for _, site := range s.Summary().Sites {
			if site.Allocated.Count > 0 {
				sum.Allocations += site.Allocated.Count
				sum.AllocatedBytes = units.AddSat(sum.AllocatedBytes, site.Allocated.Bytes)
				names[c.FunctionName(site.Site)] = true
			}
		}
		if s.Axis == lifetime.Time && s.End > s.Begin {
			end := float64(s.AtEnd()) / 1e9
			sum.join(Summary{Seconds: float64(s.End-s.Begin) / 1e9, Timestamp: &end})
		}
	}
	sum.Functions += len(names)
}

func (sum *Summary) join(o Summary) {
	sum.Functions += o.Functions
	sum.Allocations += o.Allocations
	sum.AllocatedBytes = units.AddSat(sum.AllocatedBytes, o.AllocatedBytes)
	sum.Seconds = max(sum.Seconds, o.Seconds)
	if o.Timestamp != nil && (sum.Timestamp == nil || *o.Timestamp > *sum.Timestamp) {
		sum.Timestamp = o.Timestamp
	}
}

// OfCaptures returns the findings without those about ranks.
func (r *Report) OfCaptures() []Finding { return r.Findings[:len(r.Findings)-len(r.Outliers)] }

// Rank has the figures of one of several ranks, in occupied bytes.
type Rank struct {
	Rank   string `json:"rank"`         // name
	Peak   int64  `json:"peak_bytes"`   // highest peak of its memory IDs
	End    int64  `json:"end_bytes"`    // occupied at the end, over all its memory IDs
	Leaked *int64 `json:"leaked_bytes"` // leaks, over all its memory IDs; null from info, which looks for none
}

// Ranks collects the figures of captures of several ranks. It does not retain captures.
type Ranks struct {
	By     finding.RankNames
	Judged bool // findings are added too

	figures []finding.RankFigures
	names   []string // in order of appearance
	unknown bool     // the rank of a capture is unknown
	groups  []rankGroup
	added   int // captures
}

type rankGroup struct {
	what    string // rule and place
	ranks   []string
	bytes   int64 // of all ranks
	perStep []float64

	capture, finding int // the first of them, in the order of Add
}

// RankOf returns the rank of a space, "" if it is unknown.
func (r *Ranks) RankOf(t *lifetime.Tables, s *lifetime.SpaceInfo) string {
	return r.By.Of(s.Process, t.Sources[s.Source].File)
}

// Add adds a capture and its findings, if r is Judged.
func (r *Ranks) Add(o *judge.Outline) {
	var found []finding.Finding
	if r.Judged {
		found = o.Kept.Findings()
	}
	r.figures = append(r.figures, finding.FiguresOf(o.Outline, found, func(s *lifetime.SpaceInfo) string {
		rank := r.RankOf(&o.Tables, s)
		if rank == "" {
			r.unknown = true
		}
		if !slices.Contains(r.names, rank) {
			r.names = append(r.names, rank)
		}
		return rank
	})...)
	for i := range found {
		f := &found[i]
		what := f.Rule
		if place := f.Place(); place != 0 {
			what += " " + o.PlaceOf(place).String()
		}
		g := rankGroup{what: what, capture: r.added, finding: i}
		r.addTo(g, r.RankOf(&o.Tables, &f.Space.SpaceInfo), f)
	}
	r.added++
}

func (r *Ranks) addTo(g rankGroup, rank string, f *finding.Finding) {
	i := slices.IndexFunc(r.groups, func(l rankGroup) bool { return l.what == g.what })
	if i < 0 {
		i = len(r.groups)
		r.groups = append(r.groups, g)
	}
	l := &r.groups[i]
	if !slices.Contains(l.ranks, rank) {
		l.ranks = append(l.ranks, rank)
	}
	l.perStep = append(l.perStep, f.BytesPerStep)
	l.bytes = units.AddSat(l.bytes, f.Amount.Bytes)
}

// Known reports whether there are several ranks and every capture has one.
func (r *Ranks) Known() bool { return r != nil && !r.unknown && len(r.names) > 1 }

func (r *Ranks) rows() (rows []Rank) {
	for _, name := range r.names {
		row, leaked := Rank{Rank: name}, int64(0)
		for _, f := range r.figures {
			if f.Rank == name {
				row.Peak = max(row.Peak, f.Peak)
				row.End = units.AddSat(row.End, f.End)
				leaked = units.AddSat(leaked, f.Leaked)
			}
		}
		if r.Judged {
			row.Leaked = &leaked
		}
		rows = append(rows, row)
	}
	return rows
}

// Outliers returns findings about ranks that differ; nil unless Known.
func (r *Ranks) Outliers() []finding.Finding {
	if !r.Known() {
		return nil
	}
	return finding.CompareRanks(r.figures)
}

// RankSummary compares several ranks.
type RankSummary struct {
	Rows              []Rank
	Median, Deviation int64            // of the peaks
	Groups            []groupedFinding // most severe first
	Outliers          []Finding
}

type groupedFinding struct {
	*Finding        // the first of them
	What     string // rule and place
	Ranks    string // how many and which
}

// Summary sums up the ranks and the answers for their captures, in the order of Add; nil unless Known.
func (r *Ranks) Summary(captures []CaptureLeaks) *RankSummary {
	if !r.Known() {
		return nil
	}
	s := &RankSummary{Rows: r.rows(), Outliers: rankFindingsOf(r.Outliers())}
	var peaks []float64
	for _, row := range s.Rows {
		peaks = append(peaks, float64(row.Peak))
	}
	middle, deviation := finding.Spread(peaks)
	s.Median, s.Deviation = int64(middle), int64(deviation)
	for i := range r.groups {
		g := &r.groups[i]
		s.Groups = append(s.Groups, groupedFinding{&captures[g.capture].Findings[g.finding], g.what,
			OnRanks(r.names, g.ranks, g.bytes, g.perStep)})
	}
	slices.SortStableFunc(s.Groups, func(x, y groupedFinding) int { return cmp.Compare(y.Level(), x.Level()) })
	return s
}

const maxNamed = 4

// OnRanks returns how many of all ranks have a finding, and names up to maxNamed ranks with or without it. Names are
// not escaped. bytes are those of all ranks, perStep the growth on each.
func OnRanks(all, with []string, bytes int64, perStep []float64) string {
	text := fmt.Sprintf("%s of %s, %s in total", units.Count(int64(len(with))), units.Plural(len(all), "rank"), units.Bytes(bytes))
	if median, _ := finding.Spread(perStep); median > 0 {
		text += fmt.Sprintf(", median %s per step", units.Bytes(int64(median)))
	}
	without := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(with, name) })
	switch n := len(without); {
	case n > 0 && n <= len(with) && n <= maxNamed:
		text += "; not on " + strings.Join(without, ", ")
	case len(with) <= maxNamed:
		text += "; on " + strings.Join(with, ", ")
	}
	return text
}
