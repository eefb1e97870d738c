package web_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/deep"
)

// bufferBlock is a rectangle of XProf's Memory Viewer.
type bufferBlock struct {
	LogicalBufferID, Offset, Size, StartStep, EndStep int64
	Name, ShapeString                                 string
}

// TestViewerBlocks checks that the block view of a compiled program has the same rectangles
// as the output of XProf's Memory Viewer, and that each shows its buffer.
func TestViewerBlocks(t *testing.T) {
	chromium := browser.Start(t)
	reference := regexp.MustCompile(`^tpu_dev\.memory_viewer\.jit_(.*)-\d+\.s(\d+)\.json$`)
	files, err := filepath.Glob("../../testdata/xplane/tpu_dev.memory_viewer.*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d references: %v", len(files), err)
	}
	for _, file := range files[:deep.Or(2, len(files))] {
		m := reference.FindStringSubmatch(filepath.Base(file))
		want := blocksOf(t, file)
		if len(want) == 0 {
			continue // a memory space that the program does not use
		}
		t.Run(m[1]+" space "+m[2], func(t *testing.T) {
			p := browser.Open(t, chromium, writePage(t, open(t, "../../testdata/xplane/"+m[1]+".hlo.pb"))+"#layout=address&space=jit_"+m[1]+"/space"+m[2])
			got := map[int64]bufferBlock{}
			for _, b := range browser.Eval[[]bufferBlock](p, `[...memlane.space.begin.keys()].map((i) => { const s = memlane.space, site = s.capture.sites[s.site[i]], origin = Number(s.origin); return {
				LogicalBufferID: s.value[i], Offset: memlane.view.places.of[i], Size: s.size[i], StartStep: s.begin[i] + origin, EndStep: s.end[i] + origin, Name: site.instr, ShapeString: site.shape}; })`) {
				if b.StartStep >= 0 { // XProf does not draw buffers that live through the whole program
					got[b.LogicalBufferID] = b
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("the page has\n%v\nXProf\n%v", got, want)
			}
			for _, id := range slices.Sorted(maps.Keys(want)) {
				checkBlockPixel(p, want[id])
			}
		})
	}
}

// blocksOf returns the buffers of a reference by number, without the blocks of whole
// allocations.
func blocksOf(t *testing.T, file string) map[int64]bufferBlock {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var viewer struct{ BufferBlocks []bufferBlock }
	if err := json.Unmarshal(data, &viewer); err != nil {
		t.Fatal(err)
	}
	all := map[int64]bufferBlock{}
	for _, b := range viewer.BufferBlocks {
		if b.LogicalBufferID >= 0 {
			all[b.LogicalBufferID] = b
		}
	}
	return all
}

// checkBlockPixel zooms in and hovers over the middle of a rectangle.
func checkBlockPixel(p *browser.Tab, b bufferBlock) {
	p.T.Helper()
	p.Do(chromedp.ScrollIntoView(chromedp.CSS(".hero")))
	p.Set("memlane.view.showBytes(%d, %d)", b.Offset-b.Size, b.Offset+2*b.Size)
	p.WaitFor("memlane.view.raster !== null")
	middle := browser.Eval[browser.Point](p, `(() => { const u = memlane.view.plot, box = u.over.getBoundingClientRect(), origin = Number(memlane.space.origin);
		return {X: box.left + u.valToPos(%d - origin + %f, 'x'), Y: box.top + u.valToPos(%d + %d / 2, 'y')}; })()`, b.StartStep, float64(b.EndStep-b.StartStep)/2, b.Offset, b.Size)
	p.Mouse(browser.Moved, middle)
	p.WaitFor("!document.querySelector('.hover').hidden")
	card := p.Text(".hover")
	for _, want := range []string{b.Name, b.ShapeString, fmt.Sprintf("(0x%x)", b.Offset), fmt.Sprintf("instruction %d", b.StartStep)} {
		if !strings.Contains(card, want) {
			p.T.Errorf("the card of block %s is %q, without %q", b.Name, card, want)
		}
	}
}

// TestBlockPixels checks the stacked blocks against the live buffers of each column's time, found one by one, and that each colour of the
// legend is on the screen as it is in the legend.
func TestBlockPixels(t *testing.T) {
	chromium := browser.Start(t)
	files := []string{"torchsnap/frag_oom.pickle", "xplane/tf_leak.xplane.pb", "meaning/a17.pickle.zst", "chrome/cuprof_leak.json.gz"}
	for _, file := range files[:deep.Or(2, len(files))] {
		t.Run(file, func(t *testing.T) {
			p := browser.Open(t, chromium, writePage(t, open(t, "../../testdata/"+file)))
			p.Set("memlane.setLayout('stacked')")
			for _, part := range [][2]float64{{0, 1}, {.3, .4}, {.9, .95}} {
				p.Set("memlane.timeline.show(memlane.space.length * %f, memlane.space.length * %f)", part[0], part[1])
				p.WaitFor("memlane.view.raster !== null")
				if wrong := browser.Eval[string](p, "%s", wrongPixels); wrong != "" {
					t.Errorf("from %v: %s", part, wrong)
				}
				if wrong := browser.Eval[string](p, "%s", wrongColours); wrong != "" {
					t.Errorf("from %v: %s", part, wrong)
				}
			}
		})
	}
}

// wrongPixels describes the first pixel of a column whose buffer is not the one at its level at any instant of the column.
const wrongPixels = `(() => {
	const {space, view: {raster: {pixels, width, height}, low, high}, timeline: {from, to}} = memlane;
	for (let x = 3; x < width; x += 37) {
		const begin = Math.max(0, from + (to - from) * x / width), end = from + (to - from) * (x + 1) / width;
		let t = begin, most = -1;
		const level = (t) => space.liveAt(t).reduce((sum, i) => sum + space.size[i], 0);
		for (const at of [begin, ...space.curve.at.filter((at) => at > begin && at < end)]) if (level(at) > most) [t, most] = [at, level(at)];
		const tier = memlane.options.legend.tierOf, live = space.liveAt(t).sort((a, b) => tier(a) - tier(b) || a - b), foot = space.base + space.stackAt(t);
		for (let y = 1; y < height; y += 11) {
			const bytes = low + (high - low) * (height - y - .5) / height, slack = (high - low) / height;
			let top = foot, near = bytes < foot + slack;
			const shown = pixels[y * width + x];
			for (const i of live) {
				if (shown === i && bytes > top - slack && bytes < top + space.size[i] + slack) near = true;
				top += space.size[i];
			}
			if (shown < 0 && bytes > top - slack) near = true;
			if (!near) return 'column ' + x + ', row ' + y + ' has ' + shown + ' at ' + bytes + ' of ' + top + ' bytes';
		}
	}
	return '';
})()`

// wrongColours describes the first group with a hundredth of the blocks or more of which less than half has the colour of the legend.
const wrongColours = `(() => {
	const {view, options: {legend}} = memlane, n = legend.rows.map(() => 0), same = [...n], image = new Uint32Array(view.paint().data.buffer);
	let all = 0;
	view.raster.pixels.forEach((id, p) => {
		if (id < 0) return;
		const row = legend.classes[id], rgb = '#' + [0, 8, 16].map((s) => (image[p] >> s & 255).toString(16).padStart(2, '0')).join('');
		all++;
		n[row]++;
		if (rgb === legend.rows[row].fill) same[row]++;
	});
	const bad = n.findIndex((k, row) => k >= all / 100 && same[row] < k / 2);
	return bad < 0 ? '' : legend.rows[bad].name + ' has its colour on ' + same[bad] + ' of ' + n[bad] + ' pixels';
})()`

// TestAddressPixels: by address, each colour has in a column of pixels the area of its bytes over time, within two pixels, computed here from the
// buffers one by one. So has memory that is reserved but free.
func TestAddressPixels(t *testing.T) {
	chromium := browser.Start(t)
	files := []string{"torchsnap/frag_oom.pickle", "meaning/a17.pickle.zst", "replay/b03.c2.oom.pickle.zst"}
	for _, file := range files[:deep.Or(1, len(files))] {
		t.Run(file, func(t *testing.T) {
			p := browser.Open(t, chromium, writePage(t, open(t, "../../testdata/"+file)))
			p.Set("memlane.setLayout('address')")
			for _, color := range []string{"site", "size"} {
				p.Set("memlane.setColor('%s')", color)
				for _, part := range [][2]float64{{0, 1}, {.3, .4}} {
					p.Set("memlane.timeline.show(memlane.space.length * %f, memlane.space.length * %f)", part[0], part[1])
					p.WaitFor("memlane.view.raster !== null")
					if wrong := browser.Eval[string](p, "%s", wrongAreas); wrong != "" {
						t.Errorf("%s from %v: %s", color, part, wrong)
					}
				}
			}
		})
	}
}

// wrongAreas describes the first column in which a colour, or reserved memory without buffers, has another area than its bytes over time.
const wrongAreas = `(() => {
	const {space, view: {raster: {pixels, width, height}, low, high, places}, timeline: {from, to}, options: {legend: {classes, rows}}} = memlane;
	const overlap = (a, b, c, d) => Math.max(0, Math.min(b, d) - Math.max(a, c));
	for (let x = 0; x < width; x++) {
		const begin = from + (to - from) * x / width, end = from + (to - from) * (x + 1) / width, row = (high - low) / height;
		const want = rows.map(() => 0), got = rows.map(() => 0);
		let held = 0, free = 0;
		for (let i = 0; i < space.count; i++) {
			const pixels = overlap(begin, end, space.begin[i], space.end[i]) / (end - begin) * overlap(low, high, places.of[i], places.of[i] + space.size[i]) / row;
			want[classes[i]] += pixels;
			held += pixels;
		}
		space.regions.forEach((r, i) => { free += overlap(begin, end, r.begin, r.end) / (end - begin) * overlap(low, high, places.ofRegion[i], places.ofRegion[i] + r.size) / row; });
		free -= held;
		for (let y = 0; y < height; y++) {
			const id = pixels[y * width + x];
			if (id >= 0) got[classes[id]]++;
			else if (id === -4) free--;
		}
		const bad = want.findIndex((area, k) => Math.abs(area - got[k]) > 2);
		if (bad >= 0) return 'column ' + x + ': ' + rows[bad].name + ' has ' + got[bad] + ' pixels, not ' + want[bad];
		if (Math.abs(free) > 2) return 'column ' + x + ': free memory lacks ' + free + ' pixels';
	}
	return '';
})()`
