package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/hostile"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// jobOf makes a fleet of n ranks with text in their names. Rank 3 needs twice the memory, all
// but rank 7 leak, rank 5 is missing, and rank 6 is refused.
func jobOf(n int, text string) *fleet.Fleet {
	f := &fleet.Fleet{}
	for rank := range n {
		r := &fleet.Record{Name: fmt.Sprintf("job%s/rank%d.pickle", text, rank)}
		switch rank {
		case 5:
			r.State, r.Reason = fleet.Missing, "no such file "+text
			f.Add(r)
			continue
		case 6:
			r.State, r.Reason = fleet.Refused, "no capture "+text
			f.Add(r)
			continue
		}
		m := fleet.Memory{Rank: fmt.Sprintf("rank %d", rank), Process: text, Device: "cuda:0", End: 6400, Growth: 1 << 30}
		for part := range int64(64) {
			level := int64(2<<30) + part<<24 + (part*7919+int64(rank)*104729)%(1<<26)
			if part%8 < 3 {
				level -= 1 << 30
			}
			if rank == 3 {
				level *= 2
			}
			m.Usage = append(m.Usage, level)
			m.Peak, m.AtEnd = max(m.Peak, level), level
		}
		frames := []frame.Frame{{Function: "step" + text, File: "train.py", Line: 12, Kind: frame.User}}
		m.Categories = []finding.CategoryBytes{{Name: "activation", Bytes: m.Peak / 4 * 3}, {Name: "parameter" + text, Bytes: m.Peak / 4}}
		m.Sites = []fleet.SiteTotals{{Site: fleet.Site{Frames: frames}, AtPeak: lifetime.Amount{Count: 1, Bytes: m.Peak / 2}}}
		if rank != 7 {
			r.Findings = []fleet.Finding{{Rule: "leak", Severity: "warning", Place: "step (train.py:12)" + text, Amount: lifetime.Amount{Count: 9, Bytes: 1 << 28}, BytesPerStep: 1 << 20}}
			m.Leaked = 1 << 28
		}
		r.Memories = []fleet.Memory{m}
		if rank == 4 {
			r.Losses = []fleet.Loss{{Reason: "truncated", Count: 1}}
		}
		f.Add(r)
	}
	return f
}

// fleetPage writes the page of a fleet and returns its address.
func fleetPage(t *testing.T, f *fleet.Fleet) string {
	t.Helper()
	pages := func(capture string) string {
		switch filepath.Base(capture) {
		case "rank2.pickle":
			return "#rank2"
		case "rank1.pickle":
			return "javascript:window." + hostile.Pwned + "=1"
		}
		return ""
	}
	var page bytes.Buffer
	if err := writePage(&page, Of(f, finding.RankNames{}, nil, pages)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "fleet.html")
	if err := os.WriteFile(file, page.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return "file://" + file
}

// TestFleetPage: the page shows outliers and rows, highlights those of a finding, and links
// only to pages of ranks.
func TestFleetPage(t *testing.T) {
	chromium := browser.Start(t)
	p := browser.Open(t, chromium, fleetPage(t, jobOf(14, "")))
	shows(p, map[string]string{
		"header":    "14 captures: 12 read, 1 of them damaged; 1 refused; 1 missing; 12 ranks",
		"#outliers": "rank 3 differs from the other 10 ranks: peak ",
		"#findings": "leak step (train.py:12): 11 of 12 ranks, 2.75 GiB in total, median 1.00 MiB per step; not on rank 7",
		"#map":      "12 rows",
		".kind":     "step (train.py:12)",
		"#troubles": "no such file",
	})
	if got, want := browser.Eval[string](p, "memlane.map.heat.rows.map((r) => r.rank.slice(5)).join()"), "3,7,0,1,2,4,8,9,10,11,12,13"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	checkLevels(p, jobOf(14, ""))

	p.Click("#findings button")
	if got := browser.Eval[string](p, "memlane.map.heat.rows.filter((r) => memlane.map.heat.lit.has(r)).length + ' ' + memlane.map.heat.lit.has(memlane.map.heat.rows[1])"); got != "11 false" {
		t.Errorf("highlighted: %s, want all 11 except rank 7", got)
	}
	p.Click("#map input[type=checkbox]")
	p.WaitFor("memlane.map.heat.rows.length === 11")
	p.Enter("#map input[type=search]", "rank1")
	p.WaitFor("memlane.map.heat.rows.map((r) => r.rank).join() === 'rank 1,rank 10,rank 11,rank 12,rank 13'")

	p.Click("#outliers button") // scrolls to the row from any position
	p.WaitFor("document.querySelector('#now-row').innerText.startsWith('rank 3 ')")
	p.Do(chromedp.KeyEvent(kb.ArrowDown))
	p.WaitFor("document.querySelector('#now-row').innerText.startsWith('rank 7 ')")

	row := browser.Eval[browser.Point](p, `(() => {
		const box = memlane.map.heat.canvas.getBoundingClientRect(), i = memlane.map.heat.rows.findIndex((r) => r.rank === 'rank 2');
		return {X: box.left + memlane.map.heat.gutter + 20, Y: box.top + (i + .5) * memlane.map.heat.height};
	})()`)
	p.Mouse(browser.Moved, row)
	if got := p.Text(".hover"); !strings.Contains(got, "rank 2: up to ") || !strings.Contains(got, "job/rank2.pickle") {
		t.Errorf("at the mouse: %q", got)
	}
	p.ClickAt(row)
	p.WaitFor("location.hash === '#rank2'")
	if n := browser.Eval[int](p, "memlane.fleet.rows.filter((r) => r.page).length"); n != 1 {
		t.Errorf("%d rows link to a page, want only rank 2", n)
	}
	p.Click("#map button[aria-pressed=false]")
	if got := p.Text("#map"); !strings.Contains(got, "Categories at the peak") || !strings.Contains(got, "activation") || !strings.Contains(got, "parameter") {
		t.Errorf("by category: %q", got)
	}
	p.Mouse(browser.Moved, row)
	if got := p.Text(".hover"); !strings.Contains(got, " activation at the peak") {
		t.Errorf("at the mouse: %q", got)
	}
	p.Set("document.body.style.width = '360px'; await new Promise((done) => setTimeout(done, 100))")
	if got := browser.Eval[float64](p, "Math.max(...[...document.querySelectorAll('main, section, canvas, h1')].map((e) => e.getBoundingClientRect().right))"); got > 361 {
		t.Errorf("at a width of 360 pixels something reaches to %g", got)
	}
}

// shows fails if an element, by its selector, does not contain a text.
func shows(p *browser.Tab, texts map[string]string) {
	p.T.Helper()
	for selector, want := range texts {
		if got := p.Text(selector); !strings.Contains(got, want) {
			p.T.Errorf("%s does not contain %q: %q", selector, want, got)
		}
	}
}

// checkLevels compares the levels in the map with the fleet, with a tolerance of 1/16,000 of
// the highest level.
func checkLevels(p *browser.Tab, f *fleet.Fleet) {
	p.T.Helper()
	rows := browser.Eval[[]struct {
		Capture string
		Levels  []float64
	}](p, "memlane.map.heat.rows.map((r) => ({Capture: r.capture, Levels: r.steps.length ? Array.from(r.steps, (_, i) => memlane.fleet.levelAt(r, i)) : []}))")
	shown := map[string][]float64{}
	for _, r := range rows {
		shown[r.Capture] = r.Levels
	}
	for r := range f.Records() {
		for _, m := range r.Memories {
			for part, want := range m.Usage {
				if got := int64(shown[r.Name][part]); got > want || want-got > 6<<30/16000 {
					p.T.Fatalf("%s: %d in part %d, want %d", r.Name, got, part, want)
				}
			}
		}
	}
}

// TestFleetPageLarge: ten thousand random ranks fit into 3 MB, and only visible rows are drawn.
func TestFleetPageLarge(t *testing.T) {
	f := &fleet.Fleet{}
	rng := rand.New(rand.NewPCG(1, 1))
	for rank := range 10_000 {
		m := fleet.Memory{Rank: fmt.Sprintf("rank %d", rank), Device: "cuda:0", End: 64, Peak: 1 << 36}
		for range 64 {
			m.Usage = append(m.Usage, rng.Int64N(1<<36))
		}
		for _, name := range []string{"activation", "gradient", "optimizer_state", "parameter", "workspace", "input", "unknown"} {
			m.Categories = append(m.Categories, finding.CategoryBytes{Name: name, Bytes: rng.Int64N(1 << 34)})
		}
		f.Add(&fleet.Record{Name: fmt.Sprintf("s3://bucket/job/rank%d.pickle.zst", rank), Memories: []fleet.Memory{m},
			Findings: []fleet.Finding{{Rule: "leak", Severity: "warning", Place: "a"}}})
	}
	address := fleetPage(t, f)
	if info, err := os.Stat(strings.TrimPrefix(address, "file://")); err != nil || info.Size() > 3<<20 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	p := browser.Open(t, browser.Start(t), address)
	t.Logf("ready after %.0f ms", browser.Eval[float64](p, "memlane.ready"))
	if got := browser.Eval[string](p, "memlane.map.heat.rows.length + ' ' + memlane.map.heat.overview.hidden"); got != "10000 false" {
		t.Errorf("rows, no overview: %s", got)
	}
	if drawn := browser.Eval[int](p, "memlane.map.heat.draw() ?? memlane.map.heat.pixels.height"); drawn > 500 {
		t.Errorf("%d rows are drawn", drawn)
	}
	p.Set("memlane.map.goTo(memlane.fleet.rows[9000])")
	p.WaitFor("document.querySelector('#now-row').innerText.startsWith('rank 9000 ') && memlane.map.heat.scroller.scrollTop > 40000")
}

// trendOf makes runs of n ranks with text in their names. From the fourth last run on, ranks 3 and 4 leak 1 GiB of 4.
func trendOf(runs, n int, text string) *fleet.Trend {
	t := &fleet.Trend{}
	rng := rand.New(rand.NewPCG(8, 1))
	for run := range runs {
		f := &fleet.Fleet{}
		for rank := range n {
			m := fleet.Memory{Rank: fmt.Sprintf("rank %d", rank), Process: text, Device: "cuda:0", Peak: 4<<30 + rng.Int64N(1<<26)}
			if (rank == 3 || rank == 4) && run >= runs-4 {
				m.Peak, m.Leaked = m.Peak+1<<30, 1<<30
			}
			m.ReservedPeak = m.Peak + 1<<28
			m.Categories = []finding.CategoryBytes{{Name: "activation" + text, Bytes: m.Peak}}
			f.Add(&fleet.Record{Name: fmt.Sprintf("day%d/rank%d%s.pickle", run, rank, text), Memories: []fleet.Memory{m}})
		}
		t.Add(fmt.Sprintf("runs/day%d%s", run, text), f, nil)
	}
	return t
}

// trendPage opens the page of runs.
func trendPage(t *testing.T, groups map[string]*fleet.Trend) *browser.Tab {
	t.Helper()
	var page bytes.Buffer
	if err := WriteTrendPage(&page, groups); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "trend.html")
	if err := os.WriteFile(file, page.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", page.Len())
	return browser.Open(t, browser.Start(t), "file://"+file)
}

// TestTrendPage: the page shows each rank in each run, those that changed first, and highlights the ranks of a change.
func TestTrendPage(t *testing.T) {
	p := trendPage(t, map[string]*fleet.Trend{"": trendOf(10, 14, ""), "model=a": trendOf(5, 2, "")})
	shows(p, map[string]string{
		"header":   "15 runs of 16 devices",
		"#changes": "without labels: cuda since runs/day6, on 2 ranks (3-4): reserved bytes 4.29 GiB to 5.29 GiB, peak ",
		"#map":     "14 rows",
		".kind":    "runs/day9",
	})
	if got, want := browser.Eval[string](p, "memlane.map.heat.rows.map((r) => r.rank.slice(5)).join()"), "3,4,0,1,2,5,6,7,8,9,10,11,12,13"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	const levels = "memlane.map.heat.rows.slice(1, 3).map((r) => Array.from({length: memlane.map.heat.parts}, (_, i) => (memlane.map.mode.level(r, i) / 2 ** 30).toFixed())).join(' ')"
	if got := browser.Eval[string](p, levels); got != "4,4,4,4,4,4,5,5,5,5 4,4,4,4,4,4,4,4,4,4" {
		t.Errorf("peaks %s", got)
	}
	p.Click("#changes button")
	if got := browser.Eval[string](p, "memlane.map.heat.rows.filter((r) => memlane.map.heat.lit.has(r)).map((r) => r.rank).join()"); got != "rank 3,rank 4" {
		t.Errorf("highlighted: %s", got)
	}
	p.Set("[...document.querySelectorAll('#map button')].find((b) => b.innerText === 'leaked bytes').click()")
	if got := browser.Eval[string](p, levels); got != "0,0,0,0,0,0,1,1,1,1 0,0,0,0,0,0,0,0,0,0" {
		t.Errorf("leaked bytes %s", got)
	}
	p.Set("document.querySelector('#map select').value = 1; document.querySelector('#map select').dispatchEvent(new Event('change'))")
	if got := p.Text("#map"); !strings.Contains(got, "2 rows") || !strings.Contains(got, "day4") {
		t.Errorf("of other labels: %q", got)
	}
}

// TestTrendPageLarge: of more runs than columns, some share one.
func TestTrendPageLarge(t *testing.T) {
	ranks := deep.Or(1000, 10_000)
	p := trendPage(t, map[string]*fleet.Trend{"": trendOf(70, ranks, "")})
	t.Logf("ready after %.0f ms", browser.Eval[float64](p, "memlane.ready"))
	if got := browser.Eval[string](p, "memlane.map.heat.rows.length + ' ' + memlane.map.heat.parts"); got != fmt.Sprint(ranks, " 35") {
		t.Errorf("rows and columns: %s", got)
	}
	if got := browser.Eval[string](p, "memlane.trend.kinds[0].columns[34]"); got != "day68 to day69" {
		t.Errorf("the last column is %s", got)
	}
}

// TestHostileTrendPage: names in records stay text.
func TestHostileTrendPage(t *testing.T) {
	groups := map[string]*fleet.Trend{}
	for _, text := range hostile.Texts {
		groups[text] = trendOf(9, 5, text)
	}
	p := trendPage(t, groups)
	p.Click("#changes button")
	if !browser.Eval[bool](p, "window.%s === undefined && document.querySelectorAll('script:not([type])').length === 1 && !document.querySelector('img, iframe, base, meta[http-equiv=refresh]')", hostile.Pwned) {
		t.Error("a text acts")
	}
}

// TestHostileFleetPage: names in captures stay text.
func TestHostileFleetPage(t *testing.T) {
	f := &fleet.Fleet{}
	for _, text := range hostile.Texts {
		if err := f.ReadBinary(jobOf(9, text).AppendBinary(nil)); err != nil {
			t.Fatal(err)
		}
	}
	p := browser.Open(t, browser.Start(t), fleetPage(t, f))
	p.Click("#outliers button")
	p.Click("#findings button")
	if !browser.Eval[bool](p, "window.%s === undefined && document.querySelectorAll('script:not([type])').length === 1 && !document.querySelector('img, iframe, base, meta[http-equiv=refresh]')", hostile.Pwned) {
		t.Error("a text acts")
	}
	if got, want := browser.Eval[int](p, "memlane.fleet.rows.length"), 7*len(hostile.Texts); got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
}
