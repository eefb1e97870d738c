package preset

import (
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// Rule is one of the rules that presets share. It looks for one thing.
type Rule struct {
	Name string // that of the pattern or gap finding, else what it says
	Doc  string // when it applies, in one line

	// One of these.
	patterns func(*look) []Pattern
	insights func(*look) []Insight
	gaps     func(*gapLook) []GapFinding
}

// Rules are all rules, in the order of a report.
var Rules = []Rule{
	{Name: "memory_leak", Doc: "a function whose calls together grow by more than 100 MiB, and often enough", patterns: memoryLeak},
	{Name: "fragmentation", Doc: "reserved memory is in fragments, on average over all calls", patterns: fragmentation},
	{Name: "inefficient_allocation", Doc: "functions that allocate much more than their peak rises", patterns: inefficientAllocation},
	{Name: "memory_spikes", Doc: "calls that allocate more than 1.5 interquartile ranges above the upper quartile", patterns: memorySpikes},
	{Name: "repeated_allocations", Doc: "functions with 10 calls or more that allocate less than 50 MiB each", patterns: repeatedAllocations},
	{Name: "slow_functions", Doc: "functions whose mean time lies above the percentile (insight execution_time)", insights: slowFunctions},
	{Name: "inconsistent_times", Doc: "functions whose time varies by more than half of its mean (insight execution_time)", insights: inconsistentTimes},
	{Name: "memory_intensive", Doc: "calls that allocate more bytes per second than the percentile (insight memory_efficiency)", insights: memoryIntensive},
	{Name: "time_memory_correlation", Doc: "10 calls or more whose time and memory correlate above 0.7 (insight correlation)", insights: timeMemoryCorrelation},
	{Name: "memory_growth_trend", Doc: "5 calls or more along which the memory rises, r above 0.5 and p below 0.05 (insight temporal)", insights: growthTrend},
	{Name: transientSpike, Doc: "the gap between device and allocator jumps for a moment", gaps: transientSpikes},
	{Name: persistentDrift, Doc: "the gap between device and allocator grows steadily, over 5 samples or more", gaps: persistentDrifts},
	{Name: fragmentationLike, Doc: "reserved memory is in fragments, on average over all samples", gaps: fragmentationLikes},
}

// look is what a rule looks at.
type look struct {
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

// function is all calls of a function.
type function struct {
	name  string
	calls []call
}

// Report runs all rules on calls of c, and on its samples if it has any. t are
// most often p.Thresholds. A function is named by the frame of the program
// itself, or else by its operation.
func (p Preset) Report(c *lifetime.Capture, calls []lifetime.Call, t Thresholds) *Report {
	l := newLook(&p, c, calls, t)
	r := &Report{
		Summary: l.summary(), CriticalIssues: []Pattern{}, HighImpactInsights: []Insight{}, AllPatterns: []Pattern{}, AllInsights: []Insight{},
	}
	gaps := newGapLook(&p, c.Samples, t)
	if gaps != nil {
		r.GapAnalysis = []GapFinding{}
	}
	for _, rule := range Rules {
		switch {
		case rule.patterns != nil:
			r.AllPatterns = append(r.AllPatterns, rule.patterns(l)...)
		case rule.insights != nil:
			r.AllInsights = append(r.AllInsights, rule.insights(l)...)
		case gaps.open():
			r.GapAnalysis = append(r.GapAnalysis, rule.gaps(gaps)...)
		}
	}
	sortGaps(r.GapAnalysis)
	r.Conclude(r.cost())
	return r
}

func newLook(p *Preset, c *lifetime.Capture, calls []lifetime.Call, t Thresholds) *look {
	l := &look{preset: p, t: t, calls: make([]call, len(calls))}
	for i := range calls {
		l.calls[i] = call{&calls[i], c.FunctionName(calls[i].Site)}
	}
	l.functions = byFunction(l.calls)
	return l
}

// byFunction groups calls by their function, in order of its first call.
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
func (l *look) enough(n int) bool { return float64(n) >= l.t.MinCallsForAnalysis }

// summary counts. The times are summed up one by one, as Python before 3.12
// does.
func (l *look) summary() Summary {
	s := Summary{TotalFunctionsAnalyzed: len(l.functions), TotalFunctionCalls: len(l.calls)}
	for _, c := range l.calls {
		s.TotalMemoryAllocated = lifetime.AddSat(s.TotalMemoryAllocated, c.Allocated)
		s.TotalExecutionTime += Float(c.Seconds)
	}
	if n := len(l.calls); n > 0 {
		end := Float(l.calls[n-1].End)
		s.AnalysisTimestamp = &end
	}
	return s
}

// namesOf returns the names that calls have, each once, sorted: a set in the
// original.
func namesOf(calls []call) []string {
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = c.function
	}
	slices.Sort(names)
	return slices.Compact(names)
}
