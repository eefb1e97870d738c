package preset

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mathext"
)

// pearson returns the correlation coefficient of x and y; NaN if one of them is constant. Like scipy.stats.pearsonr, it
// checks that first: the rounding errors of a constant series correlate with anything.
func pearson(x, y []float64) float64 {
	if constant(x) || constant(y) {
		return math.NaN()
	}
	xx, yy, xy := squares(x, y)
	return min(max(xy/math.Sqrt(xx*yy), -1), 1)
}

// squares returns the sums of the squares of the distances of x and y from their means, and of their products. What the distances
// sum up to, which rounding makes differ from 0, corrects them.
// (Chan, Golub and LeVeque, Algorithms for computing the sample variance, formula 1.7)
func squares(x, y []float64) (xx, yy, xy float64) {
	n := float64(len(x))
	xMean, yMean := floats.Sum(x)/n, floats.Sum(y)/n
	var xSum, ySum float64
	for i := range x {
		dx, dy := x[i]-xMean, y[i]-yMean
		xx, yy, xy = xx+dx*dx, yy+dy*dy, xy+dx*dy
		xSum, ySum = xSum+dx, ySum+dy
	}
	return xx - xSum*xSum/n, yy - ySum*ySum/n, xy - xSum*ySum/n
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
	xx, yy, xy := squares(x, y)
	n := float64(len(x) - 1)
	xx, yy, xy = xx/n, yy/n, xy/n // the variances and the covariance
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
	l.p = 2 * beyond(math.Abs(t), freedom)
	return l, true
}

// beyond returns the probability that Student's t exceeds t, which is not negative.
func beyond(t, freedom float64) float64 {
	if t == 0 {
		return 0.5
	}
	return 0.5 * mathext.RegIncBeta(freedom/2, 0.5, freedom/(t*t+freedom))
}
