package formats_test

import (
	"bytes"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/nativetest"
)

// FuzzOpen opens arbitrary input, compressed or not. It must return a one-line error or
// a capture that passes Check. Each reader also has its own fuzz target.
func FuzzOpen(f *testing.F) {
	for _, data := range nativetest.Contents(f, append(kinds, "../testdata/*/*.pickle", "../testdata/*/*.pb", "../testdata/*/*.json*", "../testdata/*/*.native")...) {
		piece := data[:min(len(data), 2<<10)]
		f.Add(piece)
		if len(data) < 4<<10 {
			f.Add(gzipped(f, piece))
			f.Add(zstded(f, gzipped(f, data)))
		}
	}
	for _, data := range nativetest.Contents(f, "../testdata/torchsnap/leak_4mib*.pickle") {
		f.Add([]byte(page(f, data[:2<<10])))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := formats.Open("-", formats.Input{Stdin: bytes.NewReader(data)})
		if err != nil {
			checkError(t, err, "-", "")
			return
		}
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	})
}
