package scan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// class is the class of each byte: space, number, letter or 0.
var class = func() (c [256]uint8) {
	for _, b := range " \t\r\n" {
		c[b] = space
	}
	for _, b := range "0123456789+-.eE" {
		c[b] = number
	}
	for b := range 256 {
		if c[b] == 0 && (isLetter(byte(b)) || b == '_' || b == '#' || b == '(' || b == ')') {
			c[b] = letter
		}
	}
	return c
}()

const (
	space  = iota + 1
	number // bytes of numbers
	letter // bytes of bare words, with those of numbers
)

// ws returns the index of the next byte that is not white space, or ended.
func (s *scanner) ws(i int) int {
	b := s.b
	for {
		// Most white space is a line break and indentation.
		if i+9 <= len(b) && b[i] == '\n' {
			x := binary.LittleEndian.Uint64(b[i+1:]) ^ 0x2020202020202020
			i += 1 + bits.TrailingZeros64(x)>>3
		}
		for ; i < len(b); i++ {
			if c := b[i]; c > ' ' || class[c] != space {
				return i
			}
		}
		if !s.more(i) {
			return ended
		}
		b, i = s.b, 0
	}
}

// flags are the contents of a string besides plain ASCII.
type flags uint8

const (
	hasEscape flags = 1 << iota
	hasControl
	hasHigh // bytes beyond ASCII
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special finds the first of eight bytes that is a quote, a backslash, a control character or beyond ASCII: its high
// bit is the lowest bit of the result. It uses that a subtraction sets the high bit of a smaller byte.
func special(x uint64) uint64 {
	return (((x ^ ones*'"') - ones) | ((x ^ ones*'\\') - ones) | (x - ones*' ') | x) & highs
}

// shortString returns the length of a string of up to seven plain characters that
// begins at index i, after its quote, or -1 for other strings.
func shortString(b []byte, i int) int {
	if i+8 > len(b) {
		return -1
	}
	n := bits.TrailingZeros64(special(binary.LittleEndian.Uint64(b[i:]))) >> 3
	if n == 8 || b[i+n] != '"' {
		return -1
	}
	return n
}

// quote returns the index of the quote that ends a string, or -1 if it is not in b. It examines eight bytes at a time.
func quote(b []byte, i int) (int, flags) {
	var f flags
	for i+8 <= len(b) {
		m := special(binary.LittleEndian.Uint64(b[i:]))
		if m == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(m) >> 3
		switch c := b[i]; {
		case c == '"':
			return i, f
		case c == '\\':
			f |= hasEscape
			i += 2
		case c < ' ':
			f |= hasControl
			i++
		default:
			f |= hasHigh
			for i < len(b) && b[i] >= utf8.RuneSelf {
				i++
			}
		}
	}
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			return i, f
		case c == '\\':
			f |= hasEscape
			i++
		case c < ' ':
			f |= hasControl
		case c >= utf8.RuneSelf:
			f |= hasHigh
		}
		i++
	}
	return -1, f
}

// str reads the string whose opening quote has index i. It returns the bytes between
// the quotes and the index after them.
func (s *scanner) str(i int) (raw []byte, next int, f flags) {
	end, f := quote(s.b, i+1)
	if end < 0 || end-i > maxString {
		return s.longStr(i)
	}
	return s.b[i+1 : end], end + 1, f
}

// longStr is str for strings that are not in the window, or longer than maxString.
func (s *scanner) longStr(i int) (raw []byte, next int, f flags) {
	for {
		end, f := quote(s.b, i+1)
		if end-i > maxString || end < 0 && len(s.b)-i > maxString+1 {
			break
		}
		if end >= 0 {
			return s.b[i+1 : end], end + 1, f
		}
		if !s.more(i) {
			return nil, ended, 0
		}
		i = 0
	}
	s.count(LongString, i)
	j := i + 1
	for last := i + maxString; j < last; { // do not cut an escape
		n := bytes.IndexByte(s.b[j:last], '\\')
		if n < 0 {
			j = last
		} else if j += n; j+6 > last {
			break
		} else {
			j += 2
		}
	}
	for k := 0; k < utf8.UTFMax && !utf8.RuneStart(s.b[j]); k++ { // nor a character
		j--
	}
	_, f = quote(s.b[i+1:j], 0)
	raw = bytes.Clone(s.b[i+1 : j])
	return raw, s.restOfString(j), f
}

// restOfString returns the index after the string that continues at index i.
func (s *scanner) restOfString(i int) int {
	for {
		if i = s.look(i, 2); i >= len(s.b) {
			return ended
		}
		switch s.b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
		i++
	}
}

// bare reads the number or word at index i. It fails if there is none.
func (s *scanner) bare(i int) (token []byte, next int) {
	j := i
	for {
		b := s.b
		for j < len(b) && (class[b[j]] == number || class[b[j]] == letter) {
			j++
		}
		switch {
		case j < len(b) && j > i:
			return b[i:j], j
		case j < len(b):
			return nil, s.fail(i, ':')
		case s.more(i):
		case s.eof:
			return nil, ended
		default: // it fills the largest window
			return nil, s.fail(i, ':')
		}
		i, j = 0, j-i
	}
}

// bareKind is the kind of a bare token.
type bareKind uint8

const (
	isNumber bareKind = iota
	isNull
	isTrue
	isFalse
	isNaN
	isWord
)

func kindOf(token []byte) bareKind {
	switch string(token) {
	case "null":
		return isNull
	case "true":
		return isTrue
	case "false":
		return isFalse
	}
	t := token
	if len(t) > 0 && (t[0] == '-' || t[0] == '+') {
		t = t[1:]
	}
	if len(t) > 0 && (t[0] >= '0' && t[0] <= '9' || t[0] == '.') {
		if bytes.IndexByte(t, '#') >= 0 { // 1.#INF, as C libraries once wrote
			return isNaN
		}
		return isNumber
	}
	if len(t) >= 3 && (bytes.EqualFold(t[:3], []byte("nan")) || bytes.EqualFold(t[:3], []byte("inf"))) {
		return isNaN
	}
	return isWord
}

// classify returns the kind of a bare token that ends at index next, and counts its tolerations.
func (s *scanner) classify(token []byte, next int) bareKind {
	kind := kindOf(token)
	switch kind {
	case isNaN:
		s.count(NotANumber, next-len(token))
	case isWord:
		s.count(UnknownWord, next-len(token))
	case isNumber:
		if slices.ContainsFunc(token, func(c byte) bool { return class[c] != number }) {
			s.count(BadNumber, next-len(token))
		}
	}
	return kind
}
