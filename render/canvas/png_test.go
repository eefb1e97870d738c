package canvas

import (
	"bytes"
	"image/png"
	"testing"

	"golang.org/x/image/font"
)

// TestFontsFit checks that texts of a PNG are not wider than their estimated width.
func TestFontsFit(t *testing.T) {
	c, err := newPNG(Page{Width: 10, Height: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []Text{
		{S: "cuda:0 - allocated memory by call site", Size: 16, Bold: true}, {S: "leak: 122 MiB in 80 buffers", Bold: true},
		{S: "peak 217 MiB (227,545,088 B) after 65.2 ms"}, {S: "out of memory: 8.00 MiB requested, 6.00 MiB free", Bold: true},
		{S: "time since the start of the recording (µs)"}, {S: "make_activation", Aside: "leak.py:8"}, {S: "jit(step)/mlp/dot_general f32[8192,3]{1,0:T(8,128)}"},
		{S: "maximum 93.9 %, 479 samples"}, {S: "1152 MiB"},
	} {
		bold := 0
		if text.Bold {
			bold = 1
		}
		s := text.S
		if text.Aside != "" {
			s += " " + text.Aside
		}
		width := font.MeasureString(c.face(text.size(), bold), s).Ceil()
		if have := int(text.Extent()) * dots / 10; width > have {
			t.Errorf("%q is %d dots wide, estimated %d", s, width, have)
		}
	}
}

// TestPNG checks the colours and the places of shapes in a PNG.
func TestPNG(t *testing.T) {
	c, err := New(PNG, Page{Width: 40, Height: 30, Theme: Dark})
	if err != nil {
		t.Fatal(err)
	}
	c.Group(Look{RGB: 0x336699})
	c.Fill(Rect(100, 50, 200, 150), Look{}, nil)
	c.Fill(Rect(300, 50, 350, 150), Look{RGB: 0xd1495b, Hatched: true}, nil)
	c.End()
	c.Stroke(Line(0, 200, 400, 200), Pen{Role: Bad, Width: 20}, nil)
	c.Text(Text{X: 60, Y: 240, Anchor: Middle, Turned: true, S: "W"})
	var w bytes.Buffer
	if err := c.Finish(&w); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&w)
	if err != nil {
		t.Fatal(err)
	}
	at := func(x, y int) RGB {
		r, g, b, _ := img.At(x*dots, y*dots).RGBA()
		return RGB(r>>8)<<16 | RGB(g>>8)<<8 | RGB(b>>8)
	}
	for _, p := range []struct {
		x, y int
		want RGB
	}{{1, 1, 0x0d1117}, {9, 10, 0x0d1117}, {10, 5, 0x336699}, {19, 14, 0x336699}, {20, 10, 0x0d1117}, {30, 20, 0xff7b86}} {
		if got := at(p.x, p.y); got != p.want {
			t.Errorf("%d, %d is %v, want %v", p.x, p.y, got, p.want)
		}
	}
	stripes := map[RGB]bool{}
	for x := 30; x < 35; x++ {
		stripes[at(x, 10)] = true
	}
	if !stripes[0xd1495b] || len(stripes) < 2 {
		t.Errorf("hatched: %v", stripes)
	}
}
