package scan

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// text returns the text of the string whose opening quote has index i, as clean does, and the index after the string.
func (s *scanner) text(dst *[]byte, i int) (text []byte, next int) {
	raw, next, f := s.str(i)
	if next >= 0 && f != 0 {
		raw = s.clean(dst, raw, f, next)
	}
	return raw, next
}

// clean returns the text of a string with escapes or non-ASCII bytes as valid UTF-8:
// raw, or a text in *dst, which it overwrites. next is the index after the string.
func (s *scanner) clean(dst *[]byte, raw []byte, f flags, next int) []byte {
	quoteAt := next - len(raw) - 2
	if f&hasControl != 0 {
		s.count(ControlChar, quoteAt)
	}
	if f&hasEscape == 0 && (f&hasHigh == 0 || utf8.Valid(raw)) {
		return raw
	}
	escapes := f&hasEscape != 0
	if escapes && !validEscapes(raw) {
		s.count(BadEscape, quoteAt)
		escapes = false
	}
	text, valid := unescape((*dst)[:0], raw, escapes)
	if !valid {
		s.count(InvalidUTF8, quoteAt)
	}
	*dst = text
	return text
}

// validEscapes reports whether every backslash begins a valid escape. Otherwise the writer did not escape backslashes,
// only perhaps quotes: C:\Users\new contains no line break.
func validEscapes(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if i == len(raw) {
			return false
		}
		switch raw[i] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			if hex4(raw[i+1:]) < 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// unescape appends the text of raw, and reports whether raw is valid Unicode.
func unescape(dst, raw []byte, escapes bool) ([]byte, bool) {
	valid := true
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '\\' && !escapes:
			if i+1 < len(raw) && raw[i+1] == '"' {
				i++
			}
			dst = append(dst, raw[i])
			i++
		case c == '\\':
			r, n := escaped(raw[i:])
			if r == utf8.RuneError && n == 6 && hex4(raw[i+2:]) != utf8.RuneError {
				valid = false // an unpaired surrogate
			}
			dst = utf8.AppendRune(dst, r)
			i += n
		default:
			r, n := utf8.DecodeRune(raw[i:])
			if r == utf8.RuneError && n == 1 {
				valid = false
			}
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst, valid
}

// escaped returns the character of a valid escape, and its length in bytes.
func escaped(b []byte) (rune, int) {
	switch b[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r := hex4(b[2:])
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			if pair := utf16.DecodeRune(r, hex4(b[8:])); pair != utf8.RuneError {
				return pair, 12
			}
		}
		return utf8.RuneError, 6
	}
	return rune(b[1]), 2
}

// hex4 returns the value of four hexadecimal digits, or -1.
func hex4(b []byte) rune {
	n, err := strconv.ParseUint(string(b[:min(4, len(b))]), 16, 16)
	if err != nil || len(b) < 4 {
		return -1
	}
	return rune(n)
}
