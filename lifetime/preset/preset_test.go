package preset_test

import (
	"encoding/json"
	"maps"
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

// TestThresholds lists and changes thresholds by name, and rejects bad names and values. A preset keeps its own.
func TestThresholds(t *testing.T) {
	names := strings.Fields("fragmentation_ratio gap_ratio_threshold memory_leak_ratio min_calls_for_analysis")
	for _, p := range preset.Presets {
		want := []float64{0.3, 0.05, 0.1, 3}
		if p.Name == "stormlog" {
			want[2] = 0.7
		}
		if !slices.Equal(p.Thresholds.Names(), names) {
			t.Errorf("%s: %q, want %q", p.Name, p.Thresholds.Names(), names)
		}
		changed := maps.Clone(p.Thresholds)
		for i, name := range names {
			if doc := preset.DocOf(name); p.Thresholds[name] != want[i] || doc == "" || strings.Contains(doc, "\n") {
				t.Errorf("%s: %s=%v (%s), want %v", p.Name, name, p.Thresholds[name], doc, want[i])
			}
			if err := changed.Set(name, 0.25); err != nil || changed[name] != 0.25 || p.Thresholds[name] != want[i] {
				t.Errorf("%s: set to %v: %v", name, changed[name], err)
			}
		}
	}
	changed := maps.Clone(preset.Presets[0].Thresholds)
	for _, c := range []struct {
		name  string
		value float64
		want  string
	}{
		{"memory_leak", 1, `unknown threshold "memory_leak"; the thresholds are: ` + strings.Join(names, ", ")},
		{"gap_ratio_threshold", math.NaN(), "gap_ratio_threshold: NaN is not a finite number"},
		{"memory_leak_ratio", math.Inf(1), "memory_leak_ratio: +Inf is not a finite number"},
	} {
		if err := changed.Set(c.name, c.value); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if !maps.Equal(changed, preset.Presets[0].Thresholds) {
		t.Errorf("a refused change is in %+v", changed)
	}
}

// TestRules: every rule has a unique name and a description, and reports have no patterns of other rules.
func TestRules(t *testing.T) {
	var names []string
	for _, r := range preset.Rules {
		if doc := preset.DocOf(r.Name); doc == "" || strings.Contains(doc, "\n") || slices.Contains(names, r.Name) {
			t.Errorf("rule %s: %s", r.Name, preset.DocOf(r.Name))
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
		thresholds := maps.Clone(p.Thresholds)
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
