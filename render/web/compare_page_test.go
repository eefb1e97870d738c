package web_test

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/program"
)

// TestPageCompare checks the differences by category and by call site, at places along the axis, against the live buffers of both captures at
// the times there, and the times against the steps.
func TestPageCompare(t *testing.T) {
	chromium := browser.Start(t)
	pairs := []struct{ before, after, aligned string }{
		{"torchsnap/leak_loss.pickle", "torchsnap/leak_loss_fixed.pickle", "aligned by iteration: 8 and 8, inferred"},
		{"torchsnap/pair_before.pickle", "torchsnap/pair_after.pickle", "aligned by their starts"},
		{"torchsnap/pair_before.pickle", "xplane/oom.hlo.pb", "aligned by the share of their recordings"},
		{"meaning/a02.pickle.zst", "meaning/a17.pickle.zst", "aligned by step: 6 and 4"},
		{"xplane/padded.hlo.pb", "xplane/oom.hlo.pb", "aligned by their starts"},
		{"gpumemprof/both.json", "gpumemprof/spike.json", "aligned by their starts"},
	}
	for _, c := range pairs[:deep.Or(3, len(pairs))] {
		t.Run(c.before+" "+c.after, func(t *testing.T) {
			captures := []*judge.Capture{open(t, "../../testdata/"+c.before), open(t, "../../testdata/"+c.after)}
			p := browser.Open(t, chromium, writePage(t, captures...))
			p.WaitFor("memlane.tab === 'compare' && memlane.current().part.plots.length === 2")
			if got := p.Text(".compare .note"); !strings.Contains(got, "The captures are "+c.aligned) {
				t.Errorf("the page says %q, want %q", got, c.aligned)
			}
			var spaces []*lifetime.Space
			for side, number := range browser.Eval[[]int](p, "memlane.current().part.shown.map((s) => s.number)") {
				spaces = append(spaces, captures[side].Spaces[number])
			}
			checkSteps(p, captures, spaces)
			for _, by := range []string{"category", "call site"} {
				p.Set("const {by} = memlane.current().part; by.value = %s; by.dispatchEvent(new Event('change'))", browser.Quote(by))
				for k := range 5 {
					checkDifference(p, captures, spaces, by, float64(k)/5)
				}
			}
		})
	}
}

// checkSteps checks that steps of both captures are at the same places.
func checkSteps(p *browser.Tab, captures []*judge.Capture, spaces []*lifetime.Space) {
	p.T.Helper()
	for side, s := range spaces {
		begins := program.Of(captures[side].Capture).Steps(s).Begins
		for k, begin := range begins {
			if !browser.Eval[bool](p, "memlane.current().part.axis.bySteps") {
				return
			}
			if at := browser.Eval[float64](p, "memlane.current().part.axis.timeAt(%d, %d)", side, k+1); int64(at) != max(begin, s.Begin)-s.Begin {
				p.T.Errorf("side %d: step %d is at %.0f, want %d", side, k+1, at, max(begin, s.Begin)-s.Begin)
			}
		}
	}
}

// checkDifference compares the groups at a share of the axis with the model.
func checkDifference(p *browser.Tab, captures []*judge.Capture, spaces []*lifetime.Space, by string, share float64) {
	p.T.Helper()
	shown := browser.Eval[struct {
		Times []*float64
		Names []string
		Parts map[string]float64
	}](p, `(() => { const part = memlane.current().part, at = %f * part.axis.length; return {Times: part.times(at), Names: part.groups.names, Parts: part.differenceAt(at)}; })()`, share)
	if shown.Times[0] == nil || shown.Times[1] == nil {
		return
	}
	index := map[string]int{}
	for k, name := range shown.Names {
		index[name] = k
	}
	want := make([]int64, len(shown.Names))
	for side, s := range spaces {
		sign, t := int64(2*side-1), s.Begin+int64(math.Floor(*shown.Times[side]))
		rest := len(want) - 1
		if s.UsageOnly() {
			want[rest] += sign * s.LevelAt(t, lifetime.Occupied)
			continue
		}
		want[rest] += sign * (s.Base + s.StackAt(t))
		names := browser.Eval[[]string](p, "(() => { const {rows, shown} = memlane.current().part, names = []; for (const row of rows) for (const site of row.%s.sites) names[site] = row.name; return Array.from(names, (n) => n ?? ''); })()", []string{"before", "after"}[side])
		for _, i := range s.LiveAt(t) {
			b := &s.Buffers[i]
			name := ""
			if by == "category" {
				if name = captures[side].Category(&s.SpaceInfo, b.Kind, b.Site, s.PurposeOf(i)); name == "" {
					name = "unknown"
				}
				name = strings.ReplaceAll(name, "_", " ")
			} else {
				name = names[b.Site]
			}
			k, ok := index[name]
			if !ok {
				k = rest
			}
			want[k] += sign * b.Size
		}
	}
	for k := range want {
		if got := int64(shown.Parts[fmt.Sprint(k)]); got != want[k] {
			p.T.Errorf("by %s at %.2f: %s differs by %d, want %d", by, share, shown.Names[k], got, want[k])
		}
	}
}

// TestPageCompareStacks checks that a click on a colour, and keys alone, show both stacks, and that two captures open on Compare.
func TestPageCompareStacks(t *testing.T) {
	chromium := browser.Start(t)
	address := writePage(t, open(t, "../../testdata/torchsnap/pair_before.pickle"), open(t, "../../testdata/torchsnap/pair_after.pickle"))
	p := browser.Open(t, chromium, address)
	p.WaitFor("memlane.tab === 'compare' && memlane.current().part.plots.length === 2")
	if got := p.Text("main h1:not(.headline h1)"); got != "pair_before.pickle: cuda:0 → pair_after.pickle: cuda:0" {
		t.Errorf("the page is of %q", got)
	}
	at := browser.Eval[browser.Point](p, `(() => { const part = memlane.current().part, u = part.plots[1], box = u.over.getBoundingClientRect();
		return {X: box.left + u.valToPos(part.axis.placeOf(1, memlane.captures[1].spaces[0].peak), 'x'), Y: box.top + u.valToPos(8 * 2 ** 20, 'y')}; })()`)
	p.ClickAt(at)
	for _, want := range []string{"<listcomp> pair.py", "before: ", "after: ", "activations (pair.py:9)", "+16.0 MiB"} {
		if got := p.Text(".compare"); !strings.Contains(got, want) {
			t.Errorf("a click shows no %q: %q", want, got)
		}
	}
	before := p.Text(".pair")
	p.Do(chromedp.Focus(".slider"), chromedp.KeyEvent(kb.End))
	p.WaitFor("document.querySelector('.pair').innerText !== %s", browser.Quote(before))
	p.Do(chromedp.KeyEvent(kb.Home), chromedp.Focus(".compare .legend .key:nth-child(4)"), chromedp.KeyEvent(kb.Enter))
	p.WaitFor("document.querySelector('.pair').innerText.startsWith('kv_cache')")
	p.Do(chromedp.Focus(".compare .scroller"), chromedp.KeyEvent(kb.ArrowDown+kb.ArrowDown+kb.Enter))
	p.WaitFor("document.querySelector('.pair').innerText.startsWith('duplicate (pair.py:10)') && document.querySelector('.pair').innerText.includes('after: not in this capture')")
	p.Do(chromedp.Focus(".pair button"), chromedp.KeyEvent(kb.Enter))
	p.WaitFor("memlane.tab === 'sites' && memlane.space.capture.number === 0 && document.querySelector('#lit').innerText.includes('duplicate (pair.py:10): 1 buffer')")

	p.Go(address + "#space=" + url.QueryEscape("cuda:0"))
	if got := browser.Eval[string](p, "memlane.tab"); got != "sites" {
		t.Errorf("a link opens the tab %q", got)
	}
}

// TestPageWaterfall: from the peak before to that after, by category as terminals have it, then by call site; the changes add up.
func TestPageWaterfall(t *testing.T) {
	p := browser.Open(t, browser.Start(t), writePage(t, open(t, "../../testdata/torchsnap/leak_loss.pickle"), open(t, "../../testdata/torchsnap/leak_loss_fixed.pickle")))
	p.WaitFor("memlane.tab === 'compare' && document.querySelector('.waterfall') !== null")
	const rows = "[...document.querySelectorAll('.waterfall tr')].map((e) => e.innerText.replace(/\\s+/g, ' '))"
	want := []string{"peak before 43.6 MiB", "leaked -28.0 MiB", "unknown +3.50 MiB", "peak after 19.1 MiB"}
	if got := browser.Eval[[]string](p, rows); !slices.Equal(got, want) {
		t.Errorf("by category: %q, want %q", got, want)
	}
	if browser.Eval[bool](p, "[...document.querySelector('main').children].some((e) => e.checkVisibility() && !e.matches('.details, .devices'))") {
		t.Error("a comparison shows more than itself")
	}
	p.Set("const by = document.querySelector('[aria-label=\"difference by\"]'); by.value = 'call site'; by.dispatchEvent(new Event('change'))")
	if got := browser.Eval[[]string](p, rows); len(got) != 4 || got[1] != "forward leak_loss.py -17.5 MiB" || got[2] != "step leak_loss.py -7.00 MiB" {
		t.Errorf("by call site: %q", got)
	}
}
