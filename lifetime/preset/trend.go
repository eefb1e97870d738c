package preset

import (
	"cmp"
	"math"
	"slices"
)

// growthTrend finds memory that rises from call to call. The impact is high above 1e6 bytes per second.
func growthTrend(l *input) []Insight {
	if len(l.calls) < 5 {
		return nil
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
		return nil
	}
	impact := "medium"
	if fit.slope > 1e6 {
		impact = "high"
	}
	return []Insight{{
		Category:    "temporal",
		Title:       "Memory Growth Trend",
		Description: "Detected upward trend in memory usage over time",
		Impact:      impact,
		Confidence:  Float(math.Abs(fit.r)),
		Data: Figures{
			{"growth_rate", Float(fit.slope)},
			{"correlation", Float(fit.r)},
			{"p_value", Float(fit.p)},
			{"time_span", Float(times[len(times)-1])},
		},
		Recommendations: []string{
			"Investigate potential memory leaks",
			"Implement periodic memory cleanup",
			"Monitor long-running processes",
			"Consider memory usage limits",
		},
	}}
}
