package canvas

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// appendText appends a text to a page. All texts of a page must pass it. It escapes markup
// and drops characters that do not print. XML 1.0 forbids most of them, marks of the
// writing direction would reorder the line, and control characters would affect a terminal
// that shows the file.
func appendText(b, s []byte) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7F && c != '&' && c != '<' && c != '>' && c != '"' || c == '\n' {
			b = append(b, c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(s[i:])
		i += size
		switch {
		case r == '&':
			b = append(b, "&amp;"...)
		case r == '<':
			b = append(b, "&lt;"...)
		case r == '>':
			b = append(b, "&gt;"...)
		case r == '"':
			b = append(b, "&quot;"...)
		case unprintable(r):
		default:
			b = utf8.AppendRune(b, r) // invalid bytes come as U+FFFD
		}
	}
	return b
}

// unprintable reports whether a page must not contain r. The no-break space is allowed.
func unprintable(r rune) bool { return r != '\u00a0' && !unicode.IsPrint(r) }

// Clean returns a text of a capture as one printable line.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case unprintable(r):
			return -1
		}
		return r
	}, s)
}

// Cut returns the first n characters of s as one line. If s is longer, the last of them
// is "…".
func Cut(s string, n int) string {
	if len(s) > n {
		if r := []rune(s); len(r) > n {
			return Clean(string(r[:n-1])) + "…"
		}
	}
	return Clean(s)
}

// Width estimates the width of s at a font size in pixels, for the widest of the usual
// system fonts.
func Width(s string, size int) Length {
	em := 0
	for _, r := range s {
		em += runeWidth(r)
	}
	return Length(em * size / 10)
}

// runeWidth estimates the width of a character, in hundredths of the font size.
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

// Fit shortens s until it fits width at a font size in pixels.
func Fit(s string, size int, width Length) string {
	s = Cut(s, 400)
	if Width(s, size) <= width {
		return s
	}
	width -= Width("…", size)
	em := 0
	for i, r := range s {
		em += runeWidth(r)
		if Length(em*size/10) > width {
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}
