package canvas

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memlane/memlane/internal/shorten"
)

// appendText appends a text to a page. All texts of a page must pass it. It escapes markup and drops characters that do
// not print. XML 1.0 forbids most of them, marks of the writing direction would reorder the line, and control
// characters would affect a terminal that shows the file.
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

// Cut returns s as one line of at most n characters. Names lose their middle.
func Cut(s string, n int) string { return shorten.Name(Clean(s), n) }

// Width estimates the width of s at a font size in pixels, for the widest of the usual system fonts.
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

// Fit shortens s as Cut does, until it fits width at a font size in pixels.
func Fit(s string, size int, width Length) string {
	return FitAll([]string{s}, size, []Length{width})[0]
}

// FitAll shortens each name until it fits its width at a font size in pixels. Different names stay different.
func FitAll(names []string, size int, widths []Length) []string {
	var lines []string
	var room []int
	for i, name := range names {
		lines = append(lines, Clean(name))
		room = append(room, (int(widths[i]+1)*10-1)/size) // as Width measures
	}
	return shorten.Measure(runeWidth).Names(lines, room)
}
