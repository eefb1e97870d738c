package torchsnap_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap"
	"github.com/memlane/memlane/internal/pickletest"
	"github.com/memlane/memlane/lifetime/build"
)

const benchEvents = 100_000

// BenchmarkRead reads a snapshot into the model: decoding the pickle, its records, and
// pairing. cmd/memlane-bench compares whole commands with pickle.load and
// _memory_viz.py.
func BenchmarkRead(b *testing.B) {
	for name, fresh := range map[string]bool{"SharedStacks": false, "FreshStacks": true} {
		data := manyEvents(benchEvents, fresh)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				builder := build.New(build.Everything)
				if err := torchsnap.Read("big", bytes.NewReader(data), builder); err != nil {
					b.Fatal(err)
				}
				if _, err := builder.Finish(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchEvents, "ns/event")
		})
	}
}

// TestLiveBlocksAllocate bounds the bytes allocated per live block of the end state: the model takes 48 of them, and what
// waits for it as much again. They do not grow with the number of blocks.
func TestLiveBlocksAllocate(t *testing.T) {
	const most = 350
	var first float64
	for _, n := range []int{20_000, 40_000, 80_000} {
		per := bytesPerBlock(t, n)
		if first == 0 {
			first = per
		}
		if per > most || per > 1.15*first {
			t.Errorf("%d live blocks: %.0f bytes each; at most %d, and %.0f at a quarter or half of them", n, per, most, first)
		}
	}
}

func bytesPerBlock(t *testing.T, n int) float64 {
	const perSegment, size = 100, 512
	var segments list
	for s := range n / perSegment {
		base := (s + 1) << 21
		var blocks []any
		for i := range perSegment {
			blocks = append(blocks, block(base+i*size, size, size-i, "active_allocated"))
		}
		segments = append(segments, segment(0, base, perSegment*size, blocks...))
	}
	data := pickletest.Pickle(snapshot(segments, list{}))
	segments = nil
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	builder := build.New(build.Everything)
	if err := torchsnap.Read("live", bytes.NewReader(data), builder); err != nil {
		t.Fatal(err)
	}
	c, err := builder.Finish()
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := len(c.Spaces[0].Buffers); got != n {
		t.Fatalf("%d buffers, want %d", got, n)
	}
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
}
