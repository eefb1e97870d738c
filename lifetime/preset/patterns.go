package preset

import (
	"cmp"
	"math"
	"slices"

	"github.com/memlane/memlane/internal/units"
)

const mebi = 1 << 20

// memoryLeak finds functions whose calls increase the memory in use: in a share of the calls, on average, and by more than
// 100 MiB in total.
func memoryLeak(l *input) {
	for _, f := range l.functions {
		if !l.enough(len(f.calls)) {
			continue
		}
		total, positive := int64(0), 0
		for _, c := range f.calls {
			change := c.Change()
			total = units.AddSat(total, change)
			if change > 0 {
				positive++
			}
		}
		average := float64(total) / float64(len(f.calls))
		ratio := float64(positive) / float64(len(f.calls))
		if average <= 0 || ratio <= l.t[leakRatio] || total <= 100*mebi {
			continue
		}
		l.pattern("memory_leak", either(total > 1024*mebi, "critical", "warning"), []string{f.name}, Figures{
			{"total_memory_growth", total}, {"average_growth_per_call", Float(average)},
			{"positive_growth_ratio", Float(ratio)}, {"call_count", len(f.calls)},
		}, f.name)
	}
}

// fragmentation finds a large share of fragments in the reserved memory, on average over all calls.
func fragmentation(l *input) {
	var ratios []float64
	var high []call
	for _, c := range l.calls {
		if c.Reserved <= 0 {
			continue
		}
		fragments := units.AddSat(c.Reserved, -c.After)
		if l.preset.successor {
			fragments = c.Inactive
		}
		ratio := float64(fragments) / float64(c.Reserved)
		ratios = append(ratios, ratio)
		if ratio > l.t[fragmentationRatio] {
			high = append(high, c)
		}
	}
	if average := exactMean(ratios); average > l.t[fragmentationRatio] {
		functions := namesOf(high)
		l.pattern("fragmentation", either(average > 0.5, "critical", "warning"), functions, Figures{
			{"average_fragmentation", Float(average)}, {"max_fragmentation", Float(slices.Max(ratios))},
			{"high_fragmentation_functions", len(functions)},
		})
	}
}

// inefficientAllocation finds functions whose calls allocate much more than their peak rises above the memory in use
// before. Only inefficient calls count, and a function needs enough of them.
func inefficientAllocation(l *input) {
	ratios := map[string][]float64{}
	var names []string
	for _, c := range l.calls {
		rise := units.AddSat(c.Peak, -c.Before)
		ratio := float64(rise) / float64(c.Allocated)
		if c.Allocated <= 0 || rise <= 0 || ratio >= efficientRatio {
			continue
		}
		if ratios[c.function] == nil {
			names = append(names, c.function)
		}
		ratios[c.function] = append(ratios[c.function], ratio)
	}
	var functions []string
	var averages []float64
	for _, name := range names {
		if l.enough(len(ratios[name])) {
			functions, averages = append(functions, name), append(averages, exactMean(ratios[name]))
		}
	}
	l.pattern("inefficient_allocation", "warning", functions, Figures{
		{"inefficient_function_count", len(functions)}, {"average_efficiency", Float(exactMean(averages))},
	})
}

// memorySpikes finds calls that allocate more than 1.5 interquartile ranges above the upper quartile of all calls that
// allocate.
func memorySpikes(l *input) {
	var sizes []int64
	var values []float64
	for _, c := range l.calls {
		if c.Allocated > 0 {
			sizes, values = append(sizes, c.Allocated), append(values, float64(c.Allocated))
		}
	}
	if len(sizes) < 3 {
		return
	}
	slices.Sort(sizes)
	upper, lower := quantile(values, 0.75), quantile(values, 0.25)
	threshold := upper + float64(1.5*(upper-lower))

	var spikes []call
	for _, c := range l.calls {
		if float64(c.Allocated) > threshold {
			spikes = append(spikes, c)
		}
	}
	l.pattern("memory_spikes", either(len(spikes) >= 5, "critical", "warning"), namesOf(spikes), Figures{
		{"spike_count", len(spikes)}, {"spike_threshold", Float(threshold)},
		{"max_allocation", sizes[len(sizes)-1]}, {"median_allocation", median(sizes)},
	}, len(spikes))
}

// median returns the median of sorted sizes: an int64 if it is one of them, else a Float.
func median(sorted []int64) any {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return Float(float64(units.AddSat(sorted[middle-1], sorted[middle])) / 2)
}

// repeatedAllocations finds functions with many calls that allocate little each time.
func repeatedAllocations(l *input) {
	totals, sum := map[string]int64{}, int64(0)
	var names []string
	for _, f := range l.functions {
		total := int64(0)
		for _, c := range f.calls {
			total = units.AddSat(total, c.Allocated)
		}
		if n := len(f.calls); n >= 10 && float64(total)/float64(n) < 50*mebi {
			names, totals[f.name], sum = append(names, f.name), total, units.AddSat(sum, total)
		}
	}
	slices.SortStableFunc(names, func(x, y string) int { return cmp.Compare(totals[y], totals[x]) })
	top := names[:min(5, len(names))]
	l.pattern("repeated_allocations", "info", top, Figures{
		{"function_count", len(names)}, {"total_impact_functions", top},
		{"total_memory_from_repeated", sum},
	})
}

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
