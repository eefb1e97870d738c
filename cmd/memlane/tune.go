package main

import (
	"cmp"
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/replay"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/chart"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/report"
	"github.com/memlane/memlane/render/text"
)

func tuneCommand() *cli.Command {
	return &cli.Command{
		Name:      "tune",
		Usage:     "find settings of PyTorch's allocator that need less memory",
		ArgsUsage: "CAPTURE...",
		Description: "Replays the recorded requests through the rules of PyTorch's allocator under\n" +
			"other settings of PYTORCH_CUDA_ALLOC_CONF. Several captures get the settings\n" +
			"that are best for all of them.\n\n" +
			"Examples:\n" +
			"  memlane tune snapshot.pickle\n" +
			"  memlane tune --capacity 24GiB snapshot.pickle\n" +
			"  memlane tune -o tune.svg snapshot.pickle\n" +
			"  memlane tune --json before.pickle after.pickle | jq -r .recommended",
		Flags: append([]cli.Flag{
			suggesting(&cli.GenericFlag{Name: "set", Value: &texts{},
				Usage: "replay only `CONF`, a value of PYTORCH_CUDA_ALLOC_CONF, or default; can be repeated"},
				named("default", "expandable_segments:True", "max_split_size_mb:128", "roundup_power2_divisions:4")...),
			&cli.StringFlag{Name: "capacity",
				Usage: "the device has `SIZE`, less what others use", DefaultText: "known from an OOM, else unlimited"},
			&cli.Float64Flag{Name: "fraction", Usage: "set_per_process_memory_fraction was `F`, such as 0.9", DefaultText: "not set"},
			spaceFlag(), jsonFlag(), outputFlag(), forceFlag(), choiceFlag("theme", "auto", "", "`THEME`: %s", themes)}, inputFlags()...),
		Action: selecting(tune),
	}
}

func tune(c *cli.Context, chosen *selection.Selection) error {
	t, given, err := tuningOf(c)
	if err != nil {
		return err
	}
	if err := checkName(c, append(pictureExtensions, ".md", ".json")...); err != nil {
		return err
	}
	var out *answer.Tune
	if err = captures(0).each(c, chosen, func(capture *judge.Capture) error { return t.Add(capture) }); err == nil {
		out, err = t.Tune(given, func() error { return context.Cause(c.Context) })
	}
	if err != nil {
		return err
	}
	return writeOutput(c, func(w io.Writer) error {
		switch {
		case c.Bool("json") || outputEndsIn(c, ".json"):
			return model.WriteJSON(w, out)
		case outputEndsIn(c, ".md"):
			return report.WriteTune(w, out)
		case outputIsPicture(c):
			p, ok := t.Picture()
			if !ok {
				return &selection.NothingError{File: c.Args().First(), Why: "no settings to compare: nothing could be replayed"}
			}
			return chart.Tune(w, p.Space, p.File, &chart.Tuned{Name: p.Names[0], Trace: p.Recorded},
				&chart.Tuned{Name: p.Names[1], Helps: p.Helps, Trace: p.Chosen}, chartOptions(c))
		}
		return text.Tune(w, out, styleOf(w))
	})
}

// tuningOf reads the flags: the device, and the settings of --set.
func tuningOf(c *cli.Context) (t *answer.Tuning, given []answer.Conf, err error) {
	t = &answer.Tuning{Fraction: c.Float64("fraction")}
	if t.Capacity, err = sizeOf(c, "capacity", "24GiB"); err != nil {
		return nil, nil, err
	}
	switch {
	case c.IsSet("fraction") && !(t.Fraction > 0 && t.Fraction <= 1):
		return nil, nil, usage("--fraction %v: use a fraction such as 0.9", t.Fraction)
	case t.Fraction > 0 && t.Capacity == 0:
		return nil, nil, usage("--fraction needs --capacity")
	}
	for _, conf := range *c.Generic("set").(*texts) {
		value := conf
		if conf == "default" {
			value = ""
		}
		s, err := replay.Parse(value)
		if err != nil {
			return nil, nil, usage("--set %q: %w", conf, err)
		}
		given = append(given, answer.Conf{Text: cmp.Or(conf, "default"), Settings: s})
	}
	return t, given, nil
}
