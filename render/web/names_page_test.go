package web_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/selection"
)

// TestPageNames: buffers are found, summed up and drawn by the names that the recorder wrote, as commands do. A name is never markup.
func TestPageNames(t *testing.T) {
	c := open(t, "../../testdata/torchsnap/held.pickle")
	p := browser.Open(t, browser.Start(t), writePage(t, c))
	s := c.Spaces[0]
	for _, by := range []selection.By{selection.ByName, selection.ByHolder} {
		grouped, err := selection.GroupBy(c.Capture, by)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int64{}
		for _, place := range answer.PeakOf(&grouped.Tables, grouped.Spaces[0], s.AtEnd()).Places {
			want[place.Name] += place.Bytes
		}
		got := browser.Eval[map[string]int64](p, "Object.fromEntries(memlane.space.places(memlane.space.length - 1, %s).map((row) => [row.name, row.bytes]))", browser.Quote(string(by)))
		if !maps.Equal(got, want) {
			t.Errorf("by %s: %v, want %v", by, got, want)
		}
	}
	for text, want := range map[string]int{"exp_avg of": 2, "/^exp_avg/": 4, "the graph of history": 48, "log.items['step 3']": 1} {
		p.Set("memlane.find(%s)", browser.Quote(text))
		if got := browser.Eval[int](p, "memlane.options.lit.reduce((n, lit) => n + lit, 0)"); got != want {
			t.Errorf("%s lights %d buffers, want %d", text, got, want)
		}
	}

	p.Set("memlane.unlight(); memlane.setTime(memlane.space.length - 1); memlane.showTab('names')")
	got := browser.Eval[map[string]int64](p, `(() => {
		const most = {};
		for (const {title, dataset} of document.querySelectorAll('.flame > *')) {
			const name = title.split(' · ')[0];
			most[name] = Math.max(most[name] ?? 0, Number(dataset.bytes));
		}
		return most;
	})()`)
	for name, want := range map[string]int64{"all": s.Summary().Live.Bytes, "optimizer": 4 * 16384, "model": 4*16384 + 3072, "layers.*": 4 * 16384, "exp_avg": 2 * 16384, "log.items": 12 * 12288} {
		if got[name] != want {
			t.Errorf("%s has %d bytes, want %d; %v", name, got[name], want, got)
		}
	}
	p.Set("[...document.querySelectorAll('.flame > *')].find((box) => box.title.startsWith('optimizer')).click()")
	if got := browser.Eval[int](p, "memlane.options.lit.reduce((n, lit) => n + lit, 0)"); got != 4 {
		t.Errorf("a click on optimizer lights %d buffers, want 4", got)
	}

	p.Set("memlane.pin(memlane.space.holder.findIndex((k) => memlane.space.capture.holders[k].name === %s))", browser.Quote("exp_avg of model.layers.0.weight"))
	for _, want := range []string{"exp_avg of model.layers.0.weight", "optimizer.state[model.layers.0.weight]['exp_avg']", "float32 [64, 64]"} {
		if text := p.Text("#pin"); !strings.Contains(text, want) {
			t.Errorf("pinned: %q, want %q in it", text, want)
		}
	}
}

// TestPageHostileNames: a name is text wherever the page shows it.
func TestPageHostileNames(t *testing.T) {
	c := fresh(t, "../../testdata/torchsnap/held.pickle")
	const name = `<img src=x onerror="document.title='run'">.</script>.` + "\u202e"
	for i := range c.Holders[1:] {
		c.Holders[i+1].Name, c.Holders[i+1].Path, c.Holders[i+1].Owner = name, name, name
	}
	p := browser.Open(t, browser.Start(t), writePage(t, c))
	for _, tab := range []string{"names", "buffers", "sites"} {
		p.Set("memlane.showTab(%s)", browser.Quote(tab))
	}
	p.Set("memlane.pin(memlane.space.holder.findIndex((k) => k > 0))")
	if got := p.Text("#pin"); !strings.Contains(got, "<img src=x") {
		t.Errorf("pinned: %q", got)
	}
	if browser.Eval[bool](p, "document.title === 'run' || document.querySelector('img:not(.hero img)') !== null") {
		t.Error("a name is markup")
	}
}

// TestPageCompareNames: a call site whose function has another name is the same if its buffers have the same names.
func TestPageCompareNames(t *testing.T) {
	before, after := open(t, "../../testdata/torchsnap/held.pickle"), fresh(t, "../../testdata/torchsnap/held.pickle")
	for i := range after.Frames {
		if after.Frames[i].Function == "train" {
			after.Frames[i].Function = "fit"
		}
	}
	p := browser.Open(t, browser.Start(t), writePage(t, before, after))
	p.WaitFor("memlane.tab === 'compare' && !!memlane.current().part.rows")
	got := browser.Eval[[]string](p, "memlane.current().part.rows.map((row) => `${row.name} ${row.status}`)")
	if !slices.ContainsFunc(got, func(row string) bool { return strings.HasPrefix(row, "fit") && strings.HasSuffix(row, " same") }) {
		t.Errorf("%q", got)
	}
	if slices.ContainsFunc(got, func(row string) bool { return strings.HasSuffix(row, " gone") }) {
		t.Errorf("%q", got)
	}
	if got := browser.Eval[[]string](p, "[...memlane.current().part.by.options].map((one) => one.value)"); !slices.Contains(got, "name") {
		t.Errorf("differences by %q", got)
	}
}
