package whatif

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/replay"
)

var variants = map[string]string{
	"ckpt=block": "checkpoint=blocks", "b/2": "batch=0.5", "bx2": "batch=2", "optim=sgd": "optimizer=sgd", "optim=momentum": "optimizer=momentum",
	"optim=adam8": "optimizer=adam8bit", "optim=cpu": "optimizer.device=host", "optim=adamw_loop": "foreach=off", "optim=adamw_fused": "foreach=fused",
	"accum=2": "accumulate=2", "set_to_none=0": "set_to_none=off", "offload_act=1": "offload=activations", "chunks=8": "loss.chunks=8",
	"nograd=1": "no_grad", "ckpt=block bx2": "checkpoint=blocks,batch=2", "optim=adam8 ckpt=block": "optimizer=adam8bit,checkpoint=blocks",
}

func TestDev(t *testing.T) {
	dir := os.Getenv("WI")
	if dir == "" {
		t.Skip()
	}
	f, _ := os.Open(filepath.Join(dir, "table.txt"))
	engines := map[string]*Engine{}
	in := bufio.NewScanner(f)
	for in.Scan() {
		p := strings.Split(in.Text(), "|")
		if len(p) < 4 || p[3] == "" {
			continue
		}
		var truth struct{ Allocated, Reserved int64 }
		json.Unmarshal([]byte(p[3]), &truth)
		e, ok := engines[p[0]]
		if !ok {
			for _, x := range []string{".pickle.zst", ".pickle"} {
				c, err := formats.Open(filepath.Join(dir, p[0]+"."+os.Getenv("WIKIND")+x), formats.Input{})
				if err != nil {
					continue
				}
				category.Of(c, nil)
				var why string
				if e, why = New(&c.Tables, c.Spaces[0]); e == nil {
					t.Log(p[0], why)
				}
				engines[p[0]] = e
			}
		}
		if e == nil {
			continue
		}
		s, ok := variants[p[1]]
		if !ok && p[1] != "base" {
			continue
		}
		sc := Scenario{}
		if s != "" {
			sc.Edits, _ = Parse(s)
		}
		r := e.Run(sc, replay.Device{})
		if r.Refused != "" {
			t.Logf("%-12s %-24s refused %s", p[0], p[1], r.Refused)
			continue
		}
		t.Logf("%-12s %-24s %+7.2f%% (%d) reserved %+7.2f%%  change %+5.0f%%", p[0], p[1], 100*(float64(r.Peak)/float64(truth.Allocated)-1), r.Peak-truth.Allocated, 100*(float64(r.Reserved)/float64(truth.Reserved)-1), 100*(float64(truth.Allocated)/float64(e.Recorded.Peak)-1))
	}
}
