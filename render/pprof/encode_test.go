package pprof

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// TestEncoder: profiles that are encoded while they are built have the bytes of package profile.
func TestEncoder(t *testing.T) {
	sums := []Sum{
		{Frames: BeforeWindow, InUse: lifetime.Amount{Bytes: 5}},
		{Frames: []frame.Frame{{Function: "f", File: "a.py", Line: 3}, {Function: "main"}}, InUse: lifetime.Amount{Bytes: 1 << 62, Count: 2}, Memories: 3},
		{Site: lifetime.Site{Op: "op"}, Leaked: -1, Memories: 1},
	}
	builds := map[string]func(*builder){"sums": func(b *builder) {
		for i := range sums {
			b.addSum(&sums[i])
		}
		b.profile.Comments = []string{"one", "two", "one"}
	}}
	for seed, name := range []string{"one space", "two spaces", "three spaces", "four spaces"} {
		c := random(t, uint64(seed), seed+1, 300)
		o := Options{Marks: leaking(c.Spaces[0], 2, 3), Comments: []string{"score 80"}}
		parts, err := choose([]*lifetime.Capture{c}, o)
		if err != nil {
			t.Fatal(err)
		}
		builds[name] = func(b *builder) {
			b.options = o
			b.addParts(parts)
		}
	}
	for name, build := range builds {
		b := newBuilder(Options{})
		build(b)
		var want, got bytes.Buffer
		if err := b.profile.WriteUncompressed(&want); err != nil {
			t.Fatal(err)
		}
		if err := write(&got, Options{}, build); err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(&got)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, want.Bytes()) {
			p, err := profile.ParseData(data)
			t.Errorf("%s: %v, %v\nwant %v", name, p, err, b.profile)
		}
	}
}
