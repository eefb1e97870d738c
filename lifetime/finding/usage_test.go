package finding_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
)

// TestSpikeAtLimits: with at least twelve steps, a step is an outlier above 1.25 times the median peak and 1.5 interquartile
// ranges above the upper quartile.
func TestSpikeAtLimits(t *testing.T) {
	equal := []int64{100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100}
	spread := []int64{100, 120, 110, 140, 100, 120, 110, 140, 100, 120, 110} // the quartiles are 100, 110 and 120
	for name, c := range map[string]struct {
		peaks []int64
		want  string
	}{
		"equal":              {append(equal, 100), ""},
		"a quarter more":     {append(equal, 125), ""},
		"more than that":     {append(equal, 126), "1 of 12, step 11: 126, usual 100"},
		"the first":          {append([]int64{200}, equal...), "1 of 12, step 0: 200, usual 100"},
		"two of them":        {append([]int64{200, 300}, equal...), "2 of 13, step 1: 300, usual 100"},
		"eleven steps":       {append(equal[:10:10], 126), ""},
		"1.5 ranges":         {append(spread, 150), ""},
		"more than 1.5":      {append(spread, 151), "1 of 12, step 11: 151, usual 120"},
		"the highest is one": {append(spread, 151, 900, 700), "2 of 14, step 12: 900, usual 120"},
	} {
		h := newByHand()
		h.free(h.alloc("before", 500)) // of no step
		for i, peak := range c.peaks {
			h.step()
			low, high := h.alloc("usual", peak/2), h.alloc(fmt.Sprint("step", i), peak-peak/2)
			h.free(high)
			h.free(low)
		}
		_, found := h.find(t, "spike")
		var got string
		for _, f := range found {
			got += fmt.Sprintf("%v of %v, step %v: %v, usual %v", evidence(f, "steps_above"), evidence(f, "steps"), evidence(f, "step"),
				evidence(f, "peak"), evidence(f, "usual_peak"))
			if float64(f.Amount.Bytes) != evidence(f, "peak").(float64)-evidence(f, "usual_peak").(float64) {
				t.Errorf("%s: %v", name, f.Amount)
			}
			if want := fmt.Sprintf("; step%v (train.py) holds ", evidence(f, "step")); !strings.Contains(f.Description, want) {
				t.Errorf("%s: %s", name, f.Description)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTrendAtLimits: there are at least 18 floors after the first third, at most one is not higher than the previous one, and
// they grow by a twentieth of the peak.
func TestTrendAtLimits(t *testing.T) {
	for name, c := range map[string]struct {
		slices, fall int
		from, each   int64
		want         string
	}{
		"rises":             {48, 0, 1000, 10, "32 slices, 0 not higher, 310 grown"},
		"one falls":         {48, 1, 1000, 10, "32 slices, 1 not higher, 310 grown"},
		"two fall":          {48, 2, 1000, 10, ""},
		"a twentieth":       {48, 0, 5723, 10, "32 slices, 0 not higher, 310 grown"},
		"less than that":    {48, 0, 5734, 10, ""},
		"eighteen slices":   {26, 0, 1000, 10, "18 slices, 0 not higher, 170 grown"},
		"seventeen of them": {25, 0, 1000, 10, ""},
	} {
		h := newByHand()
		for i := range c.slices {
			level := c.from + c.each*int64(i)
			if fell := c.slices - 1 - i; c.fall > 0 && fell > 0 && fell <= 4*c.fall && fell%4 == 0 {
				level -= 2 * c.each
			}
			h.at += 10
			h.b.Total(h.s, lifetime.Total{T: h.at, Bytes: level, Measure: lifetime.Occupied})
			h.at += 10
			h.b.Total(h.s, lifetime.Total{T: h.at, Bytes: level + 7, Measure: lifetime.Occupied})
		}
		_, found := h.find(t, "trend")
		var got string
		for _, f := range found {
			got += fmt.Sprintf("%v slices, %v not higher, %v grown", evidence(f, "slices"), evidence(f, "not_higher"), evidence(f, "grown_bytes"))
			if f.Severity != finding.Warning || float64(f.Amount.Bytes) != evidence(f, "grown_bytes") {
				t.Errorf("%s: %s %v", name, f.Severity, f.Amount)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTrendAdvice: memlane does not advise to record what was recorded.
func TestTrendAdvice(t *testing.T) {
	h := newByHand()
	for range 60 {
		h.free(h.alloc("work", 900))
		h.alloc("grow", 1<<20)
		h.free(h.alloc("work", 700))
	}
	only := slices.DeleteFunc(finding.Rules(), func(r finding.Rule) bool { return r.Name != "trend" })
	found := find(t, h.capture(t, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock}), finding.Settings{Rules: only})
	if len(found) != 1 || !strings.Contains(found[0].Description, "grow") || strings.Contains(found[0].Suggestions[0], "one by one") {
		t.Errorf("%+v", found)
	}
}

// TestFlatAtLimits: a line is flat if at least ten allocations all happen in less than a tenth of the window. Marks extend the
// window.
func TestFlatAtLimits(t *testing.T) {
	for name, c := range map[string]struct {
		n         int
		end, mark int64
		want      string
	}{
		"less than a tenth": {10, 911, 0, "0.0999"},
		"a tenth":           {10, 910, 0, ""},
		"nine allocations":  {9, 2000, 0, ""},
		"a mark behind it":  {10, 300, 911, "0.0999"},
		"a mark inside":     {10, 300, 100, ""},
	} {
		h := newByHand()
		for range c.n {
			h.alloc("plan", 4096)
		}
		if c.mark > 0 {
			h.b.Mark(h.s, lifetime.Mark{Begin: c.mark - 1, End: c.mark, Kind: lifetime.Annotation, Text: "module"})
		}
		_, found := h.findIn(t, lifetime.SpaceInfo{Device: "tpu:0", Begin: 10, End: c.end, Facts: lifetime.Clock | lifetime.History}, "trend")
		var got string
		for _, f := range found {
			got += fmt.Sprintf("%.4f", evidence(f, "share_of_window"))
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestImbalanceAtLimits: in a window of at least fifty allocations, buffers allocated after the first step and never freed are
// a finding if they are a hundredth of the peak.
func TestImbalanceAtLimits(t *testing.T) {
	for name, c := range map[string]struct {
		allocations  int // of all functions
		weights      int64
		kept, second map[int]int64 // by step, of two functions
		want         string
	}{
		"one":                    {100, 0, map[int]int64{3: 100}, nil, "1 of 100 by kept"},
		"in the second step":     {100, 0, map[int]int64{1: 100}, nil, "1 of 100 by kept"},
		"in the first":           {100, 0, map[int]int64{0: 100}, nil, ""},
		"fifty allocations":      {50, 0, map[int]int64{3: 100}, nil, "1 of 100 by kept"},
		"one less":               {49, 0, map[int]int64{3: 100}, nil, ""},
		"a hundredth":            {100, 9378, map[int]int64{3: 100}, nil, "1 of 100 by kept"},
		"less than that":         {100, 9379, map[int]int64{3: 100}, nil, ""},
		"the larger is named":    {100, 0, map[int]int64{3: 100}, map[int]int64{5: 101}, "2 of 201 by second"},
		"one of two equal sites": {100, 0, map[int]int64{3: 100}, map[int]int64{5: 100}, "2 of 200 by kept"},
		"two that are less":      {100, 0, map[int]int64{3: 60, 6: 60}, map[int]int64{5: 100}, "3 of 220 by kept"},
	} {
		h := newByHand()
		left := c.allocations - len(c.kept) - len(c.second)
		if c.weights > 0 {
			h.alloc("weights", c.weights)
			left--
		}
		for step := range 10 {
			h.step()
			for range left / (10 - step) {
				h.free(h.alloc("work", 10))
				left--
			}
			if size := c.kept[step]; size > 0 {
				h.alloc("kept", size)
			}
			if size := c.second[step]; size > 0 {
				h.alloc("second", size)
			}
		}
		h.free(madeBlock{1, 512}) // older than the window: no allocation
		capture, found := h.find(t, "imbalance")
		var got string
		for _, f := range found {
			got += fmt.Sprintf("%d of %d by %s", f.Amount.Count, f.Amount.Bytes, capture.FunctionName(f.Sites[0]))
			if evidence(f, "allocations") != float64(c.allocations) || evidence(f, "frees") != float64(capture.Spaces[0].Frees) {
				t.Errorf("%s: %v", name, f.Evidence)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestLateGrowth: the number of buffers that begins to grow shortly before the end is neither a leak nor level, and no spike. The parameters
// are the first and the last step that retain a buffer, of 50.
func TestLateGrowth(t *testing.T) {
	for _, c := range []struct {
		from, to int
		want     string
	}{
		{42, 50, "; the number began to grow 8 steps before the end of the recording, too few to judge"},
		{42, 43, "; the number does not grow as in a leak; "},
		{36, 42, "; the number does not grow as in a leak; "},
	} {
		for _, marked := range []bool{true, false} {
			p := newProgram(5)
			p.steps = 50
			pattern := func(step int) {
				if c.from <= step && step < c.to {
					p.alloc("kept", 4<<20)
				}
			}
			want := c.want
			if marked {
				pattern = p.marked(pattern)
			} else { // inferred steps may begin elsewhere
				want, _, _ = strings.Cut(want, " 8 steps")
			}
			found := findingsOf(t, p, finding.Settings{}, pattern)
			if f := only(t, found, "imbalance"); !strings.Contains(f.Description, want) || len(found["leak"]) > 0 {
				t.Errorf("%d to %d, %v: %s, want %s", c.from, c.to, marked, f.Description, want)
			}
			if c.to == p.steps && len(found["spike"]) > 0 {
				t.Errorf("%d to %d: %s", c.from, c.to, found["spike"][0].Description)
			}
		}
	}
}

// TestLongLivedAtLimits: up to three buffers live on, of a function that freed at least eight of their size soon, or twenty others.
func TestLongLivedAtLimits(t *testing.T) {
	for name, c := range map[string]struct {
		freed, kept, at int
		want            string
	}{
		"one":          {40, 1, 5, "1 of 40960 after 101"},
		"three":        {40, 3, 5, "3 of 122880 after 101"},
		"four":         {40, 4, 5, ""},
		"eight others": {8, 1, 0, "1 of 40960 after 1"},
		"seven others": {7, 1, 0, ""},
		"it is young":  {40, 1, 39, ""},
	} {
		h := newByHand()
		for i := range c.freed {
			if i == c.at {
				for range c.kept {
					h.alloc("result", 40<<10)
				}
			}
			h.free(h.alloc("result", 40<<10))
		}
		_, found := h.find(t, "long_lived")
		var got string
		for _, f := range found {
			got += fmt.Sprintf("%d of %d after %v", f.Amount.Count, f.Amount.Bytes, evidence(f, "began_after"))
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
