package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/render/blocks"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/units"
)

// The values of --layout and --color.
var (
	layouts = map[string]blocks.Layout{"stacked": blocks.Stacked, "address": blocks.Address}
	colors  = map[string]blocks.Color{"site": blocks.BySite, "size": blocks.BySize, "category": blocks.ByCategory, "leak": blocks.ByLeak}
	themes  = map[string]canvas.Theme{"auto": canvas.Auto, "light": canvas.Light, "dark": canvas.Dark}
)

func svgCommand() *cli.Command {
	return &cli.Command{
		Name:      "svg",
		Usage:     "a picture of the buffers over time: one block per buffer",
		ArgsUsage: "CAPTURE",
		Description: "A block is as wide as its buffer lived and as high as the bytes it occupied.\n" +
			"Hover over a block for its call site, size, offset and lifetime. A FILE that\n" +
			"ends in .png gets the same picture as PNG. Of several memory\n" +
			"IDs the one with the highest peak is drawn; that of a compiled program when\n" +
			"it is chosen or there is nothing else. In the stacked layout the upper edge\n" +
			"is the memory in use; the address layout shows holes.\n\n" +
			"Examples:\n" +
			"  memlane svg -o snapshot.svg snapshot.pickle\n" +
			"  memlane svg --layout address -o holes.svg snapshot.pickle\n" +
			"  memlane svg --color leak -o leaks.png snapshot.pickle\n" +
			"  memlane svg --space cuda:1 --color size snapshot.pickle > cuda1.svg\n" +
			"  memlane svg --module jit_step --memory-space 0 -o step.svg host.xplane.pb",
		Flags: captureFlags(
			&cli.StringFlag{Name: "view", Value: "blocks", Usage: "`VIEW` to draw: blocks"},
			&cli.StringFlag{Name: "layout", Value: "stacked", Usage: "`LAYOUT`: stacked or address"},
			&cli.StringFlag{Name: "color", Value: "site", Usage: "`WHAT`: site, size, category, leak"},
			&cli.StringFlag{Name: "theme", Value: "auto", Usage: "`PAGE`: light, dark, auto"},
			&cli.IntFlag{Name: "max-blocks", Value: 10000, Usage: "`N` blocks of one buffer, at most"},
			outputFlag()),
		Action: svg,
	}
}

func svg(c *cli.Context) error {
	layout, okLayout := layouts[c.String("layout")]
	color, okColor := colors[c.String("color")]
	theme, okTheme := themes[c.String("theme")]
	switch {
	case !okTheme:
		return fail(statusUsage, "--theme %q: want light, dark or auto", c.String("theme"))
	case c.Int("max-blocks") < 1:
		return fail(statusUsage, "--max-blocks %d: want at least 1", c.Int("max-blocks"))
	case c.String("view") != "blocks":
		return fail(statusUsage, "--view %q: want blocks", c.String("view"))
	case !okLayout:
		return fail(statusUsage, "--layout %q: want stacked or address", c.String("layout"))
	case !okColor:
		return fail(statusUsage, "--color %q: want site, size, category or leak", c.String("color"))
	case c.NArg() != 1:
		return fail(statusUsage, "svg: want one capture, got %d; see memlane svg --help", c.NArg())
	}
	captures, err := openAll(c, lifetime.DataLoss)
	if err != nil {
		return err
	}
	capture := captures[0]
	spaces, _ := ofRuntime(c, capture.Spaces)
	space, of := largest(spaces)
	if space == nil {
		return fail(statusNoMemory, "%s: no buffers: %s", captureName(capture), whyNoBuffers(spaces))
	}
	if of > 1 && !c.Bool("quiet") {
		tellChoice(c.App.ErrWriter, "drawing", space, of)
	}
	o := blocks.Options{Layout: layout, Color: color, Theme: theme, MaxBlocks: c.Int("max-blocks"), Leaks: map[lifetime.SiteID]string{}}
	for _, f := range leak.Find(capture, []*lifetime.Space{space}, leak.Settings{}) {
		if !f.IsLeak() {
			continue
		}
		for _, site := range f.Sites {
			o.Leaks[site] = fmt.Sprintf("%s: %s in %s", f.Rule, units.Bytes(f.Amount.Bytes), count(f.Amount.Count, "buffer"))
		}
	}
	if strings.HasSuffix(c.String("output"), ".png") {
		o.Format = canvas.PNG
	}
	return writeOutput(c, func(w io.Writer) error {
		if err := blocks.Write(w, capture, space, o); err != nil {
			return fail(statusNoMemory, "%s: %w", capture.Sources[0].File, err)
		}
		return nil
	})
}

// whyNoBuffers says why none of the spaces has anything to draw.
func whyNoBuffers(spaces []*lifetime.Space) string {
	for _, s := range spaces {
		if s.UsageOnly() {
			return "only the usage of " + s.ID() + " is known, not what held it; memlane peak and memlane info show it"
		}
	}
	return "nothing was alive or allocated in the window"
}
