package oom

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// TestBrief: the last of very many failures get no details, if the program did not go on and no request is named.
func TestBrief(t *testing.T) {
	const buffers, failures = 10_000, 1_100
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "x", Format: "torch-snapshot", Producer: "PyTorch"})
	s := b.Space()
	for i := range buffers {
		b.Alloc(s, int64(i), build.Block{Addr: uint64(i+1) << 24, Requested: 1 << 20, Occupied: 1 << 20})
	}
	for i := range failures {
		b.Mark(s, lifetime.Mark{Begin: buffers + int64(i), End: buffers + int64(i), Kind: lifetime.OOM})
	}
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.History})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	all := Of(&c.Tables, c.Spaces[0], 0, noFacts)
	if last := &all[len(all)-1]; len(all) != failures || !last.Brief || last.Reason != Unknown {
		t.Errorf("%d failures, the last %+v", len(all), last)
	}
}
