package region_test

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/region"
)

// TestOfBuffers has a segment that is released and reserved again on another stream, and buffers from before
// the window.
func TestOfBuffers(t *testing.T) {
	const M = 1 << 20
	b := build.New(build.Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Facts: lifetime.EndState})
	block := func(addr uint64) build.Block { return build.Block{Addr: addr, Requested: 512, Occupied: 512} }
	regionAt := func(addr uint64, stream int64, pool string) lifetime.Region {
		return lifetime.Region{Addr: addr, Size: 2 * M, Stream: stream, Pool: pool}
	}
	b.Reserve(s, 10, regionAt(2*M, 1, ""))
	b.Alloc(s, 20, block(3*M))
	b.Free(s, 30, block(3*M))
	b.Release(s, 40, regionAt(2*M, 1, ""))
	b.Reserve(s, 50, regionAt(2*M, 2, "0,1"))
	b.Alloc(s, 60, block(3*M))
	b.Free(s, 70, block(8*M+512)) // allocated before the window, in a segment that is released later
	b.Release(s, 80, regionAt(8*M, 3, "1,0"))
	b.Alloc(s, 90, block(20*M)) // in no segment
	b.LiveRegion(s, regionAt(2*M, 2, "0,1"))
	b.LiveRegion(s, regionAt(12*M, 4, ""))
	b.Live(s, block(3*M))
	b.Live(s, block(13*M)) // allocated before the window
	b.Live(s, block(20*M))
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	space := c.Spaces[0]
	type place struct {
		addr   uint64
		stream int64
		pool   string
	}
	var got []place
	for i, r := range region.OfBuffers(space) {
		p := place{addr: space.Buffers[i].Addr, stream: -1}
		if r != region.None {
			p.stream, p.pool = space.Regions[r].Stream, space.Regions[r].Pool
		}
		got = append(got, p)
	}
	want := []place{{8*M + 512, 3, "1,0"}, {13 * M, 4, ""}, {3 * M, 1, ""}, {3 * M, 2, "0,1"}, {20 * M, -1, ""}}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("buffer %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

// TestPoolNames has the pools of PyTorch: of a CUDA graph, of the program, and pools that were not recorded.
func TestPoolNames(t *testing.T) {
	for _, c := range []struct {
		id   region.PoolID
		want string
	}{
		{region.PoolID{}, "default pool"},
		{region.PoolID{Stream: 2}, "default pool, stream 2"},
		{region.PoolID{Pool: "3,0", Stream: 1}, "graph pool (3,0), stream 1"},
		{region.PoolID{Pool: "0,1"}, "private pool (0,1)"},
		{region.PoolID{Pool: "2,1"}, "private pool (2,1)"},
		{region.PoolID{Unknown: true, Stream: 1}, "pool not recorded, stream 1"},
		{region.PoolID{NoRegion: true}, "pool not recorded"},
	} {
		if got := c.id.String(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.id, got, c.want)
		}
	}
	if got := (region.PoolID{NoRegion: true}).StreamName(); got != "stream not recorded" {
		t.Errorf("stream %q", got)
	}
	if got := (region.PoolID{}).StreamName(); got != "default stream" {
		t.Errorf("stream %q", got)
	}
}

// TestStacksOfThreads: what a compiled program keeps on the stacks of threads is not reserved from the device.
func TestStacksOfThreads(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Axis: lifetime.ProgramOrder, Begin: -1, End: 9, Facts: lifetime.Regions})
	for i, uses := range []compiled.Uses{compiled.ForParameter, compiled.ForThreadLocal} {
		b.Region(s, lifetime.Region{Begin: -1, End: 9, Addr: uint64(i) * 512, Size: 512, Edge: lifetime.EndOpen, Uses: uses})
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	space := c.Spaces[0]
	end, peak := region.Reserved(space)
	for i, bytes := range []int64{end, peak, region.Planned(space), region.ReservedAt(space, 3), region.FreeAt(space, 3).Total, region.PoolsAt(space, 3)[0].Reserved} {
		if bytes != 512 {
			t.Errorf("%d: %d bytes", i, bytes)
		}
	}
}

// TestMomentsOfTotals: where only totals say what is in use, nothing is in use before the first.
func TestMomentsOfTotals(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "tpu:0"})
	b.StackReserved(s, 0, 1)
	b.Total(s, lifetime.Total{T: 10, Bytes: 5})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	space := c.Spaces[0]
	now := region.Moments(space)
	for _, at := range []int64{space.Begin, 5, 10} {
		if got, want := now(at).LevelAt(at, lifetime.Occupied), space.LevelAt(at, lifetime.Occupied); got != want {
			t.Errorf("%d bytes at %d, want %d", got, at, want)
		}
	}
}
