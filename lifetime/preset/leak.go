package preset

import "github.com/memlane/memlane/internal/units"

const (
	mebi = 1 << 20
	gibi = 1 << 30
)

// memoryLeak finds functions whose calls increase the memory in use: in a share of the calls, on average, and by more than
// 100 MiB in total.
func memoryLeak(l *input) (found []Pattern) {
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
		if average <= 0 || ratio <= l.t.MemoryLeakRatio || total <= 100*mebi {
			continue
		}
		found = append(found, Pattern{
			PatternType:       "memory_leak",
			Description:       "Function '" + f.name + "' shows potential memory leak pattern",
			Severity:          severityOf(total > gibi),
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
