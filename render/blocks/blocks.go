package blocks

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
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
	BySite     Color = iota // the call sites with the most bytes at the peak
	BySize                  // five classes of size
	ByLeak                  // leaks alone; what is alive at the end and what was freed recede
	ByCategory              // what the memory is for: the kinds of a compiled program's buffers, or what the allocator was told
)

// Options says what to draw and how. The zero value draws the whole window,
// stacked, by site.
type Options struct {
	Layout Layout
	Color  Color
	Format canvas.Format
	Theme  canvas.Theme

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

	// Marks are the sites that leak; nil: none. They are drawn in strong hatched
	// colours, whatever Color says.
	Marks *answer.Marks
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

// Write draws the space s of c. The same input gives the same bytes.
func Write(w io.Writer, c *lifetime.Capture, s *lifetime.Space, o Options) error {
	p, err := newPicture(c, s, o)
	if err == nil {
		err = p.draw()
	}
	if err != nil {
		return fmt.Errorf("space %s: %w", s.ID(), err)
	}
	return p.Page.Finish(w)
}

// point is a length on the page in tenths of a pixel.
type point = canvas.Length

// picture is one drawing in the making.
type picture struct {
	plot.Plot
	c *lifetime.Capture
	s *lifetime.Space
	o Options

	cols    columns
	floors  []int64        // per column: bytes below the buffers
	peak    lifetime.Level // highest level in the part that is drawn
	ceiling uint64         // bytes at the top of the plot, where it shows bytes in use
	lowest  uint64         // first address of the space, from which offsets count
	buffers int            // in the part that is drawn
	classes []class
	ofSite  []uint8                         // class by SiteID; only leaks unless Color is BySite or ByCategory
	ofKind  [lifetime.ThreadLocal + 1]uint8 // class by Kind, where Color is ByCategory
	leaks   int                             // the first classes are leaks

	captions [][]byte         // by SiteID; what all blocks of a site share
	sizes    map[int64][]byte // units.Exact is slow, and sizes repeat
	hover    []byte           // memory for one hover text

	path canvas.Path // memory for one outline
}

func newPicture(c *lifetime.Capture, s *lifetime.Space, o Options) (*picture, error) {
	if err := refuse(s, o); err != nil {
		return nil, err
	}
	o = o.withDefaults(s)
	if o.From >= o.To {
		return nil, errors.New("nothing of the window lies between From and To")
	}
	p := &picture{
		Plot: plot.New(o.Width), c: c, s: s, o: o,
		captions: make([][]byte, len(c.Sites)), sizes: map[int64][]byte{},
	}
	p.Space, p.From, p.To, p.Top, p.Bottom = s, o.From, o.To, 820, point(o.Height-62)*10
	var err error
	if p.cols, err = sample(s, o.From, o.To, int(p.Right-p.Left)/columnWidth); err != nil {
		return nil, err
	}
	p.floors = p.cols.floors(s)
	p.peak = p.cols.peak()
	p.ceiling = plot.WithLimit(uint64(max(p.peak.Bytes, 1)), s.Limit)
	p.lowest = lowest(s)
	p.classify()
	if p.buffers == 0 {
		return nil, errors.New("no buffer lives between From and To")
	}
	return p, nil
}

// lowest returns the first address that the space is known to use.
func lowest(s *lifetime.Space) uint64 {
	first := uint64(math.MaxUint64)
	for i := range s.Buffers {
		first = min(first, s.Buffers[i].Addr)
	}
	for i := range s.Regions {
		first = min(first, s.Regions[i].Addr)
	}
	return first
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

// mergedPath is the outline of many buffers of one class.
type mergedPath struct {
	class uint8
	path  *canvas.Path
	rest  amount
}

// amount is a number of buffers and what they occupy at the peak.
type amount struct {
	count, bytes int64
}
