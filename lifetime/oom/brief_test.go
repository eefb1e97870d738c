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

// TestManyFailures: each of very many failures that the program survived has the figures of its instant, at a fraction of the cost of looking
// at all buffers again.
func TestManyFailures(t *testing.T) {
	const failures, size = 12_000, 1 << 20
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "x", Format: "torch-snapshot", Producer: "PyTorch"})
	s := b.Space()
	for i := range int64(failures) {
		b.Reserve(s, 4*i, lifetime.Region{Addr: uint64(i+1) << 24, Size: 4 * size})
		b.Alloc(s, 4*i+1, build.Block{Addr: uint64(i+1) << 24, Requested: size, Occupied: size})
		b.Mark(s, lifetime.Mark{Begin: 4*i + 2, End: 4*i + 2, Kind: lifetime.OOM, Requested: 8 * size})
		if i > 0 { // the first stays
			b.Free(s, 4*i+3, build.Block{Addr: uint64(i+1) << 24})
			b.Release(s, 4*i+3, lifetime.Region{Addr: uint64(i+1) << 24, Size: 4 * size})
		}
	}
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.History | lifetime.Regions | lifetime.Addresses})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	all := Of(&c.Tables, c.Spaces[0], 0, noFacts)
	if len(all) != failures {
		t.Fatalf("%d failures", len(all))
	}
	for _, d := range all {
		i := d.Mark.Begin / 4
		blocks := min(i+1, 2)
		if d.Live != blocks*size || d.Reserved != 4*blocks*size || d.Unallocated != 3*blocks*size || d.LargestFree != 3*size {
			t.Fatalf("failure %d: live %d, reserved %d, unallocated %d, largest %d", i, d.Live, d.Reserved, d.Unallocated, d.LargestFree)
		}
	}
}
