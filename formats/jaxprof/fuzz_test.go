package jaxprof_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/formats/jaxprof"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// bytesIn returns the bytes in the samples of a profile, summed by the pprof library; false if the library
// rejects the file.
func bytesIn(data []byte) (sum int64, ok bool) {
	p, err := profile.ParseUncompressed(data)
	if err != nil || p.CheckValid() != nil {
		return 0, false
	}
	i := slices.IndexFunc(p.SampleType, func(v *profile.ValueType) bool { return v.Type == "space" && v.Unit == "bytes" })
	if i < 0 {
		return 0, false
	}
	for _, s := range p.Sample {
		sum = units.AddSat(sum, max(s.Value[i], 0))
	}
	return sum, true
}

// FuzzRead reads arbitrary input: no panic, bounded memory, and either one clear error or a model that passes
// Check and can be written. In a profile that the pprof library accepts, every byte is used or counted as lost.
func FuzzRead(f *testing.F) {
	for _, data := range nativetest.Contents(f, captures+"*.memory.prof") {
		f.Add(data)
	}
	f.Add(made(f, ofJAX, of("tpu:0", "buffer", 3, 100), of("", "executable", 1, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		jaxprof.Sniff(data[:min(len(data), 4096)])
		var c *lifetime.Capture
		var err error
		// One sample may expand to the maximum number of buffers.
		nativetest.Bounded(t, len(data), 400<<20, 1500, func() { c, err = read(t, bytes.NewReader(data)) })
		if err != nil {
			return
		}
		buffers, sum := 0, int64(0)
		for _, s := range c.Spaces {
			buffers += len(s.Buffers)
			for i := range s.Buffers {
				sum = units.AddSat(sum, s.Buffers[i].Size)
			}
		}
		for _, l := range c.Losses {
			if l.Reason == loss.IncompleteRecord {
				sum = units.AddSat(sum, l.Bytes)
			}
		}
		if want, ok := bytesIn(data); ok && sum != want {
			t.Errorf("%d bytes are used or lost, the file has %d", sum, want)
		}
		if buffers < 10_000 { // more would only be slower
			nativetest.Text(t, c)
		}
	})
}
