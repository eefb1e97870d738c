package preset

import (
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Rule is one of the rules that presets share.
type Rule struct {
	Name string       // in the JSON of a pattern or gap finding; insights have none
	find func(*input) // adds to the report
}

// Rules are all rules in the order of a report.
var Rules = []Rule{
	{"memory_leak", memoryLeak},
	{"fragmentation", fragmentation},
	{"inefficient_allocation", inefficientAllocation},
	{"memory_spikes", memorySpikes},
	{"repeated_allocations", repeatedAllocations},
	{"slow_functions", slowFunctions},
	{"inconsistent_times", inconsistentTimes},
	{"memory_intensive", memoryIntensive},
	{"time_memory_correlation", timeMemoryCorrelation},
	{"memory_growth_trend", growthTrend},
	{"transient_spike", transientSpikes},
	{"persistent_drift", persistentDrifts},
	{"fragmentation_like", fragmentationLikes},
}

type input struct {
	preset    *Preset
	t         Thresholds
	calls     []call
	functions []function // in order of their first call

	// Of samples that have both sides of the gap and the memory of the device.
	samples []*lifetime.Sample
	gaps    []float64 // bytes in use on the device that the allocator did not reserve
	largest float64   // largest absolute gap over the memory of the device

	report *Optimization
}

type call struct {
	*lifetime.Call
	function string
}

type function struct {
	name  string
	calls []call
}

// Optimize runs all rules on calls of c, and on its samples if it has any, with thresholds that are usually p.Thresholds. A
// function has the name of the innermost frame of the program's own code, else of the operation.
func (p Preset) Optimize(c *lifetime.Capture, calls []lifetime.Call, t Thresholds) *Optimization {
	l := &input{preset: &p, t: t, report: &Optimization{
		CriticalIssues: []Pattern{}, HighImpactInsights: []Insight{}, AllPatterns: []Pattern{}, AllInsights: []Insight{},
	}}
	l.read(c, calls)
	if len(c.Samples) > 0 {
		l.report.GapAnalysis = []GapFinding{}
		l.measure(c.Samples)
	}
	for _, rule := range Rules {
		rule.find(l)
	}
	l.report.conclude()
	return l.report
}

// read reads the calls and sums them up. It adds times one by one, like Python before 3.12.
func (l *input) read(c *lifetime.Capture, calls []lifetime.Call) {
	index, sum := map[string]int{}, &l.report.Summary
	for i := range calls {
		one := call{&calls[i], c.FunctionName(calls[i].Site)}
		of := keyed.At(index, &l.functions, one.function, function{name: one.function})
		l.calls, of.calls = append(l.calls, one), append(of.calls, one)
		end := Float(one.End)
		sum.TotalMemoryAllocated, sum.AnalysisTimestamp = units.AddSat(sum.TotalMemoryAllocated, one.Allocated), &end
		sum.TotalExecutionTime += Float(one.Seconds)
	}
	sum.TotalFunctionsAnalyzed, sum.TotalFunctionCalls = len(l.functions), len(calls)
}

func (l *input) enough(n int) bool { return float64(n) >= l.t[callsToJudge] }

// pattern adds a pattern if it affects functions. args are those of the description of its rule.
func (l *input) pattern(rule, severity string, functions []string, metrics Figures, args ...any) {
	if len(functions) == 0 {
		return
	}
	t := l.preset.text(rule, args)
	p := Pattern{rule, t.Description, severity, functions, metrics, slices.Clone(t.Advice)}
	for i, advice := range p.Suggestions {
		p.Suggestions[i] = strings.ReplaceAll(advice, "%s", functions[0])
	}
	l.report.AllPatterns = append(l.report.AllPatterns, p)
}

// insight adds an insight. args are those of the description of its rule.
func (l *input) insight(rule, impact string, confidence Float, data Figures, args ...any) {
	t := l.preset.text(rule, args)
	l.report.AllInsights = append(l.report.AllInsights, Insight{t.Category, t.Title, t.Description, impact, confidence, data, t.Advice, rule})
}

// gap adds a finding about gaps; sample is the one that shows it best. args are those of the description of its rule.
func (l *input) gap(rule string, critical bool, confidence float64, evidence Figures, sample *lifetime.Sample, args ...any) {
	t := l.preset.text(rule, args)
	f := GapFinding{rule, either(critical, "critical", "warning"), Float(confidence), evidence, t.Description, t.Advice, nil}
	if l.preset.successor {
		f.Moment = &Moment{EvidenceTimestampNS: sample.T}
	}
	l.report.GapAnalysis = append(l.report.GapAnalysis, f)
}

func either(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

// namesOf returns the distinct functions of calls, sorted; the original has a set.
func namesOf(calls []call) []string {
	var names []string
	for _, c := range calls {
		names = append(names, c.function)
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

func (l *input) measure(samples []lifetime.Sample) {
	for i := range samples {
		s := &samples[i]
		if s.DeviceTotal <= 0 || s.DeviceUsed < 0 || s.Reserved < 0 || l.preset.successor && !s.Regular {
			continue
		}
		gap := float64(s.DeviceUsed - s.Reserved)
		l.samples = append(l.samples, s)
		l.gaps = append(l.gaps, gap)
		l.largest = max(l.largest, math.Abs(gap/float64(s.DeviceTotal)))
	}
}

func (l *input) gapsMatter(n int) bool { return len(l.gaps) >= n && l.largest >= l.t[gapRatio] }

// transientSpikes finds gaps far above the mean.
func transientSpikes(l *input) {
	if !l.gapsMatter(3) {
		return
	}
	average, spread := mean(l.gaps), deviation(l.gaps)
	if spread == 0 || math.IsNaN(spread) {
		return
	}
	spikes, highest := 0, 0
	for i, gap := range l.gaps {
		if (gap-average)/spread > spikeScore {
			spikes++
		}
		if gap > l.gaps[highest] {
			highest = i
		}
	}
	if spikes == 0 {
		return
	}
	z := (l.gaps[highest] - average) / spread
	l.gap("transient_spike", z > 2*spikeScore, round(min(1, z/(3*spikeScore)), 3), Figures{
		{"spike_count", spikes}, {"max_gap_bytes", Float(l.gaps[highest])},
		{"max_zscore", Float(round(z, 3))}, {"mean_gap_bytes", Float(round(average, 1))},
		{"std_gap_bytes", Float(round(spread, 1))},
	}, l.samples[highest], spikes, z)
}

// persistentDrifts finds gaps that grow along a line.
func persistentDrifts(l *input) {
	if !l.gapsMatter(5) {
		return
	}
	times := make([]float64, len(l.samples))
	for i, s := range l.samples {
		times[i] = float64(s.T) - float64(l.samples[0].T)
	}
	fit, ok := regress(times, l.gaps)
	square := fit.r * fit.r
	if !ok || !(fit.slope > 0) || square < driftSquare {
		return
	}
	perSecond := fit.slope * 1e9
	last := len(l.gaps) - 1
	l.gap("persistent_drift", square > 0.85, roundScaled(min(1, square), 3), Figures{
		{"slope_bytes_per_sec", Float(roundScaled(perSecond, 1))}, {"r_squared", Float(roundScaled(square, 4))},
		{"p_value", Float(roundScaled(fit.p, 6))}, {"gap_start_bytes", Float(l.gaps[0])},
		{"gap_end_bytes", Float(l.gaps[last])},
	}, l.samples[last], formatBytes(math.Trunc(math.Abs(perSecond))), square)
}

// fragmentationLikes finds a large share of fragments in the reserved memory, on average over all samples.
func fragmentationLikes(l *input) {
	if !l.gapsMatter(3) {
		return
	}
	var ratios []float64
	var fragmented []*lifetime.Sample
	for _, s := range l.samples {
		fragments, known := s.Reserved-s.Allocated, s.Allocated >= 0
		if l.preset.successor {
			fragments, known = s.Inactive, s.Inactive >= 0
		}
		if known && s.Reserved > 0 {
			ratios, fragmented = append(ratios, float64(fragments)/float64(s.Reserved)), append(fragmented, s)
		}
	}
	average := mean(ratios)
	if !(average >= fragmentedGapRatio) { // NaN without any
		return
	}
	highest := slices.Max(ratios)
	l.gap("fragmentation_like", average > 0.5, round(min(1, average/0.6), 3), Figures{
		{"avg_fragmentation_ratio", Float(round(average, 4))}, {"max_fragmentation_ratio", Float(round(highest, 4))},
		{"avg_gap_bytes", Float(round(mean(l.gaps), 1))}, {"sample_count", len(ratios)},
	}, fragmented[slices.Index(ratios, highest)], average*100)
}
