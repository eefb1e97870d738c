package canvas

import (
	"bytes"
	"compress/zlib"
	"io"
	"strings"
	"testing"
)

// drawPDF returns a PDF, and the operators of its page.
func drawPDF(t *testing.T, draw func(Canvas)) (file []byte, operators string) {
	t.Helper()
	c, err := New(PDF, Page{Width: 400, Height: 300, Title: "Peak of 1 GiB \u202e\U0001F600", Desc: "It is high."})
	if err != nil {
		t.Fatal(err)
	}
	draw(c)
	var w bytes.Buffer
	if err := c.Finish(&w); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(w.String(), "stream\n")
	z, err := zlib.NewReader(strings.NewReader(rest))
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return w.Bytes(), string(page)
}

// TestPDF checks that a PDF is the same each time, and has shapes in the colours of their groups, texts, and no shape of an empty path.
func TestPDF(t *testing.T) {
	all := func(c Canvas) {
		c.Group(Look{RGB: 0x336699})
		c.Fill(Rect(100, 50, 200, 150), Look{}, []byte("a tooltip"))
		c.Fill(&Path{}, Look{}, nil)
		c.Fill(Rect(300, 50, 350, 150), Look{RGB: 0xff0000, Hatched: true, Pale: true}, nil)
		c.End()
		c.Fill(Rect(300, 50, 350, 150), Look{Role: Bad, Hollow: true, Edged: true}, nil)
		c.Stroke(Line(0, 200, 400, 200), Pen{Role: Bad, Width: 20, Dashed: true}, nil)
		c.Dot(100, 100, 30, Look{Role: Foreground})
		for _, s := range []string{"GiB", "\x00(\\)\xff", "\U0001F600\uffff\U0010FFFF\u202eمرحبا世界", strings.Repeat("w", 5000), ""} {
			c.Text(Text{X: 60, Y: 240, Anchor: Middle, Turned: true, S: s})
			c.Text(Text{X: 60, Y: 240, Anchor: End, Halo: true, Bold: true, S: s, Aside: s})
			c.Text(Text{X: 60, Y: 240, Halo: true, Role: Chalk, S: s})
		}
	}
	file, page := drawPDF(t, all)
	if again, _ := drawPDF(t, all); !bytes.Equal(file, again) {
		t.Error("the second file differs")
	}
	for _, want := range []string{
		"0.200 0.400 0.600 rg 100 50 m 200 50 l 200 150 l 100 150 l h f ", // of the group
		"W n 20 w 1.000 0.400 0.400 RG ",
		"[20 30] 0 d 20 w 0.753 0.157 0.239 RG 0 200 m 400 200 l S ",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if !bytes.HasPrefix(file, []byte("%PDF-1.")) || len(file) > 100_000 {
		t.Errorf("%d bytes: %.20q", len(file), file)
	}
	if bytes.Contains(file, []byte("/JavaScript")) || bytes.Contains(file, []byte("/URI")) {
		t.Error("the file has actions")
	}
}
