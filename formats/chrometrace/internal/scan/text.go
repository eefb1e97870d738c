package scan

import (
	"unicode/utf16"
	"unicode/utf8"
)

// clean returns the text of a string that is not plain ASCII, without escapes
// and as valid UTF-8: raw itself, or the text in *dst, which it overwrites. next
// is the index after the string.
func (s *scanner) clean(dst *[]byte, raw []byte, f flags, next int) []byte {
	at := next - len(raw) - 2
	if f&hasControl != 0 {
		s.count(ControlChar, at)
	}
	if f&hasEscape == 0 && (f&hasHigh == 0 || utf8.Valid(raw)) {
		return raw
	}
	escapes := f&hasEscape != 0
	if escapes && !goodEscapes(raw) {
		s.count(BadEscape, at)
		escapes = false
	}
	text, valid := unescape((*dst)[:0], raw, escapes)
	if !valid {
		s.count(InvalidUTF8, at)
	}
	*dst = text
	return text
}

// check counts what is odd about a string that nobody keeps.
func (s *scanner) check(raw []byte, f flags, next int) {
	if f != 0 {
		s.clean(&s.scratch, raw, f, next)
	}
}

// goodEscapes reports whether every backslash escapes something. Where one does
// not, the writer knew of no escapes at all but perhaps that of the quote: in
// C:\Users\new neither backslash is one.
func goodEscapes(raw []byte) bool {
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

// unescape appends the text of raw, and reports whether it is all characters.
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
				valid = false // half a character
			}
			dst = utf8.AppendRune(dst, r)
			i += n
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
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

// escaped returns the character of a good escape, and its length.
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

// hex4 returns the number that four hexadecimal digits make, or -1.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
