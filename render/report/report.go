package report

import (
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/lifetime/leak/preset"
)

// Data is what a report is about.
type Data struct {
	Captures []*lifetime.Capture
	Findings [][]leak.Finding // of each capture, most severe first
	Odd      []leak.Finding   // about ranks that differ; of no capture
	Ranks    []RankRow        // of several captures that tell their ranks
	Report   *preset.Report
	Rules    string // whose rules they are: "default" or the name of a preset
}

// RankRow is a rank in a table, and in JSON. Bytes are occupied, of all its memory
// together but for the peak, which is that of one memory ID.
type RankRow struct {
	Rank   string `json:"rank"`
	Peak   int64  `json:"peak_bytes"`
	End    int64  `json:"end_bytes"`
	Leaked int64  `json:"leaked_bytes"`
}

// costs are what findings take off the score, those of one cause once. What is only
// worth knowing costs nothing: a cache that is full is no fault.
var costs = [...]int{leak.Info: 0, leak.Warning: 15, leak.Critical: 40}

// impacts are the words of insights for severities.
var impacts = [...]string{leak.Info: "low", leak.Warning: "medium", leak.Critical: "high"}

// Cost returns what findings of one capture take off the score.
func Cost(found []leak.Finding) (points int) {
	var causes []string
	for _, f := range found { // the most severe of a cause comes first
		if cause := f.Text(leak.FigCausePlace); cause == "" || !slices.Contains(causes, cause) {
			causes = append(causes, cause)
			points += costs[f.Severity]
		}
	}
	return points
}

// Of returns the report on the findings of d.
func Of(d *Data) *preset.Report {
	r := &preset.Report{CriticalIssues: []preset.Pattern{}, HighImpactInsights: []preset.Insight{}, AllPatterns: []preset.Pattern{}, AllInsights: []preset.Insight{}}
	cost := Cost(d.Odd)
	for i, c := range d.Captures {
		addSummary(&r.Summary, c)
		cost += Cost(d.Findings[i])
		for _, f := range d.Findings[i] {
			if f.Kind == leak.KindUsage { // findings about places are patterns
				r.AllInsights = append(r.AllInsights, insight(&f))
				continue
			}
			r.AllPatterns = append(r.AllPatterns, preset.Pattern{PatternType: f.Rule, Description: f.Description, Severity: f.Severity.String(),
				AffectedFunctions: functions(c, f.Sites), Metrics: figures(&f), Suggestions: f.Suggestions})
		}
	}
	for _, f := range d.Odd {
		r.AllInsights = append(r.AllInsights, insight(&f))
	}
	r.Conclude(cost)
	return r
}

func insight(f *leak.Finding) preset.Insight {
	return preset.Insight{Category: f.Rule, Title: leak.Doc(f.Rule), Description: f.Description, Impact: impacts[f.Severity], Confidence: preset.Float(f.Confidence),
		Data: figures(f), Recommendations: f.Suggestions}
}

// addSummary counts the functions that allocated in a capture and what they
// allocated.
func addSummary(sum *preset.Summary, c *lifetime.Capture) {
	names := map[string]bool{}
	for _, s := range c.Spaces {
		if s.Axis == lifetime.ProgramOrder {
			continue
		}
		for _, site := range s.Summary().Sites {
			if site.Allocated.Count > 0 {
				sum.TotalFunctionCalls += int(site.Allocated.Count)
				sum.TotalMemoryAllocated = lifetime.AddSat(sum.TotalMemoryAllocated, site.Allocated.Bytes)
				names[c.FunctionName(site.Site)] = true
			}
		}
		if s.Axis == lifetime.Time && s.End > s.Begin {
			sum.TotalExecutionTime = max(sum.TotalExecutionTime, preset.Float(float64(s.End-s.Begin)/1e9))
			end := preset.Float(float64(s.AtEnd()) / 1e9)
			if sum.AnalysisTimestamp == nil || end > *sum.AnalysisTimestamp {
				sum.AnalysisTimestamp = &end
			}
		}
	}
	sum.TotalFunctionsAnalyzed += len(names)
}

// functions returns the names of those that a finding is about, "" left out.
func functions(c *lifetime.Capture, sites []lifetime.SiteID) []string {
	names := []string{}
	for _, site := range sites {
		if name := c.FunctionName(site); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func figures(f *leak.Finding) preset.Figures {
	all := preset.Figures{{Name: "bytes", Value: f.Amount.Bytes}, {Name: "count", Value: f.Amount.Count}}
	for _, e := range f.Evidence {
		if e.Text != "" {
			all = append(all, preset.Figure{Name: e.Name, Value: e.Text})
		} else {
			all = append(all, preset.Figure{Name: e.Name, Value: preset.Float(e.Value)})
		}
	}
	return all
}

// First returns up to n things to do first, each from another cause.
func (d *Data) First(n int) []leak.Finding {
	var first []leak.Finding
	var causes []string
	for severity := leak.Critical; severity > leak.Info; severity-- {
		for _, found := range d.Findings {
			for _, f := range found {
				cause := f.Text(leak.FigCausePlace)
				if f.Severity != severity || cause != "" && slices.Contains(causes, cause) || len(first) == n {
					continue
				}
				causes = append(causes, cause)
				first = append(first, f)
			}
		}
	}
	return first
}
