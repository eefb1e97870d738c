package preset

import (
	"cmp"
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
