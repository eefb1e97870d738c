// Package units formats and parses sizes and times. All outputs for people use it, so that
// the terminal, pictures and profiles agree. JSON and native text have plain integers.
package units

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Bytes returns a size in IEC units with three significant digits: "512 B", "4.00 MiB", "-1.50 GiB".
func Bytes(n int64) string {
	sign, u := "", uint64(n)
	if n < 0 {
		sign, u = "-", -uint64(n)
	}
	if u < 1024 {
		return fmt.Sprintf("%s%d B", sign, u)
	}
	v, i := float64(u)/1024, 0
	names := [...]string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for ; v >= 999.5 && i+1 < len(names); i++ { // never "1002 MiB"
		v /= 1024
	}
	return string(append(appendDigits([]byte(sign), v), " "+names[i]...))
}

// appendDigits appends a number below 999.5 with three significant digits, and at most two decimals.
func appendDigits(b []byte, v float64) []byte {
	digits, unit := 2, 100.0
	switch a := math.Abs(v); {
	case a >= 99.95:
		digits, unit = 0, 1
	case a >= 9.995:
		digits, unit = 1, 10
	}
	return strconv.AppendFloat(b, math.Round(v*unit)/unit, 'f', digits, 64)
}

// Signed formats the change of a size: "+4.00 MiB", "-1.50 GiB", "0 B".
func Signed(n int64) string {
	if n > 0 {
		return "+" + Bytes(n)
	}
	return Bytes(n)
}

// Exact formats a size like Bytes, with the exact count if Bytes rounds: "4.00 MiB (4,194,304 B)".
func Exact(n int64) string {
	if n > -1024 && n < 1024 {
		return Bytes(n)
	}
	return fmt.Sprintf("%s (%s B)", Bytes(n), humanize.Comma(n))
}

// Count returns a number with thousands separators.
func Count(n int64) string { return humanize.Comma(n) }

// Plural returns a number of things: "1 buffer", "1,200 buffers".
func Plural[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return Count(int64(n)) + " " + thing
}

// ParseBytes reads a size such as "64MiB", "1.5GiB" or "4096".
func ParseBytes(s string) (int64, error) {
	n, err := humanize.ParseBytes(s)
	if err != nil || n > math.MaxInt64 || strings.TrimSpace(s) == "" {
		return 0, fmt.Errorf("%q is not a size; write 4096, 64MiB or 1.5GiB", s)
	}
	return int64(n), nil
}

// Span formats a length on an axis: for the unit "ns" as "65.2 ms", otherwise as a count with the name of the unit.
func Span(n int64, unit string) string { return string(AppendSpan(nil, n, unit)) }

// AppendSpan appends Span to b, for callers with millions of them.
func AppendSpan(b []byte, n int64, unit string) []byte {
	switch {
	case unit != "ns" && n == 1:
		return append(append(b, "1 "...), unit...)
	case unit != "ns":
		return append(append(append(append(b, Count(n)...), ' '), unit...), 's')
	}
	for _, u := range spanUnits {
		if v := float64(n) / u.size; math.Abs(v) >= 0.9995 { // never "1000 ms"
			return append(appendDigits(b, v), u.name...)
		}
	}
	return append(strconv.AppendInt(b, n, 10), " ns"...)
}

var spanUnits = [...]struct {
	size float64
	name string
}{{1e9, " s"}, {1e6, " ms"}, {1e3, " µs"}}

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

// Whole rounds a figure to the nearest int64; NaN is 0.
func Whole(v float64) int64 {
	switch v = math.Round(v); {
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v <= math.MinInt64:
		return math.MinInt64
	case math.IsNaN(v):
		return 0
	}
	return int64(v)
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
