package canvas

import (
	"strings"
	"unicode/utf8"
)

// appendText is the gate for every text on a page: it escapes markup, and
// replaces what XML 1.0 or a text can not hold. Marks that turn the direction of
// writing are dropped too: they would reorder the rest of the line.
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

// unprintable reports whether a page can not hold r, or should not.
func unprintable(r rune) bool {
	return r < 0x20 || 0x7F <= r && r < 0xA0 || r == 0xFFFE || r == 0xFFFF ||
		0x202A <= r && r <= 0x202E || 0x2066 <= r && r <= 0x2069
}

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
