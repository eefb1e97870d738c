package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPageTheme: dark mode is the reader's, and a key changes it.
func TestPageTheme(t *testing.T) {
	p := openTab(t, newBrowser(t), reportPage(t, snapshots+"/leak_4mib_20steps.pickle"))
	before := p.background()
	p.do(chromedp.KeyEvent("d"))
	if after := p.background(); after == before {
		t.Errorf("the page stays %s", after)
	}
	p.do(chromedp.KeyEvent("?"))
	if !strings.Contains(p.text("dialog"), "zoom") {
		t.Error("no help")
	}
}

func (p *tab) background() string {
	return eval[string](p, "getComputedStyle(document.body).backgroundColor")
}

// TestPageLinks: an address says what the page shows, and the page writes it there.
func TestPageLinks(t *testing.T) {
	address := reportPage(t, snapshots+"/leak_4mib_20steps.pickle")
	browser := newBrowser(t)
	p := openTab(t, browser, address)
	origin := eval[string](p, "memlane.space.origin.toString()")
	at, from, to := eval[string](p, "memlane.space.instant(100000)"), eval[string](p, "memlane.space.instant(50000)"), eval[string](p, "memlane.space.instant(150000)")
	hash := "#space=cuda:0&t=" + at + "&from=" + from + "&to=" + to + "&q=scratch&buffer=3&layout=address&color=size&tab=buffers"
	p = openTab(t, browser, address+hash)
	got := eval[[]any](p, "[memlane.time, memlane.timeline.from, memlane.timeline.to, memlane.marks.buffer, memlane.options.layout, memlane.color, memlane.tab]")
	if want := "[100000 50000 150000 3 address size buffers]"; fmt.Sprint(got) != want {
		t.Errorf("%s (begin %s) shows %v, want %s", hash, origin, got, want)
	}
	if lit := p.text("#lit"); !strings.Contains(lit, "scratch: 40 buffers") {
		t.Errorf("it lights %q", lit)
	}
	p.waitFor("location.hash === %s", quote(hash))
	for _, bad := range []string{"#space=none", "#t=x&buffer=1.5&finding=__proto__&capture=length", "#finding=99&site=-1&tab=none&layout=none&q=/(/"} {
		p = openTab(t, browser, address+bad)
		if got := p.text("[data-figure=peak]"); got != "104 MiB" {
			t.Errorf("%s: the peak reads %q", bad, got)
		}
	}
}

// TestPageSaves: the picture is XML with the blocks, the table has all its rows.
func TestPageSaves(t *testing.T) {
	p := openTab(t, newBrowser(t), reportPage(t, snapshots+"/leak_4mib_20steps.pickle"))
	p.waitFor("memlane.view.pixels !== null")
	titles := eval[int](p, `(() => { const d = new DOMParser().parseFromString(memlane.svg(), 'image/svg+xml');
		return d.querySelector('parsererror') ? -1 : [...d.querySelectorAll('rect title')].filter((e) => e.textContent.startsWith('make_activation')).length; })()`)
	if titles < 20 {
		t.Errorf("the picture has %d blocks of the leak, want 20 or more", titles)
	}
	lines := strings.Split(strings.TrimSuffix(eval[string](p, "memlane.csv()"), "\r\n"), "\r\n")
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
	browser := newBrowser(t)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		out, _, status := memlane("", "info", "--json", "--quiet", file)
		if status != 0 {
			return nil // no capture, or one without memory
		}
		t.Run(file, func(t *testing.T) {
			p := openTab(t, browser, reportPage(t, file))
			for _, s := range decode[infoJSON](t, out).Captures[0].Spaces {
				p.set("location.hash = %s", quote("space="+url.QueryEscape(s.ID)))
				p.waitFor("memlane.space.id === %s", quote(s.ID))
				checkFigures(p, s)
				checkBreakdown(p, file, s)
				p.set("for (const tab of memlane.tabs) memlane.showTab(tab.key)")
				p.set("for (const layout of memlane.view ? memlane.layouts() : []) memlane.setLayout(layout)")
				p.set("memlane.showTab('sites')")
			}
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPageHostile: whatever a capture calls things, the page shows it as text.
func TestPageHostile(t *testing.T) {
	data, err := os.ReadFile("testdata/runtime.native")
	if err != nil {
		t.Fatal(err)
	}
	evil := `</script><img src=x onerror=hacked=1><svg onload=hacked=1>`
	text := strings.ReplaceAll(strings.ReplaceAll(string(data), `"Relu"`, quote(evil+"\u2028\u202e")), `"node7"`, quote(evil))
	file := filepath.Join(t.TempDir(), "<img src=x onerror=hacked=1>.native")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Skip(err)
	}
	p := openTab(t, newBrowser(t), reportPage(t, file, file))
	for _, tab := range eval[[]string](p, "memlane.tabs.map((tab) => tab.key)") {
		p.click("[data-tab=" + tab + "]")
	}
	p.click("[data-tab=sites]")
	p.set("memlane.pin(0)")
	if got := p.text("#panel"); !strings.Contains(got, evil) {
		t.Errorf("the table says %q, not what the capture says", got)
	}
	if n := eval[int](p, "document.querySelectorAll('img, svg').length"); n != 0 || eval[bool](p, "'hacked' in globalThis") {
		t.Errorf("a name of the capture acts: %d elements of it", n)
	}
	p.set("memlane.space.capture.sites[1].op = '=1+1'; memlane.setTime(memlane.time)")
	if csv := eval[string](p, "memlane.csv()"); strings.Contains(csv, ",=") || !strings.Contains(csv, ",'=1+1") {
		t.Errorf("a spreadsheet would compute a name: %q", csv)
	}
}
