package canvas

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
)

// document draws on the page of a PDF. A pixel is 1/96 of an inch, as in browsers.
type document struct {
	pdf    *fpdf.Fpdf
	theme  Theme
	height float64 // points
	looks  looks
	buf    []byte
}

const points = 0.75 // per pixel

func newPDF(p Page) (*document, error) {
	size := fpdf.SizeType{Wd: float64(p.Width) * points, Ht: float64(p.Height) * points}
	pdf := fpdf.NewCustom(&fpdf.InitType{UnitStr: "pt", Size: size})
	pdf.SetMargins(0, 0, 0)
	pdf.SetAutoPageBreak(false, 0)
	pdf.SetTitle(Clean(p.Title), true)
	pdf.SetSubject(Clean(p.Desc), true)
	pdf.SetCatalogSort(true) // the same picture is the same file
	pdf.SetCreationDate(time.Unix(0, 0).UTC())
	pdf.SetModificationDate(time.Unix(0, 0).UTC())
	pdf.AddUTF8FontFromBytes("go", "", goregular.TTF)
	pdf.AddUTF8FontFromBytes("go", "B", gobold.TTF)
	pdf.SetLineJoinStyle("round")
	pdf.AddPage()
	c := &document{pdf: pdf, theme: p.Theme, height: size.Ht}
	c.Fill(Rect(0, 0, Length(p.Width)*10, Length(p.Height)*10), Look{Role: Background}, nil)
	return c, pdf.Error()
}

func (c *document) Group(l Look) { c.looks.group(l) }
func (c *document) End()         { c.looks.end() }

// rgb returns a colour and its opacity.
func (c *document) rgb(role Role, rgb RGB) RGB {
	if role != Data {
		return c.theme.color(role)
	}
	return rgb
}

// paint writes the operator that sets the colour of fills ("rg") or of lines ("RG").
func paint(v RGB, operator string) string {
	return fmt.Sprintf("%.3f %.3f %.3f %s ", float64(v>>16)/255, float64(v>>8&255)/255, float64(v&255)/255, operator)
}

// draw writes operators on a page whose unit is a tenth of a pixel, from its upper left corner.
func (c *document) draw(operators ...string) {
	const tenth = points / 10
	c.pdf.RawWriteStr(fmt.Sprintf("q %g 0 0 %g 0 %g cm %sQ\n", tenth, -tenth, c.height, strings.Join(operators, "")))
}

// outline returns the operators of a path.
func (c *document) outline(p *Path, after string) string {
	c.buf = c.buf[:0]
	p.lines(func(line []Point) {
		for i, at := range line {
			c.buf = append(strconv.AppendInt(c.buf, int64(at.X), 10), ' ')
			c.buf = append(strconv.AppendInt(c.buf, int64(at.Y), 10), ' ')
			c.buf = append(c.buf, "ml"[min(i, 1)], ' ')
		}
		c.buf = append(c.buf, after...)
	})
	return string(c.buf)
}

func (c *document) Fill(p *Path, l Look, _ []byte) {
	if p.Empty() {
		return
	}
	l = c.looks.of(l)
	v, path := c.rgb(l.Role, l.RGB), c.outline(p, "h ")
	opacity := l.opacity()
	if opacity != 1 {
		c.pdf.SetAlpha(opacity, "Normal")
	}
	switch {
	case l.Hollow:
		c.draw(path, "W n 15 w ", paint(v, "RG"), c.stripes(p, true))
	case l.Hatched:
		c.draw(paint(v, "rg"), path, "f ", path, "W n 20 w ", paint(v.pale(), "RG"), c.stripes(p, false))
	default:
		c.draw(paint(v, "rg"), path, "f ")
	}
	if l.Edged {
		c.draw("5 w ", paint(c.theme.color(Background), "RG"), path, "S ")
	}
	if opacity != 1 {
		c.pdf.SetAlpha(1, "Normal")
	}
}

// stripes returns the operators of diagonal lines over a path, six pixels apart.
func (c *document) stripes(p *Path, rising bool) string {
	lo, hi := p.bounds()
	tall, apart := hi.Y-lo.Y, Length(85) // 60 times the root of 2
	var lines Path
	first := lo.X - tall
	first -= (first + lo.Y) % apart // stripes of neighbours meet
	for x := first; x < hi.X; x += apart {
		if rising {
			lines.Move(x, hi.Y)
			lines.Line(x+tall, lo.Y)
		} else {
			lines.Move(x, lo.Y)
			lines.Line(x+tall, hi.Y)
		}
	}
	return c.outline(&lines, "") + "S "
}

func (c *document) Stroke(p *Path, pen Pen, _ []byte) {
	dash := ""
	if pen.Dashed {
		dash = "[20 30] 0 d "
	}
	c.draw(dash, strconv.Itoa(int(pen.Width)), " w ", paint(c.rgb(pen.Role, pen.RGB), "RG"), c.outline(p, ""), "S ")
}

func (c *document) Dot(x, y, radius Length, l Look) { c.Fill(circle(x, y, radius), l, nil) }

func (c *document) Text(t Text) {
	style := ""
	if t.Bold {
		style = "B"
	}
	c.pdf.SetFont("go", style, float64(t.size())*points)
	s, aside := encoded(t.S), ""
	if t.Aside != "" {
		aside = encoded(" " + t.Aside)
	}
	x, y := float64(t.X)/10*points, float64(t.Y)/10*points
	if t.Turned {
		c.pdf.TransformBegin()
		c.pdf.TransformRotate(90, x, y)
		defer c.pdf.TransformEnd()
	}
	switch width := c.pdf.GetStringWidth(s + aside); t.Anchor {
	case Middle:
		x -= width / 2
	case End:
		x -= width
	}
	if t.Halo {
		c.pdf.RawWriteStr(fmt.Sprintf("q 1 Tr %g w %s\n", 3*points, paint(c.theme.color(Background), "RG")))
		c.pdf.Text(x, y, s+aside)
		c.pdf.RawWriteStr("Q\n")
	}
	role := t.Role
	if role == Data {
		role = Foreground
	}
	c.words(x, y, role, s)
	c.words(x+c.pdf.GetStringWidth(s), y, Dim, aside)
}

// words writes s in the colour of a role.
func (c *document) words(x, y float64, role Role, s string) {
	if s != "" {
		v := c.theme.color(role)
		c.pdf.SetTextColor(int(v>>16), int(v>>8&255), int(v&255))
		c.pdf.Text(x, y, s)
	}
}

// encoded returns a text with the characters that the encoding of the file has.
func encoded(s string) string {
	return strings.Map(func(r rune) rune {
		if r > 0xfffd {
			return 0xfffd
		}
		return r
	}, Clean(s))
}

func (c *document) Finish(w io.Writer) error { return c.pdf.Output(w) }
