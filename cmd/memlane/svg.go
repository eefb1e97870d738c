package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/lifetime/loss"
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
	captures, err := openAll(c, loss.Missing)
	if err != nil {
		return err
	}
	capture, v := captures[0], views[c.String("view")]
	spaces, _ := ofRuntime(c, capture.Spaces)
	space, of := largest(spaces)
	if v.usageOnly {
		space, of = mainSpace(spaces)
	}
	if space == nil {
		return fail(statusNoMemory, "%s: no buffers: %s", captureName(capture), whyNoBuffers(spaces))
	}
	if of > 1 && !c.Bool("quiet") {
		tellChoice(c.App.ErrWriter, "drawing", space, of)
	}
	return writeOutput(c, func(w io.Writer) error {
		if err := v.draw(c, w, capture, space); err != nil {
			return fail(statusNoMemory, "%s: %w", capture.Sources[0].File, err)
		}
		return nil
	})
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
		return 0, fail(statusUsage, "--max-blocks %q: want a number from 1 on", c.String("max-blocks"))
	}
	return n, nil
}

func drawBlocks(c *cli.Context, w io.Writer, capture *lifetime.Capture, s *lifetime.Space) error {
	most, err := maxBlocks(c)
	if err != nil {
		return err
	}
	o := blocks.Options{
		Layout: layouts[c.String("layout")], Color: colors[c.String("color")], Theme: themes[c.String("theme")],
		Format: pictureFormat(c), MaxBlocks: most, Leaks: map[lifetime.SiteID]string{},
	}
	for _, f := range leak.Find(capture, []*lifetime.Space{s}, leak.Settings{}) {
		if !f.IsLeak() {
			continue
		}
		for _, site := range f.Sites {
			o.Leaks[site] = fmt.Sprintf("%s: %s in %s", f.Rule, units.Bytes(f.Amount.Bytes), count(f.Amount.Count, "buffer"))
		}
	}
	return blocks.Write(w, capture, s, o)
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
