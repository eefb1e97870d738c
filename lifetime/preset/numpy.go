package preset

import "math"

// The functions in this file return the same as NumPy 2, to the last bit, because the rules compare the results with
// thresholds. float64() around a product prevents the compiler from fusing it with a sum.

// quantile returns the q-quantile of sorted values by the method "linear" of numpy.quantile: it interpolates between the
// two values around position (n-1)q.
func quantile(sorted []float64, q float64) float64 {
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

// percentile returns the quantile like numpy.percentile(sorted, share*100).
func percentile(sorted []float64, share float64) float64 {
	return quantile(sorted, float64(share*100)/100)
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
