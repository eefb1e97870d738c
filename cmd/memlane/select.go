package main

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/render/text"
)

// captureFlags are the flags of every command that reads spaces of captures, but
// for export: its --to is another.
func captureFlags(more ...cli.Flag) []cli.Flag {
	return spaceFlags(append(more,
		&cli.StringFlag{Name: "from", Usage: "only from `TIME` on: 20ms, or an instant as in JSON"},
		&cli.StringFlag{Name: "to", Usage: "only up to `TIME`"})...)
}

// functionFlag is one of the commands that show buffers; those that judge have
// their own.
func functionFlag() cli.Flag {
	return &cli.StringFlag{Name: "function", Usage: "only what functions that match `REGEXP` allocated,\nand those that they called"}
}

// spaceFlags are captureFlags without those that cut the window.
func spaceFlags(more ...cli.Flag) []cli.Flag {
	return append(append(more,
		&cli.StringFlag{Name: "space", Usage: "only the memory IDs that match `GLOB`, as 'cuda:*'"},
		&cli.StringFlag{Name: "module", Usage: "only programs called `NAME`: jit_f or 'jit_f(5)'"},
		&cli.StringFlag{Name: "memory-space", Usage: "only memory space `N` of programs; 0: main memory"},
		&cli.StringFlag{Name: "min-size", Usage: "only buffers of `SIZE` and more, as 1MiB"},
		suggesting(&cli.StringFlag{Name: "category", Usage: "only buffers of a category `NAME`, as peak has them"}, kinds...),
	), inputFlags()...)
}

// kinds are the categories of buffers of compiled programs; those of others are
// what their producer calls them.
var kinds = named(lifetime.Parameter.String(), lifetime.Output.String(), lifetime.Temporary.String(), lifetime.Constant.String())

// selectionOf reads the flags that say which part of captures to look at.
func selectionOf(c *cli.Context) (s lifetime.Selection, err error) {
	s = lifetime.Selection{Space: c.String("space"), Module: c.String("module"), Category: c.String("category")}
	if _, err := path.Match(s.Space, ""); err != nil {
		return s, usage("--space %q: want a pattern, as 'cuda:*'; a [ needs its ], and a \\ what it stands before", s.Space)
	}
	if slices.ContainsFunc(c.Command.Flags, func(f cli.Flag) bool { return f.Names()[0] == "from" }) { // --to of export is another
		if s.From, err = instantOf(c, "from"); err != nil {
			return s, err
		}
		if s.To, err = instantOf(c, "to"); err != nil {
			return s, err
		}
	}
	if size := c.String("min-size"); size != "" {
		if s.MinSize, err = units.ParseBytes(size); err != nil || s.MinSize < 0 {
			return s, usage("--min-size %q: want a size, as 1MiB", size)
		}
	}
	if function := c.String("function"); function != "" && c.String("rules") == "" { // the rules have their own way with functions
		if s.Function, err = patternOf("function", function); err != nil {
			return s, err
		}
	}
	if number := c.String("memory-space"); number != "" {
		n, err := strconv.ParseUint(number, 10, 63)
		if err != nil {
			return s, usage("--memory-space %q: want a number, as 0", number)
		}
		s.MemorySpace = lifetime.MemorySpacePrefix + strconv.FormatUint(n, 10)
	}
	return s, nil
}

// instantOf reads a flag that is an instant; nil where it is not given.
func instantOf(c *cli.Context, flag string) (*lifetime.Instant, error) {
	value := c.String(flag)
	if value == "" {
		return nil, nil
	}
	at, err := answer.ParseInstant(value)
	if err != nil {
		return nil, usage("--%s %q: want a duration from the beginning, as 20ms, or an instant as JSON has it", flag, value)
	}
	return &at, nil
}

// static reports whether a space is one of a compiled program.
func static(s *lifetime.Space) bool { return s.Axis == lifetime.ProgramOrder }

// ofRuntime returns the spaces of the program as it ran; where there are none,
// or the flags chose some, all of them. left is how many are left out.
func ofRuntime(want *lifetime.Selection, spaces []*lifetime.Space) (some []*lifetime.Space, left int) {
	for _, s := range spaces {
		if !static(s) {
			some = append(some, s)
		}
	}
	if len(some) == 0 || want.BySpace() {
		return spaces, 0
	}
	return some, len(spaces) - len(some)
}

// mainSpace returns the space with the highest peak, or else with the highest level
// where only the usage is known; and how many it was chosen from.
func mainSpace(spaces []*lifetime.Space) (*lifetime.Space, int) {
	if s, of := answer.Largest(spaces); s != nil {
		return s, of
	}
	return mostUsed(spaces)
}

// sayChoice says on w that a command takes one space of several.
func sayChoice(w io.Writer, doing string, s *lifetime.SpaceInfo, of int) {
	others := "--space chooses another"
	if s.Axis == lifetime.ProgramOrder {
		others = "--module and --memory-space choose another"
	}
	fmt.Fprintf(w, "memlane: %s %s, the highest peak of %d memory IDs; %s\n", doing, text.Printable(s.ID()), of, others)
}
