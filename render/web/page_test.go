package web_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/web"
)

// pages are captures of each format, and one to compare with. The first have each kind of axis once.
var pages = []struct{ format, file, other string }{
	{"torch-snapshot", "torchsnap/frag_oom.pickle", "torchsnap/frag_oom_observer.pickle"},
	{"hlo", "xplane/padded.hlo.pb", "xplane/oom.hlo.pb"},
	{"gpumemprof", "gpumemprof/both.json", "gpumemprof/spike.json"},
	{"jaxprof", "jaxprof/leak_before.memory.prof", "jaxprof/leak_after.memory.prof"},
	{"torch-snapshot", "torchsnap/twodev.pickle", "torchsnap/t215_twodev.pickle"},
	{"xplane", "xplane/tf_leak.xplane.pb", "xplane/tf_graph.xplane.pb"},
	{"chrome-trace", "chrome/cuprof_leak.json.gz", "chrome/t215_cuprof_leak.json.gz"},
	{"hlo-text", "xplane/padded.buffer-assignment.txt", "xplane/oom.buffer-assignment.txt"},
	{"oom-text", "oomtext/bfc_frag.log", "oomtext/bfc_full.log"},
	{"native", "native/runtime.native", "torchsnap/twodev.native"},
}

// cached holds captures by their files, and pages by their captures: they are made once for all tests.
var cached sync.Map

// once returns what make returned for a key.
func once[T any](t *testing.T, key any, make func() (T, error)) T {
	t.Helper()
	found, _ := cached.LoadOrStore(key, sync.OnceValues(make))
	v, err := found.(func() (T, error))()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// open returns the capture in a file. Tests share it, and must not change it.
func open(t *testing.T, file string) *judge.Capture {
	t.Helper()
	return once(t, file, func() (*judge.Capture, error) { return judged.Open(file, formats.Input{}) })
}

// fresh returns the capture in a file for a test that changes it.
func fresh(t *testing.T, file string) *judge.Capture {
	t.Helper()
	c, err := judged.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// writePage writes the page of captures and returns its address.
func writePage(t *testing.T, captures ...*judge.Capture) string {
	t.Helper()
	var key [3]*judge.Capture // as pointers, so that no other capture gets the address of one
	if copy(key[:], captures) < len(captures) {
		t.Fatal("too many captures for a page")
	}
	html := once(t, key, func() ([]byte, error) {
		var html bytes.Buffer
		err := web.Write(&html, captures)
		return html.Bytes(), err
	})
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, html, 0o666); err != nil {
		t.Fatal(err)
	}
	return "file://" + file
}

// TestPages uses the page in a real browser. How it works with the mouse does not depend on the format, but on the axis.
func TestPages(t *testing.T) {
	chromium, used := browser.Start(t), map[string]bool{}
	for _, shown := range pages[:deep.Or(5, len(pages))] {
		t.Run(shown.format+" "+shown.file, func(t *testing.T) {
			c, other := open(t, "../../testdata/"+shown.file), open(t, "../../testdata/"+shown.other)
			p := browser.Open(t, chromium, writePage(t, c, other))
			info := answer.InfoOf(c.Outline())
			if info.Format != shown.format {
				t.Errorf("a capture of %s", info.Format)
			}
			checkSelectors(p, info)
			for _, s := range info.Spaces {
				p.Set("location.hash = %s", browser.Quote("space="+url.QueryEscape(s.ID)))
				p.WaitFor("memlane.space.id === %s", browser.Quote(s.ID))
				checkFigures(p, s)
				checkBreakdown(p, c.Capture, s)
			}
			busiest := slices.MaxFunc(info.Spaces, func(a, b answer.Space) int { return cmp.Compare(len(a.Facts), len(b.Facts)) })
			p.Set("location.hash = %s", browser.Quote("space="+url.QueryEscape(busiest.ID)))
			p.WaitFor("memlane.space.id === %s", browser.Quote(busiest.ID))
			if kind := fmt.Sprint(busiest.Axis, busiest.UsageOnly); !used[kind] && !endOnly(busiest) {
				used[kind] = true
				checkTable(p)
				checkTime(p)
				if !busiest.UsageOnly {
					checkBlocks(p, busiest)
				}
				checkZoom(p)
			}
			checkReaders(p)
			checkFindings(p)
			checkCompare(p)
		})
	}
}

// endOnly reports whether only what was alive at the end of s was recorded.
func endOnly(s answer.Space) bool {
	return !s.UsageOnly && s.Axis != "program order" && s.Allocations+s.Frees == 0 && !slices.Contains(s.Facts, "history")
}

// checkSelectors chooses every memory ID with the selectors.
func checkSelectors(p *browser.Tab, info answer.Capture) {
	p.T.Helper()
	for _, s := range info.Spaces {
		p.Set(`const space = memlane.captures[0].spaces.find((s) => s.id === %s);
			for (const part of ['host', 'process', 'module', 'memory']) {
				const select = document.querySelector('[data-part="' + {host: 'host', process: 'rank or process', module: 'module', memory: 'memory space'}[part] + '"]');
				if (!select || select.value === space[part]) continue;
				select.value = space[part];
				select.dispatchEvent(new Event('change'));
				for (let n = 0; memlane.space[part] !== space[part] && n < 300; n++) await new Promise((done) => setTimeout(done, 10));
			}`, browser.Quote(s.ID))
		p.WaitFor("memlane.space.id === %s", browser.Quote(s.ID))
		figure := "peak"
		if endOnly(s) {
			figure = "live"
		}
		if got, want := p.Text("[data-figure="+figure+"]"), units.Bytes(s.Peak.Bytes); got != want {
			p.T.Errorf("%s: with the selectors, the peak reads %q, want %q", s.ID, got, want)
		}
	}
}

// checkFigures compares the summary and the curve with info --json.
func checkFigures(p *browser.Tab, s answer.Space) {
	p.T.Helper()
	want := map[string]string{"peak": units.Bytes(s.Peak.Bytes), "live": units.Bytes(s.EndBytes)}
	if endOnly(s) {
		delete(want, "peak")
	}
	if s.LimitBytes != nil {
		want["capacity"] = units.Bytes(*s.LimitBytes)
	}
	if s.LifetimePeakBytes != nil {
		want["lifetime peak"] = units.Bytes(*s.LifetimePeakBytes)
	}
	if !s.UsageOnly && s.Axis != "program order" {
		want["allocations"] = units.Count(int64(s.Allocations))
	}
	p.Set("memlane.showTab('capture')") // it has the figures that are not on top
	for name, value := range want {
		if got := p.Text(`[data-figure="` + name + `"]`); got != value {
			p.T.Errorf("%s: %s reads %q, want %q", s.ID, name, got, value)
		}
	}
	p.Set("memlane.showTab('sites')")
	curve := browser.Eval[struct{ Peak, Requested, End, At float64 }](p, `(() => {
		const {curve, peak, length, levelAt} = memlane.space;
		let most = 0;
		for (const v of curve.requested) most = Math.max(most, v);
		return {Peak: curve.bytes[memlane.space.levelAt(peak)] || 0, Requested: most, End: curve.bytes[memlane.space.levelAt(length - 1)] || 0, At: Number(memlane.space.instant(peak))};
	})()`)
	if int64(curve.Peak) != s.Peak.Bytes || int64(curve.Requested) != s.Peak.RequestedBytes || math.Abs(curve.At-float64(s.Peak.At)) > 512 {
		p.T.Errorf("%s: the curve has its peak of %.0f (%.0f requested) at %.0f; info says %+v", s.ID, curve.Peak, curve.Requested, curve.At, s.Peak)
	}
	if int64(curve.End) != s.EndBytes {
		p.T.Errorf("%s: the curve ends at %.0f, info says %d", s.ID, curve.End, s.EndBytes)
	}
}

// pageRow is a row of the breakdown table.
type pageRow struct {
	Bytes, Requested, Count int64
}

// checkBreakdown compares the breakdown table with memlane peak at the peak and at the end.
func checkBreakdown(p *browser.Tab, c *lifetime.Capture, s answer.Space) {
	p.T.Helper()
	for _, at := range []string{"peak", "end"} {
		p.Set("memlane.setTime(%s)", map[string]string{"peak": "memlane.space.peak", "end": "memlane.space.length - 1"}[at])
		got := browser.Eval[[]pageRow](p, `memlane.tabs[0].part.rows.map((r) => ({Bytes: r.bytes, Requested: r.requested, Count: r.count}))`)
		i := slices.IndexFunc(c.Spaces, func(space *lifetime.Space) bool { return space.ID() == s.ID })
		instant, err := selection.AtPeak.In("", c.Spaces[i])
		if at == "end" {
			instant, err = selection.AtEnd.In("", c.Spaces[i])
		}
		if err != nil {
			p.T.Fatal(err)
		}
		var want []pageRow
		for _, r := range answer.PeakOf(&c.Tables, c.Spaces[i], instant).Places {
			want = append(want, pageRow{r.Bytes, r.Requested, r.Count})
		}
		first := want[:min(len(want), 1)]
		byFigures := func(x, y pageRow) int { // rows of equal bytes are in any order
			return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(y.Requested, x.Requested), cmp.Compare(y.Count, x.Count))
		}
		slices.SortFunc(got, byFigures)
		if want = slices.SortedFunc(slices.Values(want), byFigures); !slices.Equal(got, want) {
			p.T.Errorf("%s at %s: the table has\n%v\nthe answer has\n%v", s.ID, at, got, want)
		}
		if len(want) == 0 {
			continue
		}
		if shown := p.Text("#panel tbody tr:not(.space) td"); shown != units.Bytes(first[0].Bytes) {
			p.T.Errorf("%s at %s: the first row reads %q, want %q", s.ID, at, shown, units.Bytes(first[0].Bytes))
		}
	}
	p.Set("memlane.setTime(memlane.space.peak)")
	checkCategories(p, c, s)
}

// checkCategories compares the sums by category at the peak with memlane peak.
func checkCategories(p *browser.Tab, c *lifetime.Capture, s answer.Space) {
	p.T.Helper()
	type sum struct {
		Name  string
		Bytes int64
	}
	of := map[string]int64{}
	for _, row := range browser.Eval[[]sum](p, `memlane.space.breakdown(memlane.space.peak).map((r) => ({Name: memlane.space.categoryOf(r) || "unknown", Bytes: r.bytes}))`) {
		of[purpose.Words(row.Name)] += row.Bytes
	}
	for _, part := range s.AtPeak.Categories {
		if name := purpose.Words(part.Name); part.Bytes != of[name] {
			p.T.Errorf("%s: %d B of %s, memlane info has %d B", s.ID, of[name], name, part.Bytes)
		}
	}
}

// checkTable sorts by a column and searches.
func checkTable(p *browser.Tab) {
	p.T.Helper()
	column := func(n int) []float64 {
		return browser.Eval[[]float64](p, "memlane.tabs[0].part.shown.map((r) => memlane.tabs[0].part.columns[%d].value(r))", n)
	}
	if !slices.IsSortedFunc(column(0), func(a, b float64) int { return cmp.Compare(b, a) }) {
		p.T.Error("the table does not begin with the most bytes")
	}
	p.Click("#panel th:nth-child(3) button")
	if !slices.IsSortedFunc(column(2), func(a, b float64) int { return cmp.Compare(b, a) }) {
		p.T.Error("a click does not sort by the number of buffers")
	}
	p.Click("#panel th:nth-child(3) button")
	if !slices.IsSorted(column(2)) {
		p.T.Error("a second click does not reverse the order")
	}
	rows := browser.Eval[int](p, "memlane.tabs[0].part.rows.length")
	name := browser.Eval[string](p, "memlane.tabs[0].part.shown.at(-1) ? memlane.tabs[0].part.columns.find((c) => c.name === 'allocated by').text(memlane.tabs[0].part.shown.at(-1)) : ''")
	p.Enter("#panel .find", name)
	found := browser.Eval[int](p, "memlane.tabs[0].part.shown.length")
	if found == 0 || found > rows {
		p.T.Errorf("searching for %q leaves %d of %d rows", name, found, rows)
	}
	p.Enter("#panel .find", "/^no such row$/")
	if note := p.Text("#panel .note"); !strings.HasPrefix(note, "0 of ") {
		p.T.Errorf("a search without results shows %q", note)
	}
	p.Enter("#panel .find", "")
	p.Set("document.activeElement.blur()")
}

// checkTime clicks on the graph and checks that the table shows this time.
func checkTime(p *browser.Tab) {
	p.T.Helper()
	p.Do(chromedp.ScrollIntoView(chromedp.CSS(".hero")))
	at := browser.Eval[browser.Point](p, "(() => { const b = memlane.view.plot.over.getBoundingClientRect(); return {X: b.left + b.width * 0.4, Y: b.top + b.height / 2}; })()")
	p.ClickAt(at)
	share := browser.Eval[float64](p, "memlane.time / memlane.space.length")
	length := browser.Eval[float64](p, "memlane.space.length")
	if math.Abs(share-0.4) > 0.01+1/length {
		p.T.Errorf("a click at 40 %% of the graph leads to %.0f %%", 100*share)
	}
	want := browser.Eval[float64](p, "memlane.space.breakdown(memlane.time).reduce((sum, r) => sum + r.bytes, 0)")
	if got := browser.Eval[float64](p, "memlane.tabs[0].part.total"); got != want {
		p.T.Errorf("the table shows %.0f bytes, at this time there are %.0f", got, want)
	}
	p.WaitFor("location.hash.includes('&t=' + memlane.space.instant(memlane.time)) || memlane.time === memlane.space.peak")
	p.Set("memlane.setTime(memlane.space.peak)")
}

// checkBlocks hovers over a block, and pins it.
func checkBlocks(p *browser.Tab, s answer.Space) {
	p.T.Helper()
	p.Do(chromedp.ScrollIntoView(chromedp.CSS(".hero")))
	p.Set("memlane.setLayout('stacked')")
	p.WaitFor("memlane.view.raster !== null")
	buffer := browser.Eval[int](p, `(() => { const n = new Map(); for (const id of memlane.view.raster.pixels) if (id >= 0) n.set(id, (n.get(id) || 0) + 1);
		return [...n].sort((a, b) => b[1] - a[1])[0][0]; })()`)
	size := browser.Eval[int64](p, "memlane.space.size[%d]", buffer)
	at := pixelOf(p, buffer)
	p.Mouse(browser.Moved, at)
	p.WaitFor("!document.querySelector('.hover').hidden")
	card := p.Text(".hover")
	want := []string{units.Bytes(size), units.Count(size) + " B", "lifetime"}
	if slices.Contains(s.Facts, "addresses") {
		want = append(want, "0x")
	}
	if s.Axis == "program order" {
		want = append(want, "unpadded", "instruction")
	}
	for _, text := range want {
		if !strings.Contains(card, text) {
			p.T.Errorf("the card is %q, without %q", card, text)
		}
	}
	p.ClickAt(at)
	if pinned := p.Text("#pin"); !strings.Contains(pinned, units.Bytes(size)) {
		p.T.Errorf("the pinned buffer is %q", pinned)
	}
	if got := browser.Eval[int](p, "memlane.options.buffer"); got != buffer {
		p.T.Errorf("the graph marks buffer %d, pinned is %d", got, buffer)
	}
	p.Do(chromedp.KeyEvent(kb.Escape))
	if browser.Eval[bool](p, "memlane.options.buffer !== null") {
		p.T.Error("Escape does not unpin")
	}
	for _, layout := range browser.Eval[[]string](p, "memlane.layouts().filter((layout) => layout !== 'picture')") {
		p.Set("memlane.setLayout(%s)", browser.Quote(layout))
		p.WaitFor("memlane.view.raster !== null && memlane.view.raster.pixels.some((id) => id >= 0)")
	}
	p.Enter(".top .find", "no such function")
	if lit := p.Text("#lit"); !strings.Contains(lit, "0 buffers") {
		p.T.Errorf("a search without results highlights %q", lit)
	}
	p.Do(chromedp.KeyEvent(kb.Escape))
}

// pixelOf returns a place in the window where the block view shows a buffer.
func pixelOf(p *browser.Tab, buffer int) browser.Point {
	p.T.Helper()
	return browser.Eval[browser.Point](p, `(() => {
		const v = memlane.view.raster, box = memlane.view.plot.over.getBoundingClientRect();
		const inside = [];
		v.pixels.forEach((id, i) => { if (id === %d) inside.push(i); });
		const i = inside[inside.length >> 1];
		return {X: box.left + (i %% v.width + .5) * box.width / v.width, Y: box.top + (Math.floor(i / v.width) + .5) * box.height / v.height};
	})()`, buffer)
}

// checkZoom turns the wheel and checks that the time under the mouse does not move.
func checkZoom(p *browser.Tab) {
	p.T.Helper()
	p.Set("memlane.whole()")
	p.Do(chromedp.ScrollIntoView(chromedp.CSS(".hero")))
	at := browser.Eval[browser.Point](p, "(() => { const b = memlane.view.plot.over.getBoundingClientRect(); return {X: b.left + b.width * 0.7, Y: b.top + b.height / 2}; })()")
	timeAt := fmt.Sprintf("memlane.view.plot.posToVal(%f - memlane.view.plot.over.getBoundingClientRect().left, 'x')", at.X)
	before := browser.Eval[[]float64](p, "[memlane.timeline.from, memlane.timeline.to, %s]", timeAt)
	p.Wheel(at, -1)
	p.Wheel(at, 1)
	if got := browser.Eval[float64](p, "memlane.timeline.to - memlane.timeline.from"); got != before[1]-before[0] {
		p.T.Errorf("the wheel alone zooms from %f to %f", before[1]-before[0], got)
	}
	p.Wheel(at, -120, chromedp.ButtonModifiers(chromedp.ModifierCtrl))
	if before[1] > 4 {
		p.WaitFor("memlane.timeline.to - memlane.timeline.from < %f", before[1]-before[0])
	}
	after := browser.Eval[[]float64](p, "[memlane.timeline.from, memlane.timeline.to, %s]", timeAt)
	if math.Abs(after[2]-before[2]) > (before[1]-before[0])/200 {
		p.T.Errorf("zooming moves the time under the mouse from %f to %f", before[2], after[2])
	}
	checkMove(p, at)
	p.Set("memlane.whole()")
	p.Mouse(browser.Pressed, browser.Point{X: at.X - 200, Y: at.Y}, chromedp.ButtonLeft)
	p.Mouse(browser.Moved, at, chromedp.ButtonLeft)
	p.Mouse(browser.Released, at, chromedp.ButtonLeft)
	if before[1] > 10 {
		p.WaitFor("memlane.timeline.to - memlane.timeline.from < %f", before[1]/2)
	}
	p.Set("memlane.whole()")
}

// checkMove drags with Shift and checks that the window moves with the mouse.
func checkMove(p *browser.Tab, at browser.Point) {
	p.T.Helper()
	if browser.Eval[float64](p, "memlane.space.length") < 100 {
		return // too few instants to move among
	}
	p.Set("memlane.timeline.show(memlane.space.length * .4, memlane.space.length * .6)")
	before := browser.Eval[[]float64](p, "[memlane.timeline.from, (memlane.timeline.to - memlane.timeline.from) / memlane.view.plot.over.clientWidth]")
	shift := chromedp.ButtonModifiers(chromedp.ModifierShift)
	p.Mouse(browser.Pressed, at, chromedp.ButtonLeft, shift)
	p.Mouse(browser.Moved, browser.Point{X: at.X - 100, Y: at.Y}, chromedp.ButtonLeft, shift)
	p.Mouse(browser.Released, browser.Point{X: at.X - 100, Y: at.Y}, chromedp.ButtonLeft, shift)
	if from := browser.Eval[float64](p, "memlane.timeline.from"); math.Abs(from-before[0]-100*before[1]) > before[1] {
		p.T.Errorf("a drag by 100 pixels moves the window from %f to %f", before[0], from)
	}
}

// checkReaders checks what a screen reader reads in every tab: headings skip no level, and the name of a button has the text that it shows.
func checkReaders(p *browser.Tab) {
	p.T.Helper()
	for _, fault := range browser.Eval[[]string](p, `(() => [...document.querySelectorAll('[data-tab]')].flatMap((tab) => {
		memlane.showTab(tab.dataset.tab);
		const shown = (e) => e.checkVisibility(), levels = [...document.querySelectorAll('h1, h2, h3, h4')].filter(shown).map((e) => Number(e.tagName[1]));
		return [...levels.filter((level, i) => level > (levels[i - 1] || 0) + 1).map((level) => 'heading of level ' + level),
			...[...document.querySelectorAll('button[aria-label]')].filter(shown).filter((e) => !e.ariaLabel.toLowerCase().includes(e.innerText.trim().toLowerCase())).map((e) => e.innerText)]
			.map((fault) => tab.dataset.tab + ': ' + fault);
	}))()`) {
		p.T.Error(fault)
	}
}

// checkFindings follows the link of the first finding and checks that its buffers are highlighted.
func checkFindings(p *browser.Tab) {
	p.T.Helper()
	p.Click("[data-tab=findings]")
	if browser.Eval[int](p, "memlane.space.capture.findings.length") == 0 {
		if !strings.Contains(p.Text("#panel"), "No finding") {
			p.T.Error("the page does not show that there are no findings")
		}
		return
	}
	sites := browser.Eval[int](p, "memlane.space.capture.findings[0].sites.length")
	p.Click("#panel a.light")
	p.WaitFor("location.hash.includes('finding=0') && memlane.fields.finding === '0'")
	if sites == 0 {
		return
	}
	lit := browser.Eval[int](p, "memlane.options.lit.reduce((n, lit) => n + lit, 0)")
	want := browser.Eval[int](p, "(() => { const f = memlane.captures[0].findings[0]; return memlane.space.site.filter((s) => f.sites.includes(s)).length; })()")
	if lit == 0 || lit != want || !strings.Contains(p.Text("#lit"), units.Count(int64(want))+" buffer") {
		p.T.Errorf("the link highlights %d buffers, want %d; it shows %q", lit, want, p.Text("#lit"))
	}
}

// checkCompare compares the capture with the other one.
func checkCompare(p *browser.Tab) {
	p.T.Helper()
	p.Click("[data-tab=compare]")
	p.WaitFor("document.querySelector('.verdict').textContent !== ''")
	if text := p.Text(".verdict"); !strings.HasPrefix(text, "The peak ") {
		p.T.Errorf("the comparison shows %q", text)
	}
	sums := browser.Eval[[]float64](p, `(() => { const c = memlane.current().part, [a, b] = c.choices.map((x) => c.spaces[x.value]);
		const live = (s) => s.liveAt(s.peak).reduce((sum, i) => sum + s.size[i], 0);
		return [c.table.rows.reduce((sum, r) => sum + r.peak, 0), live(b) - live(a)]; })()`)
	if sums[0] != sums[1] {
		p.T.Errorf("the rows differ by %.0f bytes, the peaks by %.0f", sums[0], sums[1])
	}
	curves := 2
	if browser.Eval[bool](p, "memlane.current().part.shown.every((s) => s.notRecorded)") { // two instants
		curves = 0
	}
	if browser.Eval[int](p, "document.querySelectorAll('.compare canvas').length") != curves {
		p.T.Error("no curves to compare")
	}
}
