package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/blocks"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/chart"
	"github.com/memlane/memlane/render/figure"
	"github.com/memlane/memlane/render/text"
)

// The values of --view, --layout, --color, --axis and --theme.
var (
	views   = map[string]figure.View{"blocks": figure.Blocks, "usage": figure.Usage, "peak": figure.Peak}
	layouts = map[string]blocks.Layout{"stacked": blocks.Stacked, "address": blocks.Address}
	colors  = map[string]blocks.Color{"site": blocks.BySite, "size": blocks.BySize, "category": blocks.ByCategory, "leak": blocks.ByLeak}
	axes    = map[string]figure.Axis{"time": figure.Time, "event": figure.Events}
	themes  = map[string]canvas.Theme{"auto": canvas.Auto, "light": canvas.Light, "dark": canvas.Dark}
)

func svgCommand() *cli.Command {
	return &cli.Command{
		Name:      "svg",
		Usage:     "draw buffers over time, usage, or the peak by buffer",
		ArgsUsage: "CAPTURE...",
		Description: "--view blocks draws each buffer as a block. Its width is the lifetime of the\n" +
			"buffer, its height the bytes that it occupied. Hover over a block for its\n" +
			"call site, size, offset and lifetime. In the stacked layout the upper edge is\n" +
			"the memory in use; the address layout shows holes. --view usage draws curves\n" +
			"of the memory in use (stacked by --color category), requested, reserved and\n" +
			"free. --view peak draws the peak by buffer.\n\n" +
			"A log, and a failure whose memory others hold, is one bar of the device:\n" +
			"live, idle, outside of the allocator, other processes, free; below it the\n" +
			"request.\n\n" +
			"Of several memory IDs, the one that ran out of memory first is drawn, else\n" +
			"the one with the highest peak, and the others in small panels below, except\n" +
			"with --view peak. Compiled programs are drawn if they are selected or if\n" +
			"there is nothing else. Several captures are drawn as usage, side by side on\n" +
			"one scale of bytes. If the name of FILE ends in .png or .pdf, the picture is\n" +
			"a PNG or a PDF.\n\n" +
			"Examples:\n" +
			"  memlane svg -o snapshot.svg snapshot.pickle\n" +
			"  memlane svg --layout address -o holes.svg snapshot.pickle\n" +
			"  memlane svg -o ranks.svg rank*.json\n" +
			"  memlane svg --view peak --buffer fusion.7 -o peak.svg step.hlo.pb\n" +
			"  memlane svg --space 'jit_step*/space0' -o step.svg host.xplane.pb",
		Flags: captureFlags(functionFlag(), nameFlag(), byFlag(),
			choiceFlag("view", "blocks", "", "`VIEW`: %s", views),
			choiceFlag("layout", "stacked", "by why it failed", "`LAYOUT`: %s", layouts),
			choiceFlag("color", "site", "by what is known", "`KEY`: %s; without it what names most of the peak", colors),
			choiceFlag("axis", "time", "by what is recorded", "`AXIS`: %s", axes),
			choiceFlag("theme", "auto", "", "`THEME`: %s", themes),
			&cli.StringFlag{Name: "width", DefaultText: "960, of one bar 600",
				Usage: "width of the picture in pixels: `N` from 480 to 4096"},
			&cli.StringFlag{Name: "height",
				Usage: "height of the picture in pixels: `N` from 240 to 4096", DefaultText: "as the view needs"},
			&cli.StringFlag{Name: "buffer", Usage: "with --view peak: highlight the buffer `NAME`"},
			rankFlag(), outputFlag(), forceFlag()),
		Action: svg,
	}
}

// choiceFlag returns a flag that accepts the keys of values, which are %s in its help. byDefault says what its help calls
// the default; "" = the usual value.
func choiceFlag[V any](name, usual, byDefault, help string, values map[string]V) cli.Flag {
	words := named(slices.Sorted(maps.Keys(values))...)
	return oneOf(&cli.StringFlag{Name: name, Value: usual, DefaultText: byDefault, Usage: fmt.Sprintf(help, orList(words))}, words...)
}

func svg(c *cli.Context) error {
	if err := cmp.Or(checkPixels(c, "width", 480), checkPixels(c, "height", 240)); err != nil {
		return err
	}
	if err := checkName(c, pictureExtensions...); err != nil {
		return err
	}
	files, err := filesOf(c)
	if err != nil {
		return err
	}
	if len(files) > 1 {
		return drawMultiples(c, files)
	}
	chosen, err := selectionOf(c)
	if err != nil {
		return err
	}
	capture, err := captures(0).openOne(c, files, &chosen)
	if err != nil {
		return err
	}
	spaces := runtimeSpaces(&chosen, capture.Spaces)
	space, of, died := figure.Main(capture, spaces)
	if space == nil {
		return noBuffers(capture)
	}
	if of > 1 && !c.Bool("quiet") {
		if died {
			fmt.Fprintf(c.App.ErrWriter, "memlane: drawing %s, which ran out of memory first; select another with --space\n", text.Printable(space.ID()))
		} else {
			noteChoice(c.App.ErrWriter, "drawing", &space.SpaceInfo, of)
		}
	}
	return writeOutput(c, func(w io.Writer) error { return nothingError(capture, draw(c, w, capture, space, spaces)) })
}

// checkPixels checks that a flag, if it is set, is a number of pixels.
func checkPixels(c *cli.Context, flag string, least int) error {
	if n, err := strconv.Atoi(c.String(flag)); c.IsSet(flag) && (err != nil || n < least || n > mostPixels) {
		return usage("--%s %q: use a number of pixels from %d to %d", flag, c.String(flag), least, mostPixels)
	}
	return nil
}

// mostPixels is the maximum width and height of a picture. A PNG needs 16 bytes of memory for each pixel.
const mostPixels = 4096

// draw writes the picture of s that --view selects. spaces are those of the selection.
func draw(c *cli.Context, w io.Writer, capture *judge.Capture, s *lifetime.Space, spaces []*lifetime.Space) error {
	o := chartOptions(c)
	f := figure.Options{
		View: views[c.String("view")], Format: o.Format, Theme: o.Theme, Width: o.Width, Height: o.Height,
		Buffer: c.String("buffer"), Title: func(byCategory bool) string { return text.Title(capture, s, byCategory) },
	}
	if c.IsSet("layout") {
		layout := layouts[c.String("layout")]
		f.Layout = &layout
	}
	if c.IsSet("axis") {
		f.Axis = axes[c.String("axis")]
	}
	if c.IsSet("color") || c.IsSet("by") {
		color := colors[c.String("color")]
		f.Color = &color
	}
	return figure.Write(w, capture, s, spaces, f)
}

// chartOptions returns the theme of --theme, the size, and the format that the name of -o selects. svg checked the
// size.
func chartOptions(c *cli.Context) chart.Options {
	o := chart.Options{Format: canvas.SVG, Theme: themes[c.String("theme")]}
	o.Width, _ = strconv.Atoi(c.String("width"))
	o.Height, _ = strconv.Atoi(c.String("height"))
	switch {
	case outputEndsIn(c, ".png"):
		o.Format = canvas.PNG
	case outputEndsIn(c, ".pdf"):
		o.Format = canvas.PDF
	}
	return o
}

// nothingError turns the error of a renderer into a NothingError: a capture lacks the
// data. Errors of the output are found by writeOutput.
func nothingError(capture *judge.Capture, err error) error {
	if err == nil {
		return nil
	}
	return &selection.NothingError{File: capture.Name(), Why: err.Error()}
}

// noBuffers returns the error for spaces without anything to draw.
func noBuffers(capture *judge.Capture) error {
	return &selection.NothingError{File: capture.Name(), Why: "no buffers: nothing was alive or allocated in the recording"}
}
