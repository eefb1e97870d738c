package jaxprof_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/formats/jaxprof"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// bytesIn returns the bytes that the samples of a profile have by its own library,
// false where that refuses it.
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
		sum = lifetime.AddSat(sum, max(s.Value[i], 0))
	}
	return sum, true
}

// FuzzRead reads anything: no panic, bounded memory, one clear error or a model that
// passes Check and can be written. Of what the library of such profiles takes every
// byte is used or lost.
func FuzzRead(f *testing.F) {
	for _, name := range names {
		f.Add(contentOf(f, captures+name+".memory.prof"))
	}
	f.Add(made(f, ofJAX, of("tpu:0", "buffer", 3, 100), of("", "executable", 1, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		jaxprof.Sniff(data[:min(len(data), 4096)])
		var c *lifetime.Capture
		var err error
		// A sample may stand for as many buffers as a file may have.
		nativetest.Bounded(t, len(data), 400<<20, 1500, func() { c, err = read(t, bytes.NewReader(data)) })
		if err != nil {
			return
		}
		buffers, sum := 0, int64(0)
		for _, s := range c.Spaces {
			buffers += len(s.Buffers)
			for i := range s.Buffers {
				sum = lifetime.AddSat(sum, s.Buffers[i].Size)
			}
		}
		for _, l := range c.Losses {
			if l.Reason == loss.IncompleteRecord {
				sum = lifetime.AddSat(sum, l.Bytes)
			}
		}
		if want, ok := bytesIn(data); ok && sum != want {
			t.Errorf("%d bytes are used or lost, %d stand there", sum, want)
		}
		if buffers < 10_000 { // more of them say nothing new
			nativetest.Text(t, c)
		}
	})
}
