package preset

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
)

// repeatedAllocations finds functions with many calls that allocate little each time.
func repeatedAllocations(l *input) []Pattern {
	type repeated struct {
		name  string
		total int64
	}
	var all []repeated
	sum := int64(0)
	for _, f := range l.functions {
		if len(f.calls) < 10 {
			continue
		}
		total := int64(0)
		for _, c := range f.calls {
			total = units.AddSat(total, c.Allocated)
		}
		if float64(total)/float64(len(f.calls)) < 50*mebi {
			all = append(all, repeated{f.name, total})
			sum = units.AddSat(sum, total)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(x, y repeated) int { return cmp.Compare(y.total, x.total) })
	var top []string
	for _, r := range all[:min(5, len(all))] {
		top = append(top, r.name)
	}
	return []Pattern{{
		PatternType:       "repeated_allocations",
		Description:       "Functions with frequent small allocations detected",
		Severity:          "info",
		AffectedFunctions: top,
		Metrics: Figures{
			{"function_count", len(all)},
			{"total_impact_functions", top},
			{"total_memory_from_repeated", sum},
		},
		Suggestions: []string{
			"Consider pre-allocating memory for frequently called functions",
			"Use tensor pools or memory buffers for repeated allocations",
			"Batch operations to reduce allocation overhead",
			"Cache tensors between function calls when possible",
		},
	}}
}
