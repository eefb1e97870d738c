package main

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/memlane/memlane/internal/units"
)

// pages are captures of each format, and one to compare with.
var pages = []struct{ format, file, other string }{
	{"torch-snapshot", "torchsnap/twodev.pickle", "torchsnap/t215_twodev.pickle"},
	{"torch-snapshot", "torchsnap/frag_oom.pickle", "torchsnap/frag_oom_observer.pickle"},
	{"xplane", "xplane/tf_leak.xplane.pb", "xplane/tf_graph.xplane.pb"},
	{"hlo", "xplane/padded.hlo.pb", "xplane/oom.hlo.pb"},
	{"chrome-trace", "chrome/cuprof_leak.json.gz", "chrome/t215_cuprof_leak.json.gz"},
	{"gpumemprof", "gpumemprof/both.json", "gpumemprof/spike.json"},
	{"native", "../cmd/memlane/testdata/runtime.native", "torchsnap/twodev.native"},
}

// TestPages uses the page as a person would, in a real browser.
func TestPages(t *testing.T) {
	browser := newBrowser(t)
	for _, page := range pages {
		t.Run(page.format+" "+page.file, func(t *testing.T) {
			file, other := "../../testdata/"+page.file, "../../testdata/"+page.other
			p := openTab(t, browser, reportPage(t, file, other))
			info := decode[infoJSON](t, succeed(t, "info", "--json", "--quiet", file)).Captures[0]
			if info.Format != page.format {
				t.Errorf("a capture of %s", info.Format)
			}
			checkSelectors(p, info)
			for _, s := range info.Spaces {
				p.set("location.hash = %s", quote("space="+url.QueryEscape(s.ID)))
				p.waitFor("memlane.space.id === %s", quote(s.ID))
				checkFigures(p, s)
				checkBreakdown(p, file, s)
			}
			busiest := slices.MaxFunc(info.Spaces, func(a, b spaceInfoJSON) int { return cmp.Compare(len(a.Facts), len(b.Facts)) })
			p.set("location.hash = %s", quote("space="+url.QueryEscape(busiest.ID)))
			p.waitFor("memlane.space.id === %s", quote(busiest.ID))
			checkTable(p)
			checkTime(p)
			if !busiest.UsageOnly {
				checkBlocks(p, busiest)
			}
			checkZoom(p)
			checkFindings(p)
			checkCompare(p)
		})
	}
}

// checkSelectors chooses every memory ID by hand.
func checkSelectors(p *tab, info captureInfoJSON) {
	p.t.Helper()
	for _, s := range info.Spaces {
		p.set(`const space = memlane.captures[0].spaces.find((s) => s.id === %s);
			for (const part of ['host', 'process', 'module', 'memory']) {
				const select = document.querySelector('[data-part="' + {host: 'host', process: 'rank or process', module: 'module', memory: 'memory space'}[part] + '"]');
				if (!select || select.value === space[part]) continue;
				select.value = space[part];
				select.dispatchEvent(new Event('change'));
				await new Promise((done) => setTimeout(done, 60));
			}`, quote(s.ID))
		p.waitFor("memlane.space.id === %s", quote(s.ID))
		if got, want := p.text("[data-figure=peak]"), units.Bytes(s.Peak.Bytes); got != want {
			p.t.Errorf("%s: chosen by hand, the peak reads %q, want %q", s.ID, got, want)
		}
	}
}

// checkFigures compares the summary and the curve with info --json.
func checkFigures(p *tab, s spaceInfoJSON) {
	p.t.Helper()
	want := map[string]string{"peak": units.Bytes(s.Peak.Bytes), "live": units.Bytes(s.Live.Bytes)}
	if s.LimitBytes != nil {
		want["capacity"] = units.Bytes(*s.LimitBytes)
	}
	if s.LifetimePeakBytes != nil {
		want["lifetime peak"] = units.Bytes(*s.LifetimePeakBytes)
	}
	if !s.UsageOnly && s.Axis != "program order" {
		want["allocations"] = units.Count(int64(s.Allocations))
	}
	for name, value := range want {
		if got := p.text(`[data-figure="` + name + `"]`); got != value {
			p.t.Errorf("%s: %s reads %q, want %q", s.ID, name, got, value)
		}
	}
	curve := eval[struct{ Peak, Requested, End, At float64 }](p, `(() => {
		const {curve, peak, length, levelAt} = memlane.space;
		let most = 0;
		for (const v of curve.requested) most = Math.max(most, v);
		return {Peak: curve.bytes[memlane.space.levelAt(peak)] || 0, Requested: most, End: curve.bytes[memlane.space.levelAt(length - 1)] || 0, At: Number(memlane.space.origin) + peak};
	})()`)
	if int64(curve.Peak) != s.Peak.Bytes || int64(curve.Requested) != s.Peak.RequestedBytes || math.Abs(curve.At-float64(s.Peak.At)) > 512 {
		p.t.Errorf("%s: the curve has its peak of %.0f (%.0f requested) at %.0f; info says %+v", s.ID, curve.Peak, curve.Requested, curve.At, s.Peak)
	}
	if s.BaseBytes == 0 && s.StackBytes == nil && int64(curve.End) != s.Live.Bytes {
		p.t.Errorf("%s: the curve ends at %.0f, info says %d", s.ID, curve.End, s.Live.Bytes)
	}
}

// pageRow is a row of the breakdown table.
type pageRow struct {
	Bytes, Requested, Count    int64
	Op, Shape, DType, Category string
}

// checkBreakdown compares the breakdown table with peak --json, at the peak and at the
// end.
func checkBreakdown(p *tab, file string, s spaceInfoJSON) {
	p.t.Helper()
	for _, at := range []string{"peak", "end"} {
		p.set("memlane.setTime(%s)", map[string]string{"peak": "memlane.space.peak", "end": "memlane.space.length - 1"}[at])
		got := eval[[]pageRow](p, `memlane.tabs[0].part.rows.map((r) => { const s = memlane.space.capture.sites[r.site];
			return {Bytes: r.bytes, Requested: r.requested, Count: r.count, Op: s.op, Shape: s.shape, DType: s.dtype, Category: memlane.space.categoryOf(r)}; })`)
		out := decode[peaksJSON](p.t, succeed(p.t, "peak", "--json", "--quiet", "--at", at, "--space", globOf(s.ID), file))
		i := slices.IndexFunc(out.Peaks, func(peak peakJSON) bool { return peak.Space == s.ID })
		if i < 0 {
			p.t.Fatalf("%s: peak --json leaves it out", s.ID)
		}
		var want []pageRow
		for _, r := range out.Peaks[i].Rows {
			want = append(want, pageRow{r.Bytes, r.RequestedBytes, r.Count, r.Op, r.Shape, r.DType, r.Category})
		}
		if !slices.Equal(got, want) {
			p.t.Errorf("%s at %s: the table has\n%v\npeak --json has\n%v", s.ID, at, got, want)
		}
		if len(want) == 0 {
			continue
		}
		if shown := p.text("#panel tbody tr:not(.space) td"); shown != units.Bytes(want[0].Bytes) {
			p.t.Errorf("%s at %s: the first row reads %q, want %q", s.ID, at, shown, units.Bytes(want[0].Bytes))
		}
	}
	p.set("memlane.setTime(memlane.space.peak)")
}

// globOf returns a pattern that an ID alone matches.
func globOf(id string) string {
	return strings.NewReplacer("[", `\[`, "*", `\*`, "?", `\?`).Replace(id)
}

// checkTable sorts by a column and searches.
func checkTable(p *tab) {
	p.t.Helper()
	column := func(n int) []float64 {
		return eval[[]float64](p, "memlane.tabs[0].part.shown.map((r) => memlane.tabs[0].part.columns[%d].value(r))", n)
	}
	if !slices.IsSortedFunc(column(0), func(a, b float64) int { return cmp.Compare(b, a) }) {
		p.t.Error("the table does not begin with the most bytes")
	}
	p.click("#panel th:nth-child(3) button")
	if !slices.IsSortedFunc(column(2), func(a, b float64) int { return cmp.Compare(b, a) }) {
		p.t.Error("a click does not sort by the number of buffers")
	}
	p.click("#panel th:nth-child(3) button")
	if !slices.IsSorted(column(2)) {
		p.t.Error("a second click does not turn the order round")
	}
	rows := eval[int](p, "memlane.tabs[0].part.rows.length")
	name := eval[string](p, "memlane.tabs[0].part.shown.at(-1) ? memlane.tabs[0].part.columns.find((c) => c.name === 'allocated by').text(memlane.tabs[0].part.shown.at(-1)) : ''")
	p.enter("#panel .find", name)
	found := eval[int](p, "memlane.tabs[0].part.shown.length")
	if found == 0 || found > rows {
		p.t.Errorf("searching for %q leaves %d of %d rows", name, found, rows)
	}
	p.enter("#panel .find", "/^no such row$/")
	if note := p.text("#panel .note"); !strings.HasPrefix(note, "0 of ") {
		p.t.Errorf("searching for nothing that is there says %q", note)
	}
	p.enter("#panel .find", "")
	p.set("document.activeElement.blur()")
}

// checkTime clicks on the graph: the table moves there.
func checkTime(p *tab) {
	p.t.Helper()
	p.do(chromedp.ScrollIntoView(chromedp.CSS("#usage")))
	at := eval[point](p, "(() => { const b = memlane.graph.plot.over.getBoundingClientRect(); return {X: b.left + b.width * 0.4, Y: b.top + b.height / 2}; })()")
	p.clickAt(at)
	share := eval[float64](p, "memlane.time / memlane.space.length")
	length := eval[float64](p, "memlane.space.length")
	if math.Abs(share-0.4) > 0.01+1/length {
		p.t.Errorf("a click at 40 %% of the graph leads to %.0f %%", 100*share)
	}
	want := eval[float64](p, "memlane.space.breakdown(memlane.time).reduce((sum, r) => sum + r.bytes, 0)")
	if got := eval[float64](p, "memlane.tabs[0].part.total"); got != want {
		p.t.Errorf("the table shows %.0f bytes, at this time there are %.0f", got, want)
	}
	p.waitFor("location.hash.includes('&t=' + memlane.space.instant(memlane.time)) || memlane.time === memlane.space.peak")
	p.set("memlane.setTime(memlane.space.peak)")
}

// checkBlocks hovers over a block, and pins it.
func checkBlocks(p *tab, s spaceInfoJSON) {
	p.t.Helper()
	p.do(chromedp.ScrollIntoView(chromedp.CSS("#blocks")))
	p.waitFor("memlane.view.pixels !== null")
	buffer := eval[int](p, `(() => { const n = new Map(); for (const id of memlane.view.pixels) if (id >= 0) n.set(id, (n.get(id) || 0) + 1);
		return [...n].sort((a, b) => b[1] - a[1])[0][0]; })()`)
	size := eval[int64](p, "memlane.space.size[%d]", buffer)
	at := p.pixelOf(buffer)
	p.mouse(moved, at)
	p.waitFor("!document.querySelector('.hover').hidden")
	card := p.text(".hover")
	want := []string{units.Bytes(size), units.Count(size) + " B", "lifetime"}
	if slices.Contains(s.Facts, "addresses") {
		want = append(want, "0x")
	}
	if s.Axis == "program order" {
		want = append(want, "unpadded", "instruction")
	}
	for _, text := range want {
		if !strings.Contains(card, text) {
			p.t.Errorf("the card says %q, not %q", card, text)
		}
	}
	p.clickAt(at)
	if pinned := p.text("#pin"); !strings.Contains(pinned, units.Bytes(size)) {
		p.t.Errorf("the pinned buffer says %q", pinned)
	}
	if got := eval[int](p, "memlane.marks.buffer"); got != buffer {
		p.t.Errorf("the graph marks buffer %d, pinned is %d", got, buffer)
	}
	p.do(chromedp.KeyEvent(kb.Escape))
	if eval[bool](p, "memlane.marks.buffer !== null") {
		p.t.Error("Escape does not unpin")
	}
	for _, layout := range eval[[]string](p, "memlane.layouts()") {
		p.set("memlane.setLayout(%s)", quote(layout))
		p.waitFor("memlane.view.pixels !== null && memlane.view.pixels.some((id) => id >= 0)")
	}
	p.enter(".top .find", "no such function")
	if lit := p.text("#lit"); !strings.Contains(lit, "0 buffers") {
		p.t.Errorf("a search for what is not there lights %q", lit)
	}
	p.do(chromedp.KeyEvent(kb.Escape))
}

// checkZoom turns the wheel: the time under the mouse stays where it is.
func checkZoom(p *tab) {
	p.t.Helper()
	p.set("memlane.whole()")
	p.do(chromedp.ScrollIntoView(chromedp.CSS("#usage")))
	at := eval[point](p, "(() => { const b = memlane.graph.plot.over.getBoundingClientRect(); return {X: b.left + b.width * 0.7, Y: b.top + b.height / 2}; })()")
	timeAt := fmt.Sprintf("memlane.graph.plot.posToVal(%f - memlane.graph.plot.over.getBoundingClientRect().left, 'x')", at.X)
	before := eval[[]float64](p, "[memlane.timeline.from, memlane.timeline.to, %s]", timeAt)
	p.wheel(at, -120)
	if before[1] > 4 {
		p.waitFor("memlane.timeline.to - memlane.timeline.from < %f", before[1]-before[0])
	}
	after := eval[[]float64](p, "[memlane.timeline.from, memlane.timeline.to, %s]", timeAt)
	if math.Abs(after[2]-before[2]) > (before[1]-before[0])/200 {
		p.t.Errorf("zooming moves what is under the mouse from %f to %f", before[2], after[2])
	}
	checkMove(p, at)
	p.set("memlane.whole()")
	p.mouse(pressed, point{at.X - 200, at.Y}, chromedp.ButtonLeft)
	p.mouse(moved, at, chromedp.ButtonLeft)
	p.mouse(released, at, chromedp.ButtonLeft)
	if before[1] > 10 {
		p.waitFor("memlane.timeline.to - memlane.timeline.from < %f", before[1]/2)
	}
	p.set("memlane.whole()")
}

// checkMove drags with Shift: the window moves with the hand.
func checkMove(p *tab, at point) {
	p.t.Helper()
	if eval[float64](p, "memlane.space.length") < 100 {
		return // too few instants to move among
	}
	p.set("memlane.timeline.show(memlane.space.length * .4, memlane.space.length * .6)")
	before := eval[[]float64](p, "[memlane.timeline.from, (memlane.timeline.to - memlane.timeline.from) / memlane.graph.plot.over.clientWidth]")
	shift := chromedp.ButtonModifiers(chromedp.ModifierShift)
	p.mouse(pressed, at, chromedp.ButtonLeft, shift)
	p.mouse(moved, point{at.X - 100, at.Y}, chromedp.ButtonLeft, shift)
	p.mouse(released, point{at.X - 100, at.Y}, chromedp.ButtonLeft, shift)
	if from := eval[float64](p, "memlane.timeline.from"); math.Abs(from-before[0]-100*before[1]) > before[1] {
		p.t.Errorf("a drag by 100 pixels moves the window from %f to %f", before[0], from)
	}
}

// checkFindings follows the link of the first finding: its buffers are lit.
func checkFindings(p *tab) {
	p.t.Helper()
	p.click("[data-tab=findings]")
	if eval[int](p, "memlane.space.capture.findings.length") == 0 {
		if !strings.Contains(p.text("#panel"), "No finding") {
			p.t.Error("that there is no finding is not said")
		}
		return
	}
	sites := eval[int](p, "memlane.space.capture.findings[0].sites.length")
	p.click("#panel a.light")
	p.waitFor("location.hash.includes('finding=0') && memlane.fields.finding === '0'")
	if sites == 0 {
		return
	}
	lit := eval[int](p, "memlane.space.site.filter((s) => memlane.options.lit[s]).length")
	want := eval[int](p, "(() => { const f = memlane.captures[0].findings[0]; return memlane.space.site.filter((s) => f.sites.includes(s)).length; })()")
	if lit == 0 || lit != want || !strings.Contains(p.text("#lit"), units.Count(int64(want))+" buffer") {
		p.t.Errorf("the link lights %d buffers, want %d; it says %q", lit, want, p.text("#lit"))
	}
}

// checkCompare looks at the capture beside the other one.
func checkCompare(p *tab) {
	p.t.Helper()
	p.click("[data-tab=compare]")
	p.waitFor("document.querySelector('.verdict').textContent !== ''")
	if text := p.text(".verdict"); !strings.HasPrefix(text, "The peak ") {
		p.t.Errorf("the comparison says %q", text)
	}
	sums := eval[[]float64](p, `(() => { const c = memlane.current().part, [a, b] = c.choices.map((x) => c.spaces[x.value]);
		const live = (s) => s.liveAt(s.peak).reduce((sum, i) => sum + s.size[i], 0);
		return [c.table.rows.reduce((sum, r) => sum + r.peak, 0), live(b) - live(a)]; })()`)
	if sums[0] != sums[1] {
		p.t.Errorf("the rows differ by %.0f bytes, the peaks by %.0f", sums[0], sums[1])
	}
	if eval[int](p, "document.querySelectorAll('.compare canvas').length") != 1 {
		p.t.Error("no curves to compare")
	}
}
