package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/docs/manual"
)

// pageList lists the pages, eight per line.
func pageList() string {
	var b strings.Builder
	for some := range slices.Chunk(manualPages(), 8) {
		b.WriteString("  " + strings.Join(some, ", ") + "\n")
	}
	return b.String()
}

func manCommand() *cli.Command {
	return &cli.Command{
		Name:      "man",
		Usage:     "print the manual: memlane(1), or one of its pages",
		ArgsUsage: "[PAGE]",
		Description: "Prints the manual in the format of man: memlane(1) with all commands and\n" +
			"flags, or one of its pages. On a terminal it prints plain text.\n\n" +
			"Pages:\n" + pageList() + "\n" +
			"Examples:\n" +
			"  memlane man | man -l -\n" +
			"  memlane man faq\n" +
			"  memlane man > /usr/local/share/man/man1/memlane.1",
		Action: man,
	}
}

// The pages in memlane(1). The page of the commands is generated, because its file is
// for the web.
const (
	frontPage    = "README"
	commandsPage = "commands"
	backPage     = "reference"
)

// manualPages returns the names of all pages except the first one.
func manualPages() (names []string) {
	files, _ := fs.Glob(manual.Pages, "*.md") // fails only for a wrong pattern
	for _, file := range files {
		if name := strings.TrimSuffix(file, ".md"); name != frontPage {
			names = append(names, name)
		}
	}
	return names
}

func man(c *cli.Context) error {
	name := c.Args().First()
	var page string
	switch {
	case c.NArg() > 1:
		return usage("man takes one page (got %d); see memlane man --help", c.NArg())
	case name == "":
		page = manualText(frontPage) + "\n" + commandsMarkdown(c.App) + "\n" + manualText(backPage)
	case name == commandsPage:
		page = commandsMarkdown(c.App)
	case !slices.Contains(manualPages(), name):
		return usage("man: unknown page %q; the pages are %s", name, strings.Join(manualPages(), ", "))
	default:
		page = manualText(name)
	}
	if terminalOf(c.App.Writer) == nil {
		page = string(roff(name, c.App.Usage, page))
	}
	_, err := fmt.Fprint(c.App.Writer, page)
	return err
}

func manualText(name string) string {
	text, err := manual.Pages.ReadFile(name + ".md")
	if err != nil {
		panic(err) // the callers check the name
	}
	return string(text)
}

// commonTo is the number of commands from which on a shared flag is described only once.
const commonTo = 5

// commandsMarkdown returns the reference of all commands and their flags.
func commandsMarkdown(app *cli.App) string {
	uses := map[string]int{}
	for _, command := range app.VisibleCommands() {
		for _, f := range command.VisibleFlags() {
			uses[f.String()]++
		}
	}
	var page strings.Builder
	page.WriteString("# Commands\n")
	var common []string
	for _, command := range app.VisibleCommands() {
		fmt.Fprintf(&page, "\n## memlane %s\n\n%s\n\n```\n%s\n```\n", command.Name, sentence(command.Usage), strings.TrimSpace(command.UsageText))
		describe(&page, command.Description)
		var own, shared []string
		for _, f := range command.VisibleFlags() {
			if f == cli.HelpFlag { // cli adds it when it runs
				continue
			}
			names, usage, _ := strings.Cut(f.String(), "\t")
			row := fmt.Sprintf("| `%s` | %s |\n", names, strings.ReplaceAll(strings.Join(strings.Fields(usage), " "), "|", `\|`))
			if uses[f.String()] < commonTo {
				own = append(own, row)
				continue
			}
			shared = append(shared, "`--"+f.Names()[0]+"`")
			if !slices.Contains(common, row) {
				common = append(common, row)
			}
		}
		if own != nil {
			page.WriteString("\n| flag | |\n|---|---|\n" + strings.Join(own, ""))
		}
		if len(shared) > 1 {
			page.WriteString("\nAnd [common flags](#common-flags): " + strings.Join(shared, ", ") + ".\n")
		}
	}
	page.WriteString("\n## Common flags\n\n| flag | |\n|---|---|\n" + strings.Join(common, ""))
	return page.String()
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

// describe writes the description of a command as Markdown. Indented lines are commands
// and lists; they become code.
func describe(page *strings.Builder, text string) {
	fenced := false
	for line := range strings.Lines("\n" + strings.TrimRight(text, "\n") + "\n") {
		indented := strings.HasPrefix(line, "  ")
		if indented != fenced {
			if indented {
				page.WriteString("\n")
			}
			page.WriteString("```\n")
			fenced = indented
		}
		page.WriteString(strings.TrimPrefix(line, "  "))
	}
	if fenced {
		page.WriteString("```\n")
	}
}

var (
	pictureLink = regexp.MustCompile(`!\[([^\]]*)\]\([^)]*\)`)
	pageLink    = regexp.MustCompile(`\[([^\]]*)\]\(([a-z]*)\.md(?:#[^)]*)?\)`)
	otherLink   = regexp.MustCompile(`\[([^\]]*)\]\((?:#|\.\.)[^)]*\)`)
	codeSpan    = regexp.MustCompile(`\\fB.*?\\fR`)
	codeBlock   = regexp.MustCompile(`(?s)\.EX\n.*?\.EE\n`)
)

// roff converts a page of the manual, or memlane(1) if name is "", whose one-line
// description is summary. Tables become lists, which fit on any terminal. Links become
// names of pages.
func roff(name, summary, markdown string) []byte {
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
			line = manLinks(line)
		case !tabled || strings.HasPrefix(line, "|---"):
			line = "" // the header, and the line below it
		default:
			line = manLinks(definition(line))
		}
		tabled = !fenced && strings.HasPrefix(source, "|")
		b.WriteString(line)
	}
	page := md2man.Render([]byte(b.String()))
	page = codeSpan.ReplaceAllFunc(page, literal)
	return codeBlock.ReplaceAllFunc(page, func(code []byte) []byte {
		widest := 0
		for line := range bytes.Lines(code) {
			widest = max(widest, utf8.RuneCount(bytes.TrimRight(line, "\n")))
		}
		return fmt.Appendf(nil, ".in %dn\n%s.in\n", min(max(manWidth-widest, 0), 7), literal(code))
	})
}

// manWidth is the maximum width of a manual page in columns.
const manWidth = 80

// fold breaks a line of code that is too long for a manual page, with backslashes if it
// is a command.
func fold(line string) (lines []string) {
	end := ""
	if strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "memlane ") {
		end = " \\"
	}
	for utf8.RuneCountInString(line) > manWidth {
		at := strings.LastIndexByte(string([]rune(line)[:manWidth-len(end)]), ' ')
		if strings.TrimSpace(line[:max(at, 0)]) == "" {
			break
		}
		lines = append(lines, line[:at]+end)
		line = "    " + line[at+1:]
	}
	return append(lines, line)
}

// literal escapes the characters that formatters turn into typographic quotation marks
// and hyphens.
func literal(text []byte) []byte {
	return []byte(strings.NewReplacer("-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(string(text)))
}

// definition returns a row of a table as an entry of a list: the first cell is the term,
// the others are its text.
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

func manLinks(line string) string {
	line = pictureLink.ReplaceAllString(line, "(Picture: $1)")
	line = pageLink.ReplaceAllString(line, "$1 (`memlane man $2`)")
	return otherLink.ReplaceAllString(line, "$1")
}
