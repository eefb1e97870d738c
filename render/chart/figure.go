package chart

import (
	"slices"

	gochart "github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// figure is a plot whose curves share one scale of bytes.
type figure struct {
	plot.Plot
	ceiling            uint64 // bytes at the top
	peak               lifetime.Level
	occupied, reserved *curve // nil if not recorded
}

// newFigure returns a figure of a space without curves, for a page whose width is in pixels.
func newFigure(s *lifetime.Space, width int) figure {
	f := figure{Plot: plot.New(width), peak: s.Peak(lifetime.Occupied)}
	f.Space, f.From, f.To = s, s.Begin, s.End
	return f
}

// sample computes the curves of the space. Regions of a compiled program are its
// allocations, so it has no curve of reserved bytes.
func (f *figure) sample(columns int) plot.Window {
	w := plot.Window{From: f.Space.Begin, To: f.Space.End, Columns: columns}
	f.occupied = newCurve(w, f.Space.Levels(lifetime.Occupied))
	if levels := region.Levels(f.Space); len(levels) > 0 && f.Space.Axis != lifetime.ProgramOrder {
		f.reserved = newCurve(w, slices.Values(levels))
	}
	return w
}

// most returns the highest value of the curves.
func (f *figure) most() uint64 { return uint64(max(f.peak.Bytes, f.reserved.highest())) }

// height converts bytes to a distance from the bottom, at most that of the top.
func (f *figure) height(v uint64) canvas.Length { return f.Heights(f.ceiling).At(v) }

// level returns the y coordinate of a number of bytes.
func (f *figure) level(v int64) canvas.Length { return f.Bottom - f.height(uint64(max(v, 0))) }

// draw draws a curve: the area below it unless fill is the zero value, and its line
// unless its width is 0. title is the tooltip of the area. A nil curve draws nothing.
func (f *figure) draw(c *curve, fill canvas.Look, line canvas.Pen, title string) {
	if c == nil || c.first == c.Columns {
		return
	}
	// go-chart draws what has a colour; the pen chooses the real one.
	style := gochart.Style{StrokeColor: drawing.ColorBlack, StrokeWidth: 1}
	if fill != (canvas.Look{}) {
		style.FillColor = drawing.ColorBlack
	}
	series := gochart.ContinuousSeries{Style: style}
	heights := f.Heights(f.ceiling)
	c.corners(func(column int, v int64) {
		series.XValues = append(series.XValues, float64(column))
		series.YValues = append(series.YValues, float64(heights.At(uint64(max(v, 0))))-.5) // a range rounds up
	})
	box := gochart.Box{Left: int(f.X(c.From)), Right: int(f.X(c.To)), Top: int(f.Top), Bottom: int(f.Bottom)}
	columns := &gochart.ContinuousRange{Max: float64(c.Columns), Domain: box.Width()}
	rows := &gochart.ContinuousRange{Max: float64(box.Height()), Domain: box.Height()}
	series.Render(&pen{page: f.Page, fill: fill, line: line, title: title}, box, columns, rows, gochart.Style{})
}

// marks draws the parts that all curves over time have: the horizontal axis, the
// capacity, the peak, steps, failed allocations and the legend.
func (f *figure) marks(rows []plot.Row) {
	f.Along()
	f.Limit(f.height, f.ceiling)
	f.Dot(f.peak, f.level(f.peak.Bytes))
	f.Refusals(f.height, f.ceiling)
	f.Steps()
	f.DrawLabels()
	f.Legend(f.Top, rows)
}

// reservedRows returns the legend row of reserved memory, none if it was not recorded.
func (f *figure) reservedRows() []plot.Row {
	if f.reserved == nil {
		return nil
	}
	return []plot.Row{{Look: freeLook, Name: "reserved", Below: "maximum " + units.Bytes(f.reserved.highest())}}
}

// pen draws one series of go-chart on a page, in tenths of a pixel. Series call only the methods below.
type pen struct {
	gochart.Renderer // nil
	page             canvas.Canvas
	path             canvas.Path
	fill             canvas.Look
	line             canvas.Pen
	title            string
}

func (p *pen) MoveTo(x, y int) { p.path.Move(canvas.Length(x), canvas.Length(y)) }
func (p *pen) LineTo(x, y int) { p.path.Line(canvas.Length(x), canvas.Length(y)) }

func (p *pen) Fill() {
	p.page.Fill(&p.path, p.fill, []byte(p.title))
	p.path.Reset()
}

func (p *pen) Stroke() {
	if p.line.Width > 0 {
		p.page.Stroke(&p.path, p.line, nil)
	}
}

// The pen has its own style, so it ignores that of the series.
func (p *pen) SetClassName(string)          {}
func (p *pen) SetStrokeColor(drawing.Color) {}
func (p *pen) SetStrokeWidth(float64)       {}
func (p *pen) SetStrokeDashArray([]float64) {}
func (p *pen) SetFillColor(drawing.Color)   {}
