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
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/memlane/memlane/internal/race"
)

// Start returns a context for the tabs of a test in a headless Chromium, which all tests of a program share: it starts with the first of them, and
// ends with the last. The test runs in parallel with others, so that they overlap their waits. Without a Chromium it fails the test in CI, and
// skips it elsewhere.
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
	shared.enter()
	t.Cleanup(shared.leave)
	t.Parallel() // all tests that need the browser have entered when the first one goes on
	chromium, err := shared.started(name)
	if err != nil {
		t.Fatal(err)
	}
	if deadline, ok := t.Deadline(); ok { // a page that hangs fails its test before that
		limited, cancel := context.WithDeadline(chromium, deadline.Add(-20*time.Second))
		t.Cleanup(cancel)
		chromium = limited
	}
	tabs, closeTabs := chromedp.NewContext(chromium)
	t.Cleanup(closeTabs)
	return tabs
}

// patience is how long WaitFor waits: long enough for a machine that has much else to do.
const patience = 3 * time.Minute

// shared is the browser of this program.
var shared process

// process is a browser that runs while tests use it.
type process struct {
	mu    sync.Mutex
	tests int
	ctx   context.Context // nil = not started
	end   func()
	idle  []context.Context // tabs that tests have left
}

// enter announces a test.
func (b *process) enter() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tests++
}

// started starts the browser if it does not run.
func (b *process) started(name string) (context.Context, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx != nil && b.ctx.Err() == nil {
		return b.ctx, nil
	}
	b.stop()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(name), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1400, 1300),
		chromedp.Flag("disable-back-forward-cache", true))
	allocator, removed := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closed := chromedp.NewContext(allocator)
	b.ctx, b.end = ctx, func() { closed(); removed() }
	return b.ctx, chromedp.Do(b.ctx)
}

// leave ends the browser after the last test.
func (b *process) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tests--; b.tests == 0 {
		b.stop()
	}
}

func (b *process) stop() {
	if b.ctx != nil {
		b.end()
		b.ctx, b.idle = nil, nil
	}
}

// tab returns a tab that a test has left, or a new one: that costs four times as much, as a page in it needs processes of its own.
func (b *process) tab() (context.Context, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.idle); n > 0 {
		defer func() { b.idle = b.idle[:n-1] }()
		return b.idle[n-1], nil
	}
	tab, _ := chromedp.NewContext(b.ctx) // it ends with the browser
	return tab, chromedp.Do(tab)
}

// leaveTab takes back a tab, for the next test if it may be used again.
func (b *process) leaveTab(tab context.Context, again bool) {
	if again {
		_, err := chromedp.Call(tab, emulation.ClearDeviceMetricsOverride, cdp.Empty{})
		again = err == nil
	}
	if !again {
		chromedp.Cancel(tab)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, tab)
}

// Tab is a page in a browser. Errors and warnings on its console, and requests outside the page, fail the test.
type Tab struct {
	T   *testing.T
	Ctx context.Context

	mu     sync.Mutex
	own    string // address of the page
	asked  bool   // whether it was requested: what came before was the page of another test
	faults []string
	loads  []string // files next to the page that it may request once
	ignore string   // faults with this text are expected
}

// Open opens a page of memlane and waits until it is ready.
func Open(t *testing.T, browser context.Context, address string) *Tab {
	t.Helper()
	return open(t, browser, address, page)
}

// OpenLoading opens a page that loads files next to it, each once, and waits until it is ready.
func OpenLoading(t *testing.T, browser context.Context, address string, files ...string) *Tab {
	t.Helper()
	return open(t, browser, address, page, files...)
}

// OpenPicture opens an SVG.
func OpenPicture(t *testing.T, browser context.Context, address string) *Tab {
	t.Helper()
	return open(t, browser, address, picture)
}

// Elements that pages and pictures have when they are ready.
const (
	page    = "body[data-ready]"
	picture = "svg"
)

func open(t *testing.T, browser context.Context, address, ready string, loads ...string) *Tab {
	t.Helper()
	tab, err := shared.tab()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.leaveTab(tab, strings.HasPrefix(address, "file:") && !t.Failed()) })
	ctx, cancel := context.WithCancel(tab)
	t.Cleanup(cancel)
	context.AfterFunc(browser, cancel)
	p := &Tab{T: t, Ctx: ctx, loads: loads}
	t.Cleanup(p.check)
	err = chromedp.Listen(ctx, p.watch)
	if err == nil { // only one window of a browser has the focus, but each test needs it
		_, err = chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	p.show(address, ready)
	return p
}

// Go shows another page of memlane in the tab and waits until it is ready.
func (p *Tab) Go(address string) {
	p.T.Helper()
	p.show(address, page)
}

// GoPicture shows another SVG in the tab.
func (p *Tab) GoPicture(address string) {
	p.T.Helper()
	p.show(address, picture)
}

// shown numbers the pages: if only the part after "#" changed, the browser would not load a page again.
var shown atomic.Int64

func (p *Tab) show(address, ready string) {
	p.T.Helper()
	own, part, hasPart := strings.Cut(address, "#")
	if strings.HasPrefix(own, "file:") {
		own += fmt.Sprint("?", shown.Add(1))
	}
	address = own
	if hasPart {
		address += "#" + part
	}
	p.mu.Lock()
	p.own, p.asked = own, false
	p.mu.Unlock()
	if _, err := chromedp.Call(p.Ctx, cdppage.ResetNavigationHistory, cdp.Empty{}); err != nil { // it is limited, and tests count its entries
		p.T.Fatal(err)
	}
	p.Do(chromedp.Navigate(address), chromedp.WaitReady(chromedp.CSS(ready)))
}

func (p *Tab) watch(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fault := ""
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		url := e.Request.URL
		p.asked = p.asked || url == p.own
		if url != p.own && !p.mayLoad(strings.TrimPrefix(url, p.own)) && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:") && !strings.HasPrefix(url, p.own+"api/") {
			fault = "requests " + url
		}
	case *cdppage.EventJavascriptDialogOpening:
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
	if fault != "" && p.asked && (p.ignore == "" || !strings.Contains(fault, p.ignore)) {
		p.faults = append(p.faults, fault)
	}
}

// Ignore accepts faults that contain a text, from now on.
func (p *Tab) Ignore(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ignore = text
}

// mayLoad reports whether the page may request a file now. It holds mu.
func (p *Tab) mayLoad(file string) bool {
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
	poll := chromedp.Poll[bool](expression, chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(patience))
	if _, err := chromedp.Run(p.Ctx, poll); err != nil {
		p.T.Fatalf("never %s: %v", expression, err)
	}
}

// Quote returns a text as JavaScript string literal.
func Quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
