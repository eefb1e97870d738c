package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/web"
)

// host is a static host of the built page, which counts its requests.
type host struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
}

// startHost serves the page in the folder $MEMLANE_PAGE. Building it takes too long for each
// run of the tests.
func startHost(t *testing.T) *host {
	t.Helper()
	folder := os.Getenv("MEMLANE_PAGE")
	if folder == "" {
		t.Skip("set MEMLANE_PAGE to the folder that go run ./cmd/memlane-web wrote")
	}
	h := &host{}
	files := http.FileServer(http.Dir(folder))
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.requests = append(h.requests, r.URL.Path)
		h.mu.Unlock()
		w.Header().Set("Cache-Control", "no-store") // so that each request arrives here
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// open opens the page in a new tab.
func (h *host) open(t *testing.T, chromium context.Context) *browser.Tab {
	t.Helper()
	return browser.OpenLoading(t, chromium, h.URL+"/", "memlane.wasm.gz")
}

// checkRequests fails if the page requested more than itself and its program, per tab.
func (h *host) checkRequests(t *testing.T, tabs int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.requests)
	if want := append(slices.Repeat([]string{"/"}, tabs), slices.Repeat([]string{"/memlane.wasm.gz"}, tabs)...); !slices.Equal(h.requests, want) {
		t.Errorf("the host was asked for %v, want %v", h.requests, want)
	}
}

// choose chooses files and waits for the page of the first one.
func choose(p *browser.Tab, files ...string) {
	p.T.Helper()
	p.Set("window.before = globalThis.memlane")
	pick(p, files...)
	p.WaitFor("globalThis.memlane && memlane !== window.before || !!document.querySelector('main > .empty[role=alert]')")
	if browser.Eval[bool](p, "!globalThis.memlane") {
		p.T.Fatalf("%v: the page says %s", files, p.Text("[role=alert]"))
	}
}

func pick(p *browser.Tab, files ...string) {
	p.T.Helper()
	for i := range files {
		files[i], _ = filepath.Abs(files[i])
	}
	p.Do(chromedp.SetUploadFiles(chromedp.CSS("input[type=file]"), files))
}

// fromAPI returns an answer of the API of the captures shown.
func fromAPI(p *browser.Tab, address string) string {
	p.T.Helper()
	return browser.Eval[string](p, "memlane.answer(%s)", browser.Quote(address))
}

// serverAnswer returns what memlane serve answers for files, under the names of the page.
func serverAnswer(t *testing.T, address string, files ...string) string {
	t.Helper()
	var captures []*judge.Capture
	for _, file := range files {
		c, err := judged.Open(filepath.Base(file), formats.Input{File: func(string) (formats.File, error) { return diskFile(file) }})
		if err != nil {
			t.Fatal(err)
		}
		captures = append(captures, c)
	}
	var out bytes.Buffer
	if err := web.Answer(&out, captures, address); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

type onDisk struct {
	*os.File
	size int64
}

func (d onDisk) Size() int64 { return d.size }

func diskFile(name string) (formats.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	return onDisk{f, info.Size()}, err
}

// captureFiles are the captures in testdata, without folders that have more of the same
// formats, and without the models that tests compare captures with.
func captureFiles(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("../../testdata/*/*")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(file string) bool {
		folder := filepath.Base(filepath.Dir(file))
		if slices.Contains([]string{"gen", "labelled", "meaning", "replay"}, folder) || strings.HasSuffix(file, ".native") && folder != "native" {
			return true
		}
		if info, err := os.Stat(file); err != nil || info.IsDir() { // a browser gives files
			return true
		}
		_, err := judged.Open(file, formats.Input{})
		return err != nil
	})
}

// TestCaptures opens every shipped capture, one after the other in one tab, and compares
// with memlane's answers. The memory of the tab must not grow.
func TestCaptures(t *testing.T) {
	h, chromium := startHost(t), browser.Start(t)
	p := h.open(t, chromium)
	files := captureFiles(t)
	t.Logf("%d captures", len(files))
	seen := map[string]bool{}
	for _, file := range files {
		choose(p, file)
		for _, address := range []string{"/api/info", "/api/leaks"} {
			if got, want := fromAPI(p, address), serverAnswer(t, address, file); got != want {
				t.Errorf("%s: %s is not that of memlane:\n%.300s\n%.300s", file, address, got, want)
			}
		}
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		info := answer.InfoOf(c.Outline())
		seen[info.Format] = true
		if len(info.Spaces) == 0 {
			continue
		}
		shown := browser.Eval[string](p, "memlane.space.id")
		for _, s := range info.Spaces {
			const first = ".summary dd" // without a history, it is what was in use at the end
			if got, want := p.Text(first), units.Bytes(s.Peak.Bytes); s.ID == shown && got != want {
				t.Errorf("%s: the page shows a peak of %s, want %s", file, got, want)
			}
		}
	}
	for _, f := range formats.All() {
		if !seen[f.Name] {
			t.Errorf("no capture of %s was opened", f.Name)
		}
	}
	h.checkRequests(t, 1)
}

// TestCompare chooses two captures, compressed in both ways.
func TestCompare(t *testing.T) {
	h, chromium := startHost(t), browser.Start(t)
	folder := t.TempDir()
	before, after := filepath.Join(folder, "before.memory.prof.gz"), filepath.Join(folder, "after.memory.prof.zst")
	pack(t, before, "../../testdata/jaxprof/leak_before.memory.prof")
	pack(t, after, "../../testdata/jaxprof/leak_after.memory.prof")
	p := h.open(t, chromium)
	choose(p, before, after)
	if got, want := fromAPI(p, "/api/info"), serverAnswer(t, "/api/info", before, after); got != want {
		t.Errorf("two captures: %s, want %s", got, want)
	}
	p.Click("[data-tab=compare]")
	p.WaitFor("document.querySelector('.verdict')?.textContent.startsWith('The peak grew')")
}

// TestSwitches: the choice of changes comes after the page is shown.
func TestSwitches(t *testing.T) {
	p := startHost(t).open(t, browser.Start(t))
	choose(p, "../../testdata/meaning/a17.pickle.zst")
	p.WaitFor("document.querySelectorAll('.switches option').length > 2")
}

// TestCompressed opens a compressed profile, which the reader reads twice: its content goes
// into a temporary file, which is in the memory of the worker.
func TestCompressed(t *testing.T) {
	h, chromium := startHost(t), browser.Start(t)
	file := filepath.Join(t.TempDir(), "tf_leak.xplane.pb.gz")
	pack(t, file, "../../testdata/xplane/tf_leak.xplane.pb")
	p := h.open(t, chromium)
	choose(p, file)
	for _, address := range []string{"/api/info", "/api/leaks", "/api/peak?at=end", "/api/model?capture=0"} {
		if got, want := fromAPI(p, address), serverAnswer(t, address, file); got != want {
			t.Errorf("%s is not that of memlane", address)
		}
	}
	refused := browser.Eval[string](p, "memlane.answer('/api/peak?when=end').catch((e) => e.message)")
	if want := "unknown parameter \"when\"; known are: token, at"; refused != want {
		t.Errorf("a wrong parameter: %q, want %q", refused, want)
	}
}

// pack writes a compressed copy of a file.
func pack(t *testing.T, to, from string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if strings.HasSuffix(to, ".zst") {
		z, _ := zstd.NewWriter(&out)
		z.Write(data)
		z.Close()
	} else {
		z := gzip.NewWriter(&out)
		z.Write(data)
		z.Close()
	}
	if err := os.WriteFile(to, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}
