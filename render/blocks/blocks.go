package blocks

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// Layout is the meaning of the vertical axis.
type Layout uint8

const (
	Stacked Layout = iota // bytes in use: live buffers on top of each other
	Address               // addresses, without the gaps between regions
)

// Color is the meaning of the colours.
type Color uint8

const (
	BySite      Color = iota // the call sites with the most bytes at the peak
	BySize                   // five classes of size
	ByLeak                   // leaks; all other buffers are pale
	ByCategory               // what the buffers are for: see lifetime.Tables.Category
	ByLayer                  // layers of the network
	ByOperation              // operators and operations
	ByShape                  // types and shapes
)

// Options are the options of a picture. The zero value draws the buffers stacked, by site.
type Options struct {
	Layout Layout
	Color  Color
	Format canvas.Format
	Theme  canvas.Theme

	// Width and Height are in pixels. The default is 960 x 420, the minimum plot.Least x 240, without Others.
	Width, Height int

	// Others are other spaces of the capture. The bytes in use of up to eight of them are drawn below, each in a small
	// panel, on the same scale of bytes, if a given Height has room for them.
	Others []*lifetime.Space

	// Title is the headline. The default names the device, the layout and the colours.
	Title string

	// MaxBlocks is the maximum number of buffers with a shape and a tooltip. The smallest have none if the file would
	// exceed about 2 MB, or in proportion for more than 10000, which browsers take long to open. 0 is as many as a file
	// of about 40 KB has, in proportion to the size of a larger picture.
	MaxBlocks int

	// Advice says how to record what was there before the recording. It is written below a broken axis.
	Advice string

	// Marks are the sites that leak, nil for none. They have strong hatched colours for every Color.
	Marks *finding.Marks

	// Frame is set to where the plot is in the picture, if it has an axis. nil = not wanted.
	Frame *plot.Frame
}

const (
	defaultMaxBlocks = 10000
	leastHeight      = 240 // pixels
	defaultWidth     = 960
	defaultHeight    = 420
)

func (o Options) withDefaults() Options {
	o.Width, o.Height = max(cmp.Or(o.Width, defaultWidth), plot.Least), max(cmp.Or(o.Height, defaultHeight), leastHeight)
	if o.MaxBlocks <= 0 {
		o.MaxBlocks = defaultMaxBlocks
	}
	return o
}

// Write draws the space s of c. It fails if s lacks what the picture needs. The same input gives the same bytes.
func Write(w io.Writer, c *judge.Capture, s *lifetime.Space, o Options) error {
	p, err := newPicture(c, s, o)
	if err == nil {
		err = p.draw()
	}
	if err != nil {
		return fmt.Errorf("space %s: %w", s.ID(), err)
	}
	if o.Frame != nil && !plot.Still(s) {
		var bytes plot.Scale
		if o.Layout == Stacked {
			bytes = p.height()
		}
		*o.Frame = p.Frame(p.o.Height, bytes)
	}
	return p.Page.Finish(w)
}

// point is a length on the page in tenths of a pixel.
type point = canvas.Length

// picture draws one picture.
type picture struct {
	plot.Plot
	c      *lifetime.Capture
	s      *lifetime.Space
	o      Options
	budget int // bytes of outlines and tooltips

	cols    columns
	floors  []int64        // per column: bytes below the buffers
	still   map[int]bool   // buffers below the break of the axis
	peak    lifetime.Level // highest level in the visible part
	ceiling uint64         // bytes at the top of the plot
	m       *addressMap    // of the address layout
	lowest  uint64         // first address of the space; offsets start here
	buffers int            // number of buffers in the visible part
	classes []class
	leaking []bool                 // by buffer
	ofPart  []uint8                // class by part of a site; only leaks unless Color is BySite
	ofRow   map[lifetime.Row]uint8 // class by site, kind and purpose if Color is of groups
	leaks   int                    // the first classes are leaks

	captions [][]byte         // by part of a site; the first lines of tooltips
	sizes    map[int64][]byte // cache of units.Exact, which is slow
	hover    []byte           // memory for one tooltip

	free  region.Holes // in the address layout: when the last request failed
	names []spot       // of classes, on their areas
	keys  bool         // the legend is below the plot

	path canvas.Path // memory for one outline
}

func newPicture(c *judge.Capture, s *lifetime.Space, o Options) (*picture, error) {
	if err := checkFacts(s, o); err != nil {
		return nil, err
	}
	asked := o
	o = o.withDefaults()
	if s.Begin >= s.End {
		return nil, errors.New("the recording has no length")
	}
	p := &picture{
		Plot: plot.New(o.Width), c: c.Capture, s: s, o: o, budget: budgetOf(asked, o),
		captions: make([][]byte, 2*len(c.Sites)), sizes: map[int64][]byte{},
	}
	p.Space, p.From, p.To = s, s.Begin, s.End
	var below point
	keys := p.Narrow(plot.KeyLines(asked.Height))
	if asked.Height == 0 {
		p.o.Height += int(keys / 10)
	}
	p.o.Height, below = p.FindOthers(o.Others, p.o.Height, leastHeight, asked.Height != 0)
	p.keys = keys > 0
	p.Bottom = point(p.o.Height-62)*10 - keys - below - p.FindPhases(c.Program())
	var err error
	if p.cols, err = sample(s, plot.Window{From: p.From, To: p.To, Columns: int(p.Right-p.Left) / columnWidth}); err != nil {
		return nil, err
	}
	p.floors = p.cols.floors(s)
	p.peak = p.cols.peak()
	p.setCeiling()
	p.Top = p.Labels(430, p.peak, p.most(), p.ceiling, p.Width-100) // in narrow pictures labels may extend above the legend
	if p.m != nil {
		p.m.fit(p.Bottom-p.Top, p.ceiling)
	}
	p.lowest = plot.Lowest(s)
	p.classify()
	if p.buffers == 0 {
		return nil, errors.New("no buffer is alive in the recording")
	}
	if p.keys && asked.Height == 0 {
		p.o.Height -= p.Keys(p.rows())
	}
	return p, nil
}

// setCeiling sets the bytes at the top of the plot: bytes in use or, in the address layout, mapped addresses.
func (p *picture) setCeiling() {
	p.FindRefusals()
	if p.o.Layout == Stacked {
		p.ceiling = p.Ceiling(p.most())
		p.findBreak()
		return
	}
	p.m = p.mapAddresses()
	capacity, _ := plot.Capacity(p.s)
	p.ceiling = plot.WithLimit(p.most(), capacity)
}

// most returns the highest bytes of the vertical axis.
func (p *picture) most() uint64 {
	if p.m != nil {
		return max(p.m.bytes, 1)
	}
	return uint64(max(p.peak.Bytes, 1))
}

// checkFacts returns an error if the space lacks a fact that the picture needs.
func checkFacts(s *lifetime.Space, o Options) error {
	switch {
	case len(s.Buffers) == 0:
		has := "no facts at all"
		if names := s.Facts.Names(); len(names) > 0 {
			has = "only " + strings.Join(names, ", ")
		}
		return fmt.Errorf("no buffers to draw: blocks need a history or an end state, but this space has %s", has)
	case o.Layout == Address && s.Facts&lifetime.Addresses == 0:
		return errors.New("no addresses were recorded: use the stacked layout")
	}
	return nil
}

// layout has the places of all buffers.
type layout struct {
	shapes []shape
	steps  []step
	merged []mergedPath
	rest   amount // of buffers in merged, and of buffers too short for any column
}

// shape is the block of one buffer: steps[first:first+n], up to x = end.
type shape struct {
	buffer   int
	class    uint8
	first, n int
	end      point
	titled   bool // has a tooltip
}

// step is a part of a block that begins at x. lo and hi are distances from the bottom of the plot.
type step struct {
	x, lo, hi point
}

// mergedPath is the outline of many buffers of one class.
type mergedPath struct {
	class uint8
	path  *canvas.Path
	rest  amount
}

// amount is a number of buffers and their bytes at the peak.
type amount struct {
	count, bytes int64
}
