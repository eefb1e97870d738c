package main

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
)

// flagsFirst moves the flags of a command before its captures, because cli treats flags after the first capture as
// captures. It also checks the flags, for better messages than those of cli.
func flagsFirst(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	command := app.Command(args[1])
	if command == nil && isCapture(args[1]) {
		args = slices.Insert(slices.Clone(args), 1, briefName)
		command = app.Command(briefName)
	}
	switch {
	case isHelp(args[1]):
		return []string{args[0], "help"}, nil
	case command == nil && isFlag(args[1]):
		return args, misplacedFlag(app, args[1])
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
		if isHelp(arg) {
			return []string{args[0], "help", args[1]}, nil
		}
		f, err := flagOf(command, arg)
		if err != nil {
			return nil, err
		}
		flags = append(flags, arg)
		if takesValue(f) && !strings.Contains(arg, "=") {
			if len(rest) == 1 {
				return nil, usage("%s needs a value: %s; see memlane %s --help", arg, describe(f).name, command.Name)
			}
			rest = rest[1:]
			flags = append(flags, rest[0])
		}
	}
	return append(append(flags, "--"), captures...), nil
}

// isFlag reports whether an argument is a flag. - is standard input.
func isFlag(arg string) bool { return strings.HasPrefix(arg, "-") && arg != "-" }

func isHelp(arg string) bool {
	return isFlag(arg) && slices.Contains(cli.HelpFlag.Names(), flagName(arg))
}

// flagName returns "view" for "--view=usage" and "-view=usage".
func flagName(arg string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	return name
}

func takesValue(f cli.Flag) bool {
	_, isSwitch := f.(*cli.BoolFlag)
	return !isSwitch
}

// dashed returns the name of a flag as typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// flagWords returns flags as typed, with their usage.
func flagWords(visible []cli.Flag) (words []word) {
	for _, f := range visible {
		for _, name := range f.Names() {
			words = append(words, word{dashed(name), describe(f).doc})
		}
	}
	return words
}

// flagOf returns the flag of a command that an argument names. It fails if the command
// has no such flag, or the flag takes no value and has one.
func flagOf(command *cli.Command, arg string) (cli.Flag, error) {
	name := flagName(arg)
	for _, f := range command.Flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		_, value, given := strings.Cut(arg, "=")
		if _, err := strconv.ParseBool(value); given && !takesValue(f) && err != nil {
			return nil, usage("%s takes no value (got %q); see memlane %s --help", dashed(name), value, command.Name)
		}
		return f, nil
	}
	return nil, usage("memlane %s has no flag %s%s; see memlane %s --help", command.Name, dashed(name),
		suggestion(dashed(name), flagWords(command.VisibleFlags())), command.Name)
}

// sizeOf returns the value of a flag in bytes; 0 without the flag.
func sizeOf(c *cli.Context, flag, example string) (int64, error) {
	size := c.String(flag)
	if size == "" {
		return 0, nil
	}
	n, err := units.ParseBytes(size)
	if err != nil || n <= 0 {
		return 0, usage("--%s %q: use a size such as %s", flag, size, example)
	}
	return n, nil
}

// regexpOf returns the regular expression in the value of a flag; nil without the flag.
func regexpOf(c *cli.Context, flag string) (*regexp.Regexp, error) {
	value := c.String(flag)
	if value == "" {
		return nil, nil
	}
	re, err := regexp.Compile(value)
	if bad, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, usage("--%s %q: %s near %q; use a regular expression such as 'train_step|evaluate'", flag, value, bad.Code, bad.Expr)
	}
	return re, nil
}

// misplacedFlag returns the error for a flag before the command; nil if memlane itself
// has the flag.
func misplacedFlag(app *cli.App, arg string) error {
	for _, f := range app.Flags {
		if slices.Contains(f.Names(), flagName(arg)) {
			return nil
		}
	}
	for _, command := range app.Commands {
		if f, err := flagOf(command, arg); err == nil {
			return usage("%s: put flags after the command: memlane %s %s; see memlane --help", arg, command.Name, describe(f).name)
		}
	}
	return usage("memlane has no flag %s; see memlane --help", dashed(flagName(arg)))
}
