package replay

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"testing"
)

// recordedAt returns the history of a capture of gen/torch/batch.py, and where its buffers
// were allocated.
func recordedAt(t *testing.T, batch int64) (*History, []uint64) {
	t.Helper()
	c, histories := open(t, fmt.Sprintf("../../testdata/replay/batch%d.pickle.zst", batch))
	var keys []uint64
	for i := range c.Spaces[0].Buffers {
		h := fnv.New64a()
		for f := range c.FramesOf(c.Sites[c.Spaces[0].Buffers[i].Site].Stack) {
			fmt.Fprintln(h, f.Function, f.File, f.Line)
		}
		keys = append(keys, h.Sum64())
	}
	return histories[0], keys
}

// TestScaledRuns: captures of two batch sizes predict what the allocator of PyTorch 2.8
// reserved at others.
func TestScaledRuns(t *testing.T) {
	data, err := os.ReadFile("../../testdata/replay/batch.truth.json")
	if err != nil {
		t.Fatal(err)
	}
	var runs []struct {
		Batch    int64
		Conf     string
		Reserved int64 `json:"peak_reserved"`
		Live     int64 `json:"peak_allocated"`
	}
	if err := json.Unmarshal(data, &runs); err != nil {
		t.Fatal(err)
	}
	small, smallKeys := recordedAt(t, 16)
	large, largeKeys := recordedAt(t, 32)
	s := Scale(small, large, 16, 32, smallKeys, largeKeys)
	if s == nil {
		t.Fatal("they do not match")
	}
	for _, r := range runs {
		settings, err := Parse(r.Conf)
		if err != nil {
			t.Fatal(err)
		}
		o := s.Outcome(r.Batch, settings, Device{})
		if off := float64(o.PeakLive)/float64(r.Live) - 1; r.Reserved < o.Low || r.Reserved > o.High || off < -offLive || off > offLive {
			t.Errorf("batch %d, %q: %+v, want %+v", r.Batch, r.Conf, o, r)
		}
	}
}

// batched returns a program with a batch size: parameters, and in each step activations
// that grow with the batch. From 16 on it needs a workspace. keys tell where each buffer
// was allocated.
func batched(batch int64) (p *program, keys []uint64) {
	p = &program{}
	p.Settings = Default()
	alloc := func(key uint64, size int64) int32 {
		keys = append(keys, key)
		return p.alloc(size)
	}
	for i := range uint64(20) {
		alloc(i, int64(i+1)*300_000)
	}
	for range 5 {
		var live []int32
		for i := range uint64(30) {
			live = append(live, alloc(100+i, batch*int64(i%7+1)*50_000+4096))
			if i%5 == 4 {
				p.free(live[len(live)-3])
				live = append(live[:len(live)-3], live[len(live)-2:]...)
			}
			if i == 10 && batch >= 16 {
				p.free(alloc(200, 8*mib))
			}
		}
		p.free(live...)
	}
	return p, keys
}

func scaledOf(t *testing.T, n, m int64) *Scaled {
	t.Helper()
	small, smallKeys := batched(n)
	large, largeKeys := batched(m)
	s := Scale(&small.History, &large.History, n, m, smallKeys, largeKeys)
	if s == nil {
		t.Fatalf("%d and %d do not match", n, m)
	}
	return s
}

// TestScale: recordings of two batch sizes predict the program at others: exactly if the
// program is the same, within the range if it has more requests from some batch on.
func TestScale(t *testing.T) {
	for _, sizes := range [][2]int64{{4, 8}, {8, 16}, {16, 32}, {32, 64}} {
		s := scaledOf(t, sizes[0], sizes[1])
		for batch := int64(4); batch <= 128; batch *= 2 {
			for _, conf := range []string{"", "expandable_segments:True"} {
				truth, _ := batched(batch)
				settings, err := Parse(conf)
				if err != nil {
					t.Fatal(err)
				}
				got, want := s.Outcome(batch, settings, Device{}), truth.run(t, conf, Device{})
				if want.PeakReserved < got.Low || want.PeakReserved > got.High || got.Exact {
					t.Errorf("%v at %d, %q: %+v, want %d", sizes, batch, conf, got, want.PeakReserved)
				}
				if same := (sizes[1] >= 16) == (batch >= 16) && sizes[0] != 8; same && got.PeakReserved != want.PeakReserved {
					t.Errorf("%v at %d, %q: %d, want %d", sizes, batch, conf, got.PeakReserved, want.PeakReserved)
				}
			}
		}
	}
}

// TestLargest: the largest batch fits, and none above the limit does.
func TestLargest(t *testing.T) {
	s := scaledOf(t, 16, 32)
	for _, capacity := range []int64{300, 700, 2000} {
		d := Device{Capacity: capacity * mib}
		batch, most, o := s.Largest(Default(), d)
		fits := func(batch int64) bool {
			p, _ := batched(batch)
			return !p.run(t, "", d).OOM
		}
		if batch < 1 || most < batch || !fits(batch) || fits(most+1) || o.PeakReserved > d.Capacity {
			t.Errorf("%d MiB: %d, at most %d, %+v", capacity, batch, most, o)
		}
	}
	if batch, _, _ := s.Largest(Default(), Device{Capacity: mib}); batch != 0 {
		t.Errorf("batch %d fits 1 MiB", batch)
	}
}

// TestScaleRefuses: recordings of different programs are not scaled.
func TestScaleRefuses(t *testing.T) {
	small, smallKeys := batched(8)
	large, largeKeys := batched(16)
	for i := range largeKeys {
		largeKeys[i] += uint64(i)
	}
	if Scale(&small.History, &large.History, 8, 16, smallKeys, largeKeys) != nil {
		t.Error("different programs match")
	}
}
