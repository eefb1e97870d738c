package oomtext_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/memlane/memlane/formats/oomtext"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
)

// FuzzRead reads arbitrary input: no panic, bounded memory, and either one clear error or a model that passes Check, can be
// written, and has a failure or a state in it.
func FuzzRead(f *testing.F) {
	for _, data := range nativetest.Contents(f, captures+"*.log", captures+"*.txt") {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		oomtext.Sniff(data[:min(len(data), 4096)])
		var c *lifetime.Capture
		var err error
		// A line may claim the maximum number of buffers.
		nativetest.Bounded(t, len(data), 400<<20, 2000, func() { c, err = read(t, bytes.NewReader(data)) })
		if errors.Is(err, oomtext.ErrNone) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		buffers := 0
		for _, s := range c.Spaces {
			buffers += len(s.Buffers)
			if len(s.Marks) == 0 {
				t.Errorf("%s has no failure", s.ID())
			}
		}
		if buffers < 10_000 { // more would only be slower
			nativetest.Text(t, c)
		}
	})
}
