package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/memlane/memlane/internal/race"
)

// newBrowser starts a headless Chromium. In CI there must be one.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	if race.Enabled {
		t.Skip("a browser takes minutes, and is no part of what is watched for races")
	}
	name := ""
	for _, n := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(n); err == nil {
			name = path
			break
		}
	}
	if name == "" && os.Getenv("CI") != "" {
		t.Fatal("no Chromium: .ci/run installs it")
	}
	if name == "" {
		t.Skip("no Chromium: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(name), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1400, 1300))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	browser, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	if err := chromedp.Do(browser); err != nil {
		t.Fatal(err)
	}
	return browser
}

// tab is a page in a browser. What its console says of errors, and what it asks
// for beyond itself, fails the test.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string
}

// openTab opens an address and waits until the page can be used.
func openTab(t *testing.T, browser context.Context, address string) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(browser)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // a million buffers on a machine with other things to do
	t.Cleanup(func() { cancel(); closeTab() })
	p := &tab{t: t, ctx: ctx}
	own, _, _ := strings.Cut(address, "#")
	err := chromedp.Listen(ctx, func(event any) { p.watch(own, event) })
	if err == nil {
		_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	}
	if err == nil {
		_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	}
	if err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.Navigate(address), chromedp.WaitReady(chromedp.CSS("body[data-ready]")))
	t.Cleanup(p.check)
	return p
}

func (p *tab) watch(own string, event any) {
	fault := ""
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; url != own && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:") && !strings.HasPrefix(url, own+"api/") {
			fault = "asks for " + url
		}
	case *page.EventJavascriptDialogOpening:
		fault = "says " + e.Message
	case *runtime.EventExceptionThrown:
		fault = e.ExceptionDetails.Text + " " + fmt.Sprint(e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			fault = fmt.Sprint("console: ", e.Args)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			fault = "log: " + e.Entry.Text
		}
	}
	if fault != "" {
		p.mu.Lock()
		p.faults = append(p.faults, fault)
		p.mu.Unlock()
	}
}

func (p *tab) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		p.t.Errorf("the page: %s", f)
	}
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](p *tab, format string, args ...any) T {
	p.t.Helper()
	expression := fmt.Sprintf(format, args...)
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// set runs a statement in the page.
func (p *tab) set(format string, args ...any) {
	p.t.Helper()
	eval[bool](p, "(async () => { %s; return true; })()", fmt.Sprintf(format, args...))
}

// text returns what an element says.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, "document.querySelector(%s).innerText", quote(selector))
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// enter types into a field, in place of what it holds.
func (p *tab) enter(selector, text string) {
	p.t.Helper()
	p.set("const field = document.querySelector(%s); field.value = ''; field.dispatchEvent(new Event('input')); field.focus()", quote(selector))
	p.do(chromedp.KeyEvent(text))
}

// point is a place in the window, in pixels of CSS.
type point struct{ X, Y float64 }

func (p *tab) mouse(kind input.DispatchMouseEventType, at point, options ...chromedp.MouseOption) {
	p.t.Helper()
	p.do(chromedp.MouseEvent(kind, at.X, at.Y, options...))
}

// wheel turns the wheel at a place: up is below 0.
func (p *tab) wheel(at point, by float64) {
	p.t.Helper()
	p.mouse(input.DispatchMouseEventTypeMouseWheel, at, func(e *input.DispatchMouseEventParams) {
		e.DeltaX, e.DeltaY = 1e-9, by // 0 would not be sent, and both must be
	})
}

func (p *tab) clickAt(at point) {
	p.t.Helper()
	p.mouse(moved, at)
	p.mouse(pressed, at, chromedp.ButtonLeft, chromedp.ClickCount(1))
	p.mouse(released, at, chromedp.ButtonLeft, chromedp.ClickCount(1))
}

const (
	moved    = input.DispatchMouseEventTypeMouseMoved
	pressed  = input.DispatchMouseEventTypeMousePressed
	released = input.DispatchMouseEventTypeMouseReleased
)

// waitFor waits until an expression is true.
func (p *tab) waitFor(format string, args ...any) {
	p.t.Helper()
	expression := fmt.Sprintf(format, args...)
	poll := chromedp.Poll[bool](expression, chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(30*time.Second))
	if _, err := chromedp.Run(p.ctx, poll); err != nil {
		p.t.Fatalf("never %s: %v", expression, err)
	}
}

// pixelOf returns a place in the window where the block view shows a buffer.
func (p *tab) pixelOf(buffer int) point {
	p.t.Helper()
	return eval[point](p, `(() => {
		const v = memlane.view, box = v.plot.over.getBoundingClientRect();
		const inside = [];
		v.pixels.forEach((id, i) => { if (id === %d) inside.push(i); });
		const i = inside[inside.length >> 1];
		return {X: box.left + (i %% v.width + .5) * box.width / v.width, Y: box.top + (Math.floor(i / v.width) + .5) * box.height / v.height};
	})()`, buffer)
}

// reportPage writes the page of captures and returns its address.
func reportPage(t *testing.T, captures ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	succeed(t, append([]string{"report", "--quiet", "-o", file}, captures...)...)
	return "file://" + file
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
