package web_test

import (
	"bytes"
	"encoding/base64"
	"math"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/render/figure"
	"github.com/memlane/memlane/render/plot"
)

// TestPagePicture: the page shows and saves the picture of memlane svg, and the mouse chooses on it instants and parts of the time.
func TestPagePicture(t *testing.T) {
	chromium := browser.Start(t)
	for _, file := range []string{"torchsnap/leak_4mib_20steps.pickle", "meaning/a17.pickle.zst", "xplane/oom.hlo.pb"} {
		t.Run(file, func(t *testing.T) {
			c := open(t, "../../testdata/"+file)
			var want bytes.Buffer
			var frame plot.Frame
			s := c.Spaces[0]
			if err := figure.Write(&want, c, s, c.Spaces, finding.Find(c, c.Spaces, finding.Settings{}), figure.Options{Frame: &frame}); err != nil {
				t.Fatal(err)
			}
			p := browser.Open(t, chromium, writePage(t, c))
			saved, err := base64.StdEncoding.DecodeString(browser.Eval[string](p, "btoa(String.fromCharCode(...memlane.svg()))"))
			if err != nil || !bytes.Equal(saved, want.Bytes()) {
				t.Errorf("%d bytes are saved, memlane svg writes %d: %v", len(saved), want.Len(), err)
			}
			p.WaitFor("memlane.hero.images.every((image) => image.complete && image.naturalWidth === %f)", frame.Width)
			if shown := browser.Eval[string](p, "[...document.querySelectorAll('.hero img')].filter((i) => i.offsetWidth).map((i) => i.className).join()"); shown != "light" {
				t.Errorf("the page shows the pictures %q", shown)
			}
			pixel := (frame.Right - frame.Left) // where the mouse is on the picture, as a share of its width
			at := func(share float64) browser.Point {
				return browser.Eval[browser.Point](p, `(() => { const box = document.querySelector('.hero').getBoundingClientRect(), scale = box.width / %f;
					return {X: box.left + scale * %f, Y: box.top + scale * %f}; })()`, frame.Width, frame.Left+share*pixel, (frame.Top+frame.Bottom)/2)
			}
			length := browser.Eval[float64](p, "memlane.space.length")
			near := func(name string, got, share float64) {
				t.Helper()
				if math.Abs(got-share*length) > length/100+1 {
					t.Errorf("%s is %f of %f, want the share %f", name, got, length, share)
				}
			}
			p.ClickAt(at(.25))
			near("the time", browser.Eval[float64](p, "memlane.time"), .25)
			mark := browser.Eval[float64](p, "(() => { const box = (q) => document.querySelector(q).getBoundingClientRect(), hero = box('.hero'); return (box('.hero .mark').left - hero.left) / hero.width; })()")
			if want := (frame.Left + .25*pixel) / frame.Width; math.Abs(mark-want) > .01 {
				t.Errorf("the time is marked at %f of the picture, want %f", mark, want)
			}
			p.Mouse(browser.Pressed, at(.5), chromedp.ButtonLeft, chromedp.ClickCount(1))
			p.Mouse(browser.Moved, at(.6), chromedp.ButtonLeft)
			p.Mouse(browser.Moved, at(.75), chromedp.ButtonLeft)
			p.Mouse(browser.Released, at(.75), chromedp.ButtonLeft, chromedp.ClickCount(1))
			near("the beginning", browser.Eval[float64](p, "memlane.timeline.from"), .5)
			near("the end", browser.Eval[float64](p, "memlane.timeline.to"), .75)
			p.Set("memlane.toggleTheme()")
			if shown := browser.Eval[string](p, "[...document.querySelectorAll('.hero img')].filter((i) => i.offsetWidth).map((i) => i.className).join()"); shown != "dark" {
				t.Errorf("the dark page shows the pictures %q", shown)
			}
		})
	}
}

// TestPageRemedy: a click on what would lower the peak draws the bytes in use with it over the picture, inside of its plot; a second click removes it.
func TestPageRemedy(t *testing.T) {
	p := browser.Open(t, browser.Start(t), writePage(t, open(t, "../../testdata/meaning/a17.pickle.zst")))
	n := browser.Eval[int](p, "document.querySelectorAll('.outlines').length")
	if n < 3 {
		t.Fatalf("%d changes can be drawn", n)
	}
	for i := range n {
		p.Set("document.querySelectorAll('.outlines')[%d].click()", i)
		got := browser.Eval[struct{ Lines, Pressed, Wrong int }](p, `(() => {
			const {space} = memlane, {picture} = space, saving = space.savings[%d];
			return {Lines: document.querySelectorAll('.hero .outline').length, Pressed: document.querySelectorAll('.outlines[aria-pressed=true]').length,
				Wrong: saving.line.length === 240 && saving.line.every((y) => y <= picture.bottom + .1 && y >= picture.top - .1) && document.querySelector('.hero .outline').viewBox.baseVal.width === picture.width ? 0 : 1};
		})()`, i)
		if got.Lines != 1 || got.Pressed != 1 || got.Wrong != 0 {
			t.Errorf("change %d: %+v", i, got)
		}
	}
	p.Set("document.querySelectorAll('.outlines')[%d].click()", n-1)
	if browser.Eval[bool](p, "document.querySelector('.hero .outline') !== null") {
		t.Error("a second click leaves the line")
	}
}

// TestPageWithoutLeaks: beside its leaks, the page says what the peak would be without them, as memlane leaks does.
func TestPageWithoutLeaks(t *testing.T) {
	p := browser.Open(t, browser.Start(t), writePage(t, open(t, "../../testdata/whatif/leak.pickle.zst")))
	if got := p.Text(".without"); !strings.HasPrefix(got, "Without these leaks, the peak of cuda:0 would be ") || !strings.HasSuffix(got, ", not 191 MiB.") {
		t.Errorf("the page says %q", got)
	}
}
