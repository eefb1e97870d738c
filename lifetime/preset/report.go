package preset

import (
	"bytes"
	"encoding/json"
	"math"
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
	var b bytes.Buffer
	b.WriteByte('{')
	for i, figure := range f {
		name, err := json.Marshal(figure.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(figure.Value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
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
