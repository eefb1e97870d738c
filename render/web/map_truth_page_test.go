package web_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/internal/deep"
)

// instant is the state of the allocator that testdata/gen/torch/instants.py found by undoing the events of a snapshot.
type instant struct {
	File, Device string
	Allocs       int  // allocations up to it
	Failed       bool // it is that of a failed allocation; else that of the last of Allocs
	Reserved     [][2]any
	Blocks       int
	Requested    int64
	Addresses    string // sum of the addresses of all blocks
}

// TestPageMapTruth checks segments and blocks at instants against a walk backwards from the end of the snapshot.
func TestPageMapTruth(t *testing.T) {
	chromium := browser.Start(t)
	data, err := os.ReadFile("../../testdata/torchsnap/instants.json")
	if err != nil {
		t.Fatal(err)
	}
	var truths []instant
	if err := json.Unmarshal(data, &truths); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(truths, func(a, b instant) int { return strings.Compare(a.File, b.File) })
	if !deep.Is() { // a segment that grows, and a failure
		truths = slices.DeleteFunc(truths, func(one instant) bool { return one.File != "expandable.pickle" && one.File != "frag_oom.pickle" })
	}
	var p *browser.Tab
	shown := ""
	for _, want := range truths {
		switch page := "../../testdata/torchsnap/" + want.File; {
		case p == nil:
			p = browser.Open(t, chromium, writePage(t, open(t, page)))
		case shown != want.File:
			p.Go(writePage(t, open(t, page)))
		}
		shown = want.File
		p.Set(`const space = memlane.captures[0].spaces.find((s) => s.id.endsWith(%s)); if (memlane.space !== space) await memlane.open(space)`, browser.Quote(want.Device))
		p.Set("memlane.showTab('map')")
		got := browser.Eval[instant](p, `(() => {
			const {space} = memlane, map = memlane.current().part, begins = space.begin.subarray(map.events.unseen);
			const upTo = (t) => begins.filter((begin) => begin <= t).length;
			memlane.setTime(%v ? space.ooms.find((m) => upTo(m.begin) === %d).begin : begins[%d - 1]);
			const reserved = [], {segments, outside} = map;
			for (const s of [...segments].sort((a, b) => a.addr - b.addr)) {
				const last = reserved.at(-1);
				if (last && last[0] + last[1] === s.addr) last[1] += s.size;
				else reserved.push([s.addr, s.size]);
			}
			const blocks = [...segments.flatMap((s) => s.blocks), ...outside];
			return {Reserved: reserved.map(([addr, size]) => [(space.lowestAddress + BigInt(addr)).toString(16), size]), Blocks: blocks.length,
				Requested: blocks.reduce((sum, i) => sum + space.requested[i], 0), Addresses: blocks.reduce((sum, i) => sum + space.lowestAddress + BigInt(space.addr[i]), 0n).toString(16)};
		})()`, want.Failed, want.Allocs, want.Allocs)
		got.File, got.Device, got.Allocs, got.Failed = want.File, want.Device, want.Allocs, want.Failed
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the map shows\n%v, want\n%v", got, want)
		}
	}
}
