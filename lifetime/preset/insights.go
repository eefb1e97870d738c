package preset

import (
	"cmp"
	"math"
	"slices"
)

// timed is a function with a figure about its time.
type timed struct {
	name  string
	value float64
}

func (f *function) seconds() []float64 {
	times := make([]float64, len(f.calls))
	for i, c := range f.calls {
		times[i] = c.Seconds
	}
	return times
}

// slowFunctions finds functions whose mean time is above the percentile of all mean times.
func slowFunctions(l *input) {
	var means []timed
	var values []float64
	for _, f := range l.functions {
		if l.enough(len(f.calls)) {
			means = append(means, timed{f.name, exactMean(f.seconds())})
			values = append(values, means[len(means)-1].value)
		}
	}
	if len(means) == 0 {
		return
	}
	slices.SortStableFunc(means, func(x, y timed) int { return cmp.Compare(y.value, x.value) })
	threshold := percentile(values, slowPercentile)
	var slow []string
	for _, m := range means {
		if m.value > threshold {
			slow = append(slow, m.name)
		}
	}
	if len(slow) > 0 {
		l.insight("slow_functions", either(len(slow) > 3, "high", "medium"), 0.8, Figures{
			{"slow_functions", slow[:min(5, len(slow))]}, {"slowest_function", means[0].name},
			{"slowest_time", Float(means[0].value)}, {"threshold", Float(threshold)},
		}, len(slow))
	}
}

// inconsistentTimes finds functions whose standard deviation of times is more than half of the mean.
func inconsistentTimes(l *input) {
	var names []string
	var highest timed
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
			names = append(names, f.name)
			if cv > highest.value {
				highest = timed{f.name, cv}
			}
		}
	}
	if len(names) > 0 {
		l.insight("inconsistent_times", "medium", 0.7, Figures{
			{"variable_functions", names}, {"highest_variance", []any{highest.name, Float(highest.value)}},
		})
	}
}

// memoryIntensive finds calls whose allocated bytes per second are above the percentile of all calls.
func memoryIntensive(l *input) {
	var timed []call
	var rates []float64
	for _, c := range l.calls {
		if c.Seconds > 0 {
			timed = append(timed, c)
			rates = append(rates, float64(c.Allocated)/c.Seconds)
		}
	}
	if len(rates) == 0 {
		return
	}
	threshold := percentile(rates, intensePercentile)
	var intensive []call
	for i, rate := range rates {
		if rate > threshold {
			intensive = append(intensive, timed[i])
		}
	}
	if functions := namesOf(intensive); len(functions) > 0 {
		l.insight("memory_intensive", "medium", 0.75, Figures{
			{"memory_intensive_functions", functions[:min(5, len(functions))]}, {"threshold_ratio", Float(threshold)},
		}, len(functions))
	}
}

// timeMemoryCorrelation finds a strong correlation, positive or negative, between the time of calls and their allocated
// bytes.
func timeMemoryCorrelation(l *input) {
	if len(l.calls) < 10 {
		return
	}
	var times, sizes []float64
	for _, c := range l.calls {
		times = append(times, c.Seconds)
		sizes = append(sizes, float64(c.Allocated))
	}
	r := pearson(times, sizes)
	if !(math.Abs(r) > 0.7) { // NaN if one is constant
		return
	}
	l.insight("time_memory_correlation", "medium", 0.8, Figures{
		{"correlation_coefficient", Float(r)}, {"interpretation", either(r > 0, "positive", "negative")},
	}, r)
}

// growthTrend finds memory that rises from call to call. The impact is high above 1e6 bytes per second.
func growthTrend(l *input) {
	if len(l.calls) < 5 {
		return
	}
	calls := slices.Clone(l.calls)
	slices.SortStableFunc(calls, func(x, y call) int { return cmp.Compare(x.Begin, y.Begin) })
	times := make([]float64, len(calls))
	levels := make([]float64, len(calls))
	for i, c := range calls {
		times[i] = c.Begin - calls[0].Begin
		levels[i] = float64(c.After)
	}
	fit, ok := regress(times, levels)
	if !ok || !(fit.slope > 0 && math.Abs(fit.r) > 0.5 && fit.p < 0.05) {
		return
	}
	l.insight("memory_growth_trend", either(fit.slope > 1e6, "high", "medium"), Float(math.Abs(fit.r)), Figures{
		{"growth_rate", Float(fit.slope)}, {"correlation", Float(fit.r)},
		{"p_value", Float(fit.p)}, {"time_span", Float(times[len(times)-1])},
	})
}
