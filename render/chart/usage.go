package chart

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// Options says how to draw. The zero value draws an SVG of 960 pixels, as high as the
// kind of picture needs.
type Options struct {
	Format        canvas.Format
	Theme         canvas.Theme
	Width, Height int // pixels; raised where they are too small to draw in
}

// withDefaults returns o with a width and a height, which is at least the least.
func (o Options) withDefaults(height, least int) Options {
	o.Width, o.Height = max(cmp.Or(o.Width, 960), 480), max(cmp.Or(o.Height, height), least)
	return o
}

// page returns an empty page.
func (o Options) page(title, desc string) (canvas.Canvas, error) {
	return canvas.New(o.Format, canvas.Page{Width: o.Width, Height: o.Height, Theme: o.Theme, Title: title, Desc: desc})
}

// Looks of areas, and pens of lines. They differ in lightness too.
var (
	heapLook     = canvas.Look{RGB: 0x699bdd}
	baseLook     = canvas.Look{RGB: 0x8b949e}
	stackLook    = canvas.Look{RGB: 0xb2afd9}
	freeLook     = canvas.Look{Role: canvas.Room}
	heapLine     = canvas.Pen{RGB: 0x3574b0, Width: 10}
	askedLine    = canvas.Pen{Role: canvas.Foreground, Width: 10}
	freeLine     = canvas.Pen{Role: canvas.Dim, Width: 10}
	fragmentLine = canvas.Pen{RGB: 0xc97b2f, Width: 15}
)

var errNothing = errors.New("nothing is known of its usage")

// usage is a usage picture in the making.
type usage struct {
	figure
	c *lifetime.Capture
	s *lifetime.Space
	o Options

	asked  *curve // nil where it is the same as occupied
	stack  *curve // nil where there is none
	pieces pieces
}

// newUsage returns a usage with its curves. It fails if nothing was in use.
func newUsage(c *lifetime.Capture, s *lifetime.Space, o Options) (*usage, error) {
	u := &usage{figure: newFigure(s, o.Width), c: c, s: s, o: o}
	if u.peak.Bytes <= 0 || s.Begin >= s.End {
		return nil, fmt.Errorf("space %s: %w", s.ID(), errNothing)
	}
	w := u.sample(int(u.Right-u.Left) / 10)
	if !s.UsageOnly() {
		if asked := newCurve(w, s.Levels(lifetime.Requested)); !asked.same(u.occupied) {
			u.asked = asked
		}
	}
	if len(s.Stack) > 0 {
		u.stack = newCurve(w, slices.Values(s.Stack))
	}
	return u, nil
}

// Usage draws the bytes in use over time and, as far as the space tells them, the
// requested, reserved and free bytes and the fragmentation. The same input gives the
// same bytes.
func Usage(w io.Writer, c *lifetime.Capture, s *lifetime.Space, o Options) error {
	u, err := newUsage(c, s, o.withDefaults(420, 240))
	if err != nil {
		return err
	}
	u.pieces = newPieces(window{s.Begin, s.End, u.o.Width}, s)
	u.ceiling = plot.WithLimit(u.most(), s.Limit)
	u.Top, u.Bottom, u.Right = 820, canvas.Length(u.o.Height-66)*10, u.Right-u.pieces.room()
	if u.Page, err = u.o.page(u.headline()+": peak "+units.Bytes(u.peak.Bytes), u.explanation()); err != nil {
		return err
	}
	u.Heading(u.headline(), append(u.Source(c), units.Span(u.To-max(u.From, plot.Origin(s)), s.Axis.Unit()),
		"peak "+units.Bytes(u.peak.Bytes)+plot.OfLimit(s))...)
	u.curves(heapLook, heapLine)
	u.marks(u.legend())
	u.Footer(u.o.Height, u.explanation())
	return u.Page.Finish(w)
}

func (u *usage) headline() string { return plot.Device(u.s) + " - memory in use" }

func (u *usage) explanation() string {
	text := "Bytes in use over " + u.s.Axis.String()
	if u.s.UsageOnly() {
		text += "; what held them is not known"
	}
	return text + ". Every column of pixels has the lowest and the highest value."
}

// curves draws the areas and lines from back to front, on the lines of their scale.
// area and edge show the bytes in use.
func (u *usage) curves(area canvas.Look, edge canvas.Pen) {
	u.Upwards("bytes in use")
	u.Sizes(u.ceiling, 500, u.height)
	u.upTo(u.s.Limit, freeLook)
	u.draw(u.reserved, freeLook, freeLine, "")
	u.draw(u.occupied, area, edge, "")
	u.upTo(u.s.Base, baseLook)
	u.draw(u.stack, stackLook, canvas.Pen{}, "")
	u.draw(u.asked, canvas.Look{}, askedLine, "")
	u.pieces.draw(u.Plot)
}

// upTo draws bytes that are there all the time, unless the plot ends below them.
func (u *usage) upTo(bytes int64, look canvas.Look) {
	if bytes > 0 && uint64(bytes) <= u.ceiling {
		u.Page.Fill(canvas.Rect(u.Left, u.level(bytes), u.Right, u.Bottom), look, nil)
	}
}

// free returns the look of free memory. It is that of the page if the capacity lies
// above the plot.
func (u *usage) free() canvas.Look {
	if uint64(u.s.Limit) <= u.ceiling {
		return freeLook
	}
	return canvas.Look{Role: canvas.Background}
}

// inUse names the area of the bytes in use, and the line below its edge.
func (u *usage) inUse(area canvas.Look) []plot.Row {
	words := [2]string{"allocated", "requested"}
	switch {
	case u.s.Axis == lifetime.ProgramOrder:
		words = [2]string{"padded", "unpadded"}
	case u.stack != nil:
		words[0] = "heap"
	}
	rows := []plot.Row{{Look: area, Name: words[0], Below: units.Bytes(u.peak.Bytes-u.s.StackAt(u.peak.At)) + " at the peak"}}
	if u.asked != nil {
		rows = append(rows, plot.Row{Look: swatch(askedLine), Name: words[1], Below: units.Bytes(u.asked.highest()) + " at most"})
	}
	return rows
}

// legend names the curves, with their highest values.
func (u *usage) legend() []plot.Row {
	rows := u.inUse(heapLook)
	if u.s.Base > 0 {
		rows = append(rows, plot.Row{Look: baseLook, Name: "before the window", Below: units.Bytes(u.s.Base) + ", seen by no event"})
	}
	if u.stack != nil {
		rows = append(rows, plot.Row{Look: stackLook, Name: "stack", Below: units.Bytes(u.s.StackAt(u.peak.At)) + " at the peak"})
	}
	if u.reserved != nil {
		rows = append(rows, plot.Row{Look: freeLook, Name: "reserved", Below: units.Bytes(u.reserved.highest()) + " at most"})
	}
	if u.s.Limit > 0 {
		rows = append(rows, plot.Row{Look: u.free(), Name: "free", Below: units.Bytes(u.s.Limit-u.peak.Bytes) + " at the peak"})
	}
	return append(rows, u.pieces.legend()...)
}

// swatch returns how a line looks in a legend.
func swatch(line canvas.Pen) canvas.Look { return canvas.Look{Role: line.Role, RGB: line.RGB} }
