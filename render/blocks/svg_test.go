package blocks

import (
	"bytes"
	"encoding/xml"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/canvas"
)

// drawing is a parsed picture.
type drawing struct {
	outlines []shapeBox
	texts    []textBox
	titles   []string // tooltips, root title first
	desc     string
	width    float64
	height   float64
}

// shapeBox is a filled outline with the colour of a class, in tenths of a pixel.
type shapeBox struct {
	points [][2]int
	title  string // of its path
}

// textBox is one text element.
type textBox struct {
	s      string
	x, y   float64
	anchor string
	size   int
	turned bool
}

var allowed = []string{"svg", "title", "desc", "style", "defs", "pattern", "path", "g", "text", "tspan", "rect", "circle"}

// read parses a picture. It fails if the picture is not well-formed or has elements that
// a static picture must not have.
func read(t *testing.T, svg []byte) *drawing {
	t.Helper()
	d := &drawing{}
	dec := xml.NewDecoder(bytes.NewReader(svg))
	type element struct {
		name string
		attr map[string]string
		text string
		from int // first outline
	}
	var open []element
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			e := element{name: tok.Name.Local, attr: map[string]string{}, from: len(d.outlines)}
			if !slices.Contains(allowed, e.name) {
				t.Fatalf("element %s", e.name)
			}
			for _, a := range tok.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Name.Local, "href") {
					t.Fatalf("attribute %s", a.Name.Local)
				}
				e.attr[a.Name.Local] = a.Value
			}
			open = append(open, e)
			if e.name == "svg" {
				d.width, _ = strconv.ParseFloat(e.attr["width"], 64)
				d.height, _ = strconv.ParseFloat(e.attr["height"], 64)
			}
			inDefs, fill := false, ""
			for _, o := range open {
				inDefs = inDefs || o.name == "defs"
				if f := o.attr["fill"]; f != "" {
					fill = f
				}
				if c := strings.TrimSuffix(o.attr["class"], " edge"); c == "stays" || c == "passes" {
					fill = c
				}
			}
			if e.name == "path" && fill != "" && fill != "none" && !inDefs {
				d.outlines = append(d.outlines, readPath(t, e.attr["d"])...)
			}
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].text += string(tok)
			}
		case xml.EndElement:
			e := open[len(open)-1]
			open = open[:len(open)-1]
			d.close(e.name, e.text, e.attr, len(open), func(title string) {
				for i := open[len(open)-1].from; i < len(d.outlines); i++ {
					d.outlines[i].title = title
				}
			})
			if e.name == "tspan" {
				open[len(open)-1].text += e.text
			}
		}
	}
	return d
}

func (d *drawing) close(name, text string, attr map[string]string, depth int, titled func(string)) {
	switch name {
	case "title":
		d.titles = append(d.titles, text)
		if depth > 1 {
			titled(text)
		}
	case "desc":
		d.desc = text
	case "text":
		b := textBox{s: text, anchor: attr["text-anchor"], size: 12, turned: attr["transform"] != ""}
		b.x, _ = strconv.ParseFloat(attr["x"], 64)
		b.y, _ = strconv.ParseFloat(attr["y"], 64)
		if attr["font-size"] != "" {
			b.size, _ = strconv.Atoi(attr["font-size"])
		}
		d.texts = append(d.texts, b)
	}
}

// readPath reads the commands M, h, v and z.
func readPath(t *testing.T, d string) []shapeBox {
	t.Helper()
	var list []shapeBox
	x, y := 0, 0
	number := func() int {
		i := 0
		for i < len(d) && strings.IndexByte("-.0123456789", d[i]) >= 0 {
			i++
		}
		f, err := strconv.ParseFloat(d[:i], 64)
		if err != nil {
			t.Fatalf("path: %v", err)
		}
		d = d[i:]
		if f < 0 {
			return int(f*10 - 0.5)
		}
		return int(f*10 + 0.5)
	}
	for len(d) > 0 {
		op := d[0]
		d = d[1:]
		switch op {
		case 'M':
			x = number()
			d = strings.TrimPrefix(d, " ")
			y = number()
			list = append(list, shapeBox{})
		case 'h':
			x += number()
		case 'v':
			y += number()
		case 'z':
			continue
		default:
			t.Fatalf("path: command %c", op)
		}
		o := &list[len(list)-1]
		o.points = append(o.points, [2]int{x, y})
	}
	return list
}

// at returns the vertical ranges of an outline at x, upper edge first. x is in twentieths
// of a pixel, so that no corner is at x.
func (o *shapeBox) at(x20 int) [][2]int {
	var ys []int
	for i, p := range o.points {
		q := o.points[(i+1)%len(o.points)]
		if lo, hi := min(p[0], q[0])*2, max(p[0], q[0])*2; lo < x20 && x20 < hi {
			ys = append(ys, p[1])
		}
	}
	slices.Sort(ys)
	var spans [][2]int
	for i := 0; i+1 < len(ys); i += 2 {
		if ys[i] < ys[i+1] {
			spans = append(spans, [2]int{ys[i], ys[i+1]})
		}
	}
	return spans
}

func render(t testing.TB, c *lifetime.Capture, s *lifetime.Space, o Options) []byte {
	t.Helper()
	var w bytes.Buffer
	if err := Write(&w, judge.Of(c), s, o); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

// checkTexts checks by their estimated width that texts are inside the page and do not
// overlap.
func (d *drawing) checkTexts(t *testing.T) {
	t.Helper()
	type box struct{ x0, x1, y0, y1 float64 }
	var boxes []box
	for _, tx := range d.texts {
		w := float64(canvas.Width(tx.s, tx.size)) / 10
		b := box{tx.x, tx.x + w, tx.y - 0.8*float64(tx.size), tx.y + 0.2*float64(tx.size)}
		switch tx.anchor {
		case "end":
			b.x0, b.x1 = tx.x-w, tx.x
		case "middle":
			b.x0, b.x1 = tx.x-w/2, tx.x+w/2
		}
		if tx.turned { // upwards, and in the middle
			b = box{tx.x - 0.8*float64(tx.size), tx.x + 0.2*float64(tx.size), tx.y - w/2, tx.y + w/2}
		}
		if b.x0 < 0 || b.x1 > d.width || b.y0 < 0 || b.y1 > d.height {
			t.Errorf("%q is not inside the picture: %.1f", tx.s, b)
		}
		for i, other := range boxes {
			if b.x0 < other.x1 && other.x0 < b.x1 && b.y0+0.5 < other.y1 && other.y0+0.5 < b.y1 {
				t.Errorf("%q overlaps %q", tx.s, d.texts[i].s)
			}
		}
		boxes = append(boxes, b)
	}
}
