package chart

import (
	"errors"
	"fmt"
	"io"
	"slices"

	gochart "github.com/wcharczuk/go-chart/v2"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// Options says how to draw. The zero value draws an SVG of 960 x 420 pixels.
type Options struct {
	Format        canvas.Format
	Theme         canvas.Theme
	Width, Height int // pixels; raised to 480 x 240
}

func (o Options) withDefaults(height int) Options {
	if o.Width == 0 {
		o.Width = 960
	}
	if o.Height == 0 {
		o.Height = height
	}
	o.Width, o.Height = max(o.Width, 480), max(o.Height, 240)
	return o
}

// Looks of curves and areas. They differ in lightness too.
var (
	heapLook     = canvas.Look{RGB: 0x699bdd}
	heapLine     = canvas.Look{RGB: 0x3574b0}
	askedLine    = canvas.Look{Role: canvas.Foreground}
	baseLook     = canvas.Look{RGB: 0x8b949e}
	stackLook    = canvas.Look{RGB: 0xb2afd9}
	freeLook     = canvas.Look{Role: canvas.Room}
	freeLine     = canvas.Look{Role: canvas.Dim}
	fragmentLine = canvas.Look{RGB: 0xc97b2f}
)

var errNothing = errors.New("nothing is known of its usage")

// usage is a usage picture in the making.
type usage struct {
	plot.Plot
	c *lifetime.Capture
	s *lifetime.Space
	o Options

	peak     lifetime.Level
	ceiling  uint64 // bytes at the top
	occupied *curve
	asked    *curve // nil where it is the same
	reserved *curve // nil where not known
	stack    *curve // nil where there is none
	pieces   *pieces

	area, edge canvas.Look // of the bytes in use
}

// Usage draws the bytes in use over time: with what was requested, reserved or
// free beside it, as far as the space tells, and how much of the free memory is in
// pieces. The same input gives the same bytes.
func Usage(w io.Writer, c *lifetime.Capture, s *lifetime.Space, o Options) error {
	u := &usage{c: c, s: s, o: o.withDefaults(420), peak: s.Peak(lifetime.Occupied), area: heapLook, edge: heapLine}
	if u.peak.Bytes <= 0 || s.Begin >= s.End {
		return fmt.Errorf("space %s: %w", s.ID(), errNothing)
	}
	u.measure()
	var err error
	u.Page, err = canvas.New(u.o.Format, canvas.Page{
		Width: u.o.Width, Height: u.o.Height, Theme: u.o.Theme,
		Title: u.headline() + ": peak " + units.Bytes(u.peak.Bytes), Desc: u.explanation(),
	})
	if err == nil {
		err = u.chart(82, 28, u.marks).Render(on(u.Page), io.Discard)
	}
	if err != nil {
		return fmt.Errorf("space %s: %w", s.ID(), err)
	}
	return u.Page.Finish(w)
}

// measure takes the curves from the space.
func (u *usage) measure() {
	s := u.s
	u.Space, u.From, u.To, u.Width = s, s.Begin, s.End, canvas.Length(u.o.Width)*10
	w := window{s.Begin, s.End, u.o.Width}
	u.occupied = newCurve(w, s.Levels(lifetime.Occupied))
	most := u.peak.Bytes
	if !s.UsageOnly() {
		if asked := newCurve(w, s.Levels(lifetime.Requested)); !asked.same(u.occupied) {
			u.asked = asked
		}
	}
	if levels := s.ReservedLevels(); len(levels) > 0 && s.Axis != lifetime.ProgramOrder {
		u.reserved = newCurve(w, slices.Values(levels))
		most = max(most, u.reserved.highest())
	}
	if len(s.Stack) > 0 {
		u.stack = newCurve(w, slices.Values(s.Stack))
	}
	u.ceiling = plot.WithLimit(uint64(most), s.Limit)
	u.pieces = newPieces(w, s)
}

func (u *usage) headline() string { return plot.Device(u.s) + " - memory in use" }

func (u *usage) explanation() string {
	text := "Bytes in use over " + u.s.Axis.String()
	if u.s.UsageOnly() {
		text += "; what held them is not known"
	}
	return text + ". Every column of pixels has the lowest and the highest value."
}

// columnRange is the horizontal axis: columns, with ticks at round instants.
type columnRange struct {
	gochart.ContinuousRange
	ticks []gochart.Tick
}

// GetTicks makes go-chart take these ticks and not its own.
func (r *columnRange) GetTicks(gochart.Renderer, gochart.Style, gochart.ValueFormatter) []gochart.Tick {
	return r.ticks
}

// chart lays the curves out, with margins of so many pixels above and below, and
// calls marks when they stand.
func (u *usage) chart(above, below int, marks gochart.Renderable) gochart.Chart {
	labels := gochart.Style{FontColor: ofRole(canvas.Dim), StrokeColor: ofRole(canvas.Grid), StrokeWidth: 1}
	right := u.o.Width - u.legendWidth() - 20
	x := &columnRange{ContinuousRange: gochart.ContinuousRange{Max: float64(u.o.Width)}}
	ticks, name := plot.Instants(u.s, u.From, u.To, canvas.Length(right-100)*10)
	for _, t := range ticks {
		x.ticks = append(x.ticks, gochart.Tick{Value: float64(t.At) / (float64(u.To) - float64(u.From)) * float64(u.o.Width), Label: t.Label})
	}
	y := &columnRange{ContinuousRange: gochart.ContinuousRange{Max: float64(u.ceiling)}}
	left := gochart.YAxis{Range: y, Style: labels, NameStyle: gochart.Hidden()}
	for _, t := range plot.Bytes(u.ceiling, (u.o.Height-above-below-54)/50) {
		y.ticks = append(y.ticks, gochart.Tick{Value: float64(t.At), Label: t.Label})
		left.GridLines = append(left.GridLines, gochart.GridLine{Value: float64(t.At), Style: labels})
	}
	return gochart.Chart{
		Width: u.o.Width, Height: u.o.Height,
		Background: gochart.Style{
			FillColor: ofRole(canvas.Background), StrokeColor: ofRole(canvas.Background),
			Padding: gochart.Box{Top: above, Left: 24, Right: u.o.Width - right, Bottom: below, IsSet: true},
		},
		Canvas:         gochart.Style{FillColor: ofRole(canvas.Background), StrokeColor: ofRole(canvas.Background)},
		XAxis:          gochart.XAxis{Name: name, NameStyle: labels, Style: labels, Range: x, GridMajorStyle: gochart.Hidden(), GridMinorStyle: gochart.Hidden()},
		YAxisSecondary: left,
		YAxis:          u.pieces.axis(labels),
		Series:         u.series(),
		Elements:       []gochart.Renderable{marks},
	}
}

// series are areas and lines, from back to front.
func (u *usage) series() (all []gochart.Series) {
	add := func(c *curve, fill, line canvas.Look, width float64) {
		if c != nil && c.first < c.columns {
			all = append(all, c.series(1, gochart.YAxisSecondary, fill, line, width))
		}
	}
	constant := func(v int64) *curve {
		return newCurve(u.occupied.window, slices.Values([]lifetime.Level{{At: u.From, Bytes: v}}))
	}
	if u.s.Limit > 0 && uint64(u.s.Limit) <= u.ceiling {
		add(constant(u.s.Limit), freeLook, freeLook, 1)
	}
	add(u.reserved, freeLook, freeLine, 1)
	add(u.occupied, u.area, u.edge, 1)
	if u.s.Base > 0 {
		add(constant(u.s.Base), baseLook, baseLook, 1)
	}
	add(u.stack, stackLook, stackLook, 1)
	add(u.asked, canvas.Look{}, askedLine, 1)
	if s := u.pieces.series(); len(s.XValues) > 0 {
		all = append(all, s)
	}
	return all
}

// legendWidth is the part of the page that the legend takes, in pixels.
func (u *usage) legendWidth() int { return legendWidth(u.o.Width) }

func legendWidth(page int) int { return min(max(page*24/100, 190), 260) }

// place takes over where go-chart put the plot, and returns its vertical scale.
func (u *usage) place(box gochart.Box) plot.Scale {
	u.Left, u.Right, u.Top, u.Bottom = canvas.Length(box.Left*10), canvas.Length(box.Right*10), canvas.Length(box.Top*10), canvas.Length(box.Bottom*10)
	return plot.Scale{From: u.ceiling, To: uint64(u.Bottom - u.Top)}
}

// marks draws what go-chart does not know: it is called when the axes and curves
// stand.
func (u *usage) marks(_ gochart.Renderer, box gochart.Box, _ gochart.Style) {
	height := u.place(box)
	u.Upwards("bytes in use")
	u.Heading(u.headline(), append(u.Source(u.c), units.Span(u.To-max(u.From, plot.Origin(u.s)), u.s.Axis.Unit()),
		"peak "+units.Bytes(u.peak.Bytes)+plot.OfLimit(u.s))...)
	u.Limit(height.At, u.ceiling)
	u.Peak(u.peak, u.Bottom-height.At(uint64(u.peak.Bytes)), u.Width-100)
	u.Steps()
	u.OOMs()
	u.Legend(u.Top, u.legend())
	u.Footer(u.o.Height, u.explanation())
}

// free is the look of what the device has left. It is not drawn where its end is
// out of reach.
func (u *usage) free() canvas.Look {
	if uint64(u.s.Limit) <= u.ceiling {
		return freeLook
	}
	return canvas.Look{Role: canvas.Background}
}

// inUse names the area of the bytes in use, of which there are so many at the
// peak, and the line below its edge.
func (u *usage) inUse(bytes int64) []plot.Row {
	words := [2]string{"allocated", "requested"}
	switch {
	case u.s.Axis == lifetime.ProgramOrder:
		words = [2]string{"padded", "unpadded"}
	case u.stack != nil:
		words[0] = "heap"
	}
	rows := []plot.Row{{Look: u.area, Name: words[0], Below: units.Bytes(bytes) + " at the peak"}}
	if u.asked != nil {
		rows = append(rows, plot.Row{Look: askedLine, Name: words[1], Below: units.Bytes(u.asked.highest()) + " at most"})
	}
	return rows
}

// legend names the curves, with their highest values.
func (u *usage) legend() []plot.Row {
	rows := u.inUse(u.peak.Bytes - u.s.StackAt(u.peak.At))
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
