package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/outline"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/text"
	"github.com/urfave/cli/v2"
)

func peakCommand() *cli.Command {
	return &cli.Command{
		Name:      "peak",
		Usage:     "break down the memory at the peak by call site",
		ArgsUsage: "CAPTURE...",
		Description: "Each memory ID is shown at its own peak. Of several compiled programs, only\n" +
			"the one with the highest peak is shown. TIME is a duration since the\n" +
			"beginning of the recording (1.5s, 20ms), or an instant from --json output:\n" +
			"nanoseconds, or the number of an event or instruction. Memory IDs that do\n" +
			"not contain this instant, or have no OOM, are omitted.\n\n" +
			"Examples:\n" +
			"  memlane peak snapshot.pickle\n" +
			"  memlane peak --at oom snapshot.pickle\n" +
			"  memlane peak --space 'jit_step*/space0' host.xplane.pb",
		Flags: captureFlags(functionFlag(), nameFlag(), byFlag(),
			atFlag(), jsonFlag()),
		Action: selecting(peak),
	}
}

func atFlag() cli.Flag {
	return suggesting(&cli.StringFlag{Name: "at", Value: "peak", Usage: "`WHEN`: peak, end, oom or a TIME such as 20ms"}, named(selection.Moments...)...)
}

// wrongMoment returns the error of an --at that is none.
func wrongMoment(c *cli.Context, err error) error {
	return usage("--at %w%s", err, suggestion(c.String("at"), named(selection.Moments...)))
}

func peak(c *cli.Context, chosen *selection.Selection) error {
	moment, err := selection.ParseMoment(c.String("at"))
	if err != nil {
		return wrongMoment(c, err)
	}
	all := []answer.Peak{}
	if moment.OfOutline() && chosen.AllBuffers() && chosen.By == "" {
		err = outlines(chosen).each(c, chosen, func(o *judge.Outline) error {
			for _, i := range chooseSpaces(c, chosen, o.Outline) {
				p := answer.OutlinePeakOf(&o.Tables, o.Spaces[i], moment)
				if moment == selection.AtPeak {
					p.AddSavings(o.Kept, o.Spaces[i].Whole())
				}
				all = append(all, p)
			}
			return nil
		})
	} else {
		all, err = peaksAt(c, chosen, moment)
	}
	if err != nil {
		return err
	}
	out := answer.NewPeaks(selection.By(c.String("by")), moment, all)
	return printAnswer(c, out, func(w io.Writer, s text.Style) error { return text.Peaks(w, out, s) })
}

// peaksAt returns a breakdown of every space that contains the moment. It fails if none does.
func peaksAt(c *cli.Context, chosen *selection.Selection, at selection.Moment) (all []answer.Peak, err error) {
	var omitted error // why the first omitted space does not contain the moment
	err = captures(0).each(c, chosen, func(capture *judge.Capture) error {
		for _, i := range chooseSpaces(c, chosen, outline.Of(capture.Capture)) {
			s := capture.Spaces[i]
			file := capture.Sources[s.Source].File
			t, err := at.In(file, s)
			if is[selection.MomentError](err) {
				err = usage("%s: --at %w", file, err)
			}
			if err != nil {
				omitted = cmp.Or(omitted, err)
				continue
			}
			p := answer.PeakOf(&capture.Tables, s, t)
			p.AddSavings(capture, s)
			all = append(all, p)
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = omitted
	}
	return all, err
}

// chooseSpaces returns the indices of the spaces that the flags select, or else of the
// most informative ones, with a notice about the omitted ones.
func chooseSpaces(c *cli.Context, chosen *selection.Selection, o *outline.Outline) []int {
	choice := selection.Choose(o, chosen.BySpace())
	switch {
	case c.Bool("quiet"):
	case choice.Programs > 0:
		fmt.Fprintf(c.App.ErrWriter, "memlane: %s also has %s of compiled programs; list them with memlane info, "+
			"select them with --module and --space\n", text.Printable(o.Name()), units.Plural(choice.Programs, "memory space"))
	case choice.Of > 1:
		noteChoice(c.App.ErrWriter, "showing", &o.Spaces[choice.Spaces[0]].SpaceInfo, choice.Of)
	}
	return choice.Spaces
}
