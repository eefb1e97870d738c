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

	"github.com/memlane/memlane/internal/browser"
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
	for _, file := range files {
		m := reference.FindStringSubmatch(filepath.Base(file))
		want := blocksOf(t, file)
		if len(want) == 0 {
			continue // a memory space that the program does not use
		}
		t.Run(m[1]+" space "+m[2], func(t *testing.T) {
			p := browser.Open(t, chromium, writePage(t, open(t, "../../testdata/xplane/"+m[1]+".hlo.pb"))+"#space=jit_"+m[1]+"/space"+m[2])
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
	p.Set("memlane.view.showBytes(%d, %d)", b.Offset-b.Size, b.Offset+2*b.Size)
	p.WaitFor("memlane.view.pixels !== null")
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
