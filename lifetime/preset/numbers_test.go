package preset

import (
	"math"
	"slices"
	"testing"
)

// TestMeans compares means and deviations with NumPy 2.4 and the statistics module of Python, to the last bit.
func TestMeans(t *testing.T) {
	for _, c := range []struct {
		n                                   int
		mean, deviation, exact, exactSpread float64
	}{
		{7, 1.3, 1.349073756323204, 1.3, 1.3490737563232043},
		{8, 1.75, 1.783255450012701, 1.75, 1.783255450012701},
		{20, 3.62, 2.984627279912854, 3.62, 2.984627279912854},
		{128, 4.6585937500000005, 3.0566701903475058, 4.6585937500000005, 3.0566701903475053},
		{129, 4.6906976744186055, 3.0664627897135284, 4.690697674418605, 3.0664627897135284},
		{137, 4.726277372262775, 3.047522380195599, 4.726277372262774, 3.0475223801955984},
		{1000, 4.784, 3.0373194282638942, 4.784, 3.0373194282638942},
	} {
		v := make([]float64, c.n)
		for i := range v {
			v[i] = float64(i*i%97) * 0.1
		}
		if m, d, em, ed := mean(v), deviation(v), exactMean(v), exactDeviation(v); m != c.mean || d != c.deviation || em != c.exact || ed != c.exactSpread {
			t.Errorf("%d values: %v %v %v %v, want %v", c.n, m, d, em, ed, c)
		}
	}
	for _, odd := range []float64{math.NaN(), math.Inf(1)} {
		if v := []float64{1, odd}; !math.IsNaN(exactMean(v)) || !math.IsNaN(exactDeviation(v)) {
			t.Errorf("the mean of %v is a number", v)
		}
	}
}

// TestQuantile compares quantiles with NumPy 2.4, to the last bit.
func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		sorted  []float64
		q, want float64
	}{
		{[]float64{1, 2, 4, 8}, 0.25, 1.75},
		{[]float64{1, 2, 4, 8}, 0.75, 5},
		{[]float64{1, 2, 4, 8}, 0.9, 6.800000000000001},
		{[]float64{5}, 0.9, 5},
		{[]float64{0.1, 0.7}, 0.5, 0.39999999999999997},
		{[]float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}, 0.95, 0.6699999999999999},
		{[]float64{1, 3}, 0, 1},
		{[]float64{1, 3}, 1, 3},
	} {
		if q, p := quantile(c.sorted, c.q), percentile(c.sorted, c.q); q != c.want || p != c.want {
			t.Errorf("%v of %v: %v, %v, want %v", c.q, c.sorted, q, p, c.want)
		}
	}
}

// TestRound: the two ways of rounding differ.
func TestRound(t *testing.T) {
	for _, c := range []struct {
		x                    float64
		digits               int
		python, numpyFloat64 float64
	}{
		{0.0005, 3, 0.001, 0}, {2.675, 2, 2.67, 2.68}, {0.15, 1, 0.1, 0.2}, {0.25, 1, 0.2, 0.2}, {0.35, 1, 0.3, 0.4}, {1e22, 1, 1e22, 1e22},
	} {
		if p, n := round(c.x, c.digits), roundScaled(c.x, c.digits); p != c.python || n != c.numpyFloat64 {
			t.Errorf("%v: %v and %v, want %v and %v", c.x, p, n, c.python, c.numpyFloat64)
		}
	}
}

// TestRegress compares lines with SciPy 1.17.
func TestRegress(t *testing.T) {
	for _, c := range []struct {
		x, y        []float64
		slope, r, p float64
	}{
		{[]float64{1, 2, 3, 4, 5, 6}, []float64{2, 1, 4, 3, 6, 5}, 0.8285714285714285, 0.8285714285714285, 0.04156268221574349},
		{[]float64{0, 1, 2, 3, 4}, []float64{0, 10, 20, 30, 40}, 10, 1, 1.2004217548761418e-30},
		{[]float64{0, 0, 0, 1, 1}, []float64{1, 2, 3, 4, 9}, 4.5, 0.7913840153767412, 0.11073255931207371},
	} {
		l, ok := regress(c.x, c.y)
		if !ok || !near(l.slope, c.slope) || !near(l.r, c.r) || !near(l.p, c.p) || l.p == 0 {
			t.Errorf("%v over %v: %+v %t, want %v", c.y, c.x, l, ok, c)
		}
	}
	if l, ok := regress([]float64{0, 1, 2}, []float64{5, 5, 5}); !ok || l.slope != 0 || !math.IsNaN(l.r) {
		t.Errorf("a flat line: %+v %t", l, ok)
	}
	if l, ok := regress([]float64{1, 1, 1}, []float64{1, 2, 3}); ok {
		t.Errorf("a line upwards: %+v", l)
	}
}

func near(x, y float64) bool { return math.Abs(x-y) <= 1e-12*max(1, math.Abs(y)) }

// TestFormatBytes compares sizes with gpumemprof.utils.format_bytes.
func TestFormatBytes(t *testing.T) {
	var have []string
	for _, size := range []float64{0, 1, 1023, 1024, 1536, 5<<20 + 1, 1 << 30, 1 << 40, 1 << 50, 1 << 60} {
		have = append(have, formatBytes(size))
	}
	want := []string{"0 B", "1.00 B", "1023.00 B", "1.00 KB", "1.50 KB", "5.00 MB", "1.00 GB", "1.00 TB", "1.00 PB", "1024.00 PB"}
	if !slices.Equal(have, want) {
		t.Errorf("%q, want %q", have, want)
	}
}
