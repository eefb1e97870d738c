package preset

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// pearson returns the correlation coefficient of x and y; NaN where one of them
// is constant. scipy.stats.pearsonr asks that first too: what rounding leaves of
// a constant series correlates with anything.
func pearson(x, y []float64) float64 {
	if constant(x) || constant(y) {
		return math.NaN()
	}
	return min(max(stat.Correlation(x, y, nil), -1), 1)
}

func constant(v []float64) bool {
	for _, x := range v {
		if x != v[0] {
			return false
		}
	}
	return true
}

// line is a straight line through points.
type line struct {
	slope float64
	r     float64 // correlation coefficient
	p     float64 // of the slope being 0: two-sided t-test with n-2 degrees of freedom
}

// regress fits a line as scipy.stats.linregress does. ok is false where all x
// are the same, which scipy refuses, and for fewer than three points.
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
