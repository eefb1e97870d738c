package preset

import "math"

// The functions of this file return what NumPy 2 does, to the last bit:
// thresholds are compared with their results. Products stand in float64() so
// that no compiler fuses them with a sum.

// quantile returns the q-quantile of sorted values by numpy.quantile's method
// "linear": between the two values around position (n-1)q.
func quantile(sorted []float64, q float64) float64 {
	position := float64(len(sorted)-1) * q
	below := math.Floor(position)
	i := min(max(int(below), 0), len(sorted)-1)
	a, b := sorted[i], sorted[min(i+1, len(sorted)-1)]
	share := position - below
	if share >= 0.5 { // numpy goes back from the upper end
		return b - float64((b-a)*(1-share))
	}
	return a + float64((b-a)*share)
}

// percentile returns the quantile as numpy.percentile gets it, which is told
// share*100.
func percentile(sorted []float64, share float64) float64 {
	return quantile(sorted, float64(share*100)/100)
}

// pairwiseSum adds up as numpy.add.reduce does: eight sums side by side, and
// halves of what is longer than 128.
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

// deviation returns numpy.std with ddof=1. There must be two values.
func deviation(v []float64) float64 {
	m := mean(v)
	squares := make([]float64, len(v))
	for i, x := range v {
		squares[i] = float64((x - m) * (x - m))
	}
	return math.Sqrt(pairwiseSum(squares) / float64(len(v)-1))
}

// roundScaled rounds as numpy.float64 does: scaled up, to the even integer, and
// back.
func roundScaled(x float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.RoundToEven(x*scale) / scale
}
