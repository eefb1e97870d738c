package preset

import "slices"

// fragmentation finds that the fragments are too large a share of the reserved
// memory after a call, on average over all calls.
func fragmentation(l *look) []Pattern {
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
	severity := "warning"
	if average > 0.5 {
		severity = "critical"
	}
	functions := namesOf(high)
	return []Pattern{{
		PatternType:       "fragmentation",
		Description:       "High memory fragmentation detected across operations",
		Severity:          severity,
		AffectedFunctions: functions,
		Metrics: Figures{
			{"average_fragmentation", Float(average)},
			{"max_fragmentation", Float(slices.Max(ratios))},
			{"high_fragmentation_functions", len(functions)},
		},
		Suggestions: l.preset.fragmentationAdvice,
	}}
}
