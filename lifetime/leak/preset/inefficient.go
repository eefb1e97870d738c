package preset

import "github.com/memlane/memlane/lifetime"

// inefficientAllocation finds functions that allocate much more than the peak
// rises above what was in use before. Only calls that are inefficient count:
// there must be enough of them.
func inefficientAllocation(l *look) []Pattern {
	var inefficient []call
	for _, c := range l.calls {
		if ratio, ok := efficiency(c); ok && ratio < l.t.InefficientAllocationRatio {
			inefficient = append(inefficient, c)
		}
	}
	var functions []string
	var averages []float64
	for _, f := range byFunction(inefficient) {
		if !l.enough(len(f.calls)) {
			continue
		}
		var ratios []float64
		for _, c := range f.calls {
			ratio, _ := efficiency(c)
			ratios = append(ratios, ratio)
		}
		if average := exactMean(ratios); average < l.t.InefficientAllocationRatio {
			functions = append(functions, f.name)
			averages = append(averages, average)
		}
	}
	if len(functions) == 0 {
		return nil
	}
	return []Pattern{{
		PatternType:       "inefficient_allocation",
		Description:       "Functions with inefficient memory allocation patterns detected",
		Severity:          "warning",
		AffectedFunctions: functions,
		Metrics: Figures{
			{"inefficient_function_count", len(functions)},
			{"average_efficiency", Float(exactMean(averages))},
		},
		Suggestions: []string{
			"Review allocation patterns in inefficient functions",
			"Consider using in-place operations where possible",
			"Pre-allocate tensors to avoid repeated allocations",
			"Use tensor views instead of copies when appropriate",
		},
	}}
}

// efficiency returns by how much the peak of a call rises per byte that it
// allocates, where it does both.
func efficiency(c call) (ratio float64, ok bool) {
	rise := lifetime.AddSat(c.Peak, -c.Before)
	if c.Allocated <= 0 || rise <= 0 {
		return 0, false
	}
	return float64(rise) / float64(c.Allocated), true
}
