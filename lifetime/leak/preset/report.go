package preset

import (
	"bytes"
	"encoding/json"
	"math"
)

// Report is what generate_optimization_report returns. As JSON it has the
// original's keys.
type Report struct {
	Summary            Summary          `json:"summary"`
	CriticalIssues     []Pattern        `json:"critical_issues"`
	HighImpactInsights []Insight        `json:"high_impact_insights"`
	AllPatterns        []Pattern        `json:"all_patterns"`
	AllInsights        []Insight        `json:"all_insights"`
	Recommendations    []Recommendation `json:"recommendations"`
	OptimizationScore  Score            `json:"optimization_score"`

	GapAnalysis []GapFinding `json:"gap_analysis,omitzero"` // nil without samples
}

// Summary counts what the report is about.
type Summary struct {
	TotalFunctionsAnalyzed int    `json:"total_functions_analyzed"`
	TotalFunctionCalls     int    `json:"total_function_calls"`
	TotalMemoryAllocated   int64  `json:"total_memory_allocated"` // bytes
	TotalExecutionTime     Float  `json:"total_execution_time"`   // seconds
	AnalysisTimestamp      *Float `json:"analysis_timestamp"`     // when the last call ended, seconds; null without calls
}

// Pattern is a way of using memory that costs some.
type Pattern struct {
	PatternType       string   `json:"pattern_type"` // the name of its rule
	Description       string   `json:"description"`
	Severity          string   `json:"severity"` // critical, warning, info
	AffectedFunctions []string `json:"affected_functions"`
	Metrics           Figures  `json:"metrics"`
	Suggestions       []string `json:"suggestions"`
}

// Insight is something that the times and the memory of calls tell together.
type Insight struct {
	Category        string   `json:"category"`
	Title           string   `json:"title"`
	Description     string   `json:"description"`
	Impact          string   `json:"impact"`     // high, medium
	Confidence      Float    `json:"confidence"` // 0 to 1
	Data            Figures  `json:"data"`
	Recommendations []string `json:"recommendations"`
}

// Recommendation is what to do first.
type Recommendation struct {
	Priority    string   `json:"priority"` // high, medium
	Category    string   `json:"category"`
	Description string   `json:"description"`
	Suggestions []string `json:"suggestions"`
}

// Score is a mark for the whole report.
type Score struct {
	Score       int    `json:"score"` // 0 to 100
	Grade       string `json:"grade"` // A, B, C, D, F
	Description string `json:"description"`
	IssuesFound int    `json:"issues_found"`
}

// GapFinding is something about the gap between what a device has in use and
// what the allocator knows of.
type GapFinding struct {
	Classification string   `json:"classification"` // the name of its rule
	Severity       string   `json:"severity"`       // critical, warning
	Confidence     Float    `json:"confidence"`     // 0 to 1
	Evidence       Figures  `json:"evidence"`
	Description    string   `json:"description"`
	Remediation    []string `json:"remediation"`

	*Moment // of stormlog only
}

// Moment is the sample that a finding of stormlog points at.
type Moment struct {
	EvidenceTimestampNS int64     `json:"evidence_timestamp_ns"`
	PhaseAttribution    *struct{} `json:"phase_attribution"` // always null: phases are not read
}

// Figures are named values in the original's order: an object in JSON.
type Figures []Figure

// Figure is one value. It is an int64 or int, a Float, a string or a list of
// such.
type Figure struct {
	Name  string
	Value any
}

// MarshalJSON writes an object.
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

// Float is a number that need not be finite: then it is null in JSON.
type Float float64

// MarshalJSON writes a number or null.
func (f Float) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}
