package main

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/native"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/lifetime/whatif"
	"github.com/memlane/memlane/render/chart"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/text"
)

func whatifCommand() *cli.Command {
	var kinds strings.Builder
	list := func(of []whatif.Kind) {
		for _, k := range of {
			printColumn(&kinds, 27, word{strings.TrimSuffix(k.Name+"="+k.Values, "="), k.Doc})
		}
	}
	list(whatif.Kinds())
	kinds.WriteString("\nChanges of compiled programs, beside checkpoint=blocks and drop=NAMES:\n")
	list(whatif.Planned())
	return &cli.Command{
		Name:      "whatif",
		Usage:     "predict the peak of a program that is changed",
		ArgsUsage: "CAPTURE...",
		Description: "Changes the buffers of a recorded training as the program would, and replays\n" +
			"PyTorch's allocator. Without --set it tries changes that lower the peak. Of a\n" +
			"compiled program it tells what its schedule and its sizes prove.\n\n" +
			"Examples:\n" +
			"  memlane whatif snapshot.pickle\n" +
			"  memlane whatif --set batch=2,checkpoint=blocks snapshot.pickle\n" +
			"  memlane whatif --search --capacity 24GiB snapshot.pickle\n" +
			"  memlane whatif --set checkpoint=blocks -o changed.svg snapshot.pickle\n" +
			"  memlane whatif --set 'narrow=params*' step.hlo.pb\n" +
			"  memlane whatif --json snapshot.pickle | jq .spaces[0].scenarios\n\n" +
			"Changes:\n" + kinds.String(),
		Flags: append([]cli.Flag{
			suggesting(&cli.GenericFlag{Name: "set", Value: &texts{},
				Usage: "predict these `CHANGES`, separated by commas; can be repeated"}, named(commonEdits...)...),
			&cli.StringFlag{Name: "capacity", Usage: "the device has `SIZE`, less what others use", DefaultText: "known from an OOM"},
			toggle("search", "find the cheapest changes that fit the capacity, and the largest batch of each"),
			spaceFlag(), jsonFlag(), outputFlag(), forceFlag(), choiceFlag("theme", "auto", "", "`THEME`: %s", themes)}, inputFlags()...),
		Action: selecting(predict),
	}
}

// commonEdits are what completion suggests.
var commonEdits = []string{"batch=2", "checkpoint=blocks", "optimizer=adam8bit", "optimizer.device=host", "offload=activations"}

func edits() (names []word) {
	for _, k := range append(whatif.Kinds(), whatif.Planned()...) {
		names = append(names, word{k.Name, k.Doc})
	}
	return names
}

func predict(c *cli.Context, chosen *selection.Selection) (err error) {
	bar, tried := progress{out: c.App.ErrWriter, started: time.Now()}, 0
	asked := answer.WhatIfAsked{Search: c.Bool("search"), Stop: func() error {
		if tried++; terminalOf(c.App.ErrWriter) != nil && !c.Bool("quiet") {
			bar.show(func() string { return "searching: " + units.Plural(tried, "combination") + " tried" })
		}
		return context.Cause(c.Context)
	}}
	if asked.Capacity, err = sizeOf(c, "capacity", "24GiB"); err != nil {
		return err
	}
	for _, given := range *c.Generic("set").(*texts) {
		scenario, err := whatif.Parse(given)
		if err != nil {
			hint := ""
			for part := range strings.SplitSeq(given, ",") {
				name, _, _ := strings.Cut(strings.TrimSpace(part), "=")
				hint = cmp.Or(hint, suggestion(name, edits()))
			}
			return usage("--set %w%s", err, hint)
		}
		asked.Scenarios = append(asked.Scenarios, scenario)
	}
	if err := checkName(c, append(pictureExtensions, ".json", ".txt", ".native")...); err != nil {
		return err
	}
	shown := outputIsPicture(c) || outputEndsIn(c, ".native")
	if shown {
		asked.Changed = &answer.Changed{}
	}
	all := []answer.WhatIfSpace{}
	r := captures(0)
	// leaks keep their categories
	r.part = func(s *selection.Selection, c *judge.Capture) (*judge.Capture, error) {
		part, err := s.Of(c.Capture)
		return judge.Of(part), err
	}
	err = r.each(c, chosen, func(capture *judge.Capture) error {
		spaces, err := answer.WhatIfOf(capture, asked)
		if err == nil && shown && asked.Changed.After == nil {
			err = &selection.NothingError{File: capture.Name(), Why: "no change can be predicted; see memlane whatif without -o"}
		}
		all = append(all, spaces...)
		return err
	})
	if bar.clear(); err != nil {
		return err
	}
	out := answer.NewWhatIf(all)
	return writeOutput(c, func(w io.Writer) error {
		switch {
		case c.Bool("json") || outputEndsIn(c, ".json"):
			return model.WriteJSON(w, out)
		case outputEndsIn(c, ".native"):
			return native.Write(w, asked.Changed.After)
		case shown:
			d := diff.Compare(judge.Of(asked.Changed.Before), judge.Of(asked.Changed.After))
			o, s := chartOptions(c), asked.Changed.Scenario
			o.Peak = text.About(s.PeakBytes, s.LowBytes, s.HighBytes)
			return nothingError(d.After, chart.Diff(w, d, d.Main(), o))
		}
		return text.WhatIf(w, out, styleOf(w))
	})
}
