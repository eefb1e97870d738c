package jaxprof_test

import (
	"bytes"
	"testing"

	"github.com/memlane/memlane/formats/jaxprof"
	"github.com/memlane/memlane/internal/nativetest"
)

// FuzzRead reads anything: no panic, one clear error or a model that passes
// Check and can be written.
func FuzzRead(f *testing.F) {
	for _, name := range names {
		f.Add(contentOf(f, captures+name+".memory.prof"))
	}
	f.Add(made(f, ofJAX, of("tpu:0", "buffer", 3, 100), of("", "executable", 1, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		jaxprof.Sniff(data[:min(len(data), 4096)])
		c, err := read(t, bytes.NewReader(data))
		if err != nil {
			return
		}
		buffers := 0
		for _, s := range c.Spaces {
			buffers += len(s.Buffers)
		}
		if buffers < 10_000 { // more of them say nothing new
			nativetest.Text(t, c)
		}
	})
}
