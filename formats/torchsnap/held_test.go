package torchsnap_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/internal/pickletest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/loss"
)

// TestHeld compares what holds the tensors of testdata/gen/torch/held.py with the program: each holder has tensors of its own size.
func TestHeld(t *testing.T) {
	c := open(t, filepath.Join(captures, "held.pickle"))
	s := space(c, "cuda:0")
	const kib = 1 << 10
	got := map[int64]map[string]int{}
	for i := range s.Buffers {
		b := &s.Buffers[i]
		if b.Edge&lifetime.EndOpen == 0 {
			continue
		}
		text := "" // cuBLAS's workspace
		if h := c.HolderOf(s, i); h != nil {
			text = h.Kind.String() + " " + holder.FoldIndexes(h.Label())
		}
		if got[b.Requested] == nil {
			got[b.Requested] = map[string]int{}
		}
		got[b.Requested][text]++
	}
	for size, want := range map[int64]map[string]int{
		3 * kib:  {"variable model.mask": 1},
		5 * kib:  {"graph CutBackward['kept'] in the graph of history[*]": 12},
		6 * kib:  {"variable model.layers.*._forward_hooks[*].<closure>.seen[*]": 24},
		7 * kib:  {"variable generator.batch": 1},
		8 * kib:  {"variable failure.__traceback__.fail().secret": 1},
		9 * kib:  {"variable table.<lru_cache>[*]": 1},
		11 * kib: {"cycle a reference cycle: Node -> Node -> Node": 1},
		12 * kib: {"variable log.items['step *']": 12},
		13 * kib: {"variable queue[*][*]": 12},
		14 * kib: {"variable local": 1},
		15 * kib: {"variable Log.last": 1},
		16 * kib: {"variable model.layers.*.weight": 2, "variable model.layers.*.weight.grad": 2,
			"variable exp_avg of model.layers.*.weight": 2, "variable exp_avg_sq of model.layers.*.weight": 2},
		4 * kib: {"graph MmBackward0 (self) in the graph of history[*]": 24, "graph SigmoidBackward0 (result) in the graph of history[*]": 12},
		4:       {"variable history[*]": 12},
		8519680: {"": 1},
	} {
		for text, n := range want {
			if got[size][text] != n {
				t.Errorf("%d buffers of %d bytes are held as %q, want %d; all: %v", got[size][text], size, text, n, got[size])
			}
		}
	}
}

// TestNamesThatLie reads names of a live block and entries that cannot be used: each is one loss, and the others count.
func TestNamesThatLie(t *testing.T) {
	names := func(change func(m map[string]any)) (*lifetime.Capture, map[loss.Reason]int64) {
		m := map[string]any{"version": 1, "texts": []any{"", "variable", "w", "parameter"}, "device": []int{0, 0}, "address": []int{1 << 20, 1<<20 + 768},
			"kind": []int{1, 1}, "name": []int{2, 2}, "role": []int{3, 3}, "later": []int{7}}
		change(m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		segments := list{segment(0, 1<<20, 1<<20, block(1<<20, 512, 512, "active_allocated"), block(1<<20+512, 512, 512, "active_allocated"))}
		c, err := readBytes(t, pickletest.Pickle(append(snapshot(segments, list{}), "memlane", string(text))))
		if err != nil {
			t.Fatal(err)
		}
		return c, lossCounts(c)
	}
	for name, test := range map[string]struct {
		change func(m map[string]any)
		named  int
		want   map[loss.Reason]int64
	}{
		"nothing":          {func(map[string]any) {}, 2, map[loss.Reason]int64{}},
		"an address":       {func(m map[string]any) { m["address"] = []int{1 << 20, 5} }, 1, map[loss.Reason]int64{loss.NameWithoutBuffer: 1}},
		"a device":         {func(m map[string]any) { m["device"] = []int{0, -3} }, 1, map[loss.Reason]int64{loss.NameWithoutBuffer: 1}},
		"a text":           {func(m map[string]any) { m["name"] = []int{2, 99} }, 1, map[loss.Reason]int64{loss.IncompleteRecord: 1}},
		"a negative text":  {func(m map[string]any) { m["name"] = []int{-1, 2} }, 1, map[loss.Reason]int64{loss.IncompleteRecord: 1}},
		"a kind":           {func(m map[string]any) { m["kind"] = []int{1, 2} }, 1, map[loss.Reason]int64{loss.IncompleteRecord: 1}},
		"a short column":   {func(m map[string]any) { m["role"] = []int{3} }, 1, map[loss.Reason]int64{loss.IncompleteRecord: 1}},
		"a missing column": {func(m map[string]any) { delete(m, "role") }, 2, map[loss.Reason]int64{}},
		"another type":     {func(m map[string]any) { m["note"] = 7 }, 2, map[loss.Reason]int64{loss.IncompleteRecord: 1}},
		"a note":           {func(m map[string]any) { m["note"] = "stopped" }, 2, map[loss.Reason]int64{loss.NamesIncomplete: 1}},
		"a later version":  {func(m map[string]any) { m["version"] = 2 }, 2, map[loss.Reason]int64{loss.NamesIncomplete: 1}},
	} {
		c, got := names(test.change)
		named := 0
		for i := range c.Spaces[0].Buffers {
			if c.HolderOf(c.Spaces[0], i) != nil {
				named++
			}
		}
		delete(got, loss.NotAHistory)
		delete(got, loss.BeforeWindow)
		if named != test.named || len(got) != len(test.want) {
			t.Errorf("%s: %d named, losses %v; want %d, %v", name, named, got, test.named, test.want)
		}
		for reason, n := range test.want {
			if got[reason] != n {
				t.Errorf("%s: %d losses %s, want %d", name, got[reason], reason, n)
			}
		}
	}
}
