package preset

import (
	"fmt"
	"math"
)

// timeMemoryCorrelation finds a strong correlation, positive or negative, between the time of calls and their allocated
// bytes.
func timeMemoryCorrelation(l *input) []Insight {
	if len(l.calls) < 10 {
		return nil
	}
	var times, sizes []float64
	for _, c := range l.calls {
		times = append(times, c.Seconds)
		sizes = append(sizes, float64(c.Allocated))
	}
	r := pearson(times, sizes)
	if !(math.Abs(r) > 0.7) { // NaN if one is constant
		return nil
	}
	interpretation := "negative"
	if r > 0 {
		interpretation = "positive"
	}
	return []Insight{{
		Category:    "correlation",
		Title:       "Time-Memory Correlation",
		Description: fmt.Sprintf("Strong correlation (%.2f) between execution time and memory", r),
		Impact:      "medium",
		Confidence:  0.8,
		Data: Figures{
			{"correlation_coefficient", Float(r)},
			{"interpretation", interpretation},
		},
		Recommendations: []string{
			"Memory allocation is a significant factor in execution time",
			"Consider memory pre-allocation strategies",
			"Optimize memory access patterns",
			"Monitor memory bandwidth utilization",
		},
	}}
}
