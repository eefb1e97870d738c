package canvas

import (
	"fmt"
	"io"
)

// Length is a length on the page in tenths of a pixel: the finest that is
// written, so that edges which meet on the page meet in the file.
type Length = int32

// Format is a form in which a picture is written.
type Format uint8

const (
	SVG Format = iota
	PNG
)

// Theme says which colours a page has.
type Theme uint8

const (
	Auto  Theme = iota // those that the reader's system asks for; in a PNG, light
	Light              // for white pages and paper
	Dark
)

// Page is what is known of a picture before anything is drawn.
type Page struct {
	Width, Height int // pixels
	Theme         Theme

	// Title and Desc tell those who do not see the picture what it shows.
	Title, Desc string
}

// Canvas takes a picture from back to front.
type Canvas interface {
	// Group begins shapes of one look, which End ends. Groups nest.
	Group(look Look)
	End()

	// Fill fills the inside of p with the look of the group, or with look if it
	// is not the zero value. title shows when a reader points at it.
	Fill(p *Path, look Look, title []byte)

	// Stroke draws along p.
	Stroke(p *Path, pen Pen, title []byte)

	// Dot draws a filled circle.
	Dot(x, y, radius Length, look Look)

	Text(t Text)

	// Finish writes the picture.
	Finish(w io.Writer) error
}

// New returns an empty page.
func New(f Format, p Page) (Canvas, error) {
	switch f {
	case SVG:
		return newSVG(p), nil
	case PNG:
		return newPNG(p)
	}
	return nil, fmt.Errorf("no form of a picture has the number %d", f)
}

// Look is how a shape is filled.
type Look struct {
	Role    Role // a colour of the page; Data when RGB is meant
	RGB     RGB
	Hatched bool // stripes over RGB
	Faint   bool // a little paler
	Pale    bool // much paler
	Edged   bool // a thin line of the page's colour around it
	Crisp   bool // edges on whole dots: for shapes too small for Edged
}

// Pen is how a line is drawn.
type Pen struct {
	Role   Role
	RGB    RGB
	Width  Length
	Dashed bool
}

// Anchor says which end of a text its place is.
type Anchor uint8

const (
	Start Anchor = iota
	Middle
	End
)

// Text is one line of text.
type Text struct {
	X, Y   Length // of the base line
	Anchor Anchor
	Size   int  // pixels; 0 = TextSize
	Role   Role // Foreground when Data
	Bold   bool
	Turned bool // upwards
	Halo   bool // the page's colour around it, so that it can be read on shapes
	S      string
	Aside  string // follows S, dimmed
}

// size returns the font size in pixels.
func (t *Text) size() int {
	if t.Size == 0 {
		return TextSize
	}
	return t.Size
}

// Extent estimates how wide a text is drawn. Bold letters are wider.
func (t *Text) Extent() Length {
	s := t.S
	if t.Aside != "" {
		s += " " + t.Aside
	}
	return Width(s, t.measure())
}

// Fit shortens S until it is drawn in no more than width.
func (t Text) Fit(width Length) Text {
	t.S = Fit(t.S, t.measure(), width)
	return t
}

// measure is the font size by which a text is measured.
func (t *Text) measure() int {
	if t.Bold {
		return t.size() + 1
	}
	return t.size()
}

// TextSize is the size of texts that name none, in pixels.
const TextSize = 12

// Point is a place on the page.
type Point struct{ X, Y Length }

// Path is a number of lines, which Fill closes. The zero value is empty.
type Path struct {
	points []Point
	begins []int32 // index of the first point of each line
}

// Move begins a line.
func (p *Path) Move(x, y Length) {
	p.begins = append(p.begins, int32(len(p.points)))
	p.points = append(p.points, Point{x, y})
}

// Line goes on to x, y.
func (p *Path) Line(x, y Length) { p.points = append(p.points, Point{x, y}) }

// Rect adds a rectangle.
func (p *Path) Rect(x, y, right, bottom Length) {
	p.Move(x, y)
	p.Line(right, y)
	p.Line(right, bottom)
	p.Line(x, bottom)
}

// Closed leads the last line of p back to where it began, for Stroke, and returns p.
func (p *Path) Closed() *Path {
	begin := p.points[p.begins[len(p.begins)-1]]
	p.Line(begin.X, begin.Y)
	return p
}

// Reset makes p empty and keeps its memory.
func (p *Path) Reset() { p.points, p.begins = p.points[:0], p.begins[:0] }

// Empty reports whether p has no line.
func (p *Path) Empty() bool { return len(p.begins) == 0 }

// Corners returns the number of points, which is what a path costs.
func (p *Path) Corners() int { return len(p.points) }

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
