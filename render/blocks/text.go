package blocks

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/memlane/memlane/units"
)

// appendPoint appends a length in pixels, with a decimal only where needed.
func appendPoint(b []byte, v point) []byte {
	if v < 0 {
		b = append(b, '-')
		v = -v
	}
	if v >= 10 || v == 0 {
		b = appendInt(b, int64(v/10))
	}
	if d := v % 10; d != 0 {
		b = append(b, '.', byte('0'+d))
	}
	return b
}

// appendInt is strconv.AppendInt for numbers that mostly have no more than
// three digits, as those of a picture do: half of the time goes into them.
func appendInt(b []byte, n int64) []byte {
	if n < 0 || n >= 1000 {
		return strconv.AppendInt(b, n, 10)
	}
	u := uint32(n)
	switch {
	case u < 10:
		return append(b, byte('0'+u))
	case u < 100:
		return append(b, byte('0'+u/10), byte('0'+u%10))
	}
	return append(b, byte('0'+u/100), byte('0'+u/10%10), byte('0'+u%10))
}

// appendMove appends a relative horizontal or vertical line, if it goes
// anywhere.
func appendMove(b []byte, op byte, v point) []byte {
	if v == 0 {
		return b
	}
	return appendPoint(append(b, op), v)
}

// appendOutline appends the outline of a block as path data: along its upper
// edge and back along the lower one.
func appendOutline(b []byte, steps []step, end, bottom point) []byte {
	first, last := steps[0], steps[len(steps)-1]
	b = appendPoint(append(b, 'M'), first.x)
	b = appendPoint(append(b, ' '), bottom-first.hi)
	x := first.x
	for i := 1; i < len(steps); i++ {
		if s, prev := steps[i], steps[i-1]; s.hi != prev.hi {
			b = appendMove(b, 'h', s.x-x)
			b = appendMove(b, 'v', prev.hi-s.hi)
			x = s.x
		}
	}
	b = appendMove(b, 'h', end-x)
	b = appendMove(b, 'v', last.hi-last.lo)
	x = end
	for i := len(steps) - 1; i > 0; i-- {
		if s, prev := steps[i], steps[i-1]; s.lo != prev.lo {
			b = appendMove(b, 'h', s.x-x)
			b = appendMove(b, 'v', s.lo-prev.lo)
			x = s.x
		}
	}
	b = appendMove(b, 'h', first.x-x)
	return append(b, 'z')
}

// appendText is the gate for every text that does not come from this package:
// it escapes markup, and replaces what XML 1.0 or a line of text can not hold.
// Marks that turn the direction of writing are dropped too: they would reorder
// the rest of the line.
func appendText(b []byte, s string) []byte {
	for _, r := range s {
		switch {
		case r == '&':
			b = append(b, "&amp;"...)
		case r == '<':
			b = append(b, "&lt;"...)
		case r == '>':
			b = append(b, "&gt;"...)
		case r == '"':
			b = append(b, "&quot;"...)
		case r == '\t' || r == '\n' || r == '\r':
			b = append(b, ' ')
		case r < 0x20 || 0x7F <= r && r < 0xA0 || r == 0xFFFE || r == 0xFFFF,
			0x202A <= r && r <= 0x202E, 0x2066 <= r && r <= 0x2069:
		default:
			b = utf8.AppendRune(b, r) // invalid bytes come as U+FFFD
		}
	}
	return b
}

// cut shortens s to n runes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	count := 0
	for i := range s {
		if count++; count == n {
			if _, size := utf8.DecodeRuneInString(s[i:]); i+size < len(s) {
				return s[:i] + "…"
			}
		}
	}
	return s
}

// textWidth estimates how wide s is drawn at a font size, in tenths of a pixel.
// It follows the widest of the usual system fonts.
func textWidth(s string, size int) point {
	em := 0
	for _, r := range s {
		em += runeWidth(r)
	}
	return point(em * size / 10)
}

// runeWidth is in hundredths of the font size.
func runeWidth(r rune) int {
	switch {
	case r >= 0x1100:
		return 105
	case strings.ContainsRune("ijl|'!.,:; ", r):
		return 32
	case strings.ContainsRune("frtI()[]/\\-", r):
		return 41
	case strings.ContainsRune("csvxyzkJ", r):
		return 57
	case strings.ContainsRune("mwMW@%&+<>=×", r):
		return 95
	case 'A' <= r && r <= 'Z':
		return 72
	}
	return 64
}

// fit shortens s until it is drawn in no more than width.
func fit(s string, size int, width point) string {
	s = cut(s, 400)
	if textWidth(s, size) <= width {
		return s
	}
	width -= textWidth("…", size)
	em := 0
	for i, r := range s {
		em += runeWidth(r)
		if point(em*size/10) > width {
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}

// baseName returns the last part of a path of any system.
func baseName(path string) string {
	return path[strings.LastIndexAny(path, `/\`)+1:]
}

// appendSpan appends what units.Span returns, which is too slow for every
// block; the tests hold the two together.
func appendSpan(b []byte, n int64, unit string) []byte {
	if unit != "ns" || n < int64(time.Microsecond) {
		return append(b, units.Span(n, unit)...)
	}
	size, name := time.Microsecond, " µs"
	switch {
	case n >= int64(time.Second):
		size, name = time.Second, " s"
	case n >= int64(time.Millisecond):
		size, name = time.Millisecond, " ms"
	}
	digits, pow := 2, int64(100)
	switch {
	case n/5 >= 1999*int64(size)/100: // 99.95, which would show as 100
		digits, pow = 0, 1
	case n/5 >= 1999*int64(size)/1000:
		digits, pow = 1, 10
	}
	v := n * pow / int64(size)
	rest := 2 * (n*pow - v*int64(size))
	if n > math.MaxInt64/1000 || rest == int64(size) {
		// Half-way cases follow the binary fraction, as fmt does.
		b = strconv.AppendFloat(b, float64(n)/float64(size), 'f', digits, 64)
		return append(b, name...)
	}
	if rest > int64(size) {
		v++
	}
	b = appendInt(b, v/pow)
	if digits > 0 {
		b = append(b, '.')
		if digits == 2 {
			b = append(b, byte('0'+v/10%10))
		}
		b = append(b, byte('0'+v%10))
	}
	return append(b, name...)
}
