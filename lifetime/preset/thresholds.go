package preset

import (
	"fmt"
	"math"
	"strings"
)

// Thresholds are the adjustable figures of the rules. Ratios and percentiles are shares: 0.9 is 90 %.
type Thresholds struct {
	MemoryLeakRatio            float64
	FragmentationRatio         float64
	InefficientAllocationRatio float64
	SlowFunctionPercentile     float64
	HighMemoryPercentile       float64
	MinCallsForAnalysis        float64
	GapRatioThreshold          float64
	GapSpikeZScore             float64
	GapDriftRSquared           float64
	GapFragmentationRatio      float64
}

// thresholds returns the defaults of a preset; presets differ in one figure.
func thresholds(memoryLeakRatio float64) Thresholds {
	return Thresholds{
		MemoryLeakRatio: memoryLeakRatio, FragmentationRatio: 0.3, InefficientAllocationRatio: 0.5, SlowFunctionPercentile: 0.9,
		HighMemoryPercentile: 0.9, MinCallsForAnalysis: 3, GapRatioThreshold: 0.05, GapSpikeZScore: 2, GapDriftRSquared: 0.6,
		GapFragmentationRatio: 0.3,
	}
}

// Threshold is one threshold with the name in the original.
type Threshold struct {
	Name, Doc string
	Value     float64
}

// published lists the thresholds in the order of the original.
var published = []struct {
	name, doc  string
	percentile bool // 0 to 1
	of         func(*Thresholds) *float64
}{
	{"memory_leak_ratio", "memory_leak: share of a function's calls that must grow, more than this", false,
		func(t *Thresholds) *float64 { return &t.MemoryLeakRatio }},
	{"fragmentation_ratio", "fragmentation: mean share of the reserved memory in fragments, more than this", false,
		func(t *Thresholds) *float64 { return &t.FragmentationRatio }},
	{"inefficient_allocation_ratio", "inefficient_allocation: rise to the peak over the bytes allocated, less than this", false,
		func(t *Thresholds) *float64 { return &t.InefficientAllocationRatio }},
	{"slow_function_percentile", "slow_functions: percentile of the functions' mean times, 0 to 1, above which one is slow", true,
		func(t *Thresholds) *float64 { return &t.SlowFunctionPercentile }},
	{"high_memory_percentile", "memory_intensive: percentile of bytes per second, 0 to 1, above which a call is intensive", true,
		func(t *Thresholds) *float64 { return &t.HighMemoryPercentile }},
	{"min_calls_for_analysis", "memory_leak, inefficient_allocation and times: calls that a function must have", false,
		func(t *Thresholds) *float64 { return &t.MinCallsForAnalysis }},
	{"gap_ratio_threshold", "all gap rules: largest gap over the device's memory, at least this", false,
		func(t *Thresholds) *float64 { return &t.GapRatioThreshold }},
	{"gap_spike_zscore", "transient_spike: standard deviations above the mean gap, more than this", false,
		func(t *Thresholds) *float64 { return &t.GapSpikeZScore }},
	{"gap_drift_r_squared", "persistent_drift: R² of the gap over time, at least this", false,
		func(t *Thresholds) *float64 { return &t.GapDriftRSquared }},
	{"gap_fragmentation_ratio", "fragmentation_like: mean share of the reserved memory in fragments, at least this", false,
		func(t *Thresholds) *float64 { return &t.GapFragmentationRatio }},
}

// List returns all thresholds in the order of the original.
func (t Thresholds) List() []Threshold {
	var all []Threshold
	for _, p := range published {
		all = append(all, Threshold{p.name, p.doc, *p.of(&t)})
	}
	return all
}

// Set changes a threshold. It fails for an unknown name (the error lists the names) and for a value out of range.
func (t *Thresholds) Set(name string, value float64) error {
	var names []string
	for _, p := range published {
		if p.name != name {
			names = append(names, p.name)
			continue
		}
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return fmt.Errorf("%s: %v is not a finite number", name, value)
		}
		if p.percentile && (value < 0 || value > 1) {
			return fmt.Errorf("%s: %v is not between 0 and 1", name, value)
		}
		*p.of(t) = value
		return nil
	}
	return fmt.Errorf("unknown threshold %q; the thresholds are: %s", name, strings.Join(names, ", "))
}
