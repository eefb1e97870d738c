package main

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// scripts are what shells source: each passes the words before the cursor to
// memlane completion --word, which knows what may follow them.
//
//go:embed completion
var scripts embed.FS

// shells are those that memlane completes words in.
var shells = []word{{"bash", "Bash 3.2 and newer"}, {"zsh", "Z shell"}, {"fish", "fish 3 and newer"}, {"powershell", "PowerShell 5.1 and newer"}}

// What help and completion take.
const (
	commandArg = "[COMMAND]"
	shellArg   = "SHELL"
)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "a script: the shell then completes words with Tab",
		ArgsUsage: shellArg,
		Description: "SHELL is " + orList(shells) + ". Commands, flags and values of\n" +
			"flags are completed, names of files everywhere else. A line for each shell's\n" +
			"own start-up file:\n\n" +
			"  ~/.bashrc                   source <(memlane completion bash)\n" +
			"  ~/.zshrc, after compinit    source <(memlane completion zsh)\n" +
			"  ~/.config/fish/config.fish  memlane completion fish | source\n" +
			"  $PROFILE of PowerShell      memlane completion powershell | Out-String |\n" +
			"                                Invoke-Expression\n\n" +
			"Bash 3.2, as macOS has it, wants eval \"$(memlane completion bash)\" instead.\n" +
			"Where zsh knows no compdef: autoload -Uz compinit && compinit, before it.\n\n" +
			"Examples:\n" +
			"  memlane completion bash\n" +
			"  memlane completion fish > ~/.config/fish/completions/memlane.fish",
		Flags:  []cli.Flag{&cli.StringFlag{Name: "word", Hidden: true, Usage: "list what `WORD` may become, after the words that are given"}},
		Action: completion,
	}
}

func completion(c *cli.Context) error {
	if c.IsSet("word") {
		return complete(c)
	}
	shell := c.Args().First()
	switch {
	case shell == "":
		return usage("completion: no shell given; want %s", orList(shells))
	case !isWord(shells, shell):
		return usage("completion %q: want %s%s", shell, orList(shells), meant(shell, shells))
	}
	script, err := fs.ReadFile(scripts, "completion/memlane."+shell)
	if err != nil {
		return err
	}
	_, err = c.App.Writer.Write(script)
	return err
}

// complete lists the words that may follow those of a command line, one a line and
// behind a tab what it is for. Where the name of a file may follow it fails, as
// it does for shells where there is no memlane: they then look for files.
func complete(c *cli.Context) error {
	begun := c.String("word")
	words, ok := candidates(c.App, c.Args().Slice(), begun)
	if !ok {
		return usage("completion --word: the name of a file is wanted here")
	}
	for _, w := range words {
		if strings.HasPrefix(w.name, begun) {
			fmt.Fprintln(c.App.Writer, strings.TrimSpace(w.name+"\t"+w.doc))
		}
	}
	return nil
}

// candidates returns what may stand in place of a word that was begun, after the
// words of a command line; ok is false where that is the name of a file.
func candidates(app *cli.App, before []string, begun string) (words []word, ok bool) {
	if len(before) == 0 {
		if strings.HasPrefix(begun, "-") {
			return flagsOf(app.Flags...), true
		}
		return commandsOf(app), true
	}
	command := app.Command(before[0])
	if command == nil {
		return nil, true
	}
	arguments := 0
	for i := 1; i < len(before); i++ {
		if before[i] == "--" {
			return argumentsOf(app, command, arguments+len(before)-i-1)
		}
		if !isFlag(before[i]) {
			arguments++
			continue
		}
		f, err := flagOf(command, before[i])
		if err != nil || !takesValue(f) || strings.Contains(before[i], "=") {
			continue
		}
		if i++; i == len(before) {
			return valuesOf(f)
		}
	}
	name, _, valued := strings.Cut(begun, "=")
	switch {
	case !strings.HasPrefix(begun, "-"):
		return argumentsOf(app, command, arguments)
	case !valued:
		return flagsOf(append(slices.Clone(command.Flags), cli.HelpFlag)...), true
	}
	f, err := flagOf(command, name)
	if err != nil || !takesValue(f) {
		return nil, true
	}
	if words, ok = valuesOf(f); !ok {
		return nil, false
	}
	var whole []word
	for _, w := range words {
		whole = append(whole, word{name + "=" + w.name, w.doc})
	}
	return whole, true
}

// valuesOf is candidates for the value of a flag.
func valuesOf(f cli.Flag) (words []word, ok bool) {
	if choice, is := f.(wordFlag); is {
		return choice.words, true
	}
	text, is := f.(*cli.StringFlag)
	return nil, !is || !text.TakesFile
}

// argumentsOf is candidates for what a command takes besides flags, behind n others.
func argumentsOf(app *cli.App, command *cli.Command, n int) (words []word, ok bool) {
	switch command.ArgsUsage {
	case commandArg:
		words = commandsOf(app)
	case shellArg:
		words = shells
	case "":
	default:
		return nil, false // a capture
	}
	if n > 0 {
		words = nil
	}
	return words, true
}
