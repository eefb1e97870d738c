package preset

import (
	"cmp"
	"fmt"
	"slices"
)

// timed is a function with a figure about its time.
type timed struct {
	name  string
	value float64
}

// seconds returns the duration of each call.
func (f *function) seconds() []float64 {
	times := make([]float64, len(f.calls))
	for i, c := range f.calls {
		times[i] = c.Seconds
	}
	return times
}

// slowFunctions finds functions whose mean time is above the percentile of all mean times.
func slowFunctions(l *input) []Insight {
	var means []timed
	for _, f := range l.functions {
		if l.enough(len(f.calls)) {
			means = append(means, timed{f.name, exactMean(f.seconds())})
		}
	}
	if len(means) == 0 {
		return nil
	}
	slices.SortStableFunc(means, func(x, y timed) int { return cmp.Compare(y.value, x.value) })
	values := make([]float64, len(means))
	for i, m := range means {
		values[i] = m.value
	}
	slices.Sort(values)
	threshold := percentile(values, l.t.SlowFunctionPercentile)
	slow := []string{}
	for _, m := range means {
		if m.value > threshold {
			slow = append(slow, m.name)
		}
	}
	if len(slow) == 0 {
		return nil
	}
	impact := "medium"
	if len(slow) > 3 {
		impact = "high"
	}
	return []Insight{{
		Category:    "execution_time",
		Title:       "Slow Function Detection",
		Description: fmt.Sprintf("Identified %d functions with high execution times", len(slow)),
		Impact:      impact,
		Confidence:  0.8,
		Data: Figures{
			{"slow_functions", slow[:min(5, len(slow))]},
			{"slowest_function", means[0].name},
			{"slowest_time", Float(means[0].value)},
			{"threshold", Float(threshold)},
		},
		Recommendations: []string{
			"Profile slow functions in detail",
			"Consider algorithmic optimizations",
			"Look for GPU/CPU synchronization issues",
			"Check for unnecessary memory transfers",
		},
	}}
}

// inconsistentTimes finds functions whose standard deviation of times is more than half of the mean.
func inconsistentTimes(l *input) []Insight {
	var variable []timed
	for _, f := range l.functions {
		if !l.enough(len(f.calls)) || len(f.calls) < 2 {
			continue
		}
		times := f.seconds()
		mean := exactMean(times)
		if mean <= 0 {
			continue
		}
		if cv := exactDeviation(times) / mean; cv > 0.5 {
			variable = append(variable, timed{f.name, cv})
		}
	}
	if len(variable) == 0 {
		return nil
	}
	names, highest := []string{}, variable[0]
	for _, v := range variable {
		names = append(names, v.name)
		if v.value > highest.value {
			highest = v
		}
	}
	return []Insight{{
		Category:    "execution_time",
		Title:       "Inconsistent Execution Times",
		Description: "Functions with highly variable execution times detected",
		Impact:      "medium",
		Confidence:  0.7,
		Data: Figures{
			{"variable_functions", names},
			{"highest_variance", []any{highest.name, Float(highest.value)}},
		},
		Recommendations: []string{
			"Investigate causes of execution time variance",
			"Check for resource contention",
			"Look for input size dependencies",
			"Consider warming up functions before timing",
		},
	}}
}
