package canvas

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// appendText is the gate for every text on a page: it escapes markup, and drops
// what does not print, as XML 1.0 can not hold most of it: marks that turn the
// direction of writing would reorder the rest of the line, and a picture may be
// shown on a terminal as the text it is.
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

// unprintable reports whether a page can not hold r, or should not. A space that
// does not break is one.
func unprintable(r rune) bool { return r != '\u00a0' && !unicode.IsPrint(r) }

// Clean returns a text of a capture as one line.
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

// Cut returns the first n characters of s as one line, with "…" where more
// follow.
func Cut(s string, n int) string {
	if len(s) > n {
		count := 0
		for i := range s {
			if count++; count == n {
				if _, size := utf8.DecodeRuneInString(s[i:]); i+size < len(s) {
					return Clean(s[:i]) + "…"
				}
			}
		}
	}
	return Clean(s)
}

// Width estimates how wide s is drawn at a font size. It follows the widest of
// the usual system fonts.
func Width(s string, size int) Length {
	em := 0
	for _, r := range s {
		em += runeWidth(r)
	}
	return Length(em * size / 10)
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

// Fit shortens s until it is drawn in no more than width.
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
