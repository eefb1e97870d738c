package answer

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/lifetime/leak/preset"
)

// Report is all that memlane says of captures: what to do first, what is in them, what
// was found and what makes up their peaks.
type Report struct {
	Schema    string      `json:"schema"`              // "memlane/1"
	Rules     string      `json:"rules"`               // default: memlane's own
	Summary   Summary     `json:"summary"`             // what was read
	Score     ReportScore `json:"optimization_score"`  // a mark for all findings
	Findings  []Finding   `json:"findings"`            // most severe first; each is listed once
	Functions []Function  `json:"functions,omitempty"` // with --function
	Ranks     []Rank      `json:"ranks,omitempty"`     // one for each rank, where several captures name theirs

	Counts   string          `json:"-"` // "1 critical, 2 warnings, 3 notes"
	Judged   bool            `json:"-"` // a history or a compiled program is there to judge
	First    []Finding       `json:"-"` // to do first, each from another cause
	Captures []CaptureReport `json:"-"`
	RankInfo *RankSummary    `json:"-"`
	Outliers []Finding       `json:"-"` // about ranks
}

// Summary counts what a report is about.
type Summary struct {
	Functions      int      `json:"total_functions_analyzed"` // functions that allocated
	Allocations    int64    `json:"total_function_calls"`     // recorded allocations
	AllocatedBytes int64    `json:"total_memory_allocated"`   // allocated in the windows
	Seconds        float64  `json:"total_execution_time"`     // longest recording
	Timestamp      *float64 `json:"analysis_timestamp"`       // when the last recording ended, in seconds since 1970; null without a clock
}

// ReportScore is a Score with the number of findings.
type ReportScore struct {
	Score
	Findings int `json:"issues_found"` // number of findings
}

// CaptureReport is what a report says of one capture.
type CaptureReport struct {
	Info  Capture
	Leaks CaptureLeaks
	Peaks []Peak // of what ran, else of the compiled program with the highest peak

	summary Summary
	judged  bool
}

// PresetReport is the report of another tool, by its own rules and with its own keys,
// and beside it the findings.
type PresetReport struct {
	Schema string `json:"schema"` // "memlane/1"
	Rules  string `json:"rules"`  // gpumemprof or stormlog
	*preset.Report
	Findings  []Finding  `json:"findings"`            // most severe first
	Functions []Function `json:"functions,omitempty"` // with --function
	Ranks     []Rank     `json:"ranks,omitempty"`     // one for each rank, where several captures name theirs
}

// toDo is how many things to do first a report names.
const toDo = 3

// CaptureReportOf says of one capture what a report does.
func CaptureReportOf(c *lifetime.Capture, o *lifetime.Outline, leaks CaptureLeaks) CaptureReport {
	r := CaptureReport{Info: InfoOf(o), Leaks: leaks, judged: canJudge(c)}
	r.summary.add(c)
	for _, i := range Choose(o, false).Spaces {
		r.Peaks = append(r.Peaks, OutlinePeakOf(&o.Tables, o.Spaces[i], AtPeak))
	}
	return r
}

// NewReport puts the reports on captures together; ranks are those of the captures,
// and outliers the findings about them.
func NewReport(rules string, of []CaptureReport, ranks *Ranks, outliers []leak.Finding) *Report {
	var leaks []CaptureLeaks
	for i := range of {
		leaks = append(leaks, of[i].Leaks)
	}
	l := NewLeaks(leaks, ranks, outliers)
	r := &Report{Schema: Schema, Rules: rules, Findings: l.Findings, Functions: l.Functions, Ranks: l.Ranks, Score: ReportScore{l.Score, len(l.Findings)},
		Captures: of, RankInfo: l.Summary, Outliers: RankFindingsOf(outliers)}
	for i := range of {
		r.Summary.join(of[i].summary)
		r.Judged = r.Judged || of[i].judged
	}
	r.First = firstOf(leaks)
	r.Counts = r.counts(leaks)
	return r
}

// add counts the functions that allocated in a capture and what they allocated.
func (sum *Summary) add(c *lifetime.Capture) {
	names := map[string]bool{}
	for _, s := range c.Spaces {
		if static(&s.SpaceInfo) {
			continue
		}
		for _, site := range s.Summary().Sites {
			if site.Allocated.Count > 0 {
				sum.Allocations += site.Allocated.Count
				sum.AllocatedBytes = lifetime.AddSat(sum.AllocatedBytes, site.Allocated.Bytes)
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

// join adds what another capture has.
func (sum *Summary) join(o Summary) {
	sum.Functions += o.Functions
	sum.Allocations += o.Allocations
	sum.AllocatedBytes = lifetime.AddSat(sum.AllocatedBytes, o.AllocatedBytes)
	sum.Seconds = max(sum.Seconds, o.Seconds)
	if o.Timestamp != nil && (sum.Timestamp == nil || *o.Timestamp > *sum.Timestamp) {
		sum.Timestamp = o.Timestamp
	}
}

// canJudge reports whether any memory has what leaks can be judged by, or is of a
// compiled program; the calls and samples of other profilers count as well.
func canJudge(c *lifetime.Capture) bool {
	return len(c.Spaces) == 0 || len(c.Calls)+len(c.Samples) > 0 || slices.ContainsFunc(c.Spaces, func(s *lifetime.Space) bool {
		return static(&s.SpaceInfo) || s.Facts&lifetime.History != 0
	})
}

// firstOf returns the things to do first, each from another cause.
func firstOf(all []CaptureLeaks) (first []Finding) {
	var causes []string
	for severity := leak.Critical; severity > leak.Info; severity-- {
		for i := range all {
			for _, f := range all[i].Findings {
				if f.Level != severity || f.Cause != "" && slices.Contains(causes, f.Cause) || len(first) == toDo {
					continue
				}
				causes = append(causes, f.Cause)
				first = append(first, f)
			}
		}
	}
	return first
}

// counts says how many findings there are: "1 critical, 2 warnings, 3 notes".
func (r *Report) counts(all []CaptureLeaks) string {
	var n [leak.Critical + 1]int
	for i := range all {
		for k := range all[i].Findings {
			n[all[i].Findings[k].Level]++
		}
	}
	var parts []string
	if n[leak.Critical] > 0 {
		parts = append(parts, units.Count(int64(n[leak.Critical]))+" critical")
	}
	if n[leak.Warning] > 0 {
		parts = append(parts, units.Several(n[leak.Warning], "warning"))
	}
	if n[leak.Info] > 0 {
		parts = append(parts, units.Several(n[leak.Info], "note"))
	}
	switch {
	case parts != nil:
		return strings.Join(parts, ", ")
	case !r.Judged:
		return "leaks cannot be judged: no history of allocations and frees"
	}
	return "no finding"
}

// OfCaptures returns the findings but those about ranks.
func (r *Report) OfCaptures() []Finding { return r.Findings[:len(r.Findings)-len(r.Outliers)] }

// None says why there are no findings.
func (r *Report) None() string {
	if !r.Judged {
		return "None: without a history of allocations and frees leaks cannot be judged."
	}
	return "None: nothing leaks, and nothing else stands out."
}
