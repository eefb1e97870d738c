package scan

import (
	"bytes"
	"math"
	"strconv"
)

// decimal is a number as written: 0.d1d2d3... times 10^point.
type decimal struct {
	neg     bool
	digits  [40]byte // significant ones, without leading zeros; 0 bytes follow
	n       int
	point   int
	rest    bool // a digit beyond those is not zero
	badJSON bool // not a JSON number
	length  int  // bytes in the file, with quotes
}

const maxExponent = 1 << 22 // larger ones give the same results

// parseDecimal parses a number. ok is false if t is not a number.
func parseDecimal(t []byte) (d decimal, ok bool) {
	i := 0
	if i < len(t) && (t[i] == '-' || t[i] == '+') {
		d.neg, d.badJSON = t[i] == '-', t[i] == '+'
		i++
	}
	whole := digitsAt(t[i:])
	d.badJSON = d.badJSON || whole == 0 || whole > 1 && t[i] == '0'
	d.add(t[i : i+whole])
	d.point += whole
	i += whole
	decimals := 0
	if i < len(t) && t[i] == '.' {
		decimals = digitsAt(t[i+1:])
		d.add(t[i+1 : i+1+decimals])
		d.badJSON = d.badJSON || decimals == 0
		i += 1 + decimals
	}
	if whole+decimals == 0 {
		return d, false
	}
	if i < len(t) && (t[i] == 'e' || t[i] == 'E') {
		i++
		neg := i < len(t) && t[i] == '-'
		if i < len(t) && (t[i] == '-' || t[i] == '+') {
			i++
		}
		n, exp := digitsAt(t[i:]), 0
		if n == 0 {
			return d, false
		}
		for _, c := range t[i : i+n] {
			exp = min(exp*10+int(c-'0'), maxExponent)
		}
		if neg {
			exp = -exp
		}
		d.point += exp
		i += n
	}
	return d, i == len(t)
}

func digitsAt(t []byte) int {
	n := 0
	for n < len(t) && isDigit(t[n]) {
		n++
	}
	return n
}

func (d *decimal) add(t []byte) {
	for _, c := range t {
		switch {
		case c == '0' && d.n == 0:
			d.point--
		case d.n < len(d.digits):
			d.digits[d.n] = c
			d.n++
		case c != '0':
			d.rest = true
		}
	}
}

// scaled returns the number times 10^shift, rounded with halves away from zero. exact
// is false if it was rounded, ok is false if it exceeds 64 bits.
func (d *decimal) scaled(shift int) (v uint64, exact, ok bool) {
	if d.n == 0 {
		return 0, true, true
	}
	n := d.point + shift
	if n > 20 {
		return 0, false, false
	}
	for i := range max(n, 0) {
		var c uint64
		if i < d.n {
			c = uint64(d.digits[i] - '0')
		}
		if v > math.MaxUint64/10 || v*10 > math.MaxUint64-c {
			return 0, false, false
		}
		v = v*10 + c
	}
	exact = !d.rest
	for i := max(n, 0); i < d.n; i++ {
		exact = exact && d.digits[i] == '0'
	}
	if n >= 0 && d.digits[n] >= '5' {
		if v == math.MaxUint64 {
			return 0, false, false
		}
		v++
	}
	return v, exact, true
}

// signed combines a sign and a magnitude. It reports false for numbers outside int64.
func signed(neg bool, v uint64) (int64, bool) {
	switch {
	case !neg && v <= math.MaxInt64:
		return int64(v), true
	case neg && v <= 1<<63:
		return -int64(v), true
	}
	return 0, false
}

// maxMicros is a number of microseconds that, with any decimals, fits in nanoseconds.
const maxMicros = math.MaxInt64/1000 - 1

// quickTime reads the usual form of a time: digits, or digits with three decimals.
// next is negative for other forms, and if the window ends.
func quickTime(b []byte, i int) (ns int64, next int) {
	var v uint64
	first := i
	for i < len(b) && b[i]-'0' <= 9 {
		v = v*10 + uint64(b[i]-'0')
		i++
	}
	n := i - first
	if n == 0 || n > 16 || v > maxMicros || n > 1 && b[first] == '0' {
		return 0, -1
	}
	v *= 1000
	if i+4 < len(b) && b[i] == '.' {
		c1, c2, c3 := b[i+1]-'0', b[i+2]-'0', b[i+3]-'0'
		if c1 > 9 || c2 > 9 || c3 > 9 {
			return 0, -1
		}
		v += uint64(c1)*100 + uint64(c2)*10 + uint64(c3)
		i += 4
	}
	if i >= len(b) || class[b[i]] == number || class[b[i]] == letter {
		return 0, -1
	}
	return int64(v), i
}

func (s *scanner) time(i int, t *Time) int {
	if ns, next := quickTime(s.b, i); next >= 0 {
		*t = Time{ns, true}
		return next
	}
	*t = Time{}
	d, next, ok := s.decimal(i, true)
	if !ok {
		return next
	}
	v, _, fits := d.scaled(3)
	if fits {
		t.NS, fits = signed(d.neg, v)
	}
	t.OK = fits
	if !fits {
		s.count(BigNumber, next-d.length)
	}
	return next
}

// decimal reads a number, or a string with a number, and skips other values. strict
// counts a string as a toleration. Many programs write sizes as strings.
func (s *scanner) decimal(i int, strict bool) (d decimal, next int, ok bool) {
	var text []byte
	length := 0
	c := s.b[i]
	switch {
	case c == '"':
		raw, n, f := s.str(i)
		if n < 0 {
			return d, n, false
		}
		s.clean(&s.scratch, raw, f, n) // counts what it tolerates
		text, next, length = bytes.TrimSpace(raw), n, len(raw)+2
	case c == '{' || c == '[':
		return d, s.skip(i), false
	default:
		text, next = s.bare(i)
		if next < 0 {
			return d, next, false
		}
		if kindOf(text) != isNumber {
			s.classify(text, next)
			return d, next, false
		}
		length = len(text)
	}
	d, ok = parseDecimal(text)
	d.length = length
	at := next - length
	switch {
	case c == '"' && !strict:
	case c == '"' && ok:
		s.count(StringNumber, at)
	case c == '"' && kindOf(text) == isNaN:
		s.count(NotANumber, at)
	case !ok || d.badJSON:
		s.count(BadNumber, at)
	}
	return d, next, ok
}

// quickInt reads up to 18 digits with their sign. next is negative for other forms, and if the window ends.
func quickInt(b []byte, i int) (v int64, next int) {
	neg := i < len(b) && b[i] == '-'
	if neg {
		i++
	}
	first := i
	for i < len(b) && b[i]-'0' <= 9 {
		v = v*10 + int64(b[i]-'0')
		i++
	}
	n := i - first
	if n == 0 || n > 18 || i >= len(b) || class[b[i]] == number || class[b[i]] == letter || n > 1 && b[first] == '0' {
		return 0, -1
	}
	if neg {
		v = -v
	}
	return v, i
}

// quickNumber returns the index after the number at index i. It is -1 for other values,
// and if the window ends. It does not check the form of the number.
func quickNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i >= len(b) || !isDigit(b[i]) {
		return -1
	}
	for i++; i < len(b) && class[b[i]] == number; i++ {
	}
	if i >= len(b) || class[b[i]] == letter {
		return -1
	}
	return i
}

// integer reads a whole number at index i that quickInt cannot read. strict is as in decimal.
func (s *scanner) integer(i int, strict bool) (v int64, next int, ok bool) {
	d, next, ok := s.decimal(i, strict)
	if !ok {
		return 0, next, false
	}
	m, exact, fits := d.scaled(0)
	if fits && exact {
		v, fits = signed(d.neg, m)
	}
	if !fits || !exact {
		s.count(BigNumber, next-d.length)
		return 0, next, false
	}
	return v, next, true
}

// address reads an unsigned number of up to 64 bits, or a string with one.
func (s *scanner) address(i int) (v uint64, next int, ok bool) {
	if v, next := quickInt(s.b, i); next >= 0 && v >= 0 {
		return uint64(v), next, true
	}
	if s.b[i] == '"' {
		raw, next, f := s.str(i)
		if next < 0 {
			return 0, next, false
		}
		s.clean(&s.scratch, raw, f, next)
		v, err := strconv.ParseUint(string(bytes.TrimSpace(raw)), 0, 64)
		if err != nil {
			s.count(BadNumber, next-len(raw)-2)
		}
		return v, next, err == nil
	}
	d, next, ok := s.decimal(i, true)
	if !ok {
		return 0, next, false
	}
	v, exact, fits := d.scaled(0)
	if !fits || !exact || d.neg && v > 0 {
		s.count(BigNumber, next-d.length)
		return 0, next, false
	}
	return v, next, true
}
