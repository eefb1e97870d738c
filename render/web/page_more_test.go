package web_test

import (
	"fmt"
	"html"
	"io/fs"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/web"
)

// TestPageTheme checks that the page follows the system's theme, and that a button changes it.
func TestPageTheme(t *testing.T) {
	p := browser.Open(t, browser.Start(t), writePage(t, open(t, "../../testdata/torchsnap/leak_4mib_20steps.pickle")))
	before := background(p)
	p.Set("[...document.querySelectorAll('.top button')].find((b) => b.textContent === 'dark / light').click()")
	if after := background(p); after == before {
		t.Errorf("the page stays %s", after)
	}
	p.Do(chromedp.KeyEvent("?"))
	if !strings.Contains(p.Text("dialog"), "zoom") {
		t.Error("no help")
	}
}

// TestPageMost checks when highlighted buffers hold most against the sum at every change.
func TestPageMost(t *testing.T) {
	chromium := browser.Start(t)
	files := []string{"torchsnap/healthy.pickle", "xplane/tf_leak.xplane.pb", "meaning/a17.pickle.zst"}
	for _, file := range files[:deep.Or(2, len(files))] {
		t.Run(file, func(t *testing.T) {
			p := browser.Open(t, chromium, writePage(t, open(t, "../../testdata/"+file)))
			p.Enter(".top .find", "a")
			if wrong := browser.Eval[string](p, `(() => {
			const {space, options: {lit}} = memlane, found = space.most(lit);
			let most = 0;
			for (const t of [0, ...space.begin]) {
				const sum = space.liveAt(Math.max(t, 0)).reduce((n, i) => n + lit[i] * space.size[i], 0);
				most = Math.max(most, sum);
				if (Math.max(t, 0) === found.t && sum !== found.bytes) return sum + ' at ' + t + ', not ' + found.bytes;
			}
			return most === found.bytes && most > 0 ? '' : 'most is ' + most + ', not ' + found.bytes;
		})()`); wrong != "" {
				t.Errorf("%s: %s", file, wrong)
			}
		})
	}
}

func background(p *browser.Tab) string {
	return browser.Eval[string](p, "getComputedStyle(document.body).backgroundColor")
}

// TestPageHeadline checks that the page begins with the answer and the findings, which light their buffers, and that Esc closes help.
func TestPageHeadline(t *testing.T) {
	chromium := browser.Start(t)
	p := browser.Open(t, chromium, writePage(t, open(t, "../../testdata/torchsnap/frag_oom.pickle")))
	const first = "document.querySelector('#headline').innerText.split(/\\n+/).join('|').replaceAll('\u00a0', ' ')"
	want := "Use few sizes. The buffers of <listcomp> (frag.py:12) keep 132 MiB of free memory in pieces: allocate them first, or free them together.|Out of memory: 60.0 MiB by big_request (frag.py:16), called by <module> (frag.py:20); " +
		"enough is reserved and free, but in smaller pieces.|Held: <listcomp> (frag.py:12) 108 MiB in 18 buffers."
	if why := p.Text(".died dl"); strings.Contains(why, "Use few sizes") || !strings.Contains(why, "fragmented") {
		t.Errorf("the panel says what the answer says, or not the reason: %q", why)
	}
	if cut := browser.Eval[int](p, "[...document.querySelectorAll('#headline *')].filter((p) => p.scrollWidth > p.clientWidth || p.scrollHeight > p.clientHeight).length"); cut > 0 {
		t.Errorf("%d lines of the headline are cut", cut)
	}
	if got := browser.Eval[string](p, first); got != want {
		t.Errorf("the page of a failure begins with\n%q, want\n%q", got, want)
	}
	if text := p.Text("#headline"); !strings.Contains(text, "60.0\u00a0MiB by") || !strings.Contains(text, "108\u00a0MiB in 18 buffers") {
		t.Errorf("a number may stand without its unit: %q", text)
	}
	p.Do(chromedp.KeyEvent("?"), chromedp.KeyEvent(kb.Escape))
	p.WaitFor("!document.querySelector('dialog').open")

	p.Go(writePage(t, open(t, "../../testdata/torchsnap/twodev.pickle")))
	want = "Find with gc.get_referrers what keeps the buffers of leaky_step (twodev.py:11); clear or limit it.|" +
		"Probable leak in cuda:1: leaky_step (twodev.py:11): 10 buffers (10.0 MiB) were never freed; it grows until the recording ends.|" +
		"The peak of cuda:1 is 14.0 MiB; the largest: 10.0 MiB leaky_step (twodev.py:11), 4.00 MiB leaky_step (twodev.py:10). No request failed in the recording."
	if got := browser.Eval[string](p, first); got != want {
		t.Errorf("the page of a leak begins with\n%q, want\n%q", got, want)
	}
	if text := p.Text(".first"); strings.Contains(text, "get_referrers") || strings.Contains(text, "were never freed") {
		t.Errorf("the finding says again what stands on top: %q", text)
	}
	p.Do(chromedp.Focus(".first a.light"), chromedp.KeyEvent(kb.Enter))
	p.WaitFor("memlane.space.id === 'cuda:1' && memlane.options.lit?.reduce((n, lit) => n + lit, 0) === 10")
}

// TestPageLinks checks that the address sets the state of the page, and mirrors it.
func TestPageLinks(t *testing.T) {
	address := writePage(t, open(t, "../../testdata/torchsnap/leak_4mib_20steps.pickle"))
	chromium := browser.Start(t)
	p := browser.Open(t, chromium, address)
	origin := browser.Eval[string](p, "memlane.space.origin.toString()")
	at, from, to := browser.Eval[string](p, "memlane.space.instant(100000)"), browser.Eval[string](p, "memlane.space.instant(50000)"), browser.Eval[string](p, "memlane.space.instant(150000)")
	hash := "#space=cuda:0&t=" + at + "&from=" + from + "&to=" + to + "&q=scratch&buffer=3&layout=address&color=size&tab=buffers"
	p.Go(address + hash)
	got := browser.Eval[[]any](p, "[memlane.time, memlane.timeline.from, memlane.timeline.to, memlane.options.buffer, memlane.options.layout, memlane.color, memlane.tab]")
	if want := "[100000 50000 150000 3 address size buffers]"; fmt.Sprint(got) != want {
		t.Errorf("%s (begin %s) shows %v, want %s", hash, origin, got, want)
	}
	if lit := p.Text("#lit"); !strings.Contains(lit, "scratch: 40 buffers") {
		t.Errorf("it highlights %q", lit)
	}
	p.WaitFor("location.hash === %s", browser.Quote(hash))
	for _, bad := range []string{"#space=none", "#t=x&buffer=1.5&finding=__proto__&capture=length", "#finding=99&site=-1&tab=none&layout=none&q=/(/"} {
		p.Go(address + bad)
		if got := p.Text("[data-figure=peak]"); got != "104 MiB" {
			t.Errorf("%s: the peak reads %q", bad, got)
		}
	}
}

// TestPageInFrame checks the links of the page in the frame of a notebook, which has no address of its own.
func TestPageInFrame(t *testing.T) {
	page, err := os.ReadFile(strings.TrimPrefix(writePage(t, open(t, "../../testdata/torchsnap/leak_4mib_20steps.pickle")), "file://"))
	if err != nil {
		t.Fatal(err)
	}
	notebook := filepath.Join(t.TempDir(), "notebook.html")
	frame := `<!DOCTYPE html><title>notebook</title><body data-ready><iframe srcdoc="` + html.EscapeString(string(page)) + `"></iframe>`
	if err := os.WriteFile(notebook, []byte(frame), 0o666); err != nil {
		t.Fatal(err)
	}
	p := browser.Open(t, browser.Start(t), "file://"+notebook)
	p.WaitFor("frames[0].document.body?.dataset.ready === 'true'")
	browser.Eval[any](p, "frames[0].document.querySelector('[data-tab=findings]').click()")
	p.WaitFor("frames[0].location.hash.includes('tab=findings')")
	browser.Eval[any](p, "frames[0].document.querySelector('#panel a.light').click()")
	p.WaitFor("frames[0].location.hash.includes('finding=0') && frames[0].memlane.fields.finding === '0'")
}

// TestPageDamaged checks that the page of a capture that was cut off says so on top, and one of a whole capture does not.
func TestPageDamaged(t *testing.T) {
	whole := "../../testdata/torchsnap/leak_loss.pickle"
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.pickle")
	if err := os.WriteFile(cut, data[:len(data)*9/10], 0o666); err != nil {
		t.Fatal(err)
	}
	chromium := browser.Start(t)
	p := browser.Open(t, chromium, writePage(t, open(t, cut)))
	if got := p.Text("main > .damage[role=alert]"); !strings.HasPrefix(got, "Damaged capture – truncated: the file ends early") {
		t.Errorf("the banner reads %q", got)
	}
	p.Click("main > .damage button")
	if got := browser.Eval[string](p, "memlane.tab"); got != "capture" {
		t.Errorf("the banner opens the tab %q", got)
	}
	p.Go(writePage(t, open(t, whole)))
	if browser.Eval[bool](p, "document.querySelector('.damage') !== null") {
		t.Error("a whole capture has a banner")
	}
}

// TestPageSaves checks that the table is saved with all rows.
func TestPageSaves(t *testing.T) {
	p := browser.Open(t, browser.Start(t), writePage(t, open(t, "../../testdata/torchsnap/leak_4mib_20steps.pickle")))
	lines := strings.Split(strings.TrimSuffix(browser.Eval[string](p, "memlane.csv()"), "\r\n"), "\r\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[1], "83886080,") {
		t.Errorf("the table is saved as %q", lines)
	}
}

// TestPagesOfCaptures compares the figures of all captures in a folder with info and
// peak, and shows every part of their pages.
func TestPagesOfCaptures(t *testing.T) {
	root := os.Getenv("MEMLANE_CAPTURES")
	if root == "" {
		t.Skip("MEMLANE_CAPTURES does not name the folder of captures")
	}
	chromium := browser.Start(t)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			return nil // not a capture
		}
		t.Run(file, func(t *testing.T) {
			p := browser.Open(t, chromium, writePage(t, c))
			for _, s := range answer.InfoOf(c.Outline()).Spaces {
				p.Set("location.hash = %s", browser.Quote("space="+url.QueryEscape(s.ID)))
				p.WaitFor("memlane.space.id === %s", browser.Quote(s.ID))
				checkFigures(p, s)
				checkBreakdown(p, c.Capture, s)
				p.Set("for (const tab of memlane.tabs) memlane.showTab(tab.key)")
				p.Set("for (const layout of memlane.layouts()) memlane.setLayout(layout)")
				p.Set("memlane.showTab('sites')")
			}
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPageHostile checks that the page shows hostile names as text.
func TestPageHostile(t *testing.T) {
	data, err := os.ReadFile("../../testdata/native/runtime.native")
	if err != nil {
		t.Fatal(err)
	}
	evil := `</script><img src=x onerror=hacked=1><svg onload=hacked=1>`
	text := strings.ReplaceAll(strings.ReplaceAll(string(data), `"Relu"`, browser.Quote(evil+"\u2028\u202e")), `"node7"`, browser.Quote(evil))
	file := filepath.Join(t.TempDir(), "<img src=x onerror=hacked=1>.native")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Skip(err)
	}
	c := open(t, file)
	p := browser.Open(t, browser.Start(t), writePage(t, c, c))
	for _, tab := range browser.Eval[[]string](p, "memlane.tabs.map((tab) => tab.key)") {
		p.Click("[data-tab=" + tab + "]")
	}
	p.Click("[data-tab=sites]")
	p.Set("memlane.pin(0)")
	if got := p.Text("#panel"); !strings.Contains(got, evil) {
		t.Errorf("the table is %q, without the name of the capture", got)
	}
	if n := browser.Eval[int](p, "document.querySelectorAll('img:not(.hero img), svg').length"); n != 0 || browser.Eval[bool](p, "'hacked' in globalThis") {
		t.Errorf("a name of the capture became %d elements", n)
	}
	p.Set("memlane.space.capture.sites[1].op = '=1+1'; memlane.setTime(memlane.time)")
	if csv := browser.Eval[string](p, "memlane.csv()"); strings.Contains(csv, ",=") || !strings.Contains(csv, ",'=1+1") {
		t.Errorf("a spreadsheet would evaluate a name: %q", csv)
	}
}

// TestServedPage checks that a browser shows the page of a server, and reloads it when the
// capture changes.
func TestServedPage(t *testing.T) {
	chromium := browser.Start(t)
	var name atomic.Value
	name.Store("pair_before")
	server := &web.Server{
		Read: func(func(string, int64) func(int)) ([]*judge.Capture, error) {
			return []*judge.Capture{open(t, "../../testdata/torchsnap/"+name.Load().(string)+".pickle")}, nil
		},
		Stamp: func() string { return name.Load().(string) },
	}
	if err := server.Load(); err != nil {
		t.Fatal(err)
	}
	serving := httptest.NewServer(server)
	t.Cleanup(serving.Close)
	go server.Watch(t.Context().Done(), 50*time.Millisecond, func(err error) { t.Error(err) })
	p := browser.Open(t, chromium, serving.URL+"/")
	if got := p.Text("[data-figure=peak]"); got != "68.0 MiB" {
		t.Errorf("the peak reads %q", got)
	}
	name.Store("pair_after")
	got := ""
	for p.Ctx.Err() == nil { // the page may be reloading
		time.Sleep(50 * time.Millisecond)
		got, _ = chromedp.Run(p.Ctx, chromedp.Evaluate[string]("document.querySelector('[data-figure=peak]')?.innerText ?? ''"))
		if got == "45.0 MiB" {
			return
		}
	}
	t.Errorf("after the capture changed the peak reads %q", got)
}

// TestPagePaper checks that the page is one to three pages of A4 on paper, that charts use the width of a phone, and that the picture shows there the failure, else the
// peak.
func TestPagePaper(t *testing.T) {
	chromium := browser.Start(t)
	files := []string{"oomtext/torchrun_4ranks.log", "torchsnap/frag_oom.pickle", "meaning/a17.pickle.zst", "torchsnap/leak_4mib_20steps.pickle", "xplane/padded.hlo.pb"}
	for _, file := range files[:deep.Or(2, len(files))] {
		t.Run(file, func(t *testing.T) {
			address := writePage(t, open(t, "../../testdata/"+file))
			p := browser.Open(t, chromium, address)
			width, height := 8.27, 11.69 // inches
			paper, err := chromedp.Call(p.Ctx, cdppage.PrintToPDF, cdppage.PrintToPDFParams{PaperWidth: width, PaperHeight: height})
			if err != nil {
				t.Fatal(err)
			}
			p.Set("dispatchEvent(new Event('beforeprint'))")
			if !browser.Eval[bool](p, "document.querySelector('#panel .rows tbody tr[data-row]') !== null") {
				t.Errorf("%s: no table is printed", file)
			}
			p.Set("dispatchEvent(new Event('afterprint'))")
			if n := strings.Count(string(paper.Data), "/Type /Page\n"); n < 1 || n > 3 {
				t.Errorf("%s: %d pages", file, n)
			}
			p.Do(chromedp.EmulateViewport(390, 844))
			p.WaitFor("document.querySelector('.stage').clientWidth > 390 * .7 && document.documentElement.scrollWidth <= 390")
			p.Go(address + "#tab=buffers")
			if at := browser.Eval[[]float64](p, `(() => {
				const {view, space} = memlane, stage = document.querySelector('.stage');
				const x = [space.peak, space.ooms.at(-1)?.begin ?? space.peak].map((t) => view.share(t) * view.element.clientWidth - stage.scrollLeft);
				return [view.still ? view.element.clientWidth : Math.max(...x), view.still ? 0 : Math.min(...x), stage.clientWidth];
			})()`); at[1] < 0 || at[0] > at[2] {
				t.Errorf("%s: on a phone, the failure and the peak are at %.0f and %.0f of %.0f pixels", file, at[1], at[0], at[2])
			}
		})
	}
}

// TestPagePhone: on a phone, every control can be read and reached without scrolling sideways, no word of the answer is broken in the middle, and what
// to do and why the program died are on the first screen.
func TestPagePhone(t *testing.T) {
	chromium := browser.Start(t)
	files := []string{"torchsnap/frag_oom.pickle", "xplane/oom.hlo.pb", "oomtext/torchrun_4ranks.log", "meaning/a17.pickle.zst", "xplane/tf_leak.xplane.pb"}
	for _, file := range files[:deep.Or(3, len(files))] {
		address := writePage(t, open(t, "../../testdata/"+file))
		p := browser.Open(t, chromium, address)
		p.Do(chromedp.EmulateViewport(390, 844))
		p.Go(address + "#tab=buffers")
		if cut := browser.Eval[[]string](p, `[...document.querySelectorAll('button, select, input')].filter((e) => !e.closest('.scroller, dialog')).filter((e) => {
			const {left, right, width} = e.getBoundingClientRect();
			return width && (left < 0 || right > innerWidth || !e.closest('.hero') && e.scrollWidth > e.clientWidth + 1);
		}).map((e) => e.textContent.slice(0, 60))`); len(cut) > 0 {
			t.Errorf("%s: cut are %q", file, cut)
		}
		if below := browser.Eval[float64](p, "Math.max(scrollY && 9999, ...[...document.querySelectorAll('h1, .died')].map((e) => e.getBoundingClientRect().bottom))"); below > 844 {
			t.Errorf("%s: what to do, or why it died, ends at %.0f pixels", file, below)
		}
	}
	p := browser.Open(t, chromium, writePage(t, open(t, "../../testdata/torchsnap/frag_oom.pickle")))
	p.Do(chromedp.EmulateViewport(390, 844))
	p.Set("memlane.space.capture.headline = 'Set TF_GPU_ALLOCATOR=cuda_malloc_async, or call torch.cuda.memory._record_memory_history() first.'; memlane.build()")
	if rows := browser.Eval[[]string](p, `[...document.querySelector('h1').childNodes].filter((n) => n.data).flatMap((n) => [...n.data.matchAll(/\S+/g)].filter((m) => {
		const range = document.createRange();
		range.setStart(n, m.index);
		range.setEnd(n, m.index + m[0].length);
		return range.getClientRects().length > 1;
	}).map((m) => m[0]))`); len(rows) > 0 {
		t.Errorf("broken are %q", rows)
	}
}

// TestPageTabOrder reaches every control of every tab by Tab alone. What only the mouse can point at, blocks and curves, has a key, a button or a row.
func TestPageTabOrder(t *testing.T) {
	p := browser.Open(t, browser.Start(t), writePage(t, open(t, "../../testdata/torchsnap/frag_oom.pickle"), open(t, "../../testdata/torchsnap/leak_loss.pickle")))
	tabs := browser.Eval[[]string](p, "memlane.tabs.map((tab) => tab.key)")
	for _, tab := range tabs[:deep.Or(3, len(tabs))] {
		p.Set("memlane.showTab(%s); document.activeElement.blur(); window.reached = new Set()", browser.Quote(tab))
		const controls = `[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')].filter((e) => !e.disabled && e.checkVisibility() && e.tabIndex >= 0)`
		for n := 0; n < browser.Eval[int](p, "%s.length", controls)+2; n++ { // tables come later
			p.Do(chromedp.KeyEvent(kb.Tab))
			p.Set("reached.add(document.activeElement)")
		}
		if missing := browser.Eval[[]string](p, "%s.filter((e) => !reached.has(e)).map((e) => e.outerHTML.slice(0, 120))", controls); len(missing) > 0 {
			t.Errorf("%s: Tab does not reach %q", tab, missing)
		}
	}
}

// TestPageDrag: a drag over the blocks chooses time alone, with Alt bytes alone.
func TestPageDrag(t *testing.T) {
	p := browser.Open(t, browser.Start(t), writePage(t, open(t, "../../testdata/torchsnap/leak_4mib_20steps.pickle")))
	p.Do(chromedp.ScrollIntoView(chromedp.CSS(".hero")))
	at := browser.Eval[browser.Point](p, "(() => { const b = memlane.view.plot.over.getBoundingClientRect(); return {X: b.left + b.width / 2, Y: b.top + b.height / 2}; })()")
	for _, alt := range []bool{false, true} {
		options := []chromedp.MouseOption{chromedp.ButtonLeft}
		if alt {
			options = append(options, chromedp.ButtonModifiers(chromedp.ModifierAlt))
		}
		p.Set("memlane.whole()")
		p.Mouse(browser.Pressed, at, options...)
		p.Mouse(browser.Moved, browser.Point{X: at.X + 90, Y: at.Y + 90}, options...)
		p.Mouse(browser.Released, browser.Point{X: at.X + 90, Y: at.Y + 90}, options...)
		if got := browser.Eval[[]bool](p, "[memlane.timeline.zoomed, memlane.view.zoomed]"); got[0] == alt || got[1] != alt {
			t.Errorf("a drag with Alt %v zooms the time: %v, the bytes: %v", alt, got[0], got[1])
		}
	}
}

// TestPageEndOnly: of a capture without a history, the page draws no time. It shows what was alive at the end, and says how to record, if
// anything does: JAX on CPU records no history.
func TestPageEndOnly(t *testing.T) {
	chromium := browser.Start(t)
	for file, want := range map[string]string{"torchsnap/t201_list.pickle": "_record_memory_history()", "jaxprof/leak_after.memory.prof": "this is what was alive at the end.\n"} {
		t.Run(file, func(t *testing.T) {
			p := browser.Open(t, chromium, writePage(t, open(t, "../../testdata/"+file)))
			text := p.Text(".end-only")
			if all := p.Text("#headline") + text + "\n"; !strings.Contains(text, "No history was recorded") || strings.Count(all, want) != 1 {
				t.Errorf("%s: the page says %q", file, text)
			}
			if browser.Eval[bool](p, "document.querySelector('.hero .uplot') !== null || document.querySelector('[data-tab=growth]') !== null") {
				t.Errorf("%s: the page draws time", file)
			}
			if rows := browser.Eval[int](p, "memlane.current().key === 'sites' ? memlane.current().part.rows.length : 0"); rows == 0 {
				t.Errorf("%s: what was alive is not listed", file)
			}
			p.Do(chromedp.KeyEvent("l"), chromedp.KeyEvent("c"), chromedp.KeyEvent("w"), chromedp.KeyEvent("0"), chromedp.KeyEvent("e"))
		})
	}
}

// TestPageLog: a log is one failure: the page opens the rank that failed first, with one bar of its device, and lists what its figures are.
func TestPageLog(t *testing.T) {
	p := browser.Open(t, browser.Start(t), writePage(t, open(t, "../../testdata/oomtext/torchrun_4ranks.log")))
	if got := browser.Eval[string](p, "memlane.space.id"); got != "rank 2/cuda:2" {
		t.Errorf("the page opens %s", got)
	}
	svg := browser.Eval[string](p, "new TextDecoder().decode(memlane.svg())")
	for _, want := range []string{"capacity 79.3 GiB", "live", "outside of the allocator", "12.0 MiB requested", "free"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	p.WaitFor("document.querySelector('.hero img').complete")
	if browser.Eval[bool](p, "document.querySelector('.hero .uplot') !== null || document.querySelector('.hero img').naturalWidth === 0") {
		t.Error("the page draws time")
	}
}

// TestPageDevices: several devices and captures are a strip with their peaks on one scale; the one that ran out of memory has a dot and is shown
// first. A click shows another.
func TestPageDevices(t *testing.T) {
	chromium := browser.Start(t)
	p := browser.Open(t, chromium, writePage(t, open(t, "../../testdata/torchsnap/twodev.pickle"), open(t, "../../testdata/torchsnap/frag_oom.pickle"), open(t, "../../testdata/torchsnap/healthy.pickle")))
	got := browser.Eval[[]string](p, "[...document.querySelectorAll('.device')].map((e) => (e.querySelector('.dead') ? 'died ' : '') + (e.ariaCurrent ? 'shown ' : '') + e.innerText.replace(/\\s+/g, ' '))")
	want := []string{"twodev.pickle cuda:0 4.00 MiB", "twodev.pickle cuda:1 14.0 MiB", "died shown frag_oom.pickle cuda:0 216 MiB", "healthy.pickle cuda:0 17.6 MiB"}
	if !slices.Equal(got, want) {
		t.Errorf("the strip has %q, want %q", got, want)
	}
	for i, space := range browser.Eval[[]struct {
		Peak  int64
		Spark []int64
	}](p, "memlane.captures.flatMap((c) => c.spaces).map((s) => ({Peak: s.info.peak.bytes, Spark: s.spark}))") {
		if slices.Max(space.Spark) != space.Peak {
			t.Errorf("curve %d has at most %d, the peak is %d", i, slices.Max(space.Spark), space.Peak)
		}
	}
	p.Click(".device:nth-child(2)")
	p.WaitFor("memlane.space.id === 'cuda:1' && document.querySelector('.device:nth-child(2)').ariaCurrent === 'true'")
	p.Go(writePage(t, open(t, "../../testdata/torchsnap/healthy.pickle")))
	if browser.Eval[bool](p, "document.querySelector('.devices') !== null") {
		t.Error("one device has a strip")
	}
}

// TestPageOfSeries: three captures of one run without histories have one judgement, and are compared first to last, without a time. On a phone the picture is
// narrow: its texts have 9 pixels.
func TestPageOfSeries(t *testing.T) {
	chromium := browser.Start(t)
	var all []*judge.Capture
	for _, file := range []string{"leak_before", "leak_after", "leak_after"} {
		all = append(all, open(t, "../../testdata/jaxprof/"+file+".memory.prof"))
	}
	p := browser.Open(t, chromium, writePage(t, all...))
	if text := p.Text("#headline"); !strings.Contains(text, "Nothing grows over 3 captures.") {
		t.Errorf("the answer is %q", text)
	}
	p.Click("[data-tab=compare]")
	p.WaitFor("document.querySelector('.verdict').textContent !== ''")
	if got := browser.Eval[[]any](p, "(({choices: [a, b], over, spaces}) => [spaces[a.value].capture.number, spaces[b.value].capture.number, over.hidden])(memlane.current().part)"); fmt.Sprint(got) != "[0 2 true]" {
		t.Errorf("it compares %v", got)
	}
	p.Do(chromedp.EmulateViewport(390, 844))
	p.Go(writePage(t, open(t, "../../testdata/torchsnap/leak_4mib_20steps.pickle")))
	if size := browser.Eval[float64](p, "11 * memlane.view.plotted.clientWidth / memlane.view.frame.width"); size < 8.9 {
		t.Errorf("on a phone, texts of the picture have %.1f pixels", size)
	}
	p.Go(writePage(t, open(t, "../../testdata/xplane/tf_leak.xplane.pb")))
	if text := browser.Eval[string](p, "document.body.innerText"); !strings.Contains(text, "12 steps, 444 allocations") {
		t.Error("the figures do not say that 12 steps are recorded")
	}
}

// TestSeriesGrows: the page of a series whose captures grow does not say that nothing grows.
func TestSeriesGrows(t *testing.T) {
	var all []*judge.Capture
	for n := range int64(3) {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "made", Format: "jaxprof"})
		s, size := b.Space(), (n+1)<<20
		b.Describe(s, lifetime.SpaceInfo{Device: "cpu:0", Axis: lifetime.Event, Facts: lifetime.EndState})
		b.Live(s, build.Block{Addr: 1 << 20, Requested: size, Occupied: size, Site: b.Site(lifetime.Site{Op: "a"})})
		made, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, judge.New(made, finding.Settings{}))
	}
	p := browser.Open(t, browser.Start(t), writePage(t, all...))
	if text := p.Text("#headline"); !strings.Contains(text, "over 3 captures, more in each") || strings.Contains(text, "othing grows") {
		t.Errorf("the answer is %q", text)
	}
}
