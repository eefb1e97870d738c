package preset

import (
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Rule is one of the rules that presets share.
type Rule struct {
	Name string // name in the JSON of a pattern or gap finding; insights have none
	Doc  string // when it applies, in one line

	// Exactly one of these is set.
	patterns func(*input) []Pattern
	insights func(*input) []Insight
	gaps     func(*gapInput) []GapFinding
}

// Rules are all rules in the order of a report.
var Rules = []Rule{
	{Name: "memory_leak", Doc: "functions whose calls increase the memory by more than 100 MiB in total, and often enough", patterns: memoryLeak},
	{Name: "fragmentation", Doc: "reserved memory that is fragmented, on average over all calls", patterns: fragmentation},
	{Name: "inefficient_allocation", Doc: "functions that allocate much more than their peak rises", patterns: inefficientAllocation},
	{Name: "memory_spikes", Doc: "calls that allocate more than 1.5 interquartile ranges above the upper quartile", patterns: memorySpikes},
	{Name: "repeated_allocations", Doc: "functions with 10 calls or more that allocate less than 50 MiB each", patterns: repeatedAllocations},
	{Name: "slow_functions", Doc: "functions whose mean time is above the percentile (insight execution_time)", insights: slowFunctions},
	{Name: "inconsistent_times", Doc: "functions whose time varies by more than half of its mean (insight execution_time)", insights: inconsistentTimes},
	{Name: "memory_intensive", Doc: "calls whose allocated bytes per second are above the percentile (insight memory_efficiency)", insights: memoryIntensive},
	{Name: "time_memory_correlation", Doc: "10 calls or more whose time and memory correlate above 0.7 (insight correlation)", insights: timeMemoryCorrelation},
	{Name: "memory_growth_trend", Doc: "5 calls or more over which the memory rises, r above 0.5 and p below 0.05 (insight temporal)", insights: growthTrend},
	{Name: transientSpike, Doc: "a gap between device and allocator that is large for a moment", gaps: transientSpikes},
	{Name: persistentDrift, Doc: "a gap between device and allocator that grows steadily over 5 samples or more", gaps: persistentDrifts},
	{Name: fragmentationLike, Doc: "reserved memory that is fragmented, on average over all samples", gaps: fragmentationLikes},
}

// input is the input of the rules about calls.
type input struct {
	preset    *Preset
	t         Thresholds
	calls     []call
	functions []function // in order of their first call
}

// call is a call with the name of its function.
type call struct {
	*lifetime.Call
	function string
}

// function has all calls of a function.
type function struct {
	name  string
	calls []call
}

// Optimize runs all rules on calls of c, and on its samples if it has any, with thresholds that are usually p.Thresholds. A
// function has the name of the innermost frame of the program's own code, else of the operation.
func (p Preset) Optimize(c *lifetime.Capture, calls []lifetime.Call, t Thresholds) *Optimization {
	l := newInput(&p, c, calls, t)
	r := &Optimization{
		Summary: l.summary(), CriticalIssues: []Pattern{}, HighImpactInsights: []Insight{}, AllPatterns: []Pattern{}, AllInsights: []Insight{},
	}
	gaps := newGapInput(&p, c.Samples, t)
	if gaps != nil {
		r.GapAnalysis = []GapFinding{}
	}
	for _, rule := range Rules {
		switch {
		case rule.patterns != nil:
			r.AllPatterns = append(r.AllPatterns, rule.patterns(l)...)
		case rule.insights != nil:
			r.AllInsights = append(r.AllInsights, rule.insights(l)...)
		case gaps.relevant():
			r.GapAnalysis = append(r.GapAnalysis, rule.gaps(gaps)...)
		}
	}
	sortGaps(r.GapAnalysis)
	r.conclude()
	return r
}

func newInput(p *Preset, c *lifetime.Capture, calls []lifetime.Call, t Thresholds) *input {
	l := &input{preset: p, t: t, calls: make([]call, len(calls))}
	for i := range calls {
		l.calls[i] = call{&calls[i], c.FunctionName(calls[i].Site)}
	}
	l.functions = byFunction(l.calls)
	return l
}

// byFunction groups calls by function, in order of the first call.
func byFunction(calls []call) (all []function) {
	index := map[string]int{}
	for _, c := range calls {
		at, ok := index[c.function]
		if !ok {
			at = len(all)
			index[c.function] = at
			all = append(all, function{name: c.function})
		}
		all[at].calls = append(all[at].calls, c)
	}
	return all
}

// enough reports whether n calls are enough to judge a function.
func (l *input) enough(n int) bool { return float64(n) >= l.t.MinCallsForAnalysis }

// summary sums up the calls. It adds times one by one, like Python before 3.12.
func (l *input) summary() Summary {
	s := Summary{TotalFunctionsAnalyzed: len(l.functions), TotalFunctionCalls: len(l.calls)}
	for _, c := range l.calls {
		s.TotalMemoryAllocated = units.AddSat(s.TotalMemoryAllocated, c.Allocated)
		s.TotalExecutionTime += Float(c.Seconds)
	}
	if n := len(l.calls); n > 0 {
		end := Float(l.calls[n-1].End)
		s.AnalysisTimestamp = &end
	}
	return s
}

// severityOf returns the severity of a finding that is at least a warning.
func severityOf(critical bool) string {
	if critical {
		return "critical"
	}
	return "warning"
}

// namesOf returns the distinct functions of calls, sorted; the original has a set.
func namesOf(calls []call) []string {
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = c.function
	}
	slices.Sort(names)
	return slices.Compact(names)
}
