package preset

import (
	"fmt"
	"math"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
)

// insightRules are the rules of insights by title. Two rules share a category.
var insightRules = map[string]string{
	"Slow Function Detection": "slow_functions", "Inconsistent Execution Times": "inconsistent_times", "Memory-Intensive Functions": "memory_intensive",
	"Time-Memory Correlation": "time_memory_correlation", "Memory Growth Trend": "memory_growth_trend",
}

// Findings returns the report as findings of a capture. calls are those that the report is about.
func (r *Optimization) Findings(capture *lifetime.Capture, calls []lifetime.Call) (all []finding.Finding) {
	if len(capture.Spaces) == 0 {
		return nil
	}
	sites, spaces := map[string]lifetime.SiteID{}, map[string]int{}
	for _, call := range calls {
		name := capture.FunctionName(call.Site)
		if _, ok := sites[name]; !ok {
			sites[name], spaces[name] = call.Site, call.Space
		}
	}
	add := func(rule, severity string, confidence float64, names []string, figures Figures, description string, suggestions []string) {
		f := finding.Finding{Rule: rule, Confidence: confidence, Space: capture.Spaces[0], Description: description, Suggestions: suggestions}
		f.Severity, _ = finding.ParseSeverity(severity)
		for i, name := range names {
			if i == 0 {
				f.Space = capture.Spaces[spaces[name]]
			}
			f.Sites = append(f.Sites, sites[name])
		}
		for _, figure := range figures {
			f.Evidence = append(f.Evidence, evidenceOf(figure))
		}
		all = append(all, f)
	}
	for _, p := range r.AllPatterns {
		add(p.PatternType, p.Severity, 1, p.AffectedFunctions, p.Metrics, p.Description, p.Suggestions)
	}
	severities := map[string]string{"high": "critical", "medium": "warning", "low": "info"}
	for _, i := range r.AllInsights {
		add(insightRules[i.Title], severities[i.Impact], float64(i.Confidence), nil, i.Data, i.Title+": "+i.Description, i.Recommendations)
	}
	for _, g := range r.GapAnalysis {
		add(g.Classification, g.Severity, float64(g.Confidence), nil, g.Evidence, g.Description, g.Remediation)
	}
	finding.Sort(all)
	return all
}

// evidenceOf converts a figure of a preset to evidence.
func evidenceOf(f Figure) finding.Evidence {
	e := finding.Evidence{Figure: finding.ForeignFigure(f.Name)}
	switch v := f.Value.(type) {
	case Float:
		e.Value = float64(v)
	case int64:
		e.Value = float64(v)
	case int:
		e.Value = float64(v)
	default:
		e.Text = fmt.Sprint(v)
	}
	if math.IsNaN(e.Value) || math.IsInf(e.Value, 0) { // JSON cannot represent it
		e.Value, e.Text = 0, fmt.Sprint(e.Value)
	}
	return e
}

// Answer is the report of another tool, with its rules and keys, plus the findings as memlane writes them.
type Answer struct {
	Schema string `json:"schema"` // "memlane/1"
	Next   string `json:"next"`   // command that tells more
	Rules  string `json:"rules"`  // gpumemprof or stormlog
	*Optimization
	Findings  []answer.Finding  `json:"findings"`            // most severe first
	Functions []answer.Function `json:"functions,omitempty"` // with --function
	Ranks     []answer.Rank     `json:"ranks,omitempty"`     // one for each rank, if there are several and every capture names its rank
}

// Answer returns the report with the findings of memlane's report about the same captures.
func (r *Optimization) Answer(of *answer.Report) Answer {
	return Answer{Schema: of.Schema, Next: of.Next, Rules: of.Rules, Optimization: r, Findings: of.Findings, Functions: of.Functions, Ranks: of.Ranks}
}

// String returns the score in one line.
func (s Score) String() string {
	return fmt.Sprintf("%s, %d of 100: %s", s.Grade, s.Score, s.Description)
}
