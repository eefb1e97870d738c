// Package browser opens pages and pictures in a headless Chromium, for tests.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
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

// Start starts a headless Chromium that ends with the test, or after Limit. Without a
// Chromium it fails the test in CI, and skips it elsewhere.
func Start(t *testing.T) context.Context {
	t.Helper()
	if race.Enabled {
		t.Skip("browser tests take too long with the race detector")
	}
	name := ""
	for _, n := range []string{"google-chrome", "chromium-browser", "chromium"} { // the last one is preferred
		if path, err := exec.LookPath(n); err == nil {
			name = path
		}
	}
	if name == "" && os.Getenv("CI") != "" {
		t.Fatal("no Chromium: .ci/run installs it")
	}
	if name == "" {
		t.Skip("no Chromium: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(name), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1400, 1300))
	limited, cancel := context.WithTimeoutCause(t.Context(), Limit, fmt.Errorf("the browser took longer than %v", Limit))
	t.Cleanup(cancel)
	allocator, stop := chromedp.NewExecAllocator(limited, options...)
	t.Cleanup(stop)
	browser, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	if err := chromedp.Do(browser); err != nil {
		t.Fatal(err)
	}
	return browser
}

// Limit is the maximum time of a browser for one test, so that a hanging page fails only this test.
const Limit = 3 * time.Minute

// Tab is a page in a browser. Errors and warnings on its console, and requests outside the page, fail the test.
type Tab struct {
	T   *testing.T
	Ctx context.Context

	mu     sync.Mutex
	faults []string
	loads  []string // files next to the page that it may request once
	ignore string   // faults with this text are expected
}

// Open opens a page of memlane and waits until it is ready.
func Open(t *testing.T, browser context.Context, address string) *Tab {
	t.Helper()
	return open(t, browser, address, "body[data-ready]")
}

// OpenLoading opens a page that loads files next to it, each once, and waits until it is ready.
func OpenLoading(t *testing.T, browser context.Context, address string, files ...string) *Tab {
	t.Helper()
	return open(t, browser, address, "body[data-ready]", files...)
}

// OpenPicture opens an SVG.
func OpenPicture(t *testing.T, browser context.Context, address string) *Tab {
	t.Helper()
	return open(t, browser, address, "svg")
}

func open(t *testing.T, browser context.Context, address, ready string, loads ...string) *Tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(browser)
	t.Cleanup(closeTab)
	p := &Tab{T: t, Ctx: ctx, loads: loads}
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
	p.Do(chromedp.Navigate(address), chromedp.WaitReady(chromedp.CSS(ready)))
	t.Cleanup(p.check)
	return p
}

func (p *Tab) watch(own string, event any) {
	fault := ""
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; url != own && !p.mayLoad(strings.TrimPrefix(url, own)) && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:") && !strings.HasPrefix(url, own+"api/") {
			fault = "requests " + url
		}
	case *page.EventJavascriptDialogOpening:
		fault = "opens a dialog: " + e.Message
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
		defer p.mu.Unlock()
		if p.ignore == "" || !strings.Contains(fault, p.ignore) {
			p.faults = append(p.faults, fault)
		}
	}
}

// Ignore accepts faults that contain a text, from now on.
func (p *Tab) Ignore(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ignore = text
}

// mayLoad reports whether the page may request a file now.
func (p *Tab) mayLoad(file string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.loads, file)
	if i >= 0 {
		p.loads = slices.Delete(p.loads, i, i+1)
	}
	return i >= 0
}

func (p *Tab) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		p.T.Errorf("the page: %s", f)
	}
}

// Do runs actions of chromedp.
func (p *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.T.Helper()
	if err := chromedp.Do(p.Ctx, actions...); err != nil {
		p.T.Fatal(err)
	}
}

// Eval returns the value of a JavaScript expression in the page.
func Eval[T any](p *Tab, format string, args ...any) T {
	p.T.Helper()
	expression := fmt.Sprintf(format, args...)
	v, err := chromedp.Run(p.Ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.T.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Set runs a statement in the page.
func (p *Tab) Set(format string, args ...any) {
	p.T.Helper()
	Eval[bool](p, "(async () => { %s; return true; })()", fmt.Sprintf(format, args...))
}

// Text returns the text of an element.
func (p *Tab) Text(selector string) string {
	p.T.Helper()
	return Eval[string](p, "document.querySelector(%s).innerText", Quote(selector))
}

// Click clicks on an element.
func (p *Tab) Click(selector string) {
	p.T.Helper()
	p.Do(chromedp.Click(chromedp.CSS(selector)))
}

// Enter replaces the text of a field by typing.
func (p *Tab) Enter(selector, text string) {
	p.T.Helper()
	p.Set("const field = document.querySelector(%s); field.value = ''; field.dispatchEvent(new Event('input')); field.focus()", Quote(selector))
	p.Do(chromedp.KeyEvent(text))
}

// Point is a place in the window, in CSS pixels.
type Point struct{ X, Y float64 }

// Mouse sends a mouse event.
func (p *Tab) Mouse(kind input.DispatchMouseEventType, at Point, options ...chromedp.MouseOption) {
	p.T.Helper()
	p.Do(chromedp.MouseEvent(kind, at.X, at.Y, options...))
}

// Wheel turns the mouse wheel at a place; up is negative.
func (p *Tab) Wheel(at Point, by float64, options ...chromedp.MouseOption) {
	p.T.Helper()
	p.Mouse(input.DispatchMouseEventTypeMouseWheel, at, append(options, func(e *input.DispatchMouseEventParams) {
		e.DeltaX, e.DeltaY = 1e-9, by // chromedp omits 0, but both are required
	})...)
}

// ClickAt clicks on a place.
func (p *Tab) ClickAt(at Point) {
	p.T.Helper()
	p.Mouse(Moved, at)
	p.Mouse(Pressed, at, chromedp.ButtonLeft, chromedp.ClickCount(1))
	p.Mouse(Released, at, chromedp.ButtonLeft, chromedp.ClickCount(1))
}

// Mouse events.
const (
	Moved    = input.DispatchMouseEventTypeMouseMoved
	Pressed  = input.DispatchMouseEventTypeMousePressed
	Released = input.DispatchMouseEventTypeMouseReleased
)

// WaitFor waits until an expression is true.
func (p *Tab) WaitFor(format string, args ...any) {
	p.T.Helper()
	expression := fmt.Sprintf(format, args...)
	poll := chromedp.Poll[bool](expression, chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(30*time.Second))
	if _, err := chromedp.Run(p.Ctx, poll); err != nil {
		p.T.Fatalf("never %s: %v", expression, err)
	}
}

// Quote returns a text as JavaScript string literal.
func Quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
