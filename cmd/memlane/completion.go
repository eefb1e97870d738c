package main

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"
)

// scripts are the scripts for shells. Each passes the words before the cursor to
// memlane completion --word, which prints the words that can follow.
//
//go:embed completion
var scripts embed.FS

var shells = []word{{"bash", "Bash 3.2 and newer"}, {"zsh", "Z shell"}, {"fish", "fish 3 and newer"},
	{"powershell", "PowerShell 5.1 and newer"}}

// ArgsUsage of help and completion.
const (
	commandArg = "[COMMAND]"
	shellArg   = "SHELL"
)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script that lets a shell complete words with Tab",
		ArgsUsage: shellArg,
		Description: "SHELL is " + orList(shells) + ". The script completes commands,\n" +
			"flags and values of flags, and file names everywhere else. Add the line of\n" +
			"your shell to its start-up file:\n\n" +
			"  ~/.bashrc                   source <(memlane completion bash)\n" +
			"  ~/.zshrc, after compinit    source <(memlane completion zsh)\n" +
			"  ~/.config/fish/config.fish  memlane completion fish | source\n" +
			"  $PROFILE of PowerShell      memlane completion powershell | Out-String |\n" +
			"                                Invoke-Expression\n\n" +
			"Bash 3.2, which macOS has, needs eval \"$(memlane completion bash)\" instead.\n" +
			"If zsh does not know compdef, put this line before it:\n" +
			"  autoload -Uz compinit && compinit\n\n" +
			"Examples:\n" +
			"  memlane completion bash\n" +
			"  memlane completion fish > ~/.config/fish/completions/memlane.fish",
		Flags: []cli.Flag{&cli.StringFlag{Name: "word", Hidden: true,
			Usage: "list the completions of `WORD` after the given words"}}, Action: completion,
	}
}

func completion(c *cli.Context) error {
	if c.IsSet("word") {
		return complete(c)
	}
	shell := c.Args().First()
	switch {
	case shell == "":
		return usage("completion: no shell given; use %s", orList(shells))
	case !hasWord(shells, shell):
		return usage("completion %q: use %s%s", shell, orList(shells), suggestion(shell, shells))
	}
	script, err := fs.ReadFile(scripts, "completion/memlane."+shell)
	if err != nil {
		return err
	}
	_, err = c.App.Writer.Write(script)
	return err
}

// complete prints the words that can follow a command line, one per line, with a description after a tab. If a file
// name can follow it fails, so that the shell looks for files, as it does without memlane.
func complete(c *cli.Context) error {
	prefix := c.String("word")
	words, ok := candidates(c.App, c.Args().Slice(), prefix)
	if !ok {
		return usage("completion --word: complete a file name here")
	}
	for _, w := range words {
		if strings.HasPrefix(w.name, prefix) {
			fmt.Fprintln(c.App.Writer, strings.TrimSpace(w.name+"\t"+w.doc))
		}
	}
	return nil
}

// candidates returns the words that can follow a command line, where prefix is typed. ok
// is false if a file name can follow. Candidates need not begin with prefix.
func candidates(app *cli.App, before []string, prefix string) (words []word, ok bool) {
	if len(before) == 0 {
		if strings.HasPrefix(prefix, "-") {
			return flagWords(app.VisibleFlags()), true
		}
		return commandWords(app), true
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
	name, _, valued := strings.Cut(prefix, "=")
	switch {
	case !strings.HasPrefix(prefix, "-"):
		return argumentsOf(app, command, arguments)
	case !valued:
		return flagWords(append(command.VisibleFlags(), cli.HelpFlag)), true
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

func valuesOf(f cli.Flag) (words []word, ok bool) {
	if choice, is := f.(wordFlag); is {
		return choice.words, true
	}
	text, is := f.(*cli.StringFlag)
	return nil, !is || !text.TakesFile
}

// argumentsOf returns the candidates for argument n of a command, counted from 0.
func argumentsOf(app *cli.App, command *cli.Command, n int) (words []word, ok bool) {
	switch command.ArgsUsage {
	case commandArg:
		words = commandWords(app)
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
