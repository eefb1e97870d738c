package preset

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// pearson returns the correlation coefficient of x and y; NaN if one of them is constant. Like scipy.stats.pearsonr, it
// checks that first: the rounding errors of a constant series correlate with anything.
func pearson(x, y []float64) float64 {
	if constant(x) || constant(y) {
		return math.NaN()
	}
	return min(max(stat.Correlation(x, y, nil), -1), 1)
}

func constant(v []float64) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return x != v[0] })
}

// line is a straight line through points.
type line struct {
	slope float64
	r     float64 // correlation coefficient
	p     float64 // p-value of a slope of 0: two-sided t-test with n-2 degrees of freedom
}

// regress fits a line like scipy.stats.linregress. ok is false for fewer than three points and if all x are equal, which is
// an error in SciPy.
func regress(x, y []float64) (l line, ok bool) {
	if len(x) < 3 || constant(x) {
		return line{}, false
	}
	xx, yy, xy := stat.Variance(x, nil), stat.Variance(y, nil), stat.Covariance(x, y, nil)
	l.slope = xy / xx
	switch {
	case xx != 0 && yy != 0:
		l.r = min(max(xy/math.Sqrt(xx*yy), -1), 1)
	case xy == 0:
		l.r = math.NaN()
	}
	const tiny = 1e-20 // scipy's, against a division by 0
	freedom := float64(len(x) - 2)
	t := l.r * math.Sqrt(freedom/((1-l.r+tiny)*(1+l.r+tiny)))
	l.p = 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Survival(math.Abs(t))
	return l, true
}
