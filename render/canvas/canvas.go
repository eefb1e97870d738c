package canvas

import (
	"cmp"
	"fmt"
	"io"
	"math"
)

// Length is a length on the page in tenths of a pixel. Files have the same precision, so
// edges that touch on the page also touch in the file.
type Length = int32

// Format is a file format.
type Format uint8

const (
	SVG Format = iota
	PNG
	PDF
)

// Theme selects the colours of a page.
type Theme uint8

const (
	Auto  Theme = iota // the theme of the reader's system; Light in a PNG and in a PDF
	Light              // for white pages and paper
	Dark
)

// Page has the properties of an empty page.
type Page struct {
	Width, Height int // pixels
	Theme         Theme
	Title, Desc   string // text alternatives, for screen readers
}

// Canvas draws a picture from back to front.
type Canvas interface {
	// Group begins a group of shapes with one look, End ends it. Groups nest.
	Group(look Look)
	End()

	// Fill fills p with the look of the group, or with look if it is not the zero value. title is the tooltip.
	Fill(p *Path, look Look, title []byte)

	// Stroke draws the lines of p. title is the tooltip.
	Stroke(p *Path, pen Pen, title []byte)

	// Dot draws a filled circle.
	Dot(x, y, radius Length, look Look)

	Text(t Text)

	// Finish writes the picture.
	Finish(w io.Writer) error
}

// New returns an empty page. It fails for unknown formats.
func New(f Format, p Page) (Canvas, error) {
	switch f {
	case SVG:
		return newSVG(p), nil
	case PNG:
		return newPNG(p)
	case PDF:
		return newPDF(p)
	}
	return nil, fmt.Errorf("unknown picture format %d", f)
}

// Look is the fill of a shape.
type Look struct {
	Role    Role // a colour of the page; Data selects RGB
	RGB     RGB
	Hatched bool // stripes over RGB
	Hollow  bool // only stripes, in the colour of Role
	Pale    bool // much paler
	Edged   bool // with a thin line in the page's colour around it
	Crisp   bool // without anti-aliasing, for shapes too small for Edged
}

// opacity returns the opacity of a fill.
func (l Look) opacity() float64 {
	if l.Pale {
		return .4
	}
	return 1
}

// looks are those of the open groups.
type looks []Look

// of returns a look with what it lacks from the open groups.
func (g looks) of(l Look) Look {
	outer := Look{}
	if n := len(g); n > 0 {
		outer = g[n-1]
	}
	if l.Role == Data && l.RGB == 0 {
		l.Role, l.RGB, l.Hatched, l.Hollow = outer.Role, outer.RGB, outer.Hatched, outer.Hollow
	}
	l.Pale, l.Edged, l.Crisp = l.Pale || outer.Pale, l.Edged || outer.Edged, l.Crisp || outer.Crisp
	return l
}

func (g *looks) group(l Look) { *g = append(*g, g.of(l)) }
func (g *looks) end()         { *g = (*g)[:len(*g)-1] }

// Pen is the style of a line.
type Pen struct {
	Role   Role
	RGB    RGB
	Width  Length
	Dashed bool
}

// Anchor is the point of a text at X.
type Anchor uint8

const (
	Start Anchor = iota
	Middle
	End
)

// Text is one line of text.
type Text struct {
	X, Y   Length // Y is that of the base line
	Anchor Anchor
	Size   int  // pixels; 0 = TextSize
	Role   Role // Data means Foreground
	Bold   bool
	Turned bool // reads upwards
	Halo   bool // with the page's colour around it, to be readable on shapes
	S      string
	Aside  string // dimmed text after S
}

// size returns the font size in pixels.
func (t *Text) size() int { return cmp.Or(t.Size, TextSize) }

// Extent estimates the width of a text.
func (t *Text) Extent() Length {
	s := t.S
	if t.Aside != "" {
		s += " " + t.Aside
	}
	return Width(s, t.measure())
}

// Fit shortens S until it fits width.
func (t Text) Fit(width Length) Text {
	t.S = Fit(t.S, t.measure(), width)
	return t
}

// measure returns the font size for the estimated width: bold letters are wider.
func (t *Text) measure() int {
	if t.Bold {
		return t.size() + 1
	}
	return t.size()
}

// TextSize is the default size of texts, in pixels.
const TextSize = 12

// Point is a place on the page.
type Point struct{ X, Y Length }

// Path has one or more lines. Fill closes them. The zero value is empty.
type Path struct {
	points []Point
	begins []int32 // index of the first point of each line
}

// Move begins a line.
func (p *Path) Move(x, y Length) {
	p.begins = append(p.begins, int32(len(p.points)))
	p.points = append(p.points, Point{x, y})
}

// Line continues the line to x, y.
func (p *Path) Line(x, y Length) { p.points = append(p.points, Point{x, y}) }

// Rect adds a rectangle.
func (p *Path) Rect(x, y, right, bottom Length) {
	p.Move(x, y)
	p.Line(right, y)
	p.Line(right, bottom)
	p.Line(x, bottom)
}

// Closed closes the last line of p, for Stroke, and returns p.
func (p *Path) Closed() *Path {
	begin := p.points[p.begins[len(p.begins)-1]]
	p.Line(begin.X, begin.Y)
	return p
}

// Reset makes p empty and keeps its memory.
func (p *Path) Reset() { p.points, p.begins = p.points[:0], p.begins[:0] }

// Empty reports whether p has no line.
func (p *Path) Empty() bool { return len(p.begins) == 0 }

// bounds returns the corners of the rectangle around a path that is not empty.
func (p *Path) bounds() (lo, hi Point) {
	lo, hi = p.points[0], p.points[0]
	for _, q := range p.points {
		lo.X, lo.Y, hi.X, hi.Y = min(lo.X, q.X), min(lo.Y, q.Y), max(hi.X, q.X), max(hi.Y, q.Y)
	}
	return lo, hi
}

// circle returns a path that looks like a circle.
func circle(x, y, radius Length) *Path {
	var p Path
	const corners = 24
	for i := range corners {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		px, py := x+round(cos*float64(radius)), y+round(sin*float64(radius))
		if i == 0 {
			p.Move(px, py)
		} else {
			p.Line(px, py)
		}
	}
	return &p
}

func round(v float64) Length { return Length(math.Round(v)) }

// lines calls f with the points of each line.
func (p *Path) lines(f func(line []Point)) {
	for i, from := range p.begins {
		to := len(p.points)
		if i+1 < len(p.begins) {
			to = int(p.begins[i+1])
		}
		f(p.points[from:to])
	}
}

// Line returns a path of one straight line.
func Line(x, y, x2, y2 Length) *Path {
	p := &Path{}
	p.Move(x, y)
	p.Line(x2, y2)
	return p
}

// Rect returns a path of one rectangle.
func Rect(x, y, right, bottom Length) *Path {
	p := &Path{}
	p.Rect(x, y, right, bottom)
	return p
}
