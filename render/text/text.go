// Package text writes answers for a terminal.
//
// Its place in the pipeline: the last step, after package lifetime/answer. It only lays out text for a terminal of a
// given width. Without one, programs and searches read the text, so no line break is inside a sentence. In names from
// captures, it replaces characters that do not print.
package text

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"unicode"

	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/finding"
)

// Style is the layout of text. The zero value is that of files and pipes.
type Style struct {
	Width int // of the terminal, in columns; 0 = no terminal: each paragraph is a line, and tables have UsualWidth
	Color bool
}

// The default and the maximum width of lines. Wider lines are hard to read.
const (
	UsualWidth = 80
	maxWidth   = 120
)

// Page collects text.
type Page struct {
	strings.Builder
	width int // of tables, and of paragraphs if they are wrapped
	wraps bool
	color bool

	failed bool // answers about failures were written
}

// NewPage returns an empty page.
func NewPage(s Style) *Page {
	p := &Page{width: UsualWidth, wraps: s.Width > 0, color: s.Color}
	if p.wraps {
		p.width = max(min(s.Width, maxWidth), 40)
	}
	return p
}

// To writes the text to w.
func (p *Page) To(w io.Writer) error {
	_, err := io.WriteString(w, p.String())
	return err
}

// Line writes a line.
func (p *Page) Line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// Para writes a paragraph. first precedes its first line, indent the other lines.
func (p *Page) Para(first, indent, text string) {
	width := math.MaxInt
	if p.wraps {
		width = p.width
	}
	p.Line("%s%s", first, wrap(text, indent, shorten.Columns(codes.ReplaceAllString(first, "")), width))
}

// codes matches the terminal codes of colours.
var codes = regexp.MustCompile("\033\\[[0-9;]*m")

// Table writes rows under a head, or without a head if it is nil. The cells of a row are aligned to the right, except
// the last: it is a name that gets the rest of the width, or the line below. Different names stay different.
func (p *Page) Table(head []string, rows [][]string) {
	if head != nil {
		rows = append([][]string{head}, rows...)
	}
	p.table(p.width, rows)
}

// table is Table in another width than that of the page.
func (p *Page) table(wide int, rows [][]string) {
	widths, longest := make([]int, len(rows[0])-1), 0
	for _, row := range rows {
		longest = max(longest, shorten.Columns(row[len(widths)]))
		for i := range widths {
			widths[i] = max(widths[i], shorten.Columns(row[i]))
		}
	}
	gap, room := "  ", wide
	for _, w := range widths {
		room -= w + 2
	}
	if room < min(longest, 24) { // move the columns together
		gap, room = " ", room+len(widths)
	}
	room = max(room, leastText)
	var before, names []string
	var rooms []int
	for _, row := range rows {
		var cells strings.Builder
		for i, w := range widths {
			fmt.Fprintf(&cells, "%s%s%s", strings.Repeat(" ", w-shorten.Columns(row[i])), row[i], gap)
		}
		start, width := cells.String(), room
		for _, line := range callLines(row[len(widths)], room, wide-len(below)) {
			before, names, rooms = append(before, start), append(names, line), append(rooms, width)
			start, width = below, wide-len(below)
		}
	}
	for n, name := range shorten.Measure(shorten.Terminal).Names(names, rooms) {
		p.Line("%s", strings.TrimRight(before[n]+name, " "))
	}
}

const (
	below     = "            " // indents what does not fit in a row of a table
	arrow     = " ← "          // stands between a call and its caller
	leastText = 16             // is the minimum width of the last column
)

// callLines breaks a call path, "f (a.py:1) ← g (a.py:2)", between calls: a first line of at most first columns, and others
// of at most width. The first is empty if not even a call fits.
func callLines(path string, first, width int) (lines []string) {
	calls := strings.Split(path, arrow)
	line := calls[0]
	if shorten.Columns(line) > first {
		lines, line, first = []string{""}, strings.TrimSpace(line), width
	}
	for _, call := range calls[1:] {
		if shorten.Columns(line+arrow+call) <= first {
			line += arrow + call
		} else {
			lines, line, first = append(lines, line), "← "+call, width
		}
	}
	return append(lines, line)
}

// more returns the line about the rows that are left out.
func more(n int, thing string) string {
	return units.Plural(n, "more "+thing) + " (--json has them all)"
}

// colors are the terminal codes of severities.
var colors = [...]string{finding.Info: "1", finding.Warning: "1;33", finding.Critical: "1;31"}

// severity returns a severity, in colour if the style has colours.
func (p *Page) severity(s finding.Severity) string {
	if !p.color {
		return s.String()
	}
	return fmt.Sprintf("\033[%sm%s\033[0m", colors[s], s)
}

// Wrap breaks text at spaces so that lines with indent fit 80 columns, and makes it printable.
func Wrap(text, indent string) string { return wrap(text, indent, len(indent), UsualWidth) }

// number matches a number: the word after it is its unit.
var number = regexp.MustCompile(`^\(?[0-9][0-9.,]*$`)

// wrap is Wrap for text that begins in column used. It leaves two columns free, so that no
// terminal breaks the line. Blanks inside a line remain: they may be those of a file name. A number keeps its unit.
func wrap(text, indent string, used, width int) string {
	var b strings.Builder
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, text)
	gap := 0
	words := strings.Split(strings.TrimSpace(text), " ")
	for i, word := range words {
		if word == "" {
			gap++
			continue
		}
		word = Printable(word)
		n := shorten.Columns(word)
		unit := 0
		if i+1 < len(words) && number.MatchString(word) {
			unit = 1 + shorten.Columns(words[i+1])
		}
		if gap > 0 && used+gap+n+unit > width-2 {
			b.WriteString("\n" + indent)
			used = len(indent)
		} else {
			b.WriteString(strings.Repeat(" ", gap))
			used += gap
		}
		b.WriteString(word)
		used += n
		gap = 1
	}
	return b.String()
}

const (
	maxWord = 200  // maximum width of a word of Bounded
	maxText = 2000 // maximum width of its text
)

// Bounded returns a text for outputs without columns: names in it that would fill pages lose their middle.
func Bounded(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		words[i] = shorten.Name(word, maxWord)
	}
	return shorten.Name(strings.Join(words, " "), maxText)
}

// Printable replaces characters that do not print: a name must not move the cursor, change
// colours or reverse the writing direction. It also breaks commands to GitHub's runner,
// which are log lines that begin with "::" after blanks, or contain "##[".
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

// size returns a size for a table, a dash for 0.
func size(bytes int64) string { return dash(bytes, units.Bytes) }

// dash returns a number for a table, a dash for 0.
func dash(n int64, text func(int64) string) string {
	if n == 0 {
		return "-"
	}
	return text(n)
}

// Percent returns a share of 0 to 1 as "12.5 %".
func Percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func shareOf(part, whole int64) string { return Percent(float64(part) / float64(max(whole, 1))) }
