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

func TestWithin(t *testing.T) {
	for _, test := range []struct {
		cpu, memory float64
		want        bool
	}{{1.1, 1, true}, {1.104, 1.004, true}, {1.11, 1, false}, {1, 1.1, false}} {
		if got := within(test.cpu, test.memory); got != test.want {
			t.Errorf("%g, %g: %v", test.cpu, test.memory, got)
		}
	}
}

// TestTargets: targets compare in the right direction.
func TestTargets(t *testing.T) {
	own := cost{cpu: time.Second, wall: 20 * time.Millisecond, rss: 50e6, out: 1e6}
	it := cost{cpu: 10 * time.Second, wall: 40 * time.Millisecond, rss: 2e9, out: 3e6}
	for _, test := range []struct {
		target target
		holds  bool
	}{
		{lessCPU(10), true}, {lessCPU(11), false}, {lessMemory(40), true}, {lessMemory(41), false}, {nearLimit(0.2), true}, {nearLimit(0.09), false},
		{wallAtMost(30 * time.Millisecond), false}, {cpuAtMost(10 * time.Second), true}, {outputAtMost(2e6), false}, {memoryAtMost("it", 2e9), true},
	} {
		if holds := test.target.holds(own, it); holds != test.holds {
			t.Errorf("%s: %v", test.target.text, holds)
		}
	}
	for got, want := range map[string]string{times(10): "10x", times(0.1): "0.10x", seconds(40 * time.Millisecond): "0.040", megabytes(3e6): "3.0"} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
