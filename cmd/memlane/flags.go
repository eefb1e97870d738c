package main

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst moves the flags of a command before its captures: the cli package
// takes flags after the first capture for captures. What it would say of wrong
// flags is said here, in memlane's words.
func flagsFirst(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	command := app.Command(args[1])
	switch {
	case command == nil && isFlag(args[1]):
		return args, beforeCommand(app, args[1])
	case command == nil:
		return args, nil
	}
	flags, captures := []string{args[0], args[1]}, []string{}
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] {
		arg := rest[0]
		if arg == "--" {
			captures = append(captures, rest[1:]...)
			break
		}
		if !isFlag(arg) {
			captures = append(captures, arg)
			continue
		}
		if asksForHelp(arg) {
			return []string{args[0], args[1], arg}, nil // cli would look for the help of a capture
		}
		f, err := flagOf(command, arg)
		if err != nil {
			return nil, err
		}
		flags = append(flags, arg)
		if takesValue(f) && !strings.Contains(arg, "=") {
			if len(rest) == 1 {
				return nil, usage("%s: want a value, as in %s; see memlane %s --help", arg, usageOf(f), command.Name)
			}
			rest = rest[1:]
			flags = append(flags, rest[0])
		}
	}
	return append(append(flags, "--"), captures...), nil
}

// isFlag reports whether an argument is a flag: - is standard input.
func isFlag(arg string) bool { return strings.HasPrefix(arg, "-") && arg != "-" }

// flagName returns "view" of "--view=usage": one dash is as good as two.
func flagName(arg string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	return name
}

func asksForHelp(arg string) bool {
	return isFlag(arg) && slices.Contains(cli.HelpFlag.Names(), flagName(arg))
}

// takesValue reports whether a flag is more than a switch.
func takesValue(f cli.Flag) bool {
	_, isSwitch := f.(*cli.BoolFlag)
	return !isSwitch
}

// usageOf returns a flag with the name of its value, if it has one: "--space GLOB".
func usageOf(f cli.Flag) string {
	text := dashed(f.Names()[0])
	if d, ok := f.(cli.DocGenerationFlag); ok && takesValue(f) {
		if _, rest, quoted := strings.Cut(d.GetUsage(), "`"); quoted {
			value, _, _ := strings.Cut(rest, "`")
			text += " " + value
		}
	}
	return text
}

// dashed returns the name of a flag as it is typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// flagsOf returns flags as they are typed, and what they do.
func flagsOf(flags ...cli.Flag) (words []word) {
	for _, f := range flags {
		d, ok := f.(cli.DocGenerationFlag)
		if v, hides := f.(cli.VisibleFlag); !ok || hides && !v.IsVisible() {
			continue
		}
		doc := strings.NewReplacer("`", "", "\n", " ").Replace(d.GetUsage())
		for _, name := range f.Names() {
			words = append(words, word{dashed(name), doc})
		}
	}
	return words
}

// flagOf returns the flag of a command that an argument names, or says what is wrong
// with it.
func flagOf(command *cli.Command, arg string) (cli.Flag, error) {
	name := flagName(arg)
	for _, f := range command.Flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		_, value, given := strings.Cut(arg, "=")
		if _, err := strconv.ParseBool(value); given && !takesValue(f) && err != nil {
			return nil, usage("%s: takes no value, but got %q; see memlane %s --help", dashed(name), value, command.Name)
		}
		return f, nil
	}
	return nil, usage("%s: memlane %s has no such flag%s; see memlane %s --help", dashed(name), command.Name,
		meant(dashed(name), flagsOf(command.Flags...)), command.Name)
}

// patternOf returns the regular expression that a flag gives.
func patternOf(flag, text string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(text)
	if bad := (*syntax.Error)(nil); errors.As(err, &bad) {
		return nil, usage("--%s %q: want a regular expression, as 'train_step|evaluate': %s near %q", flag, text, bad.Code, bad.Expr)
	}
	return re, nil
}

// beforeCommand says what is wrong with a flag in place of a command; nil where
// memlane itself has it.
func beforeCommand(app *cli.App, arg string) error {
	for _, f := range app.Flags {
		if slices.Contains(f.Names(), flagName(arg)) {
			return nil
		}
	}
	for _, command := range app.Commands {
		if f, err := flagOf(command, arg); err == nil {
			return usage("%s: flags stand behind the command, as in memlane %s %s; see memlane --help", arg, command.Name, usageOf(f))
		}
	}
	return usage("%s: memlane has no such flag; see memlane --help", arg)
}
