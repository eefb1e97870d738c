package preset_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/preset"
)

// made returns a capture with one site per function.
func made(t *testing.T, functions ...string) (c *lifetime.Capture, sites []lifetime.SiteID) {
	t.Helper()
	b := build.New(build.Everything)
	b.Source(lifetime.Source{})
	for _, f := range functions {
		stack := b.Stack([]lifetime.FrameID{b.Frame(frame.Frame{Function: f})})
		sites = append(sites, b.Site(lifetime.Site{Stack: stack}))
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c, sites
}

// TestThresholds lists and changes thresholds by name, and rejects bad names and values.
func TestThresholds(t *testing.T) {
	names := strings.Fields("memory_leak_ratio fragmentation_ratio inefficient_allocation_ratio slow_function_percentile high_memory_percentile " +
		"min_calls_for_analysis gap_ratio_threshold gap_spike_zscore gap_drift_r_squared gap_fragmentation_ratio")
	for _, p := range preset.Presets {
		want := []float64{0.1, 0.3, 0.5, 0.9, 0.9, 3, 0.05, 2, 0.6, 0.3}
		if p.Name == "stormlog" {
			want[0] = 0.7
		}
		thresholds := p.Thresholds
		for i, one := range thresholds.List() {
			if one.Name != names[i] || one.Value != want[i] || one.Doc == "" || strings.Contains(one.Doc, "\n") {
				t.Errorf("%s: %+v, want %s %v", p.Name, one, names[i], want[i])
			}
			if err := thresholds.Set(one.Name, 0.25); err != nil || thresholds.List()[i].Value != 0.25 || p.Thresholds.List()[i].Value != want[i] {
				t.Errorf("%s: set to %v: %v", one.Name, thresholds.List()[i], err)
			}
		}
	}
	changed := preset.Presets[0].Thresholds
	for _, share := range []float64{0, 1} {
		if err := changed.Set("slow_function_percentile", share); err != nil {
			t.Error(err)
		}
	}
	changed = preset.Presets[0].Thresholds
	for _, c := range []struct {
		name  string
		value float64
		want  string
	}{
		{"memory_leak", 1, `unknown threshold "memory_leak"; the thresholds are: ` + strings.Join(names, ", ")},
		{"gap_spike_zscore", math.NaN(), "gap_spike_zscore: NaN is not a finite number"},
		{"slow_function_percentile", 90, "slow_function_percentile: 90 is not between 0 and 1"},
		{"slow_function_percentile", -0.1, "slow_function_percentile: -0.1 is not between 0 and 1"},
	} {
		if err := changed.Set(c.name, c.value); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if changed != preset.Presets[0].Thresholds {
		t.Errorf("a refused change is in %+v", changed)
	}
}

// TestRules: every rule has a unique name and a description, and reports have no patterns of other rules.
func TestRules(t *testing.T) {
	var names []string
	for _, r := range preset.Rules {
		if r.Name == "" || r.Doc == "" || strings.Contains(r.Doc, "\n") || slices.Contains(names, r.Name) {
			t.Errorf("rule %s: %s", r.Name, r.Doc)
		}
		names = append(names, r.Name)
	}
	for _, c := range casesIn(t, "reports.json.gz") {
		read := capture(t, c.Input)
		for _, p := range preset.Presets {
			for _, pattern := range p.Optimize(read, read.Calls, p.Thresholds).AllPatterns {
				if !slices.Contains(names, pattern.PatternType) {
					t.Errorf("no rule is called %s", pattern.PatternType)
				}
			}
		}
	}
}

// TestWhereTheOriginalFails: a mean time of 0 (the clock was set back), one call instead of two, all calls and samples at one instant.
func TestWhereTheOriginalFails(t *testing.T) {
	c, sites := made(t, "f", "g")
	var calls []lifetime.Call
	for i := range 12 {
		calls = append(calls, lifetime.Call{Site: sites[0], Begin: 5, End: 5, Seconds: float64(i%2*2 - 1), After: int64(i) << 20})
		c.Samples = append(c.Samples, lifetime.Sample{T: 7, Regular: true, DeviceUsed: int64(i) << 30, DeviceTotal: 80 << 30})
	}
	calls = append(calls, lifetime.Call{Site: sites[1], Begin: 5, Seconds: 1})
	for _, p := range preset.Presets {
		thresholds := p.Thresholds
		if err := thresholds.Set("min_calls_for_analysis", 1); err != nil {
			t.Fatal(err)
		}
		r := p.Optimize(c, calls, thresholds)
		for _, i := range r.AllInsights {
			if i.Title == "Inconsistent Execution Times" || i.Category == "temporal" {
				t.Errorf("%s: %+v", p.Name, i)
			}
		}
		if len(r.GapAnalysis) != 0 {
			t.Errorf("%s: %+v", p.Name, r.GapAnalysis)
		}
	}
}

// TestOrderOfInefficient: functions are in order of their first inefficient call, not of their first call.
func TestOrderOfInefficient(t *testing.T) {
	c, sites := made(t, "first", "second")
	calls := []lifetime.Call{{Site: sites[0]}}
	for range 3 {
		calls = append(calls, lifetime.Call{Site: sites[1], Allocated: 100, Peak: 10}, lifetime.Call{Site: sites[0], Allocated: 100, Peak: 20})
	}
	r := preset.Presets[0].Optimize(c, calls, preset.Presets[0].Thresholds)
	if len(r.AllPatterns) != 1 || !slices.Equal(r.AllPatterns[0].AffectedFunctions, []string{"second", "first"}) {
		t.Errorf("%+v", r.AllPatterns)
	}
}

// TestNames: a function has the name of its frame, else of its operation; two sites with one name are one function.
func TestNames(t *testing.T) {
	c, sites := made(t, "f")
	c.Sites = append(c.Sites, lifetime.Site{Op: "f"}, lifetime.Site{Op: "aten::add"})
	calls := []lifetime.Call{{Site: sites[0]}, {Site: 2}, {Site: 3}, {}}
	if r := preset.Presets[0].Optimize(c, calls, preset.Presets[0].Thresholds); r.Summary.TotalFunctionsAnalyzed != 3 {
		t.Errorf("%+v", r.Summary)
	}
}

// TestDamagedFigures: a report is valid JSON whatever the figures are.
func TestDamagedFigures(t *testing.T) {
	c, sites := made(t, "f")
	odd := []float64{math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 0, math.NaN(), math.Inf(1)}
	sizes := []int64{math.MaxInt64, math.MinInt64, 1, 0, -1}
	for seed := range 500 {
		var calls []lifetime.Call
		c.Samples = nil
		pick := func(i int) (float64, int64) {
			k := seed*31 + i*7 + seed*i
			return odd[k%len(odd)], sizes[k%len(sizes)]
		}
		for i := range 12 {
			seconds, size := pick(i)
			begin, level := pick(i + seed)
			calls = append(calls, lifetime.Call{Site: sites[0], Begin: begin, End: seconds, Seconds: seconds, Allocated: size, After: level, Reserved: size, Inactive: level, Peak: size})
			c.Samples = append(c.Samples, lifetime.Sample{T: level, Regular: true, Allocated: size, Reserved: level, DeviceUsed: size, DeviceTotal: max(level, 1)})
		}
		for _, p := range preset.Presets {
			if _, err := json.Marshal(p.Optimize(c, calls, p.Thresholds)); err != nil {
				t.Errorf("%d: %v", seed, err)
			}
		}
	}
}
