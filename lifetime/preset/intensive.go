package preset

import (
	"fmt"
	"slices"
)

// memoryIntensive finds calls whose allocated bytes per second are above the percentile of all calls.
func memoryIntensive(l *input) []Insight {
	var timed []call
	var rates []float64
	for _, c := range l.calls {
		if c.Seconds > 0 {
			timed = append(timed, c)
			rates = append(rates, float64(c.Allocated)/c.Seconds)
		}
	}
	if len(rates) == 0 {
		return nil
	}
	threshold := percentile(slices.Sorted(slices.Values(rates)), l.t.HighMemoryPercentile)
	var intensive []call
	for i, rate := range rates {
		if rate > threshold {
			intensive = append(intensive, timed[i])
		}
	}
	if len(intensive) == 0 {
		return nil
	}
	functions := namesOf(intensive)
	return []Insight{{
		Category:    "memory_efficiency",
		Title:       "Memory-Intensive Functions",
		Description: fmt.Sprintf("Identified %d memory-intensive functions", len(functions)),
		Impact:      "medium",
		Confidence:  0.75,
		Data: Figures{
			{"memory_intensive_functions", functions[:min(5, len(functions))]},
			{"threshold_ratio", Float(threshold)},
		},
		Recommendations: []string{
			"Optimize memory usage in intensive functions",
			"Consider using smaller data types",
			"Implement memory streaming for large operations",
			"Use gradient accumulation to reduce memory peaks",
		},
	}}
}
