package manual

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

var (
	pictureLink = regexp.MustCompile(`!\[([^\]]*)\]\([^)]*\)`)
	pageLink    = regexp.MustCompile(`\[([^\]]*)\]\(([a-z]*)\.md(?:#[^)]*)?\)`)
	otherLink   = regexp.MustCompile(`\[([^\]]*)\]\((?:#|\.\.)[^)]*\)`)
	codeSpan    = regexp.MustCompile(`\\fB.*?\\fR`)
	spans       = regexp.MustCompile("`([^`]*)`|\\*\\*([^*]*)\\*\\*")
	listItem    = regexp.MustCompile(`^(?:[-*:]|[0-9]+\.) +`)
	webLink     = regexp.MustCompile(`\[([^\]]*)\]\((http[^)]*)\)`)
	blanks      = regexp.MustCompile(`\n{3,}`)
	codeBlock   = regexp.MustCompile(`(?s)\.EX\n.*?\.EE\n`)
)

// Roff returns a page of the manual in Markdown in the format of man; memlane(1) if name is "", whose one-line
// description is summary.
func Roff(name, summary, markdown string) []byte {
	page := md2man.Render([]byte(manPage(name, summary, markdown)))
	page = codeSpan.ReplaceAllFunc(page, literal)
	return codeBlock.ReplaceAllFunc(page, func(code []byte) []byte {
		widest := 0
		for line := range bytes.Lines(code) {
			widest = max(widest, utf8.RuneCount(bytes.TrimRight(line, "\n")))
		}
		return fmt.Appendf(nil, ".in %dn\n%s.in\n", min(max(width-widest, 0), 7), literal(code))
	})
}

// Plain returns the same page as man shows it on a terminal. wrap breaks a text into lines, those after the first indented.
func Plain(name, summary, markdown string, wrap func(text, indent string) string) string {
	_, markdown, _ = strings.Cut(manPage(name, summary, markdown), "\n\n") // the line for the head of a printed page
	var b strings.Builder
	var text []string // the lines of a paragraph, or of an item of a list
	fenced := false
	for line := range strings.SplitSeq(markdown+"\n", "\n") {
		heading := strings.TrimLeft(line, "#")
		fence := strings.HasPrefix(line, "```")
		if text != nil && (line == "" || fence || heading != line || listItem.MatchString(line)) {
			mark := listItem.FindString(text[0])
			whole, indent := strings.Join(text, " ")[len(mark):], margin+strings.Repeat(" ", len(mark))
			if mark == ": " { // what a term of a list means
				mark, indent = "", margin+margin
			}
			whole = spans.ReplaceAllString(webLink.ReplaceAllString(whole, "$1 ($2)"), "$1$2")
			b.WriteString(indent[:len(indent)-len(mark)] + mark + wrap(whole, indent) + "\n")
			text = nil
		}
		switch {
		case fence:
			fenced = !fenced
		case fenced, line == "":
			b.WriteString(strings.TrimRight(margin+line, " ") + "\n")
		case heading != line:
			b.WriteString(strings.Repeat("  ", len(line)-len(heading)-2) + strings.TrimSpace(heading) + "\n")
		default:
			text = append(text, strings.TrimSpace(line))
		}
	}
	return strings.TrimSpace(blanks.ReplaceAllString(b.String(), "\n\n")) + "\n"
}

// manPage returns a page as Markdown with the sections of man. Tables become lists, which fit on any terminal. Links
// become names of pages.
func manPage(name, summary, markdown string) string {
	title, section := "memlane-"+name, "7"
	if name == "" {
		title, section = "memlane", "1"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s %s \"\" memlane \"Manual of memlane\"\n\n## NAME\n\n", strings.ToUpper(title), section)
	first, fenced, tabled := true, false, false
	var code []string // the lines of the fenced block
	for source := range strings.Lines(markdown) {
		line := source
		heading, isTitle := strings.CutPrefix(line, "# ")
		switch {
		case strings.HasPrefix(line, "```"):
			if fenced = !fenced; fenced {
				code = nil
				continue
			}
			line = "```\n" + strings.Join(code, "\n") + "\n```\n"
		case fenced:
			code = append(code, fold(strings.TrimSuffix(line, "\n"))...)
			continue
		case isTitle && first:
			first = false
			if name == "" {
				heading = summary + "\n"
			}
			line = title + " - " + heading + "\n## DESCRIPTION\n"
		case isTitle:
			line = "## " + strings.ToUpper(heading)
		case !strings.HasPrefix(line, "|"):
			line = links(line)
		case !tabled || strings.HasPrefix(line, "|---"):
			line = "" // the header, and the line below it
		default:
			line = links(definition(line))
		}
		tabled = !fenced && strings.HasPrefix(source, "|")
		b.WriteString(line)
	}
	return b.String()
}

// width is the maximum width of a manual page in columns.
const width = 80

// margin is the indentation of text below a heading.
const margin = "  "

// fold breaks a line of code that is too long for a manual page, with backslashes if it
// is a command.
func fold(line string) (lines []string) {
	end := ""
	if strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "memlane ") {
		end = " \\"
	}
	for utf8.RuneCountInString(line) > width-len(margin) {
		at := strings.LastIndexByte(string([]rune(line)[:width-len(margin+end)]), ' ')
		if strings.TrimSpace(line[:max(at, 0)]) == "" {
			break
		}
		lines = append(lines, line[:at]+end)
		line = margin + line[at+1:]
	}
	return append(lines, line)
}

// literal escapes the characters that formatters turn into typographic quotation marks
// and hyphens.
func literal(text []byte) []byte {
	return []byte(strings.NewReplacer("-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(string(text)))
}

// definition returns a row of a table as an entry of a list: the first cell is the term, the others are its text.
func definition(row string) string {
	cells := strings.Split(strings.ReplaceAll(strings.Trim(row, "|\n"), `\|`, "\x00"), "|")
	var text []string
	for _, cell := range cells[1:] {
		if cell = strings.TrimSpace(cell); cell != "" {
			text = append(text, cell)
		}
	}
	return strings.ReplaceAll(strings.TrimSpace(cells[0])+"\n: "+strings.Join(text, "; ")+"\n\n", "\x00", "|")
}

func links(line string) string {
	line = pictureLink.ReplaceAllString(line, "(Picture: $1)")
	line = pageLink.ReplaceAllString(line, "$1 (`memlane man $2`)")
	return otherLink.ReplaceAllString(line, "$1")
}
