package chart

import (
	"io"

	"github.com/golang/freetype/truetype"
	gochart "github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"

	"github.com/memlane/memlane/render/canvas"
)

// renderer lets go-chart draw on a page. go-chart counts in whole pixels.
type renderer struct {
	page         canvas.Canvas
	path         canvas.Path
	fill, stroke drawing.Color
	font         drawing.Color
	width        float64
	dashed       bool
	dpi          float64
}

// on returns what go-chart asks for to draw on page.
func on(page canvas.Canvas) gochart.RendererProvider {
	return func(int, int) (gochart.Renderer, error) { return &renderer{page: page}, nil }
}

// roleAlpha marks colours of go-chart that stand for a colour of the page: the
// role is in the red part.
const roleAlpha = 254

func ofRole(r canvas.Role) drawing.Color { return drawing.Color{R: uint8(r), A: roleAlpha} }

func ofLook(l canvas.Look) drawing.Color {
	if l.Role != canvas.Data {
		return ofRole(l.Role)
	}
	return drawing.Color{R: uint8(l.RGB >> 16), G: uint8(l.RGB >> 8), B: uint8(l.RGB), A: 255}
}

// look is the inverse of ofLook.
func look(c drawing.Color) canvas.Look {
	if c.A == roleAlpha {
		return canvas.Look{Role: canvas.Role(c.R)}
	}
	return canvas.Look{RGB: canvas.RGB(c.R)<<16 | canvas.RGB(c.G)<<8 | canvas.RGB(c.B)}
}

func (r *renderer) ResetStyle() {
	r.fill, r.stroke, r.font, r.width, r.dashed = drawing.Color{}, drawing.Color{}, drawing.Color{}, 0, false
}
func (r *renderer) GetDPI() float64                   { return r.dpi }
func (r *renderer) SetDPI(dpi float64)                { r.dpi = dpi }
func (r *renderer) SetClassName(string)               {}
func (r *renderer) SetStrokeColor(c drawing.Color)    { r.stroke = c }
func (r *renderer) SetFillColor(c drawing.Color)      { r.fill = c }
func (r *renderer) SetStrokeWidth(width float64)      { r.width = width }
func (r *renderer) SetStrokeDashArray(dash []float64) { r.dashed = len(dash) > 0 }
func (r *renderer) MoveTo(x, y int)                   { r.path.Move(canvas.Length(x*10), canvas.Length(y*10)) }
func (r *renderer) LineTo(x, y int)                   { r.path.Line(canvas.Length(x*10), canvas.Length(y*10)) }
func (r *renderer) Close()                            {} // Fill does

// QuadCurveTo and ArcTo go straight on: axes and curves of steps have none.
func (r *renderer) QuadCurveTo(_, _, x, y int)         { r.LineTo(x, y) }
func (r *renderer) ArcTo(x, y int, _, _, _, _ float64) { r.LineTo(x, y) }
func (r *renderer) SetFont(*truetype.Font)             {}
func (r *renderer) SetFontColor(c drawing.Color)       { r.font = c }
func (r *renderer) SetFontSize(float64)                {}
func (r *renderer) SetTextRotation(float64)            {}
func (r *renderer) ClearTextRotation()                 {}
func (r *renderer) Save(io.Writer) error               { return nil } // the page is finished by who began it
func (r *renderer) Fill()                              { r.paint(true, false) }
func (r *renderer) Stroke()                            { r.paint(false, true) }
func (r *renderer) FillStroke()                        { r.paint(true, true) }

func (r *renderer) Circle(radius float64, x, y int) {
	r.page.Dot(canvas.Length(x*10), canvas.Length(y*10), canvas.Length(radius*10), look(r.fill))
}

// paint draws the path and forgets it. Transparent is a colour of go-chart.
func (r *renderer) paint(fill, stroke bool) {
	if fill && r.fill.A > 0 {
		r.page.Fill(&r.path, look(r.fill), nil)
	}
	if stroke && r.stroke.A > 0 && r.width > 0 {
		l := look(r.stroke)
		r.page.Stroke(&r.path, canvas.Pen{Role: l.Role, RGB: l.RGB, Width: canvas.Length(r.width * 10), Dashed: r.dashed}, nil)
	}
	r.path.Reset()
}

func (r *renderer) Text(body string, x, y int) {
	r.page.Text(canvas.Text{X: canvas.Length(x * 10), Y: canvas.Length(y * 10), Role: look(r.font).Role, S: body})
}

func (r *renderer) MeasureText(body string) gochart.Box {
	return gochart.Box{Right: int(canvas.Width(body, canvas.TextSize)+9) / 10, Bottom: canvas.TextSize * 3 / 4}
}
