package whatif

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/replay"
)

var variants = map[string]string{
	"ckpt=block": "checkpoint=blocks", "b/2": "batch=0.5", "bx2": "batch=2", "optim=sgd": "optimizer=sgd",
	"optim=momentum": "optimizer=momentum",
	"optim=adam8":    "optimizer=adam8bit", "optim=cpu": "optimizer.device=host", "optim=adamw_loop": "foreach=off",
	"optim=adamw_fused": "foreach=fused",
	"accum=2":           "accumulate=2", "set_to_none=0": "set_to_none=off", "offload_act=1": "offload=activations", "chunks=8": "loss.chunks=8",
	"nograd=1": "no_grad", "ckpt=block bx2": "checkpoint=blocks,batch=2", "optim=adam8 ckpt=block": "optimizer=adam8bit,checkpoint=blocks",
}

// TestTruth compares predictions with the peaks of the real allocator of programs that were really changed.
func TestTruth(t *testing.T) {
	c, err := formats.Open("../../testdata/whatif/gpt_small.pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	category.Of(c, nil)
	e, refused := New(&c.Tables, c.Spaces[0])
	if e == nil {
		t.Fatal(refused)
	}
	table, err := os.ReadFile("../../testdata/whatif/gpt_small.table.txt")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for line := range strings.Lines(string(table)) {
		p := strings.Split(line, "|")
		var truth struct{ Allocated, Reserved int64 }
		if err := json.Unmarshal([]byte(p[3]), &truth); err != nil {
			t.Fatal(err)
		}
		var s Scenario
		if edits := variants[p[1]]; edits != "" {
			if s, err = Parse(edits); err != nil {
				t.Fatal(err)
			}
		} else if p[1] != "base" {
			continue
		}
		r := e.Run(s, replay.Device{})
		tried++
		switch {
		case r.Refused != "":
			t.Errorf("%s: refused: %s", p[1], r.Refused)
		case r.Exact && r.Peak != truth.Allocated:
			t.Errorf("%s: exactly %d, but the program needed %d", p[1], r.Peak, truth.Allocated)
		case r.Low > truth.Allocated || r.High < truth.Allocated:
			t.Errorf("%s: %d to %d, but the program needed %d", p[1], r.Low, r.High, truth.Allocated)
		case r.ReservedLow > truth.Reserved || r.ReservedHigh < truth.Reserved:
			t.Errorf("%s: reserved %d to %d, but the program reserved %d", p[1], r.ReservedLow, r.ReservedHigh, truth.Reserved)
		}
	}
	if tried < 15 {
		t.Errorf("only %d variants", tried)
	}
}
