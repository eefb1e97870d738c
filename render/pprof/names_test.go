package pprof

import (
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime/holder"
)

// TestNames: samples have the recorded names of their buffers as labels, with all bytes and few samples.
func TestNames(t *testing.T) {
	c, err := formats.Open("../../testdata/torchsnap/held.pickle", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	s, want := c.Spaces[0], map[[2]string]int64{}
	for _, i := range s.LiveAt(s.AtEnd()) {
		key := [2]string{}
		if h := c.HolderOf(s, i); h != nil {
			key = [2]string{holder.FoldIndexes(h.Label()), holder.FoldIndexes(h.Whole())}
		}
		want[key] += s.Buffers[i].Size
	}
	got := map[[2]string]int64{}
	for _, sample := range mustProfile(t, c, Options{At: End}).Sample {
		key := [2]string{}
		for i, label := range []string{"name", "holder"} {
			if values := sample.Label[label]; values != nil {
				key[i] = values[0]
			}
		}
		got[key] += sample.Value[inuseSpace]
	}
	for key, bytes := range want {
		if got[key] != bytes {
			t.Errorf("%q: %d B, want %d", key, got[key], bytes)
		}
	}
	if got[[2]string{"exp_avg of model.layers.*.weight", "optimizer"}] != 2*16384 {
		t.Errorf("%v", got)
	}
}
