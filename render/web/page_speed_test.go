package web_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/trainingtest"
	"github.com/memlane/memlane/lifetime/judge"
)

// TestPageSpeed measures the page of a capture with 10,000 buffers (with MEMLANE_DEEP 100,000), or the number in
// MEMLANE_BUFFERS, and prints the times. It fails only if the page hangs.
func TestPageSpeed(t *testing.T) {
	n := deep.Or(10_000, 100_000)
	if text := os.Getenv("MEMLANE_BUFFERS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	chromium := browser.Start(t)
	file := filepath.Join(t.TempDir(), "report.html")
	size, wrote := writeLarge(t, file, n)
	t.Logf("%d buffers: a file of %.1f MB, written in %v", n, float64(size)/1e6, wrote.Round(time.Millisecond))
	if limit := int64(2e6 + 40*n); size > limit {
		t.Errorf("%d bytes, more than %d", size, limit)
	}
	began := time.Now()
	p := browser.Open(t, chromium, "file://"+file)
	t.Logf("opened and interactive after %v", time.Since(began).Round(time.Millisecond))
	t.Logf("interactive %.0f ms after navigation began, by the page's own clock", browser.Eval[float64](p, "memlane.ready"))
	if _, err := chromedp.Call(p.Ctx, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
		t.Fatal(err)
	}
	before := mainThread(p)
	p.Go("file://" + file)
	t.Logf("open again: %v of CPU in the main thread, interactive after %.0f ms", mainThread(p)-before, browser.Eval[float64](p, "memlane.ready"))
	if !deep.Is() && os.Getenv("MEMLANE_BUFFERS") == "" { // other tests use the mouse
		return
	}
	for _, layout := range []string{"stacked", "address"} {
		p.Do(chromedp.ScrollIntoView(chromedp.CSS(".hero")))
		before := mainThread(p)
		p.Set("memlane.setLayout(%s)", browser.Quote(map[string]string{"stacked": "address", "address": "stacked"}[layout]))
		p.Set("memlane.setLayout(%s)", browser.Quote(layout))
		p.Set("await new Promise(requestAnimationFrame); await new Promise((done) => setTimeout(done))")
		t.Logf("%s, two switches of the layout: %v of CPU", layout, mainThread(p)-before)
		p.WaitFor("memlane.view.raster !== null")
		for what, action := range map[string]string{"hover": hoverSpeed, "wheel": wheelSpeed} {
			before := mainThread(p)
			times := browser.Eval[[]float64](p, "%s", action)
			t.Logf("%s, %s: %.1f ms at most, %.1f ms in the middle of %d, %v of CPU each", layout, what, times[len(times)-1], times[len(times)/2], len(times),
				(mainThread(p)-before).Round(time.Millisecond)/time.Duration(len(times)))
			if times[len(times)-1] > 10_000 {
				t.Errorf("%s, %s hangs", layout, what)
			}
		}
	}
}

// mainThread returns the CPU time that the main thread of a page has used.
func mainThread(p *browser.Tab) time.Duration {
	p.T.Helper()
	all, err := chromedp.Call(p.Ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		p.T.Fatal(err)
	}
	for _, m := range all.Metrics {
		if m.Name == "TaskDuration" {
			return time.Duration(m.Value * 1e9).Round(100 * time.Microsecond)
		}
	}
	p.T.Fatal("the browser has no TaskDuration")
	return 0
}

// Both return the milliseconds from the event to the next frame, in ascending order.
const hoverSpeed = `(async () => {
	const {over} = memlane.view.plot, box = over.getBoundingClientRect(), times = [];
	for (let i = 1; i < 40; i++) {
		const at = {clientX: box.left + box.width * i / 40, clientY: box.top + box.height * (0.3 + 0.6 * (i % 7) / 7), bubbles: true};
		const began = performance.now();
		over.dispatchEvent(new MouseEvent('mousemove', at));
		document.querySelector('.hover').getBoundingClientRect();
		times.push(performance.now() - began);
		await new Promise(requestAnimationFrame);
	}
	return times.sort((a, b) => a - b);
})()`

const wheelSpeed = `(async () => {
	const {over} = memlane.view.plot, box = over.getBoundingClientRect(), times = [];
	for (let i = 0; i < 30; i++) {
		const began = performance.now();
		over.dispatchEvent(new WheelEvent('wheel', {ctrlKey: true, deltaY: i < 15 ? -100 : 100, clientX: box.left + box.width * .6, clientY: box.top + 50, cancelable: true}));
		await new Promise(requestAnimationFrame);
		await new Promise((done) => setTimeout(done));
		times.push(performance.now() - began);
	}
	return times.sort((a, b) => a - b);
})()`

// writeLarge writes the page of a training loop with n buffers.
func writeLarge(t *testing.T, file string, n int) (size int64, took time.Duration) {
	t.Helper()
	c := trainingtest.Capture(t, n)
	began := time.Now()
	html := page(t, judge.Of(c))
	took = time.Since(began)
	if err := os.WriteFile(file, []byte(html), 0o666); err != nil {
		t.Fatal(err)
	}
	return int64(len(html)), took
}
