// Package units formats and parses sizes and times. All outputs for people use it, so that
// the terminal, pictures and profiles agree. JSON and native text have plain integers.
package units

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Bytes returns a size in IEC units with three significant digits: "512 B",
// "4.00 MiB", "-1.50 GiB".
func Bytes(n int64) string {
	sign, u := "", uint64(n)
	if n < 0 {
		sign, u = "-", -uint64(n)
	}
	if u < 1024 {
		return fmt.Sprintf("%s%d B", sign, u)
	}
	return sign + humanize.IBytesN(u, 3)
}

// Signed formats the change of a size: "+4.00 MiB", "-1.50 GiB", "0 B".
func Signed(n int64) string {
	if n > 0 {
		return "+" + Bytes(n)
	}
	return Bytes(n)
}

// Exact formats a size like Bytes, with the exact count if Bytes rounds:
// "4.00 MiB (4,194,304 B)".
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

// Span formats a length on an axis: for the unit "ns" as "65.2 ms", otherwise as a count
// with the name of the unit.
func Span(n int64, unit string) string {
	if unit != "ns" {
		if n == 1 {
			return "1 " + unit
		}
		return Count(n) + " " + unit + "s"
	}
	d := time.Duration(n)
	for _, u := range []struct {
		size time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d >= u.size || d <= -u.size {
			v := float64(d) / float64(u.size)
			digits := 2
			switch a := math.Abs(v); {
			case a >= 99.95:
				digits = 0
			case a >= 9.995:
				digits = 1
			}
			return fmt.Sprintf("%.*f %s", digits, v, u.name)
		}
	}
	return fmt.Sprintf("%d ns", n)
}
