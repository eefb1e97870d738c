package preset

import (
	"math"
	"math/big"
)

// exactBits is a precision that holds any sum of squares of float64s without rounding: their bits lie between 2^-2148 and
// 2^2048.
const exactBits = 4300

// exactMean returns the mean like Python's statistics.mean: the exact sum, rounded once, so that the mean of equal values
// is that value. It returns NaN if a value is not finite.
func exactMean(values []float64) float64 {
	sum, _, ok := exactSums(values)
	if !ok {
		return math.NaN()
	}
	mean, _ := sum.Quo(sum, count(len(values))).Float64()
	return mean
}

// exactDeviation returns the sample standard deviation like Python's statistics.stdev: the root of the exact variance. It
// needs two values.
func exactDeviation(values []float64) float64 {
	sum, squares, ok := exactSums(values)
	if !ok {
		return math.NaN()
	}
	n := len(values)
	squares.Sub(squares, sum.Quo(sum.Mul(sum, sum), count(n)))
	squares.Quo(squares, count(n-1))
	root := new(big.Float).SetPrec(200).SetRat(squares)
	deviation, _ := root.Sqrt(root).Float64()
	return deviation
}

// exactSums returns the exact sums of values and of their squares; ok is false if a value is not finite.
func exactSums(values []float64) (sum, squares *big.Rat, ok bool) {
	x, y := new(big.Float).SetPrec(exactBits), new(big.Float).SetPrec(exactBits)
	one, square := new(big.Float), new(big.Float).SetPrec(exactBits)
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, nil, false
		}
		one.SetFloat64(v)
		x.Add(x, one)
		y.Add(y, square.Mul(one, one))
	}
	sum, _ = x.Rat(nil)
	squares, _ = y.Rat(nil)
	return sum, squares, true
}

func count(n int) *big.Rat { return new(big.Rat).SetInt64(int64(n)) }
