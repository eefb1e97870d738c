package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/render/text"
)

func helpCommand() *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "show the flags and examples of a command",
		ArgsUsage: commandArg,
		Description: "Without a command: an overview of memlane and its commands.\n\n" +
			"Examples:\n  memlane help leaks",
		Action: func(c *cli.Context) error {
			name := c.Args().First()
			switch command := c.App.Command(name); {
			case name == "":
				return appHelp(c)
			case command == nil:
				return unknownCommand(c.App, name)
			default:
				return commandHelp(c.App.Writer, c.App, command)
			}
		},
	}
}

func appHelp(c *cli.Context) error {
	var b strings.Builder
	fmt.Fprintf(&b, "memlane: %s\n\n%s\n\n%s\n\nCommands:\n", c.App.Usage, c.App.UsageText, c.App.Description)
	printColumn(&b, 14, commandWords(c.App)...)
	b.WriteString("\nFlags of most commands:\n")
	printColumn(&b, flagColumn, commonFlags(c.App)...)
	b.WriteString("\nFormats of captures:\n")
	for _, f := range formats.All() {
		printColumn(&b, 18, word{f.Name, f.Doc})
	}
	b.WriteString("\nExit status:\n")
	printColumn(&b, 6, word{"0", "success"}, word{"1", "--fail-on is met"}, word{"2", "wrong command line"},
		word{"3", "a capture cannot be read (or is damaged, with --strict)"}, word{"4", "a capture does not contain the requested data"},
		word{"5", "the output cannot be written"}, word{"130", "interrupted"})
	_, err := io.WriteString(c.App.Writer, b.String())
	return err
}

// commandHelp prints what people look for first at the top: examples, then the command's own flags.
func commandHelp(w io.Writer, app *cli.App, command *cli.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "memlane %s: %s\n\n  %s\n", command.Name, command.Usage, command.UsageText)
	about, rest, _ := strings.Cut(command.Description, "Examples:\n")
	examples, more, _ := strings.Cut(rest, "\n\n")
	fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(examples, "\n"))
	own, shared := flagsOf(flagUses(app), command)
	if own != nil {
		b.WriteString("\nFlags:\n")
		printColumn(&b, flagColumn, own...)
	}
	if shared != nil {
		fmt.Fprintf(&b, "\nFlags of most commands, which memlane --help describes:\n  %s\n", text.Wrap(longNames(shared), "  "))
	}
	for _, part := range []string{about, more} {
		if part = strings.TrimSpace(part); part != "" {
			fmt.Fprintf(&b, "\n%s\n", part)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// flagColumn is the column in which the descriptions of flags begin, in all help.
const flagColumn = 24

// printColumn prints words with their descriptions in one column.
func printColumn(w io.Writer, column int, words ...word) {
	margin := strings.Repeat(" ", column)
	for _, word := range words {
		name := fmt.Sprintf("  %-*s ", column-3, word.name)
		if len(name) > column {
			name = "  " + word.name + "\n" + margin
		}
		fmt.Fprintf(w, "%s%s\n", name, text.Wrap(word.doc, margin))
	}
}

// commonTo is the number of commands from which on a shared flag is described only once.
const commonTo = 5

// commonFlags returns the flags that many commands share, in the order of their first command.
func commonFlags(app *cli.App) (common []word) {
	uses := flagUses(app)
	for _, command := range app.VisibleCommands() {
		_, shared := flagsOf(uses, command)
		common = append(common, slices.DeleteFunc(shared, func(d word) bool { return slices.Contains(common, d) })...)
	}
	return common
}

func flagUses(app *cli.App) map[word]int {
	uses := map[word]int{}
	for _, command := range app.VisibleCommands() {
		for _, f := range command.VisibleFlags() {
			uses[describe(f)]++
		}
	}
	return uses
}

// flagsOf returns the flags of a command, and those that it shares with many others.
func flagsOf(uses map[word]int, command *cli.Command) (own, shared []word) {
	for _, f := range command.VisibleFlags() {
		switch d := describe(f); {
		case f == cli.HelpFlag: // cli adds it when it runs
		case uses[d] < commonTo:
			own = append(own, d)
		default:
			shared = append(shared, d)
		}
	}
	return own, shared
}

// longNames returns the names of described flags, separated by commas: "--json, --output".
func longNames(flags []word) string {
	var names []string
	for _, f := range flags {
		names = append(names, strings.Fields(f.name[strings.Index(f.name, "--"):])[0])
	}
	return strings.Join(names, ", ")
}

// describe returns a flag as people read it: "-o, --output FILE", and what it does.
func describe(f cli.Flag) word {
	d := f.(cli.DocGenerationFlag)
	before, rest, _ := strings.Cut(d.GetUsage(), "`")
	value, after, _ := strings.Cut(rest, "`")
	names, doc := "", strings.TrimPrefix(before+value+after, value+": ")
	for _, name := range f.Names() {
		names = ", " + dashed(name) + names
	}
	if usual := strings.Trim(d.GetDefaultText(), `"`); takesValue(f) && usual != "" {
		doc += " (default: " + usual + ")"
	}
	return word{strings.TrimSpace(names[2:] + " " + value), doc}
}
