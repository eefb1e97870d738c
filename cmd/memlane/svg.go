package main

import (
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/render/blocks"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/chart"
)

// The values of --layout, --color and --theme.
var (
	layouts = map[string]blocks.Layout{"stacked": blocks.Stacked, "address": blocks.Address}
	colors  = map[string]blocks.Color{"site": blocks.BySite, "size": blocks.BySize, "category": blocks.ByCategory, "leak": blocks.ByLeak}
	themes  = map[string]canvas.Theme{"auto": canvas.Auto, "light": canvas.Light, "dark": canvas.Dark}
)

// views are the values of --view.
var views = map[string]view{
	"blocks": {draw: drawBlocks},
	"usage":  {draw: drawUsage, usageOnly: true},
	"peak":   {draw: drawPeak},
}

// view is a kind of picture.
type view struct {
	draw      func(*cli.Context, io.Writer, *lifetime.Capture, *lifetime.Space) error
	usageOnly bool // whether it can show spaces of which only the usage is known
}

func svgCommand() *cli.Command {
	return &cli.Command{
		Name:      "svg",
		Usage:     "a picture: buffers over time, usage, or what makes up the peak",
		ArgsUsage: "CAPTURE...",
		Description: "A block is as wide as its buffer lived and as high as the bytes it occupied.\n" +
			"Hover over a block for its call site, size, offset and lifetime. In the\n" +
			"stacked layout the upper edge is the memory in use; the address layout shows\n" +
			"holes. --view usage draws curves: what was in use, requested, reserved or\n" +
			"free, and how much of the free memory was in pieces; --view peak what makes\n" +
			"up the peak. Of several memory IDs the one with the highest peak is drawn;\n" +
			"that of a compiled program when it is chosen or there is nothing else. A FILE\n" +
			"that ends in .png gets the same picture as PNG. Of several captures the usage\n" +
			"of each is drawn, side by side on one scale of bytes.\n\n" +
			"Examples:\n" +
			"  memlane svg -o snapshot.svg snapshot.pickle\n" +
			"  memlane svg --layout address -o holes.svg snapshot.pickle\n" +
			"  memlane svg --color leak -o leaks.png snapshot.pickle\n" +
			"  memlane svg --view usage -o usage.svg trace.json\n" +
			"  memlane svg -o ranks.svg rank*.json\n" +
			"  memlane svg --view peak --buffer fusion.7 -o peak.svg step.hlo.pb\n" +
			"  memlane svg --space cuda:1 --color size snapshot.pickle > cuda1.svg\n" +
			"  memlane svg --module jit_step --memory-space 0 -o step.svg host.xplane.pb",
		Flags: captureFlags(functionFlag(),
			choiceFlag("view", "blocks", "VIEW", views),
			choiceFlag("layout", "stacked", "LAYOUT", layouts),
			choiceFlag("color", "site", "WHAT", colors),
			choiceFlag("theme", "auto", "PAGE", themes),
			&cli.StringFlag{Name: "buffer", Usage: "with --view peak: mark the buffer called `NAME`"},
			&cli.StringFlag{Name: "max-blocks", Value: "10000", DefaultText: "10000", Usage: "`N` blocks of one buffer, at most"},
			rankFlag(), outputFlag()),
		Action: svg,
	}
}

// choiceFlag is a flag that takes the keys of values; its help calls them what.
func choiceFlag[V any](name, usual, what string, values map[string]V) cli.Flag {
	words := wordsOf(values)
	return oneOf(&cli.StringFlag{Name: name, Value: usual, Usage: "`" + what + "`: " + orList(words)}, words...)
}

func svg(c *cli.Context) error {
	if _, err := maxBlocks(c); err != nil {
		return err
	}
	if c.NArg() > 1 {
		return drawMultiples(c)
	}
	want, err := selectionOf(c)
	if err != nil {
		return err
	}
	all, err := captures(0).openAll(c, &want)
	if err != nil {
		return err
	}
	capture, v := all[0], views[c.String("view")]
	spaces, _ := ofRuntime(&want, capture.Spaces)
	space, of := answer.Largest(spaces)
	if v.usageOnly {
		space, of = mainSpace(spaces)
	}
	if space == nil {
		return &lifetime.NothingError{File: capture.Name(), Why: "no buffers: " + whyNoBuffers(spaces)}
	}
	if of > 1 && !c.Bool("quiet") {
		sayChoice(c.App.ErrWriter, "drawing", &space.SpaceInfo, of)
	}
	return writeOutput(c, func(w io.Writer) error { return nothing(capture, v.draw(c, w, capture, space)) })
}

// nothing says that an error of a renderer is for want of what it shows: output that
// fails is found by who writes it.
func nothing(capture *lifetime.Capture, err error) error {
	if err == nil || is[usageError](err) {
		return err
	}
	return &lifetime.NothingError{File: capture.Name(), Why: err.Error()}
}

// mostUsed returns the space with the highest level among those of which only the
// usage is known, and how many there are.
func mostUsed(spaces []*lifetime.Space) (best *lifetime.Space, n int) {
	most := int64(0)
	for _, s := range spaces {
		if bytes := s.Peak(lifetime.Occupied).Bytes; s.UsageOnly() {
			if n++; best == nil || bytes > most {
				best, most = s, bytes
			}
		}
	}
	return best, n
}

// isPicture reports whether the name of the output asks for a picture.
func isPicture(c *cli.Context) bool {
	name := strings.ToLower(c.String("output"))
	return strings.HasSuffix(name, ".svg") || strings.HasSuffix(name, ".png")
}

// pictureFormat is what the name of the output asks for.
func pictureFormat(c *cli.Context) canvas.Format {
	if strings.HasSuffix(strings.ToLower(c.String("output")), ".png") {
		return canvas.PNG
	}
	return canvas.SVG
}

func maxBlocks(c *cli.Context) (int, error) {
	n, err := strconv.Atoi(c.String("max-blocks"))
	if err != nil || n < 1 {
		return 0, usage("--max-blocks %q: want a number from 1 on", c.String("max-blocks"))
	}
	return n, nil
}

func drawBlocks(c *cli.Context, w io.Writer, capture *lifetime.Capture, s *lifetime.Space) error {
	most, err := maxBlocks(c)
	if err != nil {
		return err
	}
	return blocks.Write(w, capture, s, blocks.Options{
		Layout: layouts[c.String("layout")], Color: colors[c.String("color")], Theme: themes[c.String("theme")],
		Format: pictureFormat(c), MaxBlocks: most, Marks: answer.MarksOf(leak.Find(capture, []*lifetime.Space{s}, leak.Settings{})),
	})
}

func drawUsage(c *cli.Context, w io.Writer, capture *lifetime.Capture, s *lifetime.Space) error {
	return chart.Usage(w, capture, s, chart.Options{Format: pictureFormat(c), Theme: themes[c.String("theme")]})
}

func drawPeak(c *cli.Context, w io.Writer, capture *lifetime.Capture, s *lifetime.Space) error {
	return chart.Peak(w, capture, s, c.String("buffer"), chart.Options{Format: pictureFormat(c), Theme: themes[c.String("theme")]})
}

// whyNoBuffers says why none of the spaces has anything to draw.
func whyNoBuffers(spaces []*lifetime.Space) string {
	for _, s := range spaces {
		if s.UsageOnly() {
			return "only the usage of " + s.ID() + " is known, not what held it; memlane svg --view usage draws it, memlane peak and memlane info show it"
		}
	}
	return "nothing was alive or allocated in the window"
}
