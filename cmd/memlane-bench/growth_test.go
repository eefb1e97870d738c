package main

import (
	"math"
	"testing"
	"time"
)

// TestExponent: the exponent does not depend on the factor, and sizes below the floor are left out as long as three remain.
func TestExponent(t *testing.T) {
	sizes := []int64{10, 32, 100, 320, 1000}
	for _, e := range []float64{0, 0.5, 1, 1.1, 2} {
		y := make([]float64, len(sizes))
		for i, size := range sizes {
			y[i] = 0.003 * math.Pow(float64(size), e)
		}
		if got, from := exponent(sizes, y, 0); math.Abs(got-e) > 1e-9 || from != 0 {
			t.Errorf("exponent %g: %g from %d", e, got, from)
		}
	}
	// Twice the start, then proportional.
	if got, from := exponent(sizes, []float64{2, 2, 10, 32, 100}, 5); math.Abs(got-1) > 0.01 || from != 2 {
		t.Errorf("%g from %d", got, from)
	}
	if _, from := exponent(sizes, []float64{1, 1, 1, 1, 1}, 5); from != 2 {
		t.Errorf("a line through %d sizes", len(sizes)-from)
	}
}

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		cpu, memory float64
		want        string
	}{{1.1, 1, "yes"}, {1.104, 1.004, "yes"}, {1.11, 1, "**no** (CPU)"}, {2, 1.1, "**no** (CPU, memory)"}} {
		if got := verdict(test.cpu, test.memory); got != test.want {
			t.Errorf("%g, %g: %s", test.cpu, test.memory, got)
		}
	}
}

// TestTargets: targets compare in the right direction.
func TestTargets(t *testing.T) {
	own := cost{cpu: time.Second, wall: 20 * time.Millisecond, rss: 50e6, out: 1e6}
	it := cost{cpu: 10 * time.Second, wall: 40 * time.Millisecond, rss: 2e9, out: 3e6}
	for _, test := range []struct {
		target target
		value  string
		holds  bool
	}{
		{lessCPU(10), "10x", true}, {lessCPU(11), "10x", false},
		{lessMemory(40), "40x", true}, {lessMemory(41), "40x", false},
		{nearLimit(0.2), "0.10x", true}, {nearLimit(0.09), "0.10x", false},
		{wallAtMost(30 * time.Millisecond), "0.040 s", false}, {cpuAtMost(10 * time.Second), "10.0 s", true},
		{outputAtMost(2e6), "3.0 MB", false}, {memoryAtMost("it", 2e9), "2000 MB", true},
	} {
		if value, holds := test.target.check(own, it); value != test.value || holds != test.holds {
			t.Errorf("%s: %s %v, want %s %v", test.target.text, value, holds, test.value, test.holds)
		}
	}
}
