package render_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/blocks"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/chart"
)

// margin is the room around a picture in the page of a test, in pixels. Texts that extend
// beyond the picture are visible there.
const margin = 40

// textsOnly shows only the texts of a picture, each half transparent. Overlapping texts are
// darker than single ones.
const textsOnly = `<style>body{margin:0;background:#fff}div{padding:40px}svg{display:block;overflow:visible}
.memlane path,.memlane circle{visibility:hidden}
.memlane text{opacity:.5}.memlane text,.memlane tspan{fill:#000!important;stroke:none!important}</style>`

// look opens a page in the browser and returns a screenshot.
func look(t *testing.T, chromium context.Context, html string, width, height int) image.Image {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte("<!DOCTYPE html><meta charset=utf-8>"+html), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(chromium, chromedp.EmulateViewport(int64(width), int64(height)), chromedp.Navigate("file://"+file)); err != nil {
		t.Fatal(err)
	}
	shot, err := chromedp.Call(chromium, page.CaptureScreenshot, page.CaptureScreenshotParams{OptimizeForSpeed: new(true)})
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// drawnPicture is an SVG and its size in pixels.
type drawnPicture struct {
	svg           string
	width, height int
}

// fault counts the dots of misplaced texts of a picture.
type fault struct {
	double  int // of overlapping texts
	outside int // of texts outside the picture
	all     int // of all texts
}

// faults checks the texts of pictures, which are below each other on one page.
func faults(t *testing.T, chromium context.Context, pictures []drawnPicture) (found []fault) {
	t.Helper()
	html, width, height := textsOnly, 0, 0
	for _, p := range pictures {
		html += "<div>" + p.svg + "</div>"
		width, height = max(width, p.width+2*margin), height+p.height+2*margin
	}
	img := look(t, chromium, html, width, height)
	page := image.NewRGBA(img.Bounds())
	draw.Draw(page, page.Rect, img, image.Point{}, draw.Src)
	top := 0
	for _, p := range pictures {
		var f fault
		inside := image.Rect(margin, top+margin, margin+p.width, top+margin+p.height)
		for y := top; y < top+p.height+2*margin; y++ {
			for x := range width {
				switch ink := 255 - int(page.Pix[page.PixOffset(x, y)]); {
				case ink < 8:
					continue
				case !image.Pt(x, y).In(inside):
					f.outside++
				case ink > 140: // one text has 128
					f.double++
				}
				f.all++
			}
		}
		top += p.height + 2*margin
		found = append(found, f)
	}
	return found
}

// picture is one picture of a capture.
type picture struct {
	name string
	draw func(w io.Writer, width int) error
}

// pictures are all pictures of the space of a file that svg chooses, alone and compared
// with another capture.
func pictures(t *testing.T, file string) (list []picture) {
	t.Helper()
	c, err := judged.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := selection.Largest(c.Spaces)
	if s == nil {
		s = c.Spaces[0]
	} else {
		marks := finding.MarksOf([]finding.Finding{{Rule: "leak", Kind: finding.KindLeak, Severity: finding.Warning, Space: s, Sites: []lifetime.SiteID{s.Buffers[len(s.Buffers)/2].Site},
			Amount: lifetime.Amount{Count: 1234, Bytes: 5 << 28}}})
		for name, o := range map[string]blocks.Options{
			"stacked": {Marks: marks}, "address": {Layout: blocks.Address, Color: blocks.ByCategory}, "few": {MaxBlocks: 3, Color: blocks.ByLeak, Marks: marks},
		} {
			if o.Layout == blocks.Address && s.Facts&lifetime.Addresses == 0 {
				continue
			}
			list = append(list, picture{name, func(w io.Writer, width int) error { o.Width = width; return blocks.Write(w, c, s, o) }})
		}
		list = append(list, picture{"peak", func(w io.Writer, width int) error {
			return chart.Peak(w, c.Capture, s, "", chart.Options{Width: width})
		}})
	}
	list = append(list, picture{"usage", func(w io.Writer, width int) error { return chart.Usage(w, c, s, chart.Options{Width: width}) }})
	other, err := judged.Open(withSteps, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	d := diff.Compare(other, c)
	list = append(list, picture{"diff", func(w io.Writer, width int) error { return chart.Diff(w, d, d.Main(), chart.Options{Width: width}) }})
	return append(list, picture{"multiples", func(w io.Writer, width int) error {
		var panels []*chart.Miniature
		for i := range 11 {
			m, err := chart.NewMiniature(strings.Repeat("rank 1234567890 ", i), s)
			if err != nil {
				return err
			}
			if i%3 == 0 {
				m.Outlier = "leaked bytes"
			}
			panels = append(panels, m)
		}
		return chart.Multiples(w, "ranks", panels, 5, chart.Options{Width: width})
	}})
}

// pictured are captures with long names, failed allocations, usage only, steps, a stack outside
// the heap, and bytes from before the window.
var pictured = []string{
	"../testdata/torchsnap/frag_oom.pickle", "../testdata/xplane/jax_train.jit_train_step.hlo.pb", "../testdata/gpumemprof/both.json",
	withSteps, "../testdata/xplane/tf_leak.xplane.pb", "../testdata/xplane/tf_oom.xplane.pb", "../testdata/xplane/oom.hlo.pb",
	"../testdata/chrome/cpu_leak.json.gz", "../testdata/native/runtime.native",
}

const withSteps = "../testdata/torchsnap/leak_loss.pickle"

// TestTextsOnScreen checks in a browser that texts of a picture do not overlap and are
// inside the picture.
func TestTextsOnScreen(t *testing.T) {
	chromium := browser.Start(t)
	bad := drawnPicture{`<svg class="memlane" width="200" height="90"><text x="20" y="30">some text</text><text x="50" y="32">another</text><text x="180" y="60">outside</text></svg>`, 200, 90}
	if f := faults(t, chromium, []drawnPicture{bad})[0]; f.double < 20 || f.outside < 50 || f.all < 200 {
		t.Fatalf("overlapping and outside texts are measured as %+v", f)
	}
	widths := []int{600, 1000}
	for _, file := range pictured[:deep.Or(3, len(pictured))] {
		var drawn []drawnPicture
		var names []string
		for _, p := range pictures(t, file) {
			for _, width := range widths {
				var w bytes.Buffer
				if err := p.draw(&w, width); err != nil {
					t.Fatal(err)
				}
				_, size, _ := strings.Cut(w.String(), ` height="`)
				height := 0
				if _, err := fmt.Sscanf(size, `%d"`, &height); err != nil {
					t.Fatal(err)
				}
				drawn, names = append(drawn, drawnPicture{w.String(), width, height}), append(names, fmt.Sprintf("%s, %d px", p.name, width))
			}
		}
		for i, f := range faults(t, chromium, drawn) {
			if f.double > 0 || f.outside > 0 || f.all < 1000 {
				t.Errorf("%s, %s: dots of texts: %+v", file, names[i], f)
			}
		}
	}
}

// TestSamePicture checks that the PNG has the same areas as the SVG in a browser. Texts may
// differ because the fonts do.
func TestSamePicture(t *testing.T) {
	chromium := browser.Start(t)
	c, err := judged.Open("../testdata/torchsnap/leak_loss.pickle", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := selection.Largest(c.Spaces)
	for _, theme := range []canvas.Theme{canvas.Auto, canvas.Light, canvas.Dark} {
		var drawn [2]image.Image
		for i, format := range []canvas.Format{canvas.SVG, canvas.PNG} {
			var w bytes.Buffer
			if err := blocks.Write(&w, c, s, blocks.Options{Format: format, Theme: theme}); err != nil {
				t.Fatal(err)
			}
			if format == canvas.PNG {
				drawn[i], err = png.Decode(&w)
			} else {
				drawn[i] = look(t, chromium, "<style>body{margin:0}svg{display:block}</style>"+w.String(), 960, 420)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		differ := 0
		for y := range 420 {
			for x := range 960 {
				r, g, b, _ := drawn[0].At(x, y).RGBA()
				r2, g2, b2, _ := drawn[1].At(2*x, 2*y).RGBA()
				if max(r, r2)-min(r, r2) > 0x4000 || max(g, g2)-min(g, g2) > 0x4000 || max(b, b2)-min(b, b2) > 0x4000 {
					differ++
				}
			}
		}
		if differ > 960*420*6/100 { // texts, edges and stripes
			t.Errorf("theme %v: %d of %d dots differ", theme, differ, 960*420)
		}
	}
}

// TestOpens prints the times of a browser for pictures of many buffers (with MEMLANE_DEEP 100,000) and an empty one.
func TestOpens(t *testing.T) {
	chromium := browser.Start(t)
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "many"})
	ref := b.Space()
	b.Describe(ref, lifetime.SpaceInfo{Device: "cuda:0", Axis: lifetime.Time})
	const live = 200
	n := int64(deep.Or(20_000, 100_000))
	for i := range n {
		if i >= live {
			b.Free(ref, 10*i, build.Block{Addr: uint64(i%live) << 24, Requested: (i-live)%97*4096 + 512, Occupied: (i-live)%97*4096 + 512})
		}
		b.Alloc(ref, 10*i+5, build.Block{Addr: uint64(i%live) << 24, Requested: i%97*4096 + 512, Occupied: i%97*4096 + 512})
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, layout := range []string{"empty", "stacked", "address"} {
		var w bytes.Buffer
		w.WriteString(`<svg xmlns="http://www.w3.org/2000/svg"/>`)
		if layout != "empty" {
			w.Reset()
			if err := blocks.Write(&w, judge.Of(c), c.Spaces[0], blocks.Options{Layout: map[string]blocks.Layout{"address": blocks.Address}[layout]}); err != nil {
				t.Fatal(err)
			}
		}
		if w.Len() > 2e6 {
			t.Errorf("%s: %d bytes", layout, w.Len())
		}
		file := filepath.Join(dir, layout+".svg")
		if err := os.WriteFile(file, w.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := chromedp.Do(chromium, chromedp.Navigate("file://"+file)); err != nil {
			t.Fatal(err)
		}
		if _, err := chromedp.Call(chromium, page.CaptureScreenshot, page.CaptureScreenshotParams{}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes, shown after %v", layout, w.Len(), time.Since(start))
	}
}
