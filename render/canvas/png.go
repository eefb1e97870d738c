package canvas

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// dots is the number of dots of a PNG per pixel of the page, for high-density screens.
const dots = 2

// raster draws on a bitmap.
type raster struct {
	theme  Theme
	img    *image.RGBA
	looks  looks
	shape  vector.Rasterizer
	fonts  [2]*opentype.Font // regular, bold
	faces  map[[2]int]font.Face
	closed Path // memory for the outline of a stroke
}

func newPNG(p Page) (*raster, error) {
	c := &raster{theme: p.Theme, img: image.NewRGBA(image.Rect(0, 0, p.Width*dots, p.Height*dots)), faces: map[[2]int]font.Face{}}
	for i, data := range [][]byte{goregular.TTF, gobold.TTF} {
		f, err := opentype.Parse(data)
		if err != nil {
			return nil, err
		}
		c.fonts[i] = f
	}
	draw.Draw(c.img, c.img.Bounds(), image.NewUniform(c.color(Look{Role: Background})), image.Point{}, draw.Src)
	return c, nil
}

func (c *raster) color(l Look) color.NRGBA {
	v := l.RGB
	if l.Role != Data {
		v = c.theme.color(l.Role)
	}
	return color.NRGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), uint8(255 * l.opacity())}
}

func (c *raster) Group(l Look) { c.looks.group(l) }
func (c *raster) End()         { c.looks.end() }

func (c *raster) Fill(p *Path, l Look, _ []byte) {
	l = c.looks.of(l)
	var ink image.Image = image.NewUniform(c.color(l))
	if l.Hatched {
		ink = hatching{c.color(l)}
	}
	if l.Hollow {
		ink = stripes{c.color(l)}
	}
	c.area(p, ink)
	if l.Edged {
		edge := Pen{Role: Background, Width: 5}
		p.lines(func(line []Point) { c.along(append(line[:len(line):len(line)], line[0]), edge) })
	}
}

// area fills p. It limits the rasterizer to the part of the page that p touches, for speed.
func (c *raster) area(p *Path, ink image.Image) {
	if p.Empty() {
		return
	}
	lo, hi := p.bounds()
	box := image.Rect(int(lo.X)*dots/10, int(lo.Y)*dots/10, int(hi.X)*dots/10+1, int(hi.Y)*dots/10+1).Intersect(c.img.Bounds())
	if box.Empty() {
		return
	}
	at := func(v Length, from int) float32 { return float32(v)*dots/10 - float32(from) }
	c.shape.Reset(box.Dx(), box.Dy())
	p.lines(func(line []Point) {
		c.shape.MoveTo(at(line[0].X, box.Min.X), at(line[0].Y, box.Min.Y))
		for _, q := range line[1:] {
			c.shape.LineTo(at(q.X, box.Min.X), at(q.Y, box.Min.Y))
		}
		c.shape.ClosePath()
	})
	c.shape.Draw(c.img, box, ink, box.Min)
}

// hatching is an image of stripes over a colour, like the pattern in an SVG: 2 of 6 pixels, along the falling diagonal.
type hatching struct{ c color.NRGBA }

func (h hatching) ColorModel() color.Model { return color.NRGBAModel }
func (h hatching) Bounds() image.Rectangle { return image.Rect(-1e9, -1e9, 1e9, 1e9) }
func (h hatching) At(x, y int) color.Color {
	across := math.Mod(float64(x+y)/dots/math.Sqrt2, 6)
	if across < 0 || across >= 2 {
		return h.c
	}
	v := (RGB(h.c.R)<<16 | RGB(h.c.G)<<8 | RGB(h.c.B)).pale()
	return color.NRGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), h.c.A}
}

// stripes is an image of stripes without a ground, along the rising diagonal, so that it does not look like hatching.
type stripes struct{ c color.NRGBA }

func (h stripes) ColorModel() color.Model { return color.NRGBAModel }
func (h stripes) Bounds() image.Rectangle { return image.Rect(-1e9, -1e9, 1e9, 1e9) }
func (h stripes) At(x, y int) color.Color {
	if across := math.Mod(float64(x-y)/dots/math.Sqrt2, 6); across >= 0 && across < 1.5 || across < -4.5 {
		return h.c
	}
	return color.NRGBA{}
}

func (c *raster) Stroke(p *Path, pen Pen, _ []byte) {
	p.lines(func(line []Point) { c.along(line, pen) })
}

// along draws every part of a line as a rectangle, or as dashes that begin again at every
// corner. The ends of solid lines are extended so that corners are closed.
func (c *raster) along(line []Point, pen Pen) {
	half := float64(pen.Width) / 2
	c.closed.Reset()
	for i := 1; i < len(line); i++ {
		a, b := line[i-1], line[i]
		dx, dy := float64(b.X-a.X), float64(b.Y-a.Y)
		length := math.Hypot(dx, dy)
		if length == 0 {
			continue
		}
		dx, dy = dx/length, dy/length
		piece := func(from, to float64) {
			x0, y0, x1, y1 := float64(a.X)+dx*from, float64(a.Y)+dy*from, float64(a.X)+dx*to, float64(a.Y)+dy*to
			nx, ny := -dy*half, dx*half
			c.closed.Move(round(x0+nx), round(y0+ny))
			c.closed.Line(round(x1+nx), round(y1+ny))
			c.closed.Line(round(x1-nx), round(y1-ny))
			c.closed.Line(round(x0-nx), round(y0-ny))
		}
		if !pen.Dashed {
			piece(-half, length+half)
			continue
		}
		for at := 0.0; at < length; at += 50 {
			piece(at, min(at+20, length))
		}
	}
	c.area(&c.closed, image.NewUniform(c.color(Look{Role: pen.Role, RGB: pen.RGB})))
}

func (c *raster) Dot(x, y, radius Length, l Look) { c.Fill(circle(x, y, radius), l, nil) }

func (c *raster) Text(t Text) {
	size, bold := t.size(), 0
	if t.Bold {
		bold = 1
	}
	if t.Turned {
		c.turned(t, size)
		return
	}
	face := c.face(size, bold)
	s, aside := Clean(t.S), ""
	if t.Aside != "" {
		aside = " " + Clean(t.Aside)
	}
	x := fixed.Int26_6(int(t.X) * dots * 64 / 10)
	switch width := font.MeasureString(face, s+aside); t.Anchor {
	case Middle:
		x -= width / 2
	case End:
		x -= width
	}
	point := fixed.Point26_6{X: x, Y: fixed.Int26_6(int(t.Y) * dots * 64 / 10)}
	if t.Halo {
		for _, d := range [][2]int{{-3, 0}, {3, 0}, {0, -3}, {0, 3}, {-2, -2}, {2, -2}, {-2, 2}, {2, 2}} {
			c.words(face, point.Add(fixed.P(d[0], d[1])), Look{Role: Background}, s+aside)
		}
	}
	role := t.Role
	if role == Data {
		role = Foreground
	}
	point = c.words(face, point, Look{Role: role}, s)
	c.words(face, point, Look{Role: Dim}, aside)
}

// turned writes a text on a separate page and draws it turned.
func (c *raster) turned(t Text, size int) {
	page, length := c.img, max(c.img.Bounds().Dx(), c.img.Bounds().Dy())
	line := upwards{image.NewRGBA(image.Rect(0, 0, length, 2*size*dots))}
	at := image.Pt(int(t.X)*dots/10-size*dots, int(t.Y)*dots/10-length/2)
	t.Turned, t.X, t.Y = false, Length(length*5/dots), Length(size*10)
	c.img = line.line
	c.Text(t)
	c.img = page
	draw.Draw(page, line.Bounds().Add(at), line, image.Point{}, draw.Over)
}

// upwards shows an image turned to the left.
type upwards struct{ line *image.RGBA }

func (u upwards) ColorModel() color.Model { return u.line.ColorModel() }
func (u upwards) Bounds() image.Rectangle {
	return image.Rect(0, 0, u.line.Rect.Dy(), u.line.Rect.Dx())
}
func (u upwards) At(x, y int) color.Color { return u.line.At(u.line.Rect.Dx()-1-y, x) }

// words draws s and returns its end.
func (c *raster) words(face font.Face, at fixed.Point26_6, l Look, s string) fixed.Point26_6 {
	d := font.Drawer{Dst: c.img, Src: image.NewUniform(c.color(l)), Face: face, Dot: at}
	d.DrawString(s)
	return d.Dot
}

func (c *raster) face(size, bold int) font.Face {
	key := [2]int{size, bold}
	if f := c.faces[key]; f != nil {
		return f
	}
	// The fonts are part of this program and were parsed, so no size fails.
	f, err := opentype.NewFace(c.fonts[bold], &opentype.FaceOptions{Size: float64(size * dots), DPI: 72})
	if err != nil {
		panic(err)
	}
	c.faces[key] = f
	return f
}

func (c *raster) Finish(w io.Writer) error { return png.Encode(w, c.img) }
