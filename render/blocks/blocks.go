package blocks

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// Layout says what the vertical axis of a picture is.
type Layout uint8

const (
	Stacked Layout = iota // bytes alive: the buffers piled up
	Address               // addresses, without the gaps between regions
)

// Color says what the colours of a picture tell apart.
type Color uint8

const (
	BySite Color = iota // the call sites with the most bytes at the peak
	BySize              // five classes of size
	ByLeak              // whether a buffer is alive at the end
)

// Options says what to draw and how. The zero value draws the whole window,
// stacked, by site.
type Options struct {
	Layout Layout
	Color  Color

	// Width and Height are in pixels: 960 x 420 when zero, and raised to
	// 480 x 240 when smaller.
	Width, Height int

	// Title is the headline; "" makes one from the device and the layout.
	Title string

	// From and To cut a part [From, To) out of the window, in units of the
	// space's axis, as Buffer.Begin is. 0, 0 is the whole window.
	From, To int64

	// MaxBlocks bounds the buffers that get a shape and a hover text of their
	// own; 0 means 10000, more than which browsers take long to open. Fewer get
	// one when the picture would outgrow about 2 MB (more for a larger MaxBlocks).
	MaxBlocks int

	// Leaks describes the sites that leak in a few words. They are drawn in
	// strong hatched colours, whatever Color says.
	Leaks map[lifetime.SiteID]string
}

const (
	defaultWidth, defaultHeight = 960, 420
	minWidth, minHeight         = 480, 240
	defaultMaxBlocks            = 10000
)

func (o Options) withDefaults(s *lifetime.Space) Options {
	if o.Width == 0 {
		o.Width = defaultWidth
	}
	if o.Height == 0 {
		o.Height = defaultHeight
	}
	o.Width, o.Height = max(o.Width, minWidth), max(o.Height, minHeight)
	if o.MaxBlocks <= 0 {
		o.MaxBlocks = defaultMaxBlocks
	}
	if o.From == 0 && o.To == 0 {
		o.From, o.To = s.Begin, s.End
	}
	o.From, o.To = max(o.From, s.Begin), min(o.To, s.End)
	return o
}

// Write draws the space s of c as SVG. The same input gives the same bytes.
func Write(w io.Writer, c *lifetime.Capture, s *lifetime.Space, o Options) error {
	p, err := newPicture(c, s, o)
	if err != nil {
		return fmt.Errorf("space %s: %w", s.ID(), err)
	}
	p.draw()
	_, err = w.Write(p.buf)
	return err
}

// point is a length on the page in tenths of a pixel: the finest that is
// written, so that edges which meet on the page meet in the file.
type point = int32

// picture is one drawing in the making.
type picture struct {
	c *lifetime.Capture
	s *lifetime.Space
	o Options

	left, right, top, bottom point // of the plot

	cols    columns
	floors  []int64        // per column: bytes below the buffers
	peak    lifetime.Level // highest level in the part that is drawn
	buffers int            // in the part that is drawn
	classes []class
	ofSite  []uint8 // class by SiteID; only leaks unless Color is BySite
	leaks   int     // the first classes are leaks

	captions [][]byte         // by SiteID; what all blocks of a site share
	sizes    map[int64][]byte // units.Exact is slow, and sizes repeat
	buf      []byte
}

func newPicture(c *lifetime.Capture, s *lifetime.Space, o Options) (*picture, error) {
	if err := refuse(s, o); err != nil {
		return nil, err
	}
	o = o.withDefaults(s)
	if o.From >= o.To {
		return nil, errors.New("nothing of the window lies between From and To")
	}
	legend := min(max(o.Width*24/100, 190), 260)
	p := &picture{
		c: c, s: s, o: o,
		left: 780, right: point(o.Width-legend-20) * 10, top: 780, bottom: point(o.Height-62) * 10,
		captions: make([][]byte, len(c.Sites)), sizes: map[int64][]byte{},
	}
	var err error
	if p.cols, err = sample(s, o.From, o.To, int(p.right-p.left)/columnWidth); err != nil {
		return nil, err
	}
	p.floors = p.cols.floors(s)
	p.peak = p.cols.peak()
	p.classify()
	if p.buffers == 0 {
		return nil, errors.New("no buffer lives between From and To")
	}
	return p, nil
}

// refuse names the fact that a space lacks for the picture asked for.
func refuse(s *lifetime.Space, o Options) error {
	switch {
	case len(s.Buffers) == 0:
		has := "no facts at all"
		if names := s.Facts.Names(); len(names) > 0 {
			has = "only " + strings.Join(names, ", ")
		}
		return fmt.Errorf("no buffers to draw as blocks: that takes a history or an end state, and the capture has %s of this space", has)
	case o.Layout == Address && s.Facts&lifetime.Addresses == 0:
		return errors.New("no addresses: the capture does not say where the buffers lie; the stacked layout needs none")
	}
	return nil
}

// layout is where everything goes: the blocks of single buffers, and what is
// drawn together.
type layout struct {
	shapes []shape
	steps  []step
	merged []mergedPath
	rest   amount // buffers in merged, or too short for any column
}

// shape is the block of one buffer: steps[first:first+n], up to x = end.
type shape struct {
	buffer   int
	class    uint8
	first, n int
	end      point
}

// step says that from x on a block reaches from lo up to hi, both above the
// bottom of the plot.
type step struct {
	x, lo, hi point
}

// mergedPath is the path data of many buffers of one class.
type mergedPath struct {
	class uint8
	d     []byte
	rest  amount
}

// amount is a number of buffers and what they occupy at the peak.
type amount struct {
	count, bytes int64
}
