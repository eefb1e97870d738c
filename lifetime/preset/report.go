package preset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
)

// Optimization is the result of generate_optimization_report, with the JSON keys of the original.
type Optimization struct {
	Summary            Summary          `json:"summary"`
	CriticalIssues     []Pattern        `json:"critical_issues"`
	HighImpactInsights []Insight        `json:"high_impact_insights"`
	AllPatterns        []Pattern        `json:"all_patterns"`
	AllInsights        []Insight        `json:"all_insights"`
	Recommendations    []Recommendation `json:"recommendations"`
	OptimizationScore  Score            `json:"optimization_score"`

	GapAnalysis []GapFinding `json:"gap_analysis,omitzero"` // nil without samples
}

// Summary counts the calls behind a report.
type Summary struct {
	TotalFunctionsAnalyzed int    `json:"total_functions_analyzed"`
	TotalFunctionCalls     int    `json:"total_function_calls"`
	TotalMemoryAllocated   int64  `json:"total_memory_allocated"` // bytes
	TotalExecutionTime     Float  `json:"total_execution_time"`   // seconds
	AnalysisTimestamp      *Float `json:"analysis_timestamp"`     // end of the last call, seconds; null without calls
}

// Pattern is a wasteful way of using memory.
type Pattern struct {
	PatternType       string   `json:"pattern_type"` // the name of its rule
	Description       string   `json:"description"`
	Severity          string   `json:"severity"` // critical, warning, info
	AffectedFunctions []string `json:"affected_functions"`
	Metrics           Figures  `json:"metrics"`
	Suggestions       []string `json:"suggestions"`
}

// Insight is an observation about the times and the memory of calls.
type Insight struct {
	Category        string   `json:"category"`
	Title           string   `json:"title"`
	Description     string   `json:"description"`
	Impact          string   `json:"impact"`     // high, medium
	Confidence      Float    `json:"confidence"` // 0 to 1
	Data            Figures  `json:"data"`
	Recommendations []string `json:"recommendations"`

	rule string
}

// Recommendation is advice with a priority.
type Recommendation struct {
	Priority    string   `json:"priority"` // high, medium
	Category    string   `json:"category"`
	Description string   `json:"description"`
	Suggestions []string `json:"suggestions"`
}

// Score grades the whole report.
type Score struct {
	Score       int    `json:"score"` // 0 to 100
	Grade       string `json:"grade"` // A, B, C, D, F
	Description string `json:"description"`
	IssuesFound int    `json:"issues_found"`
}

// GapFinding is a finding about the gap between the memory in use on a device and the memory reserved by the allocator.
type GapFinding struct {
	Classification string   `json:"classification"` // the name of its rule
	Severity       string   `json:"severity"`       // critical, warning
	Confidence     Float    `json:"confidence"`     // 0 to 1
	Evidence       Figures  `json:"evidence"`
	Description    string   `json:"description"`
	Remediation    []string `json:"remediation"`

	*Moment // stormlog only
}

// Moment identifies the sample of a finding of stormlog.
type Moment struct {
	EvidenceTimestampNS int64     `json:"evidence_timestamp_ns"`
	PhaseAttribution    *struct{} `json:"phase_attribution"` // always null: phases are not read
}

// Figures are named values in the order of the original; in JSON, an object.
type Figures []Figure

// Figure is a named value.
type Figure struct {
	Name  string
	Value any // int64, int, Float, string or a list of these
}

// MarshalJSON returns an object.
func (f Figures) MarshalJSON() ([]byte, error) {
	members := make([]string, len(f))
	for i, figure := range f {
		value, err := json.Marshal(figure.Value)
		if err != nil {
			return nil, err
		}
		members[i] = strconv.Quote(figure.Name) + ":" + string(value)
	}
	return []byte("{" + strings.Join(members, ",") + "}"), nil
}

// Float is a number that is null in JSON if it is not finite.
type Float float64

// MarshalJSON returns a number or null.
func (f Float) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// conclude derives the rest of a report from its patterns and insights: the critical ones, at most ten recommendations and the
// score. Gaps get in order: critical ones first, then the most confident ones.
func (r *Optimization) conclude() {
	slices.SortStableFunc(r.GapAnalysis, func(x, y GapFinding) int {
		return cmp.Or(cmp.Compare(x.Severity, y.Severity), cmp.Compare(y.Confidence, x.Confidence)) // critical < warning
	})
	score := &r.OptimizationScore
	score.Score, score.IssuesFound = 100, len(r.AllPatterns)+len(r.AllInsights)
	high, medium := []Recommendation{}, []Recommendation{}
	for _, p := range r.AllPatterns {
		score.Score -= penalties[p.Severity]
		switch p.Severity {
		case "critical":
			r.CriticalIssues = append(r.CriticalIssues, p)
			high = append(high, Recommendation{"high", p.PatternType, p.Description, p.Suggestions})
		case "warning":
			medium = append(medium, Recommendation{"medium", p.PatternType, p.Description, p.Suggestions})
		}
	}
	for _, i := range r.AllInsights {
		score.Score -= penalties[i.Impact]
		if i.Impact == "high" {
			r.HighImpactInsights = append(r.HighImpactInsights, i)
			high = append(high, Recommendation{"high", i.Category, i.Description, i.Recommendations})
		}
	}
	r.Recommendations = append(high, medium...)
	r.Recommendations = r.Recommendations[:min(10, len(r.Recommendations))]
	score.Score = max(score.Score, 0)
	i := slices.IndexFunc([]int{90, 80, 70, 60, 0}, func(least int) bool { return score.Score >= least })
	score.Grade = "ABCDF"[i : i+1]
	score.Description = texts()["grade "+score.Grade].Description
}

// penalties are the points that an issue takes off the score, by severity and impact.
var penalties = map[string]int{"critical": 20, "warning": 10, "info": 5, "high": 15, "medium": 8}

// String returns the score in one line.
func (s Score) String() string {
	return fmt.Sprintf("%s, %d of 100: %s", s.Grade, s.Score, s.Description)
}

// Findings returns the report as findings of a capture. calls are those that the report is about.
func (r *Optimization) Findings(capture *lifetime.Capture, calls []lifetime.Call) (all []finding.Finding) {
	if len(capture.Spaces) == 0 {
		return nil
	}
	first := map[string]*lifetime.Call{}
	for i := range calls {
		if name := capture.FunctionName(calls[i].Site); first[name] == nil {
			first[name] = &calls[i]
		}
	}
	add := func(rule, severity string, confidence float64, names []string, figures Figures, description string, suggestions []string) {
		f := finding.Finding{Rule: rule, Confidence: confidence, Space: capture.Spaces[0], Description: description, Suggestions: suggestions}
		f.Severity, _ = finding.ParseSeverity(severity)
		for i, name := range names {
			if i == 0 {
				f.Space = capture.Spaces[first[name].Space]
			}
			f.Sites = append(f.Sites, first[name].Site)
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
		add(i.rule, severities[i.Impact], float64(i.Confidence), nil, i.Data, i.Title+": "+i.Description, i.Recommendations)
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
	e.How = e.Figure.How
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
