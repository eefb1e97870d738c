package canvas

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"strings"
	"testing"
)

// drawn draws on a new page and returns the file.
func drawn(t *testing.T, f Format, theme Theme, draw func(c Canvas)) string {
	t.Helper()
	c, err := New(f, Page{Width: 40, Height: 30, Theme: theme, Title: "a <b>", Desc: "c & d"})
	if err != nil {
		t.Fatal(err)
	}
	draw(c)
	var w strings.Builder
	if err := c.Finish(&w); err != nil {
		t.Fatal(err)
	}
	return w.String()
}

// TestElements checks that each shape is in the file once, and that the file is XML.
func TestElements(t *testing.T) {
	zigzag := &Path{}
	zigzag.Move(10, 10)
	for _, p := range []Point{{10, 10}, {25, 10}, {25, -5}, {30, 12345}} {
		zigzag.Line(p.X, p.Y)
	}
	for want, draw := range map[string]func(c Canvas){
		"<g fill=\"#336699\">\n<path d=\"M1 2h3v4h-3z\"/>\n</g>": func(c Canvas) {
			c.Group(Look{RGB: 0x336699})
			c.Fill(Rect(10, 20, 40, 60), Look{}, nil)
			c.End()
		},
		`<path class="bad edge" fill-opacity=".4" d="M0 0h1v1h-1z"><title>x &lt; y</title></path>`: func(c Canvas) {
			c.Fill(Rect(0, 0, 10, 10), Look{Role: Bad, Edged: true, Pale: true}, []byte("x < y"))
		},
		`<path fill="#010203" fill-opacity=".4" shape-rendering="crispEdges" d="M0 0h1v1h-1z"/>`: func(c Canvas) {
			c.Fill(Rect(0, 0, 10, 10), Look{RGB: 0x010203, Pale: true, Crisp: true}, nil)
		},
		`<path fill="url(#hatch-d1495b)" d="M0 0h1v1h-1z"/>`: func(c Canvas) { c.Fill(Rect(0, 0, 10, 10), Look{RGB: 0xd1495b, Hatched: true}, nil) },
		`<path fill="none" stroke="#336699" d="M1 1h1.5v-1.5l.5 1235"/>`: func(c Canvas) {
			c.Stroke(zigzag, Pen{RGB: 0x336699, Width: 10}, nil)
		},
		`<path fill="none" class="line-bad" stroke-width="2.5" stroke-dasharray="2 3" d="M0 0h1v1h-1v-1"><title>t</title></path>`: func(c Canvas) {
			c.Stroke(Rect(0, 0, 10, 10).Closed(), Pen{Role: Bad, Width: 25, Dashed: true}, []byte("t"))
		},
		`<circle fill="#336699" r=".5" cx="-1" cy="12"/>`: func(c Canvas) { c.Dot(-10, 120, 5, Look{RGB: 0x336699}) },
		`<text x="1" y="2">s</text>`:                      func(c Canvas) { c.Text(Text{X: 10, Y: 20, S: "s", Size: TextSize}) },
		`<text class="dim halo" text-anchor="middle" font-size="16" font-weight="600" x="1" y="2" transform="rotate(-90 1 2)">a&lt;b <tspan class="dim">c</tspan></text>`: func(c Canvas) {
			c.Text(Text{X: 10, Y: 20, S: "a<b", Aside: "c", Role: Dim, Halo: true, Anchor: Middle, Size: 16, Bold: true, Turned: true})
		},
		`<text text-anchor="end" x="0" y="0">e</text>`: func(c Canvas) { c.Text(Text{S: "e", Anchor: End}) },
	} {
		got := drawn(t, SVG, Light, draw)
		if strings.Count(got, want) != 1 {
			t.Errorf("want once\n%s\nin\n%s", want, got[strings.Index(got, "</style>"):])
		}
		for d := xml.NewDecoder(strings.NewReader(got)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, got)
			}
		}
		if !strings.Contains(got, "<title>a &lt;b&gt;</title>\n<desc>c &amp; d</desc>") {
			t.Error("the page has no name")
		}
	}
	twice := drawn(t, SVG, Light, func(c Canvas) {
		c.Group(Look{RGB: 1, Hatched: true})
		c.Fill(Rect(0, 0, 1, 1), Look{RGB: 1, Hatched: true}, nil)
		c.End()
	})
	if strings.Count(twice, "<pattern") != 1 {
		t.Error("a pattern is defined once")
	}
}

// TestThemes checks that a page of one theme has only its colours. A page of both has
// variables and, for programs without support for them, the light colours.
func TestThemes(t *testing.T) {
	nothing := func(Canvas) {}
	light, dark, auto := drawn(t, SVG, Light, nothing), drawn(t, SVG, Dark, nothing), drawn(t, SVG, Auto, nothing)
	pale, deep := ".memlane .bad{fill:"+roles[Bad].light.String(), ".memlane .bad{fill:"+roles[Bad].dark.String()
	if !strings.Contains(light, pale+"}") || strings.Contains(light, roles[Bad].dark.String()) {
		t.Error("light")
	}
	if !strings.Contains(dark, deep+"}") || strings.Contains(dark, roles[Bad].light.String()) {
		t.Error("dark")
	}
	if !strings.Contains(auto, pale+";fill:var(--bad)}") || !strings.Contains(auto, "prefers-color-scheme:dark){.memlane{") {
		t.Error("auto")
	}
}

// TestRaster checks the looks, pens and texts of a PNG.
func TestRaster(t *testing.T) {
	file := drawn(t, PNG, Light, func(c Canvas) {
		c.Fill(Rect(0, 0, 50, 50), Look{RGB: 0x000000, Pale: true}, nil)
		c.Fill(Rect(50, 0, 100, 50), Look{RGB: 0x000000, Pale: true}, nil)
		c.Fill(Rect(110, 0, 160, 50), Look{RGB: 0x336699, Edged: true}, nil)
		c.Fill(Rect(-900, -900, -800, -800), Look{RGB: 0xff0000}, nil) // outside the page
		c.Fill(&Path{}, Look{RGB: 0xff0000}, nil)
		c.Dot(250, 25, 20, Look{RGB: 0x00ff00})
		c.Stroke(Line(0, 105, 400, 105), Pen{RGB: 0x0000ff, Width: 10, Dashed: true}, nil)
		c.Stroke(Line(0, 125, 400, 125), Pen{RGB: 0x0000ff, Width: 10}, nil)
		c.Stroke(Line(10, 10, 10, 10), Pen{RGB: 0xff0000, Width: 10}, nil) // of length 0
		c.Fill(Rect(0, 200, 400, 300), Look{RGB: 0x336699}, nil)
		c.Text(Text{X: 400, Y: 280, Anchor: End, Size: 8, Bold: true, Halo: true, S: "I", Aside: "l"})
	})
	img, err := png.Decode(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	at := func(x, y int) RGB { // in dots
		r, g, b, _ := img.At(x, y).RGBA()
		return RGB(r>>8)<<16 | RGB(g>>8)<<8 | RGB(b>>8)
	}
	for _, p := range []struct {
		name string
		x, y int
		want RGB
	}{
		{"pale", 4, 4, 0x999999}, {"faint", 14, 4, 0x999999}, {"inside the edge", 27, 5, 0x336699}, {"above the dot", 50, 0, 0xffffff}, {"in the dot", 50, 5, 0x00ff00},
		{"a dash", 1, 21, 0x0000ff}, {"a gap", 7, 21, 0xffffff}, {"the next dash", 12, 21, 0x0000ff}, {"a line", 7, 25, 0x0000ff}, {"left of the text", 10, 50, 0x336699},
	} {
		if got := at(p.x, p.y); got != p.want {
			t.Errorf("%s: %v, want %v", p.name, got, p.want)
		}
	}
	if edge := at(22, 5); edge == 0x336699 {
		t.Error("a shape with an edge has none")
	}
	colours := map[RGB]int{}
	for x := 50; x < 80; x++ {
		for y := 40; y < 60; y++ {
			colours[at(x, y)]++
		}
	}
	if colours[0xffffff] == 0 || colours[roles[Foreground].light] == 0 || colours[0x336699] == 0 {
		t.Errorf("no text, or none with a halo: %d colours", len(colours))
	}
}

// TestFinish checks that write errors are returned, and unknown formats refused.
func TestFinish(t *testing.T) {
	for _, f := range []Format{SVG, PNG, PDF} {
		c, err := New(f, Page{Width: 1, Height: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(full{}); !errors.Is(err, errFull) {
			t.Errorf("format %d: %v", f, err)
		}
	}
	if _, err := New(3, Page{}); err == nil {
		t.Error("an unknown format is accepted")
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestPaths checks that Reset removes all lines.
func TestPaths(t *testing.T) {
	p := Rect(0, 0, 10, 10)
	if p.Empty() {
		t.Error("empty")
	}
	p.Reset()
	if !p.Empty() {
		t.Error("not empty")
	}
	c := newSVG(Page{})
	c.buf = nil
	p.Rect(10, 10, 20, 20)
	p.Rect(30, 30, 40, 40)
	c.Fill(p, Look{}, nil)
	if want := "<path d=\"M1 1h1v1h-1zM3 3h1v1h-1z\"/>\n"; !bytes.Equal(c.buf, []byte(want)) {
		t.Errorf("%s", c.buf)
	}
}
