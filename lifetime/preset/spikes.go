package preset

import (
	"fmt"
	"slices"

	"github.com/memlane/memlane/internal/units"
)

// memorySpikes finds calls that allocate more than 1.5 interquartile ranges above the upper quartile of all calls that
// allocate.
func memorySpikes(l *input) []Pattern {
	var sizes []int64
	for _, c := range l.calls {
		if c.Allocated > 0 {
			sizes = append(sizes, c.Allocated)
		}
	}
	if len(sizes) < 3 {
		return nil
	}
	slices.Sort(sizes)
	sorted := make([]float64, len(sizes))
	for i, size := range sizes {
		sorted[i] = float64(size)
	}
	upper, lower := quantile(sorted, 0.75), quantile(sorted, 0.25)
	threshold := upper + float64(1.5*(upper-lower))

	var spikes []call
	for _, c := range l.calls {
		if float64(c.Allocated) > threshold {
			spikes = append(spikes, c)
		}
	}
	if len(spikes) == 0 {
		return nil
	}
	return []Pattern{{
		PatternType:       "memory_spikes",
		Description:       fmt.Sprintf("Detected %d memory allocation spikes", len(spikes)),
		Severity:          severityOf(len(spikes) >= 5),
		AffectedFunctions: namesOf(spikes),
		Metrics: Figures{
			{"spike_count", len(spikes)},
			{"spike_threshold", Float(threshold)},
			{"max_allocation", sizes[len(sizes)-1]},
			{"median_allocation", median(sizes)},
		},
		Suggestions: []string{
			"Investigate functions causing memory spikes",
			"Consider batch processing to reduce peak memory",
			"Use gradient checkpointing for large models",
			"Implement memory monitoring in spike-prone functions",
		},
	}}
}

// median returns the median of sorted sizes: an int64 if it is one of them, else a Float.
func median(sorted []int64) any {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return Float(float64(units.AddSat(sorted[middle-1], sorted[middle])) / 2)
}
