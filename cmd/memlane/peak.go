package main

import (
	"cmp"
	"fmt"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/text"
	"github.com/urfave/cli/v2"
)

func peakCommand() *cli.Command {
	return &cli.Command{
		Name:      "peak",
		Usage:     "what makes up the memory at the peak, by call site",
		ArgsUsage: "CAPTURE...",
		Description: "Every memory ID is shown at its own peak; of several compiled programs, the\n" +
			"one with the highest peak. TIME is a duration since the window began (1.5s,\n" +
			"20ms) or an instant as JSON has it: nanoseconds or the number of an event or\n" +
			"instruction. Memory IDs without such an instant, or OOM, are left out.\n\n" +
			"Examples:\n" +
			"  memlane peak snapshot.pickle\n" +
			"  memlane peak --at oom snapshot.pickle\n" +
			"  memlane peak --at 250ms --json snapshot.pickle\n" +
			"  memlane peak --module jit_step --memory-space 0 host.xplane.pb",
		Flags: captureFlags(functionFlag(),
			suggesting(&cli.StringFlag{Name: "at", Value: "peak", Usage: "`WHEN`: peak, end, oom or a TIME"}, named(answer.Moments...)...),
			jsonFlag()),
		Action: peak,
	}
}

func peak(c *cli.Context) error {
	want, err := selectionOf(c)
	if err != nil {
		return err
	}
	at, err := momentOf(c)
	if err != nil {
		return err
	}
	out := answer.Peaks{Schema: answer.Schema, Peaks: []answer.Peak{}}
	if at.OfOutline() && want.AllBuffers() {
		err = outlines(&want).each(c, &want, func(o *lifetime.Outline) error {
			for _, i := range chooseSpaces(c, &want, o) {
				out.Peaks = append(out.Peaks, answer.OutlinePeakOf(&o.Tables, o.Spaces[i], at))
			}
			return nil
		})
	} else {
		err = peaksAt(c, &want, at, &out)
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return model.WriteJSON(c.App.Writer, out)
	}
	return text.Peaks(c.App.Writer, &out, styleOf(c.App.Writer))
}

// peaksAt adds what makes up the memory at any moment. Spaces without it are left out,
// as long as another one has it.
func peaksAt(c *cli.Context, want *lifetime.Selection, at answer.Moment, out *answer.Peaks) error {
	var none error // why the first space that is left out is
	err := captures(0).each(c, want, func(capture *lifetime.Capture) error {
		for _, i := range chooseSpaces(c, want, capture.Outline()) {
			s := capture.Spaces[i]
			file := capture.Sources[s.Source].File
			t, err := at.In(file, s)
			if is[answer.MomentError](err) {
				err = usage("%s: --at %w", file, err)
			}
			if err != nil {
				none = cmp.Or(none, err)
				continue
			}
			out.Peaks = append(out.Peaks, answer.PeakOf(&capture.Tables, s, t))
		}
		return nil
	})
	if err == nil && len(out.Peaks) == 0 {
		err = none
	}
	return err
}

// chooseSpaces returns the spaces that a command line asks for, or those that say the
// most. It says what is left out.
func chooseSpaces(c *cli.Context, want *lifetime.Selection, o *lifetime.Outline) []int {
	choice := answer.Choose(o, want.BySpace())
	switch {
	case c.Bool("quiet"):
	case choice.Programs > 0:
		fmt.Fprintf(c.App.ErrWriter, "memlane: %s holds %s of compiled programs as well; --module and --memory-space show them, memlane info lists them\n",
			text.Printable(o.Name()), units.Several(choice.Programs, "memory space"))
	case choice.Of > 1:
		sayChoice(c.App.ErrWriter, "showing", &o.Spaces[choice.Spaces[0]].SpaceInfo, choice.Of)
	}
	return choice.Spaces
}

// momentOf reads --at.
func momentOf(c *cli.Context) (answer.Moment, error) {
	at, err := answer.ParseMoment(c.String("at"))
	if err != nil {
		return at, usage("--at %w", err)
	}
	return at, nil
}
