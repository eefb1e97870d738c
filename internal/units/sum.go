package units

import (
	"math"
	"math/bits"
)

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

// Sum is a running sum that sizes are added to and taken from again. It is exact, so it
// returns to what it was; only its value saturates. The zero value is 0.
type Sum struct {
	high int64
	low  uint64
}

// Add adds v, which may be negative.
func (s *Sum) Add(v int64) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, uint64(v), 0)
	s.high += v>>63 + int64(carry)
}

// Sub takes v away.
func (s *Sum) Sub(v int64) {
	var borrow uint64
	s.low, borrow = bits.Sub64(s.low, uint64(v), 0)
	s.high -= v>>63 + int64(borrow)
}

// Fits reports whether the sum is an int64.
func (s *Sum) Fits() bool { return s.high == int64(s.low)>>63 }

// Value returns the sum, or the nearest int64.
func (s *Sum) Value() int64 {
	switch {
	case s.Fits():
		return int64(s.low)
	case s.high < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}
