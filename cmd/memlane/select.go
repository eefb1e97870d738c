package main

import (
	"fmt"
	"io"
	"os"
	"path"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/text"
)

// captureFlags returns the flags of every command that reads spaces of captures, except
// export, whose --to has another meaning.
func captureFlags(more ...cli.Flag) []cli.Flag {
	return spaceFlags(append(more,
		&cli.StringFlag{Name: "from", Usage: "only after `TIME`: 20ms, or an instant from --json"},
		&cli.StringFlag{Name: "to", Usage: "only until `TIME`"})...)
}

// functionFlag returns --function of the commands that show buffers. leaks and report have another one.
func functionFlag() cli.Flag {
	return &cli.StringFlag{Name: "function",
		Usage: "only allocations by functions that match `REGEXP`, and by the functions that they call"}
}

// nameFlag returns --name of the same commands.
func nameFlag() cli.Flag {
	return &cli.StringFlag{Name: "name", Usage: "only buffers whose recorded name or holder matches `REGEXP`, such as 'layers\\.3\\.'"}
}

// byFlag returns --by of the commands that sum up buffers.
func byFlag() cli.Flag {
	var names []word
	for _, by := range selection.Bys {
		names = append(names, word{string(by), map[selection.By]string{selection.ByLine: "call site", selection.ByOp: "operator",
			selection.ByName: "variable", selection.ByCategory: "kind"}[by]})
	}
	return oneOf(&cli.StringFlag{Name: "by", Value: string(selection.ByLine),
		Usage: "sum up buffers by `KEY`: line, function, file, stack, op, module, layer, shape, category, phase, pool, stream, name or holder"}, names...)
}

func spaceFlag() cli.Flag {
	return &cli.StringFlag{Name: "space", Usage: "only memory IDs that match `GLOB`, such as 'cuda:*'; '*/space0': main memory of programs"}
}

// spaceFlags returns the flags of captureFlags except those that limit the window.
func spaceFlags(more ...cli.Flag) []cli.Flag {
	return append(append(more,
		spaceFlag(),
		&cli.StringFlag{Name: "module", Usage: "only programs named `NAME`: jit_f or 'jit_f(5)'"},
		&cli.StringFlag{Name: "min-size", Usage: "only buffers of at least `SIZE`, such as 1MiB"},
		&cli.StringFlag{Name: "categories", TakesFile: true,
			Usage: "categories of your own: lines of `FILE` such as 'teacher frame=teacher.py size=1MiB..'"},
		suggesting(&cli.StringFlag{Name: "category", Usage: "only buffers of category `NAME`, as listed by peak"}, categories...),
	), inputFlags()...)
}

// categoriesOf reads the file of --categories; nil without the flag.
func categoriesOf(c *cli.Context) (*category.Overrides, error) {
	name := c.String("categories")
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, inputError(err)
	}
	defer f.Close()
	own, err := category.ReadOverrides(name, f)
	if err != nil {
		return nil, inputError(err)
	}
	return own, nil
}

// categories are those of the buffers of compiled programs. Other captures have the categories of their producers.
var categories = named(lifetime.Parameter.String(), lifetime.Output.String(), lifetime.Temporary.String(), lifetime.Constant.String())

// selectionOf reads the flags that select a part of the captures.
func selectionOf(c *cli.Context) (s selection.Selection, err error) {
	s = selection.Selection{Space: c.String("space"), Module: c.String("module"), Category: c.String("category")}
	if by := selection.By(c.String("by")); by != selection.ByLine {
		s.By = by
	}
	if _, err := path.Match(s.Space, ""); err != nil {
		return s, usage("--space %q: use a pattern such as 'cuda:*'; a [ needs a closing ], a \\ needs a character after it", s.Space)
	}
	if c.Command.Name != "export" { // its --to is a format
		if s.From, err = instantOf(c, "from"); err != nil {
			return s, err
		}
		if s.To, err = instantOf(c, "to"); err != nil {
			return s, err
		}
	}
	if size := c.String("min-size"); size != "" {
		if s.MinSize, err = units.ParseBytes(size); err != nil || s.MinSize < 0 {
			return s, usage("--min-size %q: use a size such as 1MiB", size)
		}
	}
	if c.String("rules") == "" { // else rulesOf reads --function
		if s.Function, err = regexpOf(c, "function"); err != nil {
			return s, err
		}
	}
	s.Name, err = regexpOf(c, "name")
	return s, err
}

// selecting returns the action of a command whose flags select a part of the captures.
func selecting(do func(*cli.Context, *selection.Selection) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		chosen, err := selectionOf(c)
		if err != nil {
			return err
		}
		return do(c, &chosen)
	}
}

// instantOf reads a flag that is an instant; nil if it is not given.
func instantOf(c *cli.Context, flag string) (*selection.Instant, error) {
	value := c.String(flag)
	if value == "" {
		return nil, nil
	}
	at, err := selection.ParseInstant(value)
	if err != nil {
		return nil, usage("--%s %q: use a duration since the beginning such as 20ms, or an instant from --json output", flag, value)
	}
	return &at, nil
}

// runtimeSpaces returns the spaces recorded while a program ran. It returns all spaces
// if there are none, or if the flags select spaces.
func runtimeSpaces(chosen *selection.Selection, all []*lifetime.Space) []*lifetime.Space {
	if chosen.BySpace() {
		return all
	}
	return selection.Recorded(all)
}

// noteChoice writes to w which one of several spaces a command uses.
func noteChoice(w io.Writer, doing string, s *lifetime.SpaceInfo, of int) {
	peak := "the highest peak"
	if s.Axis == lifetime.ProgramOrder && s.IsMain() {
		peak = "the highest peak in main memory"
	}
	fmt.Fprintf(w, "memlane: %s %s, which has %s of %d memory IDs; select another with --space\n", doing, text.Printable(s.ID()), peak, of)
}
