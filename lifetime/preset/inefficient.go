package preset

import "github.com/memlane/memlane/internal/units"

// inefficientAllocation finds functions whose calls allocate much more than their peak rises above the memory in use
// before. Only inefficient calls count, and a function needs MinCallsForAnalysis of them.
func inefficientAllocation(l *input) []Pattern {
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

// efficiency returns the rise of the peak of a call per allocated byte; ok is false unless both are positive.
func efficiency(c call) (ratio float64, ok bool) {
	rise := units.AddSat(c.Peak, -c.Before)
	if c.Allocated <= 0 || rise <= 0 {
		return 0, false
	}
	return float64(rise) / float64(c.Allocated), true
}
