// Package text writes answers for a terminal.
//
// Its place in the pipeline: the last step, after package lifetime/answer. Answers go
// in, text of a given width comes out; nothing is computed here but layout. Names from
// captures are shown by what prints of them.
package text

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/leak"
)

// Style says how to lay text out. The zero value is 80 columns without colours.
type Style struct {
	Width int // of a line, in columns; 0 = 80
	Color bool
}

// The widths of lines. Wider lines are hard to read.
const (
	usualWidth = 80
	maxWidth   = 120
)

// Page collects text of a style.
type Page struct {
	strings.Builder
	width int
	color bool
}

// NewPage returns an empty page.
func NewPage(s Style) *Page {
	if s.Width <= 0 {
		s.Width = usualWidth
	}
	return &Page{width: max(min(s.Width, maxWidth), 40), color: s.Color}
}

// To writes the text.
func (p *Page) To(w io.Writer) error {
	_, err := io.WriteString(w, p.String())
	return err
}

// Line writes a line.
func (p *Page) Line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// Para writes running text behind first, and its further lines behind indent.
func (p *Page) Para(first, indent, text string) {
	p.Line("%s%s", first, wrap(text, indent, utf8.RuneCountInString(first), p.width))
}

// Table writes rows under a head: figures, aligned to the right, and at last a text
// that gets the columns that are left; nil for no head.
func (p *Page) Table(head []string, rows [][]string) {
	if head != nil {
		rows = append([][]string{head}, rows...)
	}
	widths := make([]int, len(rows[0])-1)
	longest := 0
	for _, row := range rows {
		longest = max(longest, utf8.RuneCountInString(row[len(widths)]))
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	gap, left := "  ", p.width
	for _, w := range widths {
		left -= w + len(gap)
	}
	if left < min(longest, narrow) {
		gap = " "
		left += len(widths)
	}
	for _, row := range rows {
		var line strings.Builder
		for i, w := range widths {
			fmt.Fprintf(&line, "%s%s%s", strings.Repeat(" ", w-utf8.RuneCountInString(row[i])), row[i], gap)
		}
		line.WriteString(Shorten(row[len(widths)], max(left, leastText)))
		p.Line("%s", strings.TrimRight(line.String(), " "))
	}
}

const (
	// narrow is the room for the text of a row below which columns move together.
	narrow = 24
	// leastText is the room that the text of a row has at least.
	leastText = 16
)

// more says how many rows are left out.
func more(n int, thing string) string {
	return units.Several(n, "more "+thing) + " (--json has them all)"
}

// colors are those of severities, as terminals number them.
var colors = [...]string{leak.Info: "1", leak.Warning: "1;33", leak.Critical: "1;31"}

// severity writes a severity, in colour where the style has it.
func (p *Page) severity(s leak.Severity) string {
	if !p.color {
		return s.String()
	}
	return fmt.Sprintf("\033[%sm%s\033[0m", colors[s], s)
}

// Wrap breaks text at spaces so that lines with indent fit 80 columns, and leaves only
// what prints.
func Wrap(text, indent string) string { return wrap(text, indent, len(indent), usualWidth) }

// wrap is Wrap for text that begins in column at. It leaves two columns free: no
// terminal then breaks the line itself.
func wrap(text, indent string, at, width int) string {
	var b strings.Builder
	for i, word := range strings.Fields(text) {
		word = Printable(word)
		n := utf8.RuneCountInString(word)
		if i > 0 && at+1+n > width-2 {
			b.WriteString("\n" + indent)
			at = len(indent)
		} else if i > 0 {
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// Printable replaces what does not print: a name must not move a cursor, change
// colours or turn the direction of writing around. Nor must it be a command to the
// log of a pipeline: to GitHub's runner each line is one that begins with "::"
// behind whatever blanks, or holds "##[" anywhere.
func Printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if text := strings.TrimLeft(s, " "); strings.HasPrefix(text, "::") {
		s = s[:len(s)-len(text)] + "?" + text[1:]
	}
	return strings.ReplaceAll(s, "##[", "##?")
}

// size writes a size for a table; nothing is a dash.
func size(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return units.Bytes(bytes)
}

// Percent writes a share of 0 to 1: "12.5 %".
func Percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func shareOf(part, whole int64) string {
	if whole == 0 {
		return Percent(0)
	}
	return Percent(float64(part) / float64(whole))
}
