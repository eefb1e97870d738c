package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/docs/manual"
	"github.com/memlane/memlane/render/text"
)

func manCommand() *cli.Command {
	return &cli.Command{
		Name:      "man",
		Usage:     "print the manual: memlane(1), or one of its pages",
		ArgsUsage: "[PAGE]",
		Description: "Prints the manual in the format of man: memlane(1) with all commands and\n" +
			"flags, or one of its pages. On a terminal it prints plain text.\n\n" +
			"Pages:\n  " + text.Wrap(strings.Join(manual.Names(), ", "), "  ") + "\n\n" +
			"Examples:\n" +
			"  memlane man | man -l -\n" +
			"  memlane man faq\n" +
			"  memlane man > /usr/local/share/man/man1/memlane.1",
		Action: man,
	}
}

// The pages in memlane(1). The page of the commands is generated, because its file is for the web.
const (
	commandsPage = "commands"
	backPage     = "reference"
)

func man(c *cli.Context) error {
	name := c.Args().First()
	var page string
	switch {
	case c.NArg() > 1:
		return usage("man takes one page (got %d); see memlane man --help", c.NArg())
	case name == "":
		page = manual.Text(manual.Front) + "\n" + commandsMarkdown(c.App) + "\n" + manual.Text(backPage)
	case name == commandsPage:
		page = commandsMarkdown(c.App)
	case !slices.Contains(manual.Names(), name):
		return usage("man: unknown page %q; the pages are %s", name, strings.Join(manual.Names(), ", "))
	default:
		page = manual.Text(name)
	}
	if terminalOf(c.App.Writer) == nil {
		page = string(manual.Roff(name, c.App.Usage, page))
	} else {
		page = manual.Plain(name, c.App.Usage, page, text.Wrap)
	}
	_, err := fmt.Fprint(c.App.Writer, page)
	return err
}

func commandsMarkdown(app *cli.App) string {
	table := func(flags []word) string {
		rows := "\n| flag | |\n|---|---|\n"
		for _, f := range flags {
			rows += fmt.Sprintf("| `%s` | %s |\n", f.name, strings.ReplaceAll(f.doc, "|", `\|`))
		}
		return rows
	}
	var page strings.Builder
	page.WriteString("# Commands\n")
	uses := flagUses(app)
	for _, command := range app.VisibleCommands() {
		fmt.Fprintf(&page, "\n## memlane %s\n\n%s\n\n```\n%s\n```\n", command.Name, strings.ToUpper(command.Usage[:1])+command.Usage[1:]+".",
			strings.TrimSpace(command.UsageText))
		writeMarkdown(&page, command.Description)
		own, shared := flagsOf(uses, command)
		if own != nil {
			page.WriteString(table(own))
		}
		if len(shared) > 1 {
			page.WriteString("\nAnd [common flags](#common-flags): `" + strings.ReplaceAll(longNames(shared), ", ", "`, `") + "`.\n")
		}
	}
	page.WriteString("\n## Common flags\n" + table(commonFlags(app)))
	return page.String()
}

// writeMarkdown writes the description of a command as Markdown. Indented lines are commands and lists; they become code.
func writeMarkdown(page *strings.Builder, about string) {
	fenced := false
	for line := range strings.Lines("\n" + strings.TrimRight(about, "\n") + "\n") {
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
