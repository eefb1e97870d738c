package failure_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/memlane/memlane/lifetime/failure"
)

// TestGrows: memory grows if it never falls back, and goes on.
func TestGrows(t *testing.T) {
	curve := func(n int, f func(i float64) float64) (all []int64) {
		for i := range n {
			all = append(all, int64(1e6*f(float64(i))))
		}
		return all
	}
	for name, c := range map[string]struct {
		bytes []int64
		want  bool
	}{
		"three":              {[]int64{4, 12, 25}, true},
		"two":                {[]int64{4, 12}, false},
		"three, by little":   {[]int64{100, 110, 120}, false},
		"it comes to an end": {[]int64{4, 12, 13}, false},
		"six":                {[]int64{100, 104, 108, 112, 116, 120}, true},
		"one falls":          {[]int64{100, 104, 108, 107, 116, 120}, false},
		"equal":              {[]int64{100, 104, 108, 108, 116, 120}, false},
		"a line":             {curve(100, func(i float64) float64 { return 50 + i }), true},
		"printed in steps":   {curve(100, func(i float64) float64 { return 50 + math.Floor(i/3) }), true},
		"a warm-up":          {curve(100, func(i float64) float64 { return 50 + min(i, 5) }), false},
		"a cache":            {curve(100, func(i float64) float64 { return 100 - 50*math.Exp(-i/20) }), false},
		"waves":              {curve(100, func(i float64) float64 { return 50 + 10*math.Sin(i) }), false},
		"a line with waves":  {curve(300, func(i float64) float64 { return 50 + i + 10*math.Sin(i) }), true},
		"by little":          {curve(100, func(i float64) float64 { return 5000 + i }), false},
	} {
		if got := failure.Grows(c.bytes); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	r, found := rand.New(rand.NewPCG(1, 2)), 0
	for range 1000 { // what a caching allocator reserves is the largest of what batches needed
		largest := 0.0
		if failure.Grows(curve(20+r.IntN(200), func(float64) float64 {
			largest = max(largest, 20+r.ExpFloat64())
			return largest
		})) {
			found++
		}
	}
	if found > 0 {
		t.Errorf("%d of 1,000 allocators grow", found)
	}
}
