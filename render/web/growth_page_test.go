package web_test

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/figure"
	"github.com/memlane/memlane/render/report"
)

// TestPageGrowth checks what grew in ranges of each kind of capture against the live buffers of the model at both ends.
func TestPageGrowth(t *testing.T) {
	chromium := browser.Start(t)
	for _, shown := range pages[:deep.Or(3, len(pages))] {
		t.Run(shown.format+" "+shown.file, func(t *testing.T) {
			c := open(t, "../../testdata/"+shown.file)
			p := browser.Open(t, chromium, writePage(t, c))
			s := c.Spaces[browser.Eval[int](p, "memlane.space.number")]
			if browser.Eval[string](p, "memlane.axis") == "event" {
				s = selection.ByEvent(s)
			}
			length := s.End - s.Begin
			if length < 2 {
				if browser.Eval[bool](p, "document.querySelector('[data-tab=growth]') !== null") {
					t.Error("one instant has a range")
				}
				return
			}
			for _, r := range [][2]int64{{0, length - 1}, {length / 3, length/3 + length/10 + 1}} {
				checkGrowth(p, c.Capture, s, r[0], r[1])
			}
		})
	}
}

// checkGrowth compares the growth from one time of the window to another with the model.
func checkGrowth(p *browser.Tab, c *lifetime.Capture, s *lifetime.Space, from, to int64) {
	p.T.Helper()
	type row struct {
		Site  lifetime.SiteID
		Bytes int64
	}
	want, wantOf := map[lifetime.SiteID]int64{}, map[string]int64{}
	net := s.StackAt(s.Begin+to) - s.StackAt(s.Begin+from)
	for sign, t := range map[int64]int64{-1: from, 1: to} {
		for _, i := range s.LiveAt(s.Begin + t) {
			b := &s.Buffers[i]
			want[b.Site] += sign * b.Size
			net += sign * b.Size
			for f := range functionsOf(c, s, b.Site) {
				wantOf[f] += sign * b.Size
			}
		}
	}
	maps.DeleteFunc(want, func(_ lifetime.SiteID, bytes int64) bool { return bytes == 0 })
	got := map[lifetime.SiteID]int64{}
	for _, r := range browser.Eval[[]row](p, "memlane.space.growth(%d, %d).filter((r) => !r.category).map((r) => ({Site: r.site, Bytes: r.bytes}))", from, to) {
		got[r.Site] += r.Bytes
	}
	maps.DeleteFunc(got, func(_ lifetime.SiteID, bytes int64) bool { return bytes == 0 })
	if !maps.Equal(got, want) {
		p.T.Errorf("%s from %d to %d: growth by site is %v, want %v", s.ID(), from, to, got, want)
	}
	p.Set("memlane.timeline.from = %d; memlane.timeline.to = %d; memlane.moved(); memlane.function = null; memlane.showTab('growth')", from, to)
	if s.UsageOnly() {
		return // only the total is known
	}
	sums := browser.Eval[[]int64](p, `(() => { const {table, flame} = memlane.current().part; return [table.rows.reduce((sum, r) => sum + r.bytes, 0),
		flame.trees.reduce((sum, tree) => sum + (tree.kind === 'grew' ? 1 : -1) * tree.bytes, 0)]; })()`)
	if sums[0] != net || sums[1] != net {
		p.T.Errorf("%s from %d to %d: the table and the flame graph have %d, want %d", s.ID(), from, to, sums, net)
	}
	for _, f := range slices.Sorted(maps.Keys(wantOf))[:min(len(wantOf), 3)] {
		p.Set("memlane.current().part.flame.choose(%s)", browser.Quote(f))
		if !strings.HasPrefix(p.Text("#panel .note"), f+": ") {
			p.T.Errorf("the graphs of %s say %q", f, p.Text("#panel .note"))
		}
		boxes := browser.Eval[[]int64](p, `(() => { const boxes = [...document.querySelectorAll('.flame .flame-all')].map((b) => [b.title.includes(' shrank · '), Number(b.dataset.bytes)]);
			return [boxes.reduce((sum, [shrank, bytes]) => sum + (shrank ? -bytes : bytes), 0)]; })()`)
		if boxes[0] != wantOf[f] {
			p.T.Errorf("%s from %d to %d: %s grew by %d, want %d", s.ID(), from, to, f, boxes[0], wantOf[f])
		}
	}
}

// functionsOf returns the functions in the folded stack of a site, whatever their lines.
func functionsOf(c *lifetime.Capture, s *lifetime.Space, id lifetime.SiteID) map[string]bool {
	site, all := &c.Sites[id], map[string]bool{}
	stack := site.Stack
	if s.Axis == lifetime.ProgramOrder && site.Source != 0 {
		stack = site.Source
	}
	if site.Unseen {
		return all
	}
	shown, _ := frame.Fold(slices.Collect(c.FramesOf(stack)), func(f *frame.Frame) frame.Kind { return f.Kind })
	for _, f := range shown {
		name := f.Name()
		if f.File != "" {
			name += " (" + path.Base(strings.ReplaceAll(f.File, `\`, "/")) + ")"
		}
		all[name] = true
	}
	return all
}

// TestPageZoomBack checks that Back undoes a zoom by the mouse, by the wheel and by keys, and that a link restores what grew.
func TestPageZoomBack(t *testing.T) {
	chromium := browser.Start(t)
	address := writePage(t, open(t, "../../testdata/torchsnap/leak_4mib_20steps.pickle"))
	p := browser.Open(t, chromium, address)
	p.WaitFor("location.hash !== ''")
	entries := browser.Eval[int](p, "history.length")
	at := browser.Eval[browser.Point](p, "(() => { const b = memlane.view.plot.over.getBoundingClientRect(); return {X: b.left + b.width / 2, Y: b.top + b.height / 2}; })()")
	p.Mouse(browser.Pressed, at, chromedp.ButtonLeft)
	p.Mouse(browser.Moved, browser.Point{X: at.X + 200, Y: at.Y}, chromedp.ButtonLeft)
	p.Mouse(browser.Released, browser.Point{X: at.X + 200, Y: at.Y}, chromedp.ButtonLeft)
	p.WaitFor("location.hash.includes('&from=') && history.length === %d", entries+1)
	brushed := browser.Eval[string](p, "location.hash")
	p.WaitFor("document.querySelector('#range').textContent.includes(' in use (')")
	// In one task: on a busy machine, events of the mouse would come so far apart that they are several turns.
	p.Set("for (let n = 0; n < 3; n++) memlane.view.plot.over.dispatchEvent(new WheelEvent('wheel', "+
		"{deltaY: -120, ctrlKey: true, clientX: %v, clientY: %v, bubbles: true, cancelable: true}))", at.X, at.Y)
	p.WaitFor("history.length === %d", entries+2) // one entry for the turn of a wheel
	p.Set("history.back()")
	p.WaitFor("location.hash === %s && memlane.timeline.from > 0", browser.Quote(brushed))
	if got, want := browser.Eval[string](p, "memlane.space.instant(memlane.timeline.from)"), browser.Eval[string](p, "new URLSearchParams(location.hash.slice(1)).get('from')"); got != want {
		t.Errorf("Back shows the range from %s, want %s", got, want)
	}
	p.Set("history.back()")
	p.WaitFor("!memlane.timeline.zoomed && !document.querySelector('#range button')")

	p.Set("memlane.setTime(50000)")
	p.Do(chromedp.KeyEvent("["))
	p.Set("memlane.setTime(150000)")
	p.Do(chromedp.KeyEvent("]"))
	p.Do(chromedp.KeyEvent("g"))
	p.WaitFor("memlane.tab === 'growth' && memlane.timeline.from === 50000 && memlane.timeline.to === 150000")
	for _, button := range []string{".flame button:last-of-type", "#panel .note button"} { // at once: the panel may be drawn again between two calls
		p.WaitFor("document.querySelector(%s) !== null", browser.Quote(button))
		p.Set("document.querySelector(%s).click()", browser.Quote(button))
	}
	p.WaitFor("location.hash.includes('&function=')")
	shown := p.Text("#panel .note")
	p.Go(address + browser.Eval[string](p, "location.hash"))
	if got := p.Text("#panel .note"); got != shown || !strings.Contains(got, "Callers are above") {
		t.Errorf("the link shows %q, want %q", got, shown)
	}
}

// TestPageMarkdown checks what "Copy as Markdown" copies, and that names of a capture are text in it.
func TestPageMarkdown(t *testing.T) {
	names := []string{"a|b`c", "<img src=x onerror=1>", "@user and #12 and https://example.com www.example.com", "+1 item", "1. item", "::error::x", "##[command]", "a\u202eb\u0000c", `back\slash\@x`, "*bold* _it_ [x](y) ~s~ $m$ !x"}
	p := browser.Open(t, browser.Start(t), writePage(t, open(t, "../../testdata/torchsnap/leak_4mib_20steps.pickle")))
	for _, name := range names {
		p.Set("memlane.space.capture.headline = %s", browser.Quote(name))
		if got, want := strings.Split(browser.Eval[string](p, "memlane.markdown()"), "\n\n")[1], report.Escape(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
	p.Set("memlane.space.capture.headline = 'The answer'; memlane.pin(3)")
	text := browser.Eval[string](p, "memlane.markdown()")
	for _, want := range []string{"**leak\\_4mib\\_20steps.pickle**, cuda:0\n\nThe answer\n\n", "| bytes | share | buffers | allocated by |", "|---:|---:|---:|---|", "| 80.0 MiB | 76.9 % | 20 | make\\_activation (",
		"The pinned buffer was allocated by:\n\n```\n", "View:\n\n```\n#space=cuda:0&buffer=3\n```\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	p.Set("[...document.querySelectorAll('button')].find((b) => b.textContent === 'Copy as Markdown').click()")
	p.WaitFor("[...document.querySelectorAll('button')].some((b) => b.textContent === 'copied')")
	size := browser.Eval[[]int](p, "(() => { memlane.setLayout('stacked'); const c = memlane.view.canvas(), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return [c.width, c.height, ...memlane.options.legend.rows.map((r) => seen.has(parseInt(r.fill.slice(1), 16)) ? 1 : 0)]; })()")
	if size[0] < 800 || size[1] < 500 || slices.Contains(size[2:], 0) {
		t.Errorf("the picture has %d x %d pixels; colours of the legend in it: %v", size[0], size[1], size[2:])
	}
}

// TestPageEvents checks the axis of events against the model's, that it is the default of the captures whose pictures have it, and that a
// link to a range keeps its times on both axes.
func TestPageEvents(t *testing.T) {
	chromium := browser.Start(t)
	files := []string{"torchsnap/oom_observer.pickle", "torchsnap/twodev.pickle", "torchsnap/frag_oom.pickle", "meaning/a17.pickle.zst"}
	for _, file := range files[:deep.Or(2, len(files))] {
		t.Run(file, func(t *testing.T) {
			c := open(t, "../../testdata/"+file)
			address := writePage(t, c)
			p := browser.Open(t, chromium, address)
			s := c.Spaces[browser.Eval[int](p, "memlane.space.number")]
			if got, want := browser.Eval[string](p, "memlane.axis"), map[bool]string{true: "event", false: "time"}[figure.Crowded(s)]; got != want {
				t.Errorf("the axis is %s, want %s", got, want)
			}
			p.Set("const choice = document.querySelector('[data-choice=axis]'); choice.value = 'event'; choice.dispatchEvent(new Event('change'))")
			p.WaitFor("memlane.space.unit === 'event'")
			events := selection.ByEvent(s)
			type times struct {
				Length, Peak      float64
				Begin, End, Marks []float64
			}
			got := browser.Eval[times](p, `(() => { const s = memlane.space; return {Length: s.length, Peak: s.peak, Begin: [...s.begin], End: [...s.end].map((t) => Math.min(t, s.length)),
				Marks: s.marks.flatMap((m) => [m.begin, m.end])}; })()`)
			want := times{Length: float64(events.End), Peak: float64(events.Peak(lifetime.Occupied).At)}
			for i := range events.Buffers {
				want.Begin, want.End = append(want.Begin, float64(events.Buffers[i].Begin)), append(want.End, float64(events.Buffers[i].End))
			}
			for _, m := range events.Marks {
				want.Marks = append(want.Marks, float64(m.Begin), float64(m.End))
			}
			if !slices.Equal(got.Begin, want.Begin) || !slices.Equal(got.End, want.End) || !slices.Equal(got.Marks, want.Marks) || got.Length != want.Length || got.Peak != want.Peak {
				t.Errorf("the page has\n%v, the model\n%v", got, want)
			}
			p.Set("memlane.setTime(3); memlane.timeline.show(2, 12)")
			p.WaitFor("location.hash.includes('&from=')")
			hash := browser.Eval[string](p, "location.hash")
			p.Go(address + hash)
			if got := browser.Eval[[]float64](p, "[memlane.time, memlane.timeline.from, memlane.timeline.to]"); !slices.Equal(got, []float64{3, 2, 12}) {
				t.Errorf("%s shows events %v", hash, got)
			}
			before := browser.Eval[[]string](p, "[memlane.space.instant(memlane.time), memlane.space.instant(memlane.timeline.from), memlane.space.instant(memlane.timeline.to)]")
			p.Set("const choice = document.querySelector('[data-choice=axis]'); choice.value = 'time'; choice.dispatchEvent(new Event('change'))")
			p.WaitFor("memlane.space.unit === 'ns'")
			if got := browser.Eval[[]string](p, "[memlane.space.instant(memlane.time), memlane.space.instant(memlane.timeline.from), memlane.space.instant(memlane.timeline.to)]"); !slices.Equal(got, before) {
				t.Errorf("on the axis of time it shows %v, want %v", got, before)
			}
		})
	}
}
