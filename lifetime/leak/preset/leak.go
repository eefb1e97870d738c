package preset

import "github.com/memlane/memlane/lifetime"

const (
	mebi = 1 << 20
	gibi = 1 << 30
)

// memoryLeak finds functions after whose calls there is more memory in use than
// before them: in a share of the calls, on average, and over 100 MiB in all.
func memoryLeak(l *look) (found []Pattern) {
	for _, f := range l.functions {
		if !l.enough(len(f.calls)) {
			continue
		}
		total, positive := int64(0), 0
		for _, c := range f.calls {
			change := c.Change()
			total = lifetime.AddSat(total, change)
			if change > 0 {
				positive++
			}
		}
		average := float64(total) / float64(len(f.calls))
		ratio := float64(positive) / float64(len(f.calls))
		if average <= 0 || ratio <= l.t.MemoryLeakRatio || total <= 100*mebi {
			continue
		}
		severity := "warning"
		if total > gibi {
			severity = "critical"
		}
		found = append(found, Pattern{
			PatternType:       "memory_leak",
			Description:       "Function '" + f.name + "' shows potential memory leak pattern",
			Severity:          severity,
			AffectedFunctions: []string{f.name},
			Metrics: Figures{
				{"total_memory_growth", total},
				{"average_growth_per_call", Float(average)},
				{"positive_growth_ratio", Float(ratio)},
				{"call_count", len(f.calls)},
			},
			Suggestions: []string{
				"Review memory management in '" + f.name + "'",
				"Check for uncleaned tensors or variables",
				"Use torch.cuda.empty_cache() if appropriate",
				"Consider using context managers for tensor lifecycle",
			},
		})
	}
	return found
}
