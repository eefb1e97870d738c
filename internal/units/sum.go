package units

import "math"

// AddSat adds without wrapping around: sums of bytes and times of damaged
// captures saturate.
func AddSat(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}
