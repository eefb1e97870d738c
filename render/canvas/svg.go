package canvas

import (
	"io"
	"strconv"
	"strings"
)

// svg collects the text of a picture.
type svg struct {
	buf     []byte
	hatches map[RGB]bool // colours whose pattern is defined
	hollow  map[Role]bool
}

func newSVG(p Page) *svg {
	c := &svg{hatches: map[RGB]bool{}, hollow: map[Role]bool{}}
	w, h := strconv.Itoa(p.Width), strconv.Itoa(p.Height)
	c.str(`<svg xmlns="http://www.w3.org/2000/svg" class="memlane" role="img" width="`, w, `" height="`, h, `" viewBox="0 0 `, w, ` `, h,
		`" font-family="system-ui,Segoe UI,Helvetica,Arial,sans-serif" font-size="`, strconv.Itoa(TextSize), "\">\n<title>")
	c.buf = appendText(c.buf, []byte(p.Title))
	c.str("</title>\n<desc>")
	c.buf = appendText(c.buf, []byte(p.Desc))
	c.str("</desc>\n", p.Theme.styleSheet())
	// The background, so that viewers do not use another colour.
	c.str(`<path class="bg" d="M0 0h`, w, `v`, h, `h-`, w, "z\"/>\n")
	return c
}

func (c *svg) str(parts ...string) {
	for _, s := range parts {
		c.buf = append(c.buf, s...)
	}
}

// length appends an attribute.
func (c *svg) length(name string, v Length) {
	c.str(" ", name, `="`)
	c.buf = append(appendLength(c.buf, v), '"')
}

// define adds the pattern of a hatched colour if the file does not have it.
func (c *svg) define(l Look) {
	if l.Hollow && !c.hollow[l.Role] {
		c.hollow[l.Role] = true
		c.str(`<defs><pattern id="hollow-`, roles[l.Role].name,
			`" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><path class="line-`,
			roles[l.Role].name, `" d="M1 0v6" stroke-width="1.5"/></pattern></defs>`, "\n")
	}
	if !l.Hatched || c.hatches[l.RGB] {
		return
	}
	c.hatches[l.RGB] = true
	c.str(`<defs><pattern id="hatch-`, l.RGB.String()[1:],
		`" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path fill="`,
		l.RGB.String(),
		`" d="M0 0h6v6h-6z"/><path d="M1 0v6" stroke="#fff" stroke-opacity=".4" stroke-width="2"/></pattern></defs>`, "\n")
}

// attributes appends the attributes of a look.
func (c *svg) attributes(l Look) {
	class := ""
	switch {
	case l == Look{}:
		return
	case l.Hollow:
		c.str(` fill="url(#hollow-`, roles[l.Role].name, `)"`)
	case l.Role != Data:
		class = roles[l.Role].name
	case l.Hatched:
		c.str(` fill="url(#hatch-`, l.RGB.String()[1:], `)"`)
	default:
		c.str(` fill="`, l.RGB.String(), `"`)
	}
	if l.Edged {
		class = strings.TrimPrefix(class+" edge", " ")
	}
	if class != "" {
		c.str(` class="`, class, `"`)
	}
	if l.Pale {
		c.str(` fill-opacity=".4"`)
	}
	if l.Crisp {
		c.str(` shape-rendering="crispEdges"`)
	}
}

func (c *svg) Group(l Look) {
	c.define(l)
	c.str("<g")
	c.attributes(l)
	c.str(">\n")
}

func (c *svg) End() { c.str("</g>\n") }

func (c *svg) Fill(p *Path, l Look, title []byte) {
	c.define(l)
	c.str("<path")
	c.attributes(l)
	c.str(` d="`)
	p.lines(func(line []Point) { c.buf = append(appendLine(c.buf, line), 'z') })
	c.closePath(title)
}

func (c *svg) Stroke(p *Path, pen Pen, title []byte) {
	c.str(`<path fill="none"`)
	if pen.Role != Data {
		c.str(` class="line-`, roles[pen.Role].name, `"`)
	} else {
		c.str(` stroke="`, pen.RGB.String(), `"`)
	}
	if pen.Width != 10 {
		c.length("stroke-width", pen.Width)
	}
	if pen.Dashed {
		c.str(` stroke-dasharray="2 3"`)
	}
	c.str(` d="`)
	p.lines(func(line []Point) { c.buf = appendLine(c.buf, line) })
	c.closePath(title)
}

// closePath ends a path, with an optional title.
func (c *svg) closePath(title []byte) {
	if len(title) == 0 {
		c.str("\"/>\n")
		return
	}
	c.str(`"><title>`)
	c.buf = appendText(c.buf, title)
	c.str("</title></path>\n")
}

func (c *svg) Dot(x, y, radius Length, l Look) {
	c.str("<circle")
	c.attributes(l)
	c.length("r", radius)
	c.length("cx", x)
	c.length("cy", y)
	c.str("/>\n")
}

func (c *svg) Text(t Text) {
	c.str("<text")
	class := ""
	if t.Role != Data && t.Role != Foreground {
		class = " " + roles[t.Role].name
	}
	if t.Halo {
		class += " halo"
	}
	if class != "" {
		c.str(` class="`, class[1:], `"`)
	}
	c.str([...]string{"", ` text-anchor="middle"`, ` text-anchor="end"`}[t.Anchor])
	if t.Size != 0 && t.Size != TextSize {
		c.str(` font-size="`, strconv.Itoa(t.Size), `"`)
	}
	if t.Bold {
		c.str(` font-weight="600"`)
	}
	c.length("x", t.X)
	c.length("y", t.Y)
	if t.Turned {
		c.str(` transform="rotate(-90 `)
		c.buf = append(appendLength(c.buf, t.X), ' ')
		c.buf = append(appendLength(c.buf, t.Y), `)"`...)
	}
	c.str(">")
	c.buf = appendText(c.buf, []byte(t.S))
	if t.Aside != "" {
		c.str(` <tspan class="dim">`)
		c.buf = appendText(c.buf, []byte(t.Aside))
		c.str("</tspan>")
	}
	c.str("</text>\n")
}

func (c *svg) Finish(w io.Writer) error {
	c.str("</svg>\n")
	_, err := w.Write(c.buf)
	return err
}

// Bytes returns the size of the outline in an SVG.
func (p *Path) Bytes() int {
	n := 0
	p.lines(func(line []Point) {
		var b [4096]byte
		n += len(appendLine(b[:0], line)) + 1
	})
	return n
}

// appendLine appends the path commands of one line.
func appendLine(b []byte, line []Point) []byte {
	start := line[0]
	b = appendLength(append(b, 'M'), start.X)
	b = appendLength(append(b, ' '), start.Y)
	for _, to := range line[1:] {
		switch dx, dy := to.X-start.X, to.Y-start.Y; {
		case dx == 0 && dy == 0:
		case dy == 0:
			b = appendLength(append(b, 'h'), dx)
		case dx == 0:
			b = appendLength(append(b, 'v'), dy)
		default:
			b = appendLength(append(b, 'l'), dx)
			b = appendLength(append(b, ' '), dy)
		}
		start = to
	}
	return b
}

// appendLength appends a length in pixels, with a decimal only if needed.
func appendLength(b []byte, v Length) []byte {
	if v < 0 {
		b = append(b, '-')
		v = -v
	}
	if v >= 10 || v == 0 {
		b = strconv.AppendInt(b, int64(v/10), 10)
	}
	if d := v % 10; d != 0 {
		b = append(b, '.', byte('0'+d))
	}
	return b
}
