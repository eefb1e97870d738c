package answer

import (
	"fmt"
	"math"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/lifetime/leak/preset"
)

// insightRules are the rules of insights by title. Two rules share a category.
var insightRules = map[string]string{
	"Slow Function Detection": "slow_functions", "Inconsistent Execution Times": "inconsistent_times", "Memory-Intensive Functions": "memory_intensive",
	"Time-Memory Correlation": "time_memory_correlation", "Memory Growth Trend": "memory_growth_trend",
}

// PresetFindings converts the report of a preset to findings.
func PresetFindings(capture *lifetime.Capture, calls []lifetime.Call, rep *preset.Optimization) (all []leak.Finding) {
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
	add := func(rule, severity string, confidence float64, names []string, figures preset.Figures, description string, suggestions []string) {
		f := leak.Finding{Rule: rule, Confidence: confidence, Space: capture.Spaces[0], Description: description, Suggestions: suggestions}
		f.Severity, _ = leak.ParseSeverity(severity)
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
	for _, p := range rep.AllPatterns {
		add(p.PatternType, p.Severity, 1, p.AffectedFunctions, p.Metrics, p.Description, p.Suggestions)
	}
	severities := map[string]string{"high": "critical", "medium": "warning", "low": "info"}
	for _, i := range rep.AllInsights {
		add(insightRules[i.Title], severities[i.Impact], float64(i.Confidence), nil, i.Data, i.Title+": "+i.Description, i.Recommendations)
	}
	for _, g := range rep.GapAnalysis {
		add(g.Classification, g.Severity, float64(g.Confidence), nil, g.Evidence, g.Description, g.Remediation)
	}
	leak.Sort(all)
	return all
}

// evidenceOf converts a figure of a preset to evidence.
func evidenceOf(f preset.Figure) leak.Evidence {
	e := leak.Evidence{Figure: leak.ForeignFigure(f.Name)}
	switch v := f.Value.(type) {
	case preset.Float:
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
