package preset

import "slices"

// fragmentation finds a large share of fragments in the reserved memory, on average over all calls.
func fragmentation(l *input) []Pattern {
	var ratios []float64
	var high []call
	for _, c := range l.calls {
		if c.Reserved <= 0 {
			continue
		}
		ratio := float64(l.preset.callFragments(c.Call)) / float64(c.Reserved)
		ratios = append(ratios, ratio)
		if ratio > l.t.FragmentationRatio {
			high = append(high, c)
		}
	}
	if len(ratios) == 0 {
		return nil
	}
	average := exactMean(ratios)
	if average <= l.t.FragmentationRatio {
		return nil
	}
	functions := namesOf(high)
	return []Pattern{{
		PatternType:       "fragmentation",
		Description:       "High memory fragmentation detected across operations",
		Severity:          severityOf(average > 0.5),
		AffectedFunctions: functions,
		Metrics: Figures{
			{"average_fragmentation", Float(average)},
			{"max_fragmentation", Float(slices.Max(ratios))},
			{"high_fragmentation_functions", len(functions)},
		},
		Suggestions: l.preset.fragmentationAdvice,
	}}
}
