package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/render/web"
)

// TestPageSpeed measures the page of a capture with 100,000 buffers, or as many as
// MEMLANE_BUFFERS says, and prints what it finds. It fails only where the page hangs.
func TestPageSpeed(t *testing.T) {
	n := 100_000
	if text := os.Getenv("MEMLANE_BUFFERS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	browser := newBrowser(t)
	file := filepath.Join(t.TempDir(), "report.html")
	size, wrote := writeLarge(t, file, n)
	t.Logf("%d buffers: a file of %.1f MB, written in %v", n, float64(size)/1e6, wrote.Round(time.Millisecond))
	if limit := int64(2e6 + 40*n); size > limit {
		t.Errorf("%d bytes, more than %d", size, limit)
	}
	began := time.Now()
	p := openTab(t, browser, "file://"+file)
	t.Logf("opened and interactive after %v", time.Since(began).Round(time.Millisecond))
	t.Logf("interactive %.0f ms after navigation began, by the page's own clock", eval[float64](p, "memlane.ready"))
	for _, layout := range []string{"stacked", "address"} {
		p.set("memlane.setLayout(%s)", quote(layout))
		p.do(chromedp.ScrollIntoView(chromedp.CSS("#blocks")))
		p.waitFor("memlane.view.pixels !== null")
		for what, action := range map[string]string{"hover": hoverSpeed, "wheel": wheelSpeed} {
			times := eval[[]float64](p, "%s", action)
			t.Logf("%s, %s: %.1f ms at most, %.1f ms in the middle of %d", layout, what, times[len(times)-1], times[len(times)/2], len(times))
			if times[len(times)-1] > 10_000 {
				t.Errorf("%s, %s hangs", layout, what)
			}
		}
	}
}

// Both answer when the page has drawn: milliseconds from the event to the frame
// after it, in ascending order.
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
		over.dispatchEvent(new WheelEvent('wheel', {deltaY: i < 15 ? -100 : 100, clientX: box.left + box.width * .6, clientY: box.top + 50, cancelable: true}));
		await new Promise(requestAnimationFrame);
		await new Promise((done) => setTimeout(done));
		times.push(performance.now() - began);
	}
	return times.sort((a, b) => a - b);
})()`

// writeLarge writes the page of a training loop with n buffers: weights, what steps
// allocate and free, and a leak.
func writeLarge(t *testing.T, file string, n int) (size int64, took time.Duration) {
	t.Helper()
	c := largeCapture(t, n)
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	began := time.Now()
	all := web.Capture{Capture: c, Name: "large", Info: infoOf(c), Findings: leak.Find(c, c.Spaces, leak.Settings{})}
	if err := web.Write(out, []web.Capture{all}); err != nil {
		t.Fatal(err)
	}
	took = time.Since(began)
	info, err := out.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Size(), took
}

func largeCapture(t *testing.T, n int) *lifetime.Capture {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "large", Format: "native"})
	sites := largeSites(b, rng)
	s := b.Space()
	b.InOrder(s)
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock})
	const perStep = 500
	type block struct {
		addr uint64
		size int64
	}
	var free []block
	var open []block
	now, top := int64(1_752_000_000_000_000_000), uint64(0x7f0000000000)
	alloc := func(site lifetime.SiteID, size int64) block {
		now += 1000 * (1 + rng.Int64N(40))
		a := block{top, size}
		if k := len(free); k > 0 && free[k-1].size == size {
			a, free = free[k-1], free[:k-1]
		} else {
			top += uint64(size)
		}
		b.Alloc(s, now, build.Block{Addr: a.addr, Requested: size - rng.Int64N(512), Occupied: size, Site: site})
		return a
	}
	release := func(a block) {
		now += 1000 * (1 + rng.Int64N(40))
		b.Free(s, now, build.Block{Addr: a.addr, Requested: a.size, Occupied: a.size})
		free = append(free, a)
	}
	for i := range n {
		size := int64(512) << rng.IntN(14)
		switch {
		case i < 200: // weights
			alloc(sites[i%len(sites)], 4<<20)
		case i%perStep == 0: // the leak
			alloc(sites[0], 1<<20)
		default:
			open = append(open, alloc(sites[rng.IntN(len(sites))], size))
		}
		for len(open) > 0 && (len(open) > 2000 || rng.IntN(2) == 0) {
			k := rng.IntN(len(open))
			release(open[k])
			open[k] = open[len(open)-1]
			open = open[:len(open)-1]
		}
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// largeSites makes 3,000 stacks of 20 calls.
func largeSites(b *build.Builder, rng *rand.Rand) (sites []lifetime.SiteID) {
	for i := range 3000 {
		var frames []lifetime.FrameID
		for depth := range 20 {
			k := rng.IntN(1 + 30*(20-depth))
			frames = append(frames, b.Frame(lifetime.Frame{Function: fmt.Sprintf("forward_%d", k), File: fmt.Sprintf("/home/user/model/layer_%d.py", k%120), Line: 1 + k}))
		}
		frames[0] = b.Frame(lifetime.Frame{Function: fmt.Sprintf("attention_%d", i%700), File: "/home/user/model/attention.py", Line: i})
		sites = append(sites, b.Site(lifetime.Site{Stack: b.Stack(frames)}))
	}
	return sites
}
