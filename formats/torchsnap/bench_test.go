package torchsnap_test

import (
	"bytes"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap"
	"github.com/memlane/memlane/lifetime/build"
)

const benchEvents = 100_000

// BenchmarkRead reads a snapshot into the model: the machine of the pickle, the
// records in it, and pairing. What a whole command takes, beside pickle.load and
// _memory_viz.py, is measured by cmd/memlane-bench.
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
