package web_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
)

// TestPageMap checks the memory map against the model: segments, blocks and holes at instants, and that stepping visits every event.
func TestPageMap(t *testing.T) {
	chromium := browser.Start(t)
	files := []string{"torchsnap/segfree.pickle", "torchsnap/streams.pickle", "xplane/padded.hlo.pb", "torchsnap/frag_oom.pickle", "torchsnap/twodev.pickle", "torchsnap/mode_pool.pickle",
		"torchsnap/t215_pool.pickle", "replay/b16.c2.oom.pickle.zst", "xplane/tf_leak.xplane.pb"}
	for _, file := range files[:deep.Or(3, len(files))] {
		t.Run(file, func(t *testing.T) {
			c := open(t, "../../testdata/"+file)
			p := browser.Open(t, chromium, writePage(t, c))
			s := c.Spaces[browser.Eval[int](p, "memlane.space.number")]
			has := len(s.Regions) > 0 && s.Axis != lifetime.ProgramOrder
			if got := browser.Eval[bool](p, "document.querySelector('[data-tab=map]') !== null"); got != has {
				t.Fatalf("memory map: %v, want %v", got, has)
			}
			if !has {
				return
			}
			p.Click("[data-tab=map]")
			random := rand.New(rand.NewPCG(1, 2))
			for range 5 {
				checkMap(p, s, s.Begin+random.Int64N(max(s.End-s.Begin, 1)))
			}
			checkEvents(p, s)
		})
	}
}

// mapState is what the memory map shows.
type mapState struct {
	Reserved, Used, Blocks int64
	Holes                  []int64
}

const mapScript = `(() => {
	const {segments, outside} = memlane.current().part, sum = (f) => segments.reduce((n, s) => n + f(s), 0);
	return {reserved: sum((s) => s.size), used: sum((s) => s.used), blocks: sum((s) => s.blocks.length) + outside.length, holes: segments.flatMap((s) => s.holes.map((h) => h.size))};
})()`

func checkMap(p *browser.Tab, s *lifetime.Space, at int64) {
	p.T.Helper()
	p.Set("memlane.setTime(%d)", at-s.Begin)
	got := browser.Eval[mapState](p, "%s", mapScript)
	var want mapState
	for i := range s.Regions {
		if r := &s.Regions[i]; r.Begin <= at && at < r.End {
			want.Reserved += r.Size
		}
	}
	for _, i := range s.LiveAt(at) {
		want.Blocks++
		want.Used += s.Buffers[i].Size
	}
	free := region.FreeAt(s, at)
	var total, largest int64
	for _, h := range got.Holes {
		total += h
		largest = max(largest, h)
	}
	if got.Reserved != want.Reserved || got.Used != want.Used || got.Blocks != want.Blocks || total != free.Total || largest != free.Largest {
		p.T.Errorf("at %d: %+v, %d free, largest %d; want %+v, %+v", at-s.Begin, got, total, largest, want, free)
	}
}

// checkEvents steps forward through the whole window, and back. Every event of a buffer, a segment and a failure is visited once.
func checkEvents(p *browser.Tab, s *lifetime.Space) {
	p.T.Helper()
	want := map[int64]bool{}
	add := func(at int64) {
		if at > s.Begin && at < s.End {
			want[at-s.Begin] = true
		}
	}
	for i := range s.Buffers {
		b := &s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen == 0 {
			add(b.Begin)
		}
		if b.Edge&lifetime.EndOpen == 0 {
			add(b.End)
		}
	}
	for i := range s.Regions {
		add(s.Regions[i].Begin)
		add(s.Regions[i].End)
	}
	for i := range s.Marks {
		if s.Marks[i].Kind == lifetime.OOM {
			add(s.Marks[i].Begin)
		}
	}
	const script = `((list) => { const {events} = memlane.current().part; for (let t = %s; (t = events.%s(t)) !== null;) if (t > 0) list.push(t); return list; })([])`
	forward, back := browser.Eval[[]int64](p, script, "0", "next"), browser.Eval[[]int64](p, script, "memlane.space.length", "previous")
	slices.Reverse(back)
	if len(forward) != len(want) || !slices.Equal(forward, back) || slices.ContainsFunc(forward, func(t int64) bool { return !want[t] }) {
		p.T.Errorf("%d events forward, %d back, want %d", len(forward), len(back), len(want))
	}
}

// TestPageMapKeys uses the memory map by keyboard alone: from the failure to the event before it, to a hole, to the block that pins it.
func TestPageMapKeys(t *testing.T) {
	c := open(t, "../../testdata/torchsnap/frag_oom.pickle")
	p := browser.Open(t, browser.Start(t), writePage(t, c))
	p.Click(".died button")
	if got := browser.Eval[string](p, "memlane.tab"); got != "map" {
		t.Fatalf("the failure, step by step, is the tab %q", got)
	}
	mark := c.Spaces[0].Marks[slices.IndexFunc(c.Spaces[0].Marks, func(m lifetime.Mark) bool { return m.Kind == lifetime.OOM })]
	if got := p.Text(".map .event"); !strings.HasPrefix(got, "request failed: ") || !strings.Contains(got, "frag") {
		t.Errorf("the failure: %q", got)
	}
	if got := p.Text(".map .verdict"); !strings.Contains(got, "more than the largest hole") {
		t.Errorf("the verdict: %q", got)
	}
	p.Do(chromedp.Focus(".segments"), chromedp.KeyEvent(kb.ArrowLeft))
	before := browser.Eval[int64](p, "memlane.time")
	if before >= mark.Begin-c.Spaces[0].Begin {
		t.Errorf("the event before the failure is at %d", before)
	}
	if got := p.Text(".map .event"); !strings.Contains(got, "alloc") && !strings.Contains(got, "freed") && !strings.Contains(got, "segment") || !strings.Contains(got, "0x") {
		t.Errorf("the event before it: %q", got)
	}
	p.Do(chromedp.KeyEvent(kb.ArrowRight))
	if got := browser.Eval[int64](p, "memlane.time"); got != mark.Begin-c.Spaces[0].Begin {
		t.Errorf("back at %d", got)
	}
	p.Do(chromedp.KeyEvent(kb.ArrowDown))
	hole := browser.Eval[struct{ Addr, Size, Below, Above int64 }](p, "(({addr, size, below, above}) => ({addr, size, below, above}))(memlane.current().part.hole)")
	if free := region.FreeAt(c.Spaces[0], mark.Begin); hole.Size != free.Largest {
		t.Errorf("the first hole has %d, want the largest, %d", hole.Size, free.Largest)
	}
	// An own search for the blocks beside the hole.
	s := c.Spaces[0]
	lowest := browser.Eval[string](p, "memlane.space.lowestAddress.toString()")
	var base uint64
	fmt.Sscan(lowest, &base)
	from, to := base+uint64(hole.Addr), base+uint64(hole.Addr+hole.Size)
	for _, i := range s.LiveAt(mark.Begin) {
		b := &s.Buffers[i]
		if end := b.Addr + uint64(b.Size); b.Addr < to && end > from {
			t.Errorf("buffer %d lies in the hole", i)
		}
	}
	if hole.Below >= 0 && s.Buffers[hole.Below].Addr+uint64(s.Buffers[hole.Below].Size) != from || hole.Above >= 0 && s.Buffers[hole.Above].Addr != to {
		t.Errorf("blocks %d and %d are not beside the hole", hole.Below, hole.Above)
	}
	p.Do(chromedp.Focus(".pinners button"), chromedp.KeyEvent(kb.Enter))
	if got := browser.Eval[int64](p, "memlane.options.buffer"); got != hole.Below && got != hole.Above {
		t.Errorf("pinned %d, want %d or %d", got, hole.Below, hole.Above)
	}
	address := fmt.Sprintf("0x%x", s.Buffers[3].Addr)
	p.Enter(".top .find", address)
	if got := p.Text("#lit"); !strings.Contains(got, address+": in ") {
		t.Errorf("the search says %q", got)
	}
	if got := s.Buffers[browser.Eval[int](p, "memlane.options.buffer")]; got.Addr > s.Buffers[3].Addr || got.Addr+uint64(got.Size) <= s.Buffers[3].Addr {
		t.Errorf("found a buffer at 0x%x", got.Addr)
	}
}

// TestPageMapRows: segments stand in rows in the order of addresses, to scale but for the smallest. Hundreds fit a screen, and no row has room for
// the next segment.
func TestPageMapRows(t *testing.T) {
	p := browser.Open(t, browser.Start(t), writePage(t, open(t, "../../testdata/torchsnap/frag_oom.pickle"))+"#tab=map")
	for _, n := range []int{1, 3, 40, 820} {
		got := browser.Eval[struct {
			Wrong  string
			Height float64
		}](p, `(() => {
			const map = memlane.current().part, [one] = map.segments;
			map.segments = Array.from({length: %d}, (_, i) => ({...one, addr: i * 2 ** 30, size: (2 + i * 7919 %% 37) * 2 ** 20, used: 0, blocks: [], holes: []}));
			map.request = null;
			map.draw();
			const all = map.segments.map((s) => ({...map.drawn.get(s), size: s.size})), wide = all.filter((s) => s.length > 12), scale = wide[0].length / wide[0].size;
			let wrong = '';
			all.forEach((s, i) => {
				const last = all[i - 1];
				if (s.x < 0 || s.x + s.length > map.width) wrong = i + ' is outside';
				else if (s.length > 12 && Math.abs(s.length / s.size / scale - 1) > 1e-9) wrong = i + ' is not to scale';
				else if (last && s.y === last.y && s.x < last.x + last.length) wrong = i + ' overlaps';
				else if (last && s.y !== last.y && (s.y < last.y || s.x !== 0 || last.x + last.length + s.length + 5 <= map.width)) wrong = i + ' had room in the row above';
			});
			return {wrong, height: all.at(-1).y};
		})()`, n)
		if got.Wrong != "" || got.Height > 700 {
			t.Errorf("%d segments: %s; %.0f pixels high", n, got.Wrong, got.Height)
		}
	}
}
