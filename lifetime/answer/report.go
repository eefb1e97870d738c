package answer

import (
	"fmt"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
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
	First    []Finding       `json:"-"` // most severe findings, one for each cause
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

	summary Summary
}

// maxFirst is the maximum number of findings in Report.First.
const maxFirst = 3

// CaptureReportOf returns the part of a report about one capture. rules are those of LeaksOf.
func CaptureReportOf(c *judge.Capture, rules string) CaptureReport {
	o := c.Outline()
	r := CaptureReport{Info: InfoOf(o), Leaks: LeaksOf(c, rules)}
	r.summary.add(c.Capture)
	for _, i := range selection.Choose(o.Outline, false).Spaces {
		p := OutlinePeakOf(&o.Tables, o.Spaces[i], selection.AtPeak)
		p.AddSavings(c, o.Spaces[i].Recording)
		r.Peaks = append(r.Peaks, p)
	}
	return r
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
	r.First = firstOf(leaks)
	return r
}

// AddSeries makes captures of one run one judgement, if only a series of them can be judged.
func (r *Report) AddSeries(s *finding.Series) {
	if s.Captures() == 0 || len(r.Ranks) > 0 {
		return
	}
	r.Unjudged, r.Nothing = "", false
	r.First = append(firstOf([]CaptureLeaks{{Findings: r.Outliers}}), r.First...)
	r.Outliers = nil // they are about the captures
	for i := range r.Captures {
		if l := &r.Captures[i].Leaks; l.unjudged != "" {
			l.Verdict, l.Notes = fmt.Sprintf("judged as one of %d captures", s.Captures()), nil
		}
	}
}

// add adds the functions and allocations of a capture.
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

// join adds the summary of another capture.
func (sum *Summary) join(o Summary) {
	sum.Functions += o.Functions
	sum.Allocations += o.Allocations
	sum.AllocatedBytes = units.AddSat(sum.AllocatedBytes, o.AllocatedBytes)
	sum.Seconds = max(sum.Seconds, o.Seconds)
	if o.Timestamp != nil && (sum.Timestamp == nil || *o.Timestamp > *sum.Timestamp) {
		sum.Timestamp = o.Timestamp
	}
}

// firstOf returns the most severe findings above Info, one for each cause, at most maxFirst.
func firstOf(all []CaptureLeaks) (first []Finding) {
	var causes []string
	for severity := finding.Critical; severity > finding.Info; severity-- {
		for i := range all {
			for _, f := range all[i].Findings {
				if f.Level() != severity || f.Cause != "" && slices.Contains(causes, f.Cause) || len(first) == maxFirst {
					continue
				}
				causes = append(causes, f.Cause)
				first = append(first, f)
			}
		}
	}
	return first
}

// OfCaptures returns the findings without those about ranks.
func (r *Report) OfCaptures() []Finding { return r.Findings[:len(r.Findings)-len(r.Outliers)] }
