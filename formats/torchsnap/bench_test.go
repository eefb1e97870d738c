package torchsnap_test

import (
	"bytes"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap"
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
