package preset

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mathext"
)

// exactMean returns the mean like Python's statistics.mean: the exact sum, rounded once, so that the mean of equal values
// is that value. It returns NaN without values, or if one is not finite.
func exactMean(values []float64) float64 {
	sum, _, ok := exactSums(values)
	if !ok {
		return math.NaN()
	}
	mean, _ := sum.Quo(sum, big.NewRat(int64(len(values)), 1)).Float64()
	return mean
}

// exactDeviation returns the sample standard deviation like Python's statistics.stdev: the root of the exact variance. It
// needs two values.
func exactDeviation(values []float64) float64 {
	sum, squares, ok := exactSums(values)
	if !ok {
		return math.NaN()
	}
	n := int64(len(values))
	squares.Sub(squares, sum.Quo(sum.Mul(sum, sum), big.NewRat(n, 1)))
	root := new(big.Float).SetPrec(200).SetRat(squares.Quo(squares, big.NewRat(n-1, 1)))
	deviation, _ := root.Sqrt(root).Float64()
	return deviation
}

// exactSums returns the exact sums of values and of their squares; ok is false without values, or if one is not finite.
func exactSums(values []float64) (sum, squares *big.Rat, ok bool) {
	sum, squares = new(big.Rat), new(big.Rat)
	for _, v := range values {
		x := new(big.Rat).SetFloat64(v)
		if x == nil {
			return nil, nil, false
		}
		sum.Add(sum, x)
		squares.Add(squares, x.Mul(x, x))
	}
	return sum, squares, len(values) > 0
}

// The functions from quantile to roundScaled return the same as NumPy 2, to the last bit, because the rules compare the results
// with thresholds. float64() around a product prevents the compiler from fusing it with a sum.

// quantile returns the q-quantile of values by the method "linear" of numpy.quantile: it interpolates between the two values
// around position (n-1)q of the sorted values.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	position := float64(len(sorted)-1) * q
	below := math.Floor(position)
	i := min(max(int(below), 0), len(sorted)-1)
	a, b := sorted[i], sorted[min(i+1, len(sorted)-1)]
	share := position - below
	if share >= 0.5 { // numpy interpolates from the upper end
		return b - float64((b-a)*(1-share))
	}
	return a + float64((b-a)*share)
}

// percentile returns the quantile like numpy.percentile(values, share*100).
func percentile(values []float64, share float64) float64 {
	return quantile(values, float64(share*100)/100)
}

// pairwiseSum sums like numpy.add.reduce: eight sums in parallel, and by halves above 128 values.
func pairwiseSum(v []float64) (sum float64) {
	n := len(v)
	switch {
	case n < 8:
		for _, x := range v {
			sum += x
		}
		return sum
	case n > 128:
		half := n / 2
		half -= half % 8
		return pairwiseSum(v[:half]) + pairwiseSum(v[half:])
	}
	r := [8]float64(v)
	i := 8
	for ; i < n-n%8; i += 8 {
		for k := range r {
			r[k] += v[i+k]
		}
	}
	sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	for ; i < n; i++ {
		sum += v[i]
	}
	return sum
}

// mean returns numpy.mean.
func mean(v []float64) float64 { return pairwiseSum(v) / float64(len(v)) }

// deviation returns numpy.std with ddof=1. It needs two values.
func deviation(v []float64) float64 {
	m := mean(v)
	squares := make([]float64, len(v))
	for i, x := range v {
		squares[i] = float64((x - m) * (x - m))
	}
	return math.Sqrt(pairwiseSum(squares) / float64(len(v)-1))
}

// roundScaled rounds like numpy.float64: it scales up, rounds half to even and scales down.
func roundScaled(x float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.RoundToEven(x*scale) / scale
}

// round rounds like Python: to the decimal number nearest to x.
func round(x float64, digits int) float64 {
	nearest, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', digits, 64), 64)
	if err != nil { // not finite
		return x
	}
	return nearest
}

// formatBytes formats a size like gpumemprof.utils.format_bytes: binary units with decimal names.
func formatBytes(size float64) string {
	if size == 0 {
		return "0 B"
	}
	i := 0
	for ; size >= 1024 && i < 5; i++ {
		size /= 1024
	}
	return fmt.Sprintf("%.2f %s", size, [...]string{"B", "KB", "MB", "GB", "TB", "PB"}[i])
}

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
