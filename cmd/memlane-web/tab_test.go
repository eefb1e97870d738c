package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/chromedp"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/units"
)

// TestNoConnections checks that the browser refuses every way to connect, to the page and to
// workers, once the page is ready: so a fault of memlane cannot send a capture either.
func TestNoConnections(t *testing.T) {
	h, chromium := startHost(t), browser.Start(t)
	p := h.open(t, chromium)
	choose(p, "../../testdata/torchsnap/twodev.pickle")
	p.Ignore(strings.TrimPrefix(h.URL, "http://")) // the attempts, and the errors that they cause
	for name, attempt := range map[string]string{
		"fetch":          "await fetch(%s)",
		"XMLHttpRequest": "const x = new XMLHttpRequest(); x.open('GET', %s, false); x.send()",
		"beacon":         "if (!navigator.sendBeacon(%s)) throw 0; await new Promise((d) => setTimeout(d, 300))",
		"EventSource":    "await new Promise((d, no) => { const s = new EventSource(%s); s.onopen = d; s.onerror = no; })",
		"image":          "await new Promise((d, no) => { const i = new Image(); i.onload = d; i.onerror = no; i.src = %s; })",
		"script":         "await import(%s)",
		"in the worker":  "await new Promise((d, no) => { const w = new Worker(URL.createObjectURL(new Blob([`fetch('${%s}').then(() => postMessage(1), () => postMessage(0))`]))); w.onmessage = (e) => e.data ? d() : no(); })",
		"WebSocket":      "await new Promise((d, no) => { const s = new WebSocket(%s.replace('http', 'ws')); s.onopen = d; s.onerror = no; })",
	} {
		address := browser.Quote(h.URL + "/" + strings.ReplaceAll(name, " ", "-"))
		sent := browser.Eval[bool](p, "(async () => { try { %s; return true; } catch { return false; } })()", fmt.Sprintf(attempt, address))
		if sent && name != "beacon" { // browsers queue beacons and drop them later
			t.Errorf("%s: connected", name)
		}
	}
	h.checkRequests(t, 1)
}

// TestHistory goes back and forth between captures, and back inside one of them.
func TestHistory(t *testing.T) {
	h, chromium := startHost(t), browser.Start(t)
	p := h.open(t, chromium)
	shows := func(name string) {
		t.Helper()
		p.WaitFor("globalThis.memlane?.captures[0].name === %s", browser.Quote(name))
	}
	choose(p, "../../testdata/torchsnap/twodev.pickle")
	first := browser.Eval[string](p, "memlane.space.id")
	p.Set("memlane.answered = true")
	other := browser.Eval[string](p, "memlane.captures[0].spaces.find((s) => s !== memlane.space).id")
	p.Set("location.hash = %s", browser.Quote("space="+other)) // as a link in the page does
	p.WaitFor("memlane.space.id === %s", browser.Quote(other))
	p.Set("history.back()")
	p.WaitFor("memlane.space.id === %s", browser.Quote(first))
	if !browser.Eval[bool](p, "memlane.answered") {
		t.Error("going back inside a capture reads it again")
	}
	choose(p, "../../testdata/jaxprof/leak_after.memory.prof")
	shows("leak_after.memory.prof")
	p.Set("history.back()")
	shows("twodev.pickle")
	p.Set("history.forward()")
	shows("leak_after.memory.prof")
	p.Set("history.go(-2)")
	p.WaitFor("globalThis.memlane === null && !!document.querySelector('.choose')")
	p.Set("history.forward()")
	shows("twodev.pickle")
	h.checkRequests(t, 1)
}

// TestLink opens the page at an address with a view, which the first capture then shows.
func TestLink(t *testing.T) {
	h, chromium := startHost(t), browser.Start(t)
	p := browser.OpenLoading(t, chromium, h.URL+"/#space=cuda:1&tab=findings", "memlane.wasm.gz")
	choose(p, "../../testdata/torchsnap/twodev.pickle")
	if space, tab := browser.Eval[string](p, "memlane.space.id"), browser.Eval[string](p, "memlane.tab"); space != "cuda:1" || tab != "findings" {
		t.Errorf("it shows %s of %s", tab, space)
	}
}

// TestTwoTabs reads different captures in two tabs at the same time.
func TestTwoTabs(t *testing.T) {
	h, chromium := startHost(t), browser.Start(t)
	files := []string{"../../testdata/torchsnap/leak_4mib_20steps.pickle", "../../testdata/xplane/tf_leak.xplane.pb"}
	tabs := []*browser.Tab{h.open(t, chromium), h.open(t, chromium)}
	for i, p := range tabs {
		pick(p, files[i])
	}
	for i, p := range tabs {
		p.WaitFor("!!globalThis.memlane")
		if got, want := fromAPI(p, "/api/peak?at=end"), serverAnswer(t, "/api/peak?at=end", files[i]); got != want {
			t.Errorf("%s: %s, want %s", files[i], got, want)
		}
	}
	h.checkRequests(t, 2)
}

// TestFailures chooses what is not a capture, drops a file, and cancels.
func TestFailures(t *testing.T) {
	h, chromium := startHost(t), browser.Start(t)
	p := h.open(t, chromium)
	evil := filepath.Join(t.TempDir(), "<img src=x onerror=alert(1)>.txt")
	if err := os.WriteFile(evil, []byte("Dear diary,\n<script>alert(1)</script>"), 0o666); err != nil {
		t.Fatal(err)
	}
	pick(p, evil)
	p.WaitFor(`document.querySelector('[role=alert]')?.textContent.includes('not a capture that memlane knows: it begins with "Dear diary')`)
	p.Set("window.dropped = new DataTransfer(); dropped.items.add(new File(['memlane native 2\\nsource format=\"x\" producer=\"y\"\\nspace source=0 axis=\"time\" begin=0 end=+10\\nbuffer +1 +3 0x200 512 512\\n'], 'dropped.native'));" +
		"document.querySelector('.drop').dispatchEvent(new DragEvent('drop', {dataTransfer: dropped, bubbles: true, cancelable: true}))")
	p.WaitFor("globalThis.memlane?.captures[0].name === 'dropped.native'")
	p.Set("local.choose([new File([new Uint8Array(64 << 20)], 'large')]); document.querySelector('.reading button').click()")
	p.WaitFor("!!document.querySelector('.choose')")
	if browser.Eval[bool](p, "!!document.querySelector('[role=alert]')") {
		t.Error("cancelling is an error")
	}
	p.Set("document.body.dispatchEvent(new DragEvent('dragover', {bubbles: true, cancelable: true}))")
	if !browser.Eval[bool](p, "getComputedStyle(document.querySelector('.drop')).outlineStyle === 'dashed'") {
		t.Error("the page does not show where files may drop")
	}
	p.Set("document.body.dispatchEvent(new DragEvent('dragleave', {bubbles: true}))")
	if browser.Eval[bool](p, "getComputedStyle(document.querySelector('.drop')).outlineStyle === 'dashed'") {
		t.Error("the page shows a drop after the mouse left")
	}
	p.Click(".example")
	p.WaitFor("globalThis.memlane?.captures[0].name === 'example.pickle.zst' && document.querySelector('#headline').textContent.includes('Out of memory')")
	if text := browser.Eval[string](p, "document.body.innerText"); strings.Contains(text, "memlane tune") || strings.Contains(text, "memlane peak") {
		t.Error("the page without the program offers its commands")
	}
	p.Set("history.back()")
	p.WaitFor("!!document.querySelector('.choose')")
	p.Set("local.welcome(Object.assign(new Error('it is large'), {large: true}), [new File([], \"it's.pickle\")])")
	if got := p.Text("[role=alert] pre"); got != `memlane serve 'it'\''s.pickle'` {
		t.Errorf("a large capture: %s", got)
	}
	h.checkRequests(t, 1)
}

// TestNotLoaded: a page whose program is missing says so, and that a dropped file was not read.
func TestNotLoaded(t *testing.T) {
	h, chromium := startHost(t), browser.Start(t)
	p := h.open(t, chromium)
	p.Set("local.newReader = null; local.broken = 'memlane cannot be loaded: 404'; local.choose([new File(['x'], '<b>rank0')])")
	if got := p.Text("[role=alert]"); got != "memlane cannot be loaded: 404 <b>rank0 was not read." {
		t.Errorf("the page says %q", got)
	}
}

// usage is what a tab holds after garbage was collected.
type usage struct {
	nodes, listeners, heap, resident int64
}

func usageOf(p *browser.Tab) usage {
	p.T.Helper()
	for range 2 {
		if _, err := chromedp.Call(p.Ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			p.T.Fatal(err)
		}
	}
	counters, err := chromedp.Call(p.Ctx, memory.GetDOMCounters, cdp.Empty{})
	if err != nil {
		p.T.Fatal(err)
	}
	return usage{counters.Nodes, counters.JsEventListeners, browser.Eval[int64](p, "performance.memory.usedJSHeapSize"), renderers(p.T)}
}

// renderers returns the memory of the renderer processes below this one, in bytes; 0 where
// /proc does not say.
func renderers(t *testing.T) (bytes int64) {
	t.Helper()
	parent, resident := map[int]int{}, map[int]int64{}
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		status, _ := os.ReadFile(file)
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		for line := range strings.Lines(string(status)) {
			fields := strings.Fields(line)
			switch {
			case len(fields) > 1 && fields[0] == "PPid:":
				parent[pid], _ = strconv.Atoi(fields[1])
			case len(fields) > 1 && fields[0] == "RssAnon:" && strings.Contains(string(command), "--type=renderer"): // processes share the rest
				kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
				resident[pid] = kilobytes << 10
			}
		}
	}
	for pid, n := range resident {
		for up := pid; up > 1; up = parent[up] {
			if up == os.Getpid() {
				bytes += n
				break
			}
		}
	}
	return bytes
}

// TestMany opens 40 captures in a row. What the tab holds must not grow after the first ten.
func TestMany(t *testing.T) {
	h, chromium := startHost(t), browser.Start(t)
	p := h.open(t, chromium)
	files := []string{"../../testdata/torchsnap/twodev.pickle", "../../testdata/xplane/tf_leak.xplane.pb", "../../testdata/chrome/cuprof_leak.json.gz", "../../testdata/torchsnap/frag_oom.pickle"}
	var after []usage
	for i := range 40 {
		choose(p, files[i%len(files)])
		p.Set("for (const tab of memlane.tabs) memlane.showTab(tab.key)")
		if i%len(files) == len(files)-1 {
			after = append(after, usageOf(p))
		}
	}
	t.Logf("%+v", after)
	early, late := after[2], slices.MaxFunc(after[7:], func(a, b usage) int { return int(a.resident - b.resident) })
	if late.nodes > early.nodes*5/4 || late.listeners > early.listeners*5/4 || late.heap > early.heap*5/4 {
		t.Errorf("after 12 captures the tab holds %+v, after 40 %+v", early, late)
	}
	if runtime.GOOS == "linux" && (early.resident == 0 || late.resident > early.resident+100<<20) {
		t.Errorf("the browser needs %s after 12 captures, %s after 40", units.Bytes(early.resident), units.Bytes(late.resident))
	}
	h.checkRequests(t, 1)
}

// TestAlike drops ranks that have one name: they differ in the strip of devices.
func TestAlike(t *testing.T) {
	h, chromium := startHost(t), browser.Start(t)
	p := h.open(t, chromium)
	p.Set("local.choose([1, 2, 3].map((n) => new File([`memlane native 2\\nsource format=\"x\" producer=\"y\"\\nspace source=0 axis=\"time\" device=\"cuda:0\" begin=0 end=+10 facts=\"history\"\\nbuffer +1 +3 0x200 ${512 * n} 512\\n`], 'rank0.native')))")
	p.WaitFor("globalThis.memlane?.captures.length === 3 && document.querySelectorAll('.device').length === 3")
	got := browser.Eval[[]string](p, "[...document.querySelectorAll('.device')].map((e) => e.innerText.replace(/\\s+/g, ' '))")
	if want := []string{"rank0.native cuda:0 512 B", "rank0.native (2) cuda:0 1.00 KiB", "rank0.native (3) cuda:0 1.50 KiB"}; !slices.Equal(got, want) {
		t.Errorf("the strip has %q, want %q", got, want)
	}
}
