package web_test

import (
	"bytes"
	"encoding/base64"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/whatif"
	"github.com/memlane/memlane/render/figure"
	"github.com/memlane/memlane/render/plot"
	"github.com/memlane/memlane/render/text"
)

// TestPagePicture: the page shows and saves the picture of memlane svg, and the mouse chooses on it instants and parts of the time.
func TestPagePicture(t *testing.T) {
	chromium := browser.Start(t)
	files := []string{"torchsnap/leak_4mib_20steps.pickle", "xplane/oom.hlo.pb", "meaning/a17.pickle.zst"}
	for _, file := range files[:deep.Or(2, len(files))] {
		t.Run(file, func(t *testing.T) {
			c := open(t, "../../testdata/"+file)
			var want bytes.Buffer
			var frame plot.Frame
			s := c.Spaces[0]
			if err := figure.Write(&want, c, s, c.Spaces, figure.Options{Title: func(byCategory bool) string { return text.Title(c, s, byCategory) }, Frame: &frame}); err != nil {
				t.Fatal(err)
			}
			p := browser.Open(t, chromium, writePage(t, c))
			saved, err := base64.StdEncoding.DecodeString(browser.Eval[string](p, "btoa(String.fromCharCode(...memlane.svg()))"))
			if err != nil || !bytes.Equal(saved, want.Bytes()) {
				t.Errorf("%d bytes are saved, memlane svg writes %d: %v", len(saved), want.Len(), err)
			}
			p.WaitFor("memlane.view.images.every((image) => image.complete && image.naturalWidth === %f)", frame.Width)
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

// TestPageTries: what people try first says, draws and marks on the page what memlane whatif predicts, and nothing for the recording.
func TestPageTries(t *testing.T) {
	c := open(t, "../../testdata/meaning/a17.pickle.zst")
	p := browser.Open(t, browser.Start(t), writePage(t, c))
	names := []string{""}
	higher := false
	for r := range answer.TriesOf(c, c.Spaces[0]) {
		names = append(names, strings.Join(r.Edits, ","))
	}
	if len(names) < 6 {
		t.Fatalf("changes to try: %v", names)
	}
	p.WaitFor("document.querySelectorAll('.switches option').length === %d", len(names))
	choose := "(() => { const s = document.querySelector('.switches select'); s.value = %d; s.dispatchEvent(new Event('change')); })()"
	engine, _ := c.WhatIf(c.Spaces[0])
	for i, edits := range append(names, "") {
		p.Set(choose, i%len(names))
		got, lines := p.Text(".switches [role=status]"), browser.Eval[int](p, "document.querySelectorAll('.hero .outline').length")
		lit := browser.Eval[[]int](p, "[...(memlane.options.lit ?? []).keys()].filter((i) => memlane.options.lit[i])")
		if edits == "" {
			if got != "" || lines != 0 || len(lit) > 0 {
				t.Errorf("of the recording, it says %q with %d lines and %d buffers", got, lines, len(lit))
			}
			continue
		}
		scenario, err := whatif.Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		if want := predicted(t, c.Capture, scenario); !strings.Contains(got, want) || lines != 1 {
			t.Errorf("%v: it says %q with %d lines, want %q", edits, got, lines, want)
		}
		if want := engine.Changes(scenario); !slices.Equal(lit, want) {
			t.Errorf("%v: it marks %d buffers, want %d", edits, len(lit), len(want))
		}
		// All of the line is inside, on the scale of the picture.
		high := browser.Eval[[]float64](p, "(() => { const svg = document.querySelector('.hero .outline'), ys = [...svg.querySelector('polyline').points].map((q) => q.y); return [Math.min(...ys), svg.viewBox.baseVal.y, memlane.space.picture.top]; })()")
		if higher = higher || high[0] < high[2]; high[0] < high[1] {
			t.Errorf("%v: the line is cut off: %v", edits, high)
		}
	}
	if !higher {
		t.Error("no change is higher than the picture")
	}
	p.Set(choose, 1)
	p.Set("document.querySelector('.outlines').click()")
	if left := browser.Eval[string](p, "document.querySelector('.switches select').value"); left != "0" {
		t.Errorf("with another change, the first one stays: %s", left)
	}
}

// TestPageDrawsWhatItSays: the highest level of the line of a change is the peak that the page says, to a pixel, also where only one step was recorded and
// where memory ran out: the changes lower one figure, which is that of memlane whatif.
func TestPageDrawsWhatItSays(t *testing.T) {
	chromium := browser.Start(t)
	for file, of := range map[string]struct{ base, unchanged string }{
		"whatif/one_step": {"318 MiB", "The next step will need about 318 MiB: only one step was recorded"}, "whatif/cut_second": {"318 MiB", "The next step will need about 318 MiB"},
		"whatif/retry":     {"286 MiB", "With the request that failed the program needs 286 MiB: all changes are with it; until the recording ends, in the middle of a pass"},
		"whatif/gpt_small": {"313 MiB", ""}, "meaning/a17": {"417 MiB", ""},
	} {
		c := open(t, "../../testdata/"+file+".pickle.zst")
		p := browser.Open(t, chromium, writePage(t, c))
		p.WaitFor("document.querySelectorAll('.switches option').length > 4")
		if note := browser.Eval[string](p, "document.querySelector('.lower > .note')?.textContent ?? ''"); !strings.HasPrefix(p.Text(".lower li"), of.base+" → ") || !strings.HasPrefix(note, of.unchanged) || (note == "") != (of.unchanged == "") {
			t.Errorf("%s: unchanged it needs %q, the page says %q and %q", file, of, note, p.Text(".lower li"))
		}
		wrong := browser.Eval[[]string](p, `(async () => {
			const {space} = memlane, {picture: {ceiling, top, bottom}} = space, tries = await space.tried();
			const pixel = ceiling / (bottom - top), drawn = (s) => (bottom - Math.min(...s.line)) * pixel;
			return [...space.savings, ...tries].filter((s) => drawn(s) < s.low - pixel || drawn(s) > s.high + pixel).map((s) => s.change + ': ' + drawn(s) + ' B are drawn, of ' + s.peak);
		})()`)
		for _, of := range wrong {
			t.Errorf("%s: %s", file, of)
		}
	}
}

// predicted returns the peak of a changed program in words, as memlane whatif says it.
func predicted(t *testing.T, c *lifetime.Capture, scenario whatif.Scenario) string {
	spaces, err := answer.WhatIfOf(judge.Of(c), answer.WhatIfAsked{Scenarios: []whatif.Scenario{scenario}})
	if err != nil {
		t.Fatal(err)
	}
	words, _ := text.Saving(&spaces[0].Scenarios[1])
	return words
}

// TestPageWithoutLeaks: beside its leaks, the page says what the peak would be without them, as memlane leaks does.
func TestPageWithoutLeaks(t *testing.T) {
	p := browser.Open(t, browser.Start(t), writePage(t, open(t, "../../testdata/whatif/leak.pickle.zst")))
	if got := p.Text(".without"); !strings.HasPrefix(got, "Without these leaks, the peak of cuda:0 would be ") || !strings.HasSuffix(got, ", not 191 MiB.") {
		t.Errorf("the page says %q", got)
	}
}

// TestPageLeaks: the page hatches the buffers that findings keep, as pictures do, also where no buffer has a category.
func TestPageLeaks(t *testing.T) {
	chromium := browser.Start(t)
	for _, file := range []string{"xplane/tf_leak.xplane.pb", "torchsnap/leak_4mib_20steps.pickle", "whatif/leak.pickle.zst"} {
		c := fresh(t, "../../testdata/"+file)
		found := c.Findings()
		for i := range found {
			found[i].Kept = found[i].Kept[:len(found[i].Kept)/2] // the site holds others, too
		}
		p := browser.Open(t, chromium, writePage(t, c))
		p.Set("memlane.setColor('leak')")
		id := browser.Eval[string](p, "memlane.space.id")
		s := c.Spaces[slices.IndexFunc(c.Spaces, func(s *lifetime.Space) bool { return s.ID() == id })]
		want := finding.MarksOf(found).Leaking(s)
		got := browser.Eval[[]int](p, "(() => { const {legend} = memlane.options; return [...legend.classes.keys()].filter((i) => legend.rows[legend.classes[i]].leak); })()")
		if len(want) == 0 || len(want) == len(s.Buffers) || !slices.Equal(got, want) {
			t.Errorf("%s: %d buffers are hatched, findings keep %d of %d", file, len(got), len(want), len(s.Buffers))
		}
	}
}

// TestPictureIsPage: at 200 instants, the SVG and the buffers that the page draws in its place have the same level, and by category the same colours at ten
// heights of it.
func TestPictureIsPage(t *testing.T) {
	chromium := browser.Start(t)
	files := []string{"meaning/a17.pickle.zst", "failures/ahead.pickle.zst", "torchsnap/leak_4mib_20steps.pickle", "meaning/a11.pickle.zst", "xplane/oom.hlo.pb"}
	for _, file := range files[:deep.Or(3, len(files))] {
		t.Run(file, func(t *testing.T) {
			p := browser.Open(t, chromium, writePage(t, open(t, "../../testdata/"+file)))
			p.Set("memlane.setLayout('stacked')")
			p.WaitFor("memlane.view.raster !== null && memlane.view.images[0].complete")
			if wrong := browser.Eval[string](p, "%s", differences); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

const differences = `(() => {
	const {view, options: {legend}, color} = memlane, {raster, frame} = view, canvas = document.createElement('canvas'), {width, height} = frame, {left, right, top, bottom} = frame;
	canvas.width = width;
	canvas.height = height;
	const ctx = canvas.getContext('2d', {willReadFrequently: true});
	ctx.drawImage(view.images[0], 0, 0, width, height);
	const {data} = ctx.getImageData(0, 0, width, height), rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16)), fills = legend.rows.map((row) => rgb(row.fill));
	const isClass = (x, y, k) => fills[k].every((v, c) => Math.abs(v - data[4 * (Math.round(y) * width + Math.round(x)) + c]) < 24);
	const anyClass = (x, y) => fills.some((_, k) => isClass(x, y, k));
	const isDrawn = (x, y) => [0, 1, 2].some((c) => data[4 * (Math.round(y) * width + Math.round(x)) + c] < 190); // narrow ones are all edge; the grid is paler
	const near = (x, y, by, test) => { for (let dx = -by; dx <= by; dx++) for (let dy = -by; dy <= by; dy++) if (test(x + dx, y + dy)) return true; return false; };
	const wrong = [];
	for (let n = 0; n < 200; n++) {
		const share = (n + .5) / 200, x = left + share * (right - left), column = Math.floor(share * raster.width);
		const columns = [-3, -2, -1, 0, 1, 2, 3].map((d) => column + d).filter((c) => c >= 0 && c < raster.width); // one of the SVG is two pixels wide and shows its highest level
		const topOf = (columns) => { let row = 0; while (row < raster.height && columns.every((c) => raster.pixels[row * raster.width + c] < 0)) row++; return row; };
		const row = topOf([column]);
		if (row === raster.height) continue;
		const at = (row) => top + (row + .5) / raster.height * (bottom - top), y = at(row);
		if (!near(x, y + 1, 3, isDrawn)) wrong.push('no buffer at the top of instant ' + n);
		let above = 0;
		for (let up = 6; at(topOf(columns)) - up > top; up++) if ([-2, -1, 0, 1, 2].every((dx) => anyClass(x + dx, at(topOf(columns)) - up))) above++;
		if (above > 2) wrong.push('buffers above the top of instant ' + n);
		for (let k = 1; color === 'category' && k < 10; k++) {
			const r = row + Math.floor(k / 10 * (raster.height - row)), id = raster.pixels[r * raster.width + column];
			const high = [-3, 3].every((d) => legend.classes[raster.pixels[(r + d) * raster.width + column]] === legend.classes[id]); // else it may be too thin to see
			if (id >= 0 && high && !near(x, at(r), 4, (x, y) => isClass(x, y, legend.classes[id]))) wrong.push(legend.rows[legend.classes[id]].name + ' is not at height ' + k + ' of instant ' + n);
		}
	}
	return wrong.length > 2 ? wrong.length + ' differences: ' + wrong.slice(0, 5).join('; ') : '';
})()`
